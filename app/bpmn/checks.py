"""What must hold for a graph to be run: references, starts, gateways, boundary events, and no node out of reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from app.bpmn.loops import endless_loops
from app.bpmn.problems import Report
from app.process.graph import EventKind, Expression, Graph, Kind, Node

ACTIVITIES: Final = frozenset({Kind.TASK, Kind.USER, Kind.RECEIVE, Kind.SCRIPT, Kind.SUBPROCESS, Kind.PASS})

Told = Iterator[tuple[str, str]]
"""(id of the element, what is wrong)."""


def check(graph: Graph, lines: Mapping[str, int], report: Report) -> None:
    """Add everything that is wrong with the graph as a whole to the report."""

    def tell(rules: tuple[Rule, ...], add: Callable[[str, int, str], None]) -> None:
        for rule in rules:
            for element, message in rule(graph):
                add(element, lines.get(element, 1), message)

    tell(RULES, report.error)
    tell(REMARKS, report.warning)
    if not any(True for _ in _flows(graph)):
        # With a flow that leads nowhere, what lies behind it is out of reach only for that.
        tell((_unreachable, _endless), report.error)


def _flows(graph: Graph) -> Told:
    for flow in graph.flows.values():
        source, target = graph.nodes.get(flow.source), graph.nodes.get(flow.target)
        if source is None:
            yield flow.id, f"sourceRef names no node: {flow.source}"
        if target is None:
            yield flow.id, f"targetRef names no node: {flow.target}"
        if source is None or target is None:
            continue
        if source.scope != target.scope:
            yield flow.id, "a sequence flow must not leave its subprocess"
        if source.kind is Kind.END:
            yield flow.id, "nothing flows out of an end event"
        if target.kind in (Kind.START, Kind.BOUNDARY):
            yield flow.id, "nothing flows into a start or boundary event"
        if target.for_compensation or source.for_compensation:
            yield flow.id, "a compensation handler has no sequence flows"


def _starts(graph: Graph) -> Told:
    scopes = [graph.process, *(node.id for node in graph.nodes.values() if node.kind is Kind.SUBPROCESS)]
    for scope in scopes:
        starts = graph.starts(scope)
        if not starts:
            yield scope, "there is no start event"
        plain = [node for node in starts if node.event is None or node.event.kind is EventKind.NONE]
        if len(plain) > 1:
            yield plain[1].id, "there are several none start events"
        if scope != graph.process and len(plain) != len(starts):
            yield scope, "an embedded subprocess begins with a none start event"
        for node in starts:
            if node.event and node.event.kind in (EventKind.ERROR, EventKind.COMPENSATION, EventKind.TERMINATE):
                yield node.id, f"nothing begins with an event of the kind {node.event.kind}"


def _gateways(graph: Graph) -> Told:
    for node in graph.nodes.values():
        if node.kind not in (Kind.EXCLUSIVE, Kind.INCLUSIVE):
            continue
        flows = graph.outgoing(node.id)
        if len(flows) == 1 and flows[0].condition is not None and node.kind is Kind.EXCLUSIVE:
            yield flows[0].id, "the only way out of an exclusive gateway must not have a condition"
        for flow in flows:
            if flow.id == node.default and flow.condition is not None:
                yield flow.id, "a default flow has no condition"
            if len(flows) > 1 and flow.id != node.default and flow.condition is None and node.kind is Kind.EXCLUSIVE:
                yield flow.id, "a way out of an exclusive gateway has a condition, or is the default"


def _event_gateways(graph: Graph) -> Told:
    for node in graph.nodes.values():
        if node.kind is not Kind.EVENT_GATEWAY:
            continue
        if not graph.outgoing(node.id):
            yield node.id, "an event-based gateway has events behind it"
        for flow in graph.outgoing(node.id):
            target = graph.nodes.get(flow.target)
            if target is not None and (not _waits_for_event(target) or len(graph.incoming(target.id)) > 1):
                yield flow.id, "behind an event-based gateway are catch events of its own"


def _boundaries(graph: Graph) -> Told:
    for node in graph.nodes.values():
        if node.kind is not Kind.BOUNDARY:
            continue
        host = graph.nodes.get(node.attached_to or "")
        if host is None:
            yield node.id, f"attachedToRef names no activity: {node.attached_to}"
        elif host.scope != node.scope or host.kind not in ACTIVITIES:
            yield node.id, "a boundary event is attached to an activity of its own scope"
        elif host.for_compensation:
            yield node.id, "a compensation handler has no boundary events"
        if node.catches(EventKind.ERROR) and not node.interrupting:
            yield node.id, "an error boundary event interrupts"
        if node.event and node.event.kind is EventKind.TERMINATE:
            yield node.id, "a boundary event cannot wait for terminate"
        if node.catches(EventKind.COMPENSATION) and graph.outgoing(node.id):
            yield node.id, "nothing flows out of a compensation boundary event"


def _handlers(graph: Graph) -> Told:
    events = [node for node in graph.nodes.values() if node.catches(EventKind.COMPENSATION)]
    for node in events:
        handler = graph.nodes.get(node.handler or "")
        if handler is None:
            yield node.id, "a compensation boundary event is joined to its handler by an association"
        elif not handler.for_compensation:
            yield handler.id, "a compensation handler says so (isForCompensation)"
        elif handler.scope != node.scope or handler.kind not in ACTIVITIES:
            yield handler.id, "a compensation handler is an activity of the scope of what it undoes"
    doubled = Counter(node.attached_to for node in events)
    for node in events:
        if doubled[node.attached_to] > 1:
            yield node.id, "an activity has one compensation boundary event"
    named = Counter(node.handler for node in events)
    for node in graph.nodes.values():
        if node.for_compensation and not named[node.id]:
            yield node.id, "no compensation boundary event names this handler"


def _throws(graph: Graph) -> Told:
    for node in graph.nodes.values():
        event = node.event
        if node.kind not in (Kind.THROW, Kind.END) or event is None:
            continue
        if event.kind is EventKind.TIMER or (
            node.kind is Kind.THROW and event.kind in (EventKind.ERROR, EventKind.TERMINATE)
        ):
            yield node.id, f"a {event.kind} cannot be thrown here"
        if event.kind is EventKind.COMPENSATION and event.activity is not None:
            target = graph.nodes.get(event.activity)
            if target is None or target.scope != node.scope:
                yield node.id, f"activityRef names no activity of this scope: {event.activity}"
            elif graph.compensation_of(target.id) is None and target.kind is not Kind.SUBPROCESS:
                yield node.id, f"activityRef names an activity that cannot be undone: {event.activity}"


def _defaults(graph: Graph) -> Told:
    for node in graph.nodes.values():
        if node.default is not None and node.default not in {flow.id for flow in graph.outgoing(node.id)}:
            yield node.id, f"default names no flow that leaves it: {node.default}"


def _doubles(graph: Graph) -> Told:
    """Two events of one name at one place: nobody could say which of them a message, signal or error is for."""
    seen: set[tuple[str, object, object]] = set()
    for place, node in _listening(graph):
        if node.event is None or isinstance(node.event.name, Expression):
            continue
        what = (place, node.event.kind, node.event.name)
        if what in seen:
            named = "any error" if node.event.name is None else f"the {node.event.kind} {node.event.name}"
            yield node.id, f"another event waits for {named} at the same place"
        seen.add(what)


def _listening(graph: Graph) -> Iterator[tuple[str, Node]]:
    """Events by the place where they wait, as far as only one of a name may be there."""
    for node in graph.nodes.values():
        if node.event and node.event.kind in (EventKind.MESSAGE, EventKind.SIGNAL, EventKind.ERROR):
            if node.kind is Kind.START:
                yield node.scope, node
            elif node.kind is Kind.RECEIVE:
                yield node.id, node
            elif node.kind is Kind.BOUNDARY:
                yield node.attached_to or "", node
        if node.kind is Kind.EVENT_GATEWAY:
            behind = (graph.nodes.get(flow.target) for flow in graph.outgoing(node.id))
            yield from (
                (node.id, one)
                for one in behind
                if one and one.event and one.event.kind in (EventKind.MESSAGE, EventKind.SIGNAL)
            )


def _conditions_nobody_asks(graph: Graph) -> Told:
    for flow in graph.flows.values():
        source = graph.nodes.get(flow.source)
        if flow.condition is not None and source and source.kind in (Kind.PARALLEL, Kind.EVENT_GATEWAY):
            yield flow.id, f"the condition has no effect behind a {source.kind.replace('_', ' ')} gateway"


def _unreachable(graph: Graph) -> Told:
    reached: set[str] = set()
    ahead = [node.id for node in graph.nodes.values() if node.kind is Kind.START or node.for_compensation]
    while ahead:
        node = graph.nodes[ahead.pop()]
        if node.id in reached:
            continue
        reached.add(node.id)
        ahead.extend(flow.target for flow in graph.outgoing(node.id))
        ahead.extend(boundary.id for boundary in graph.boundaries(node.id))
        if node.link is not None:
            ahead.append(node.link)
    begun = {node.scope for node in graph.nodes.values() if node.kind is Kind.START}
    for node in graph.nodes.values():
        if node.id not in reached and node.scope in begun:
            yield node.id, "no token can ever come here"


def _endless(graph: Graph) -> Told:
    for name in endless_loops(graph):
        yield name, "the model goes round here for ever without waiting"


def _waits_for_event(node: Node) -> bool:
    return node.kind is Kind.CATCH and node.event is not None and node.event.kind is not EventKind.NONE


Rule = Callable[[Graph], Told]
RULES: Final[tuple[Rule, ...]] = (
    _flows, _starts, _gateways, _event_gateways, _boundaries, _handlers, _throws, _defaults, _doubles,
)  # fmt: skip
REMARKS: Final[tuple[Rule, ...]] = (_conditions_nobody_asks,)
"""What does no harm, and is most likely not what was meant."""
