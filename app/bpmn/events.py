"""Event definitions: what an event waits for, or makes happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from app.bpmn.markup import Element
from app.bpmn.names import BPMN, bpmn, extension, is_bpmn, is_name
from app.bpmn.problems import Report
from app.bpmn.values import text_of, text_or_expression
from app.expressions.syntax import has_expression
from app.process.graph import Event, EventKind
from app.timers import time_fault

UNKNOWN: Final = {
    "escalationEventDefinition": "escalation events",
    "conditionalEventDefinition": "conditional events",
    "cancelEventDefinition": "cancel events",
}
TIMERS: Final[Mapping[str, Literal["date", "duration", "cycle"]]] = {
    "timeDate": "date", "timeDuration": "duration", "timeCycle": "cycle",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Roots:
    """The messages, signals and errors that a file defines, by id: their names, and the codes of errors."""

    messages: Mapping[str, str | None]
    signals: Mapping[str, str | None]
    errors: Mapping[str, str | None]


def read_roots(definitions: Element) -> Roots:
    def names(local: str, attribute: str = "name") -> Mapping[str, str | None]:
        found = (child for child in definitions.children if child.name == bpmn(local))
        return {child.id: child.get(attribute) for child in found if child.id is not None}

    return Roots(names("message"), names("signal"), names("error", "errorCode"))


def definitions_of(event: Element) -> list[Element]:
    """Every definition of an event: what it waits for or makes happen."""
    names = ("EventDefinition", "eventDefinitionRef")
    return [child for child in event.children if child.name[0] == BPMN and child.name[1].endswith(names)]


def read_event(event: Element, roots: Roots, report: Report) -> Event:
    """What the event is about; problems are in the report, and then the event is a none event."""
    found = definitions_of(event)
    if len(found) > 1:
        report.error(event.id, event.line, "an event with several definitions is not known")
    if not found:
        return Event(EventKind.NONE)
    definition = found[0]
    local = definition.name[1]
    if local == "timerEventDefinition":
        return _timer(event, definition, report)
    if local == "messageEventDefinition":
        return _named(event, definition, EventKind.MESSAGE, "messageRef", roots.messages, report)
    if local == "signalEventDefinition":
        return _named(event, definition, EventKind.SIGNAL, "signalRef", roots.signals, report)
    if local == "errorEventDefinition":
        return _error(event, definition, roots, report)
    if local == "compensateEventDefinition":
        if (definition.get("waitForCompletion") or "true").lower() == "false":
            report.warning(event.id, definition.line, "waitForCompletion=false is not known: the event waits")
        return Event(EventKind.COMPENSATION, activity=definition.get("activityRef"))
    if local == "terminateEventDefinition":
        return Event(EventKind.TERMINATE)
    if local == "linkEventDefinition":
        return _link(event, definition, report)
    report.error(event.id, definition.line, f"{UNKNOWN.get(local, local)} are not there yet")
    return Event(EventKind.NONE)


def is_link(event: Element) -> bool:
    return event.child(bpmn("linkEventDefinition")) is not None


def _named(
    event: Element,
    definition: Element,
    kind: EventKind,
    reference: str,
    names: Mapping[str, str | None],
    report: Report,
) -> Event:
    target = definition.get(reference)
    throws_message = kind is EventKind.MESSAGE and is_bpmn(event, "endEvent", "intermediateThrowEvent")
    if target is None:
        if not throws_message:
            report.error(event.id, definition.line, f"the {kind} event names no {kind} ({reference})")
        return Event(kind)
    # A prefix as in `tns:message` names the same thing.
    name = names.get(target, names.get(target.rpartition(":")[2]))
    if name is None:
        if not throws_message:
            report.error(event.id, definition.line, f"{reference} names no {kind} with a name: {target}")
        return Event(kind)
    if not has_expression(name) and not is_name(name):
        report.error(event.id, definition.line, f"the name of a {kind} has 1 to 255 printable characters")
    return Event(kind, name=text_or_expression(name, report, event, line=definition.line))


def _link(event: Element, definition: Element, report: Report) -> Event:
    name = definition.get("name") or text_of(definition.child(bpmn("target")))
    if not name:
        report.error(event.id, definition.line, "a link event has a name")
    return Event(EventKind.NONE, name=name)


def _error(event: Element, definition: Element, roots: Roots, report: Report) -> Event:
    target = definition.get("errorRef")
    code: str | None = None
    if target is not None:
        # Camunda takes the reference itself for the code when no such error is defined.
        code = roots.errors.get(target, target)
        if code is None and is_bpmn(event, "endEvent"):
            report.error(event.id, definition.line, f"the error {target} has no errorCode")
    elif is_bpmn(event, "endEvent"):
        report.error(event.id, definition.line, "an error end event names its error (errorRef)")
    return Event(
        EventKind.ERROR,
        name=code,
        code_variable=extension(definition, "errorCodeVariable"),
        message_variable=extension(definition, "errorMessageVariable"),
    )


def _timer(event: Element, definition: Element, report: Report) -> Event:
    given = [child for child in definition.children if child.name[0] == bpmn("")[0] and child.name[1] in TIMERS]
    text = text_of(given[0]) if given else ""
    if len(given) != 1 or not text:
        report.error(event.id, definition.line, "a timer has one of timeDate, timeDuration, timeCycle")
        return Event(EventKind.NONE)
    timer = TIMERS[given[0].name[1]]
    if not has_expression(text) and (fault := time_fault(timer, text)) is not None:
        report.error(event.id, given[0].line, fault)
    if timer == "cycle" and is_bpmn(event, "intermediateCatchEvent"):
        report.warning(event.id, given[0].line, "a timer on the way fires once, whatever its cycle")
    return Event(EventKind.TIMER, timer=timer, when=text_or_expression(text, report, event, line=given[0].line))
