"""What Camunda 7 calls the elements of a model: the activityType of its histories and trees."""

from __future__ import annotations

from typing import Final

from app.bpmn.names import ELEMENTS
from app.process.graph import EventKind, Kind, Node

PROCESS: Final = "processDefinition"
"""The root of an activity tree."""
_STARTS: Final = {
    EventKind.TIMER: "startTimerEvent", EventKind.MESSAGE: "messageStartEvent", EventKind.SIGNAL: "signalStartEvent",
    EventKind.ERROR: "errorStartEvent", EventKind.COMPENSATION: "compensationStartEvent",
}  # fmt: skip
_CATCHES: Final = {
    EventKind.TIMER: "intermediateTimer", EventKind.MESSAGE: "intermediateMessageCatch",
    EventKind.SIGNAL: "intermediateSignalCatch", EventKind.NONE: "intermediateLinkCatch",
}  # fmt: skip
_THROWS: Final = {
    EventKind.NONE: "intermediateNoneThrowEvent", EventKind.MESSAGE: "intermediateMessageThrowEvent",
    EventKind.SIGNAL: "intermediateSignalThrow", EventKind.COMPENSATION: "intermediateCompensationThrowEvent",
}  # fmt: skip
_BOUNDARIES: Final = {
    EventKind.TIMER: "boundaryTimer", EventKind.MESSAGE: "boundaryMessage", EventKind.SIGNAL: "boundarySignal",
    EventKind.ERROR: "boundaryError", EventKind.COMPENSATION: "compensationBoundaryCatch",
}  # fmt: skip
_ENDS: Final = {
    EventKind.NONE: "noneEndEvent", EventKind.MESSAGE: "messageEndEvent", EventKind.SIGNAL: "signalEndEvent",
    EventKind.ERROR: "errorEndEvent", EventKind.TERMINATE: "terminateEndEvent",
    EventKind.COMPENSATION: "compensationEndEvent",
}  # fmt: skip
_EVENTS: Final = {
    Kind.START: _STARTS, Kind.CATCH: _CATCHES, Kind.THROW: _THROWS, Kind.BOUNDARY: _BOUNDARIES, Kind.END: _ENDS,
}  # fmt: skip


def activity_type(node: Node) -> str:
    """`serviceTask`, `noneEndEvent`, `boundaryTimer` …; for what Camunda has no word of its own, the BPMN element."""
    element = node.element or ELEMENTS[node.kind]
    kind = EventKind.NONE if node.event is None else node.event.kind
    return _EVENTS.get(node.kind, {}).get(kind, element)
