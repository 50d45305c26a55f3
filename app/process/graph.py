"""Where tokens may go: the nodes and flows of one process, as the reader (or the builder) has made and checked them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeVar

T = TypeVar("T")


class Kind(StrEnum):
    """What a node does with a token; one function of app/process/entering.py each."""

    START = "start"
    END = "end"
    TASK = "task"
    """Work for somebody outside: an external worker or a Celery fleet."""
    USER = "user"
    """Work for a person: the token stands until it is completed by its id."""
    RECEIVE = "receive"
    SCRIPT = "script"
    PASS = "pass"  # noqa: S105 - no password: the token passes through (manual and abstract tasks, none throw events)
    EXCLUSIVE = "exclusive"
    PARALLEL = "parallel"
    INCLUSIVE = "inclusive"
    EVENT_GATEWAY = "event_gateway"
    SUBPROCESS = "subprocess"
    CATCH = "catch"
    THROW = "throw"
    BOUNDARY = "boundary"
    LINK = "link"
    """A throw link event; its token goes on at the catch event of the same name."""


class EventKind(StrEnum):
    """What makes an event happen, or what it makes happen."""

    NONE = "none"
    TIMER = "timer"
    MESSAGE = "message"
    SIGNAL = "signal"
    ERROR = "error"
    COMPENSATION = "compensation"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class Expression:
    """Text that an evaluator understands, as the model has it (`${amount > 10}`, `PT${hours}H`), and its language."""

    text: str
    language: str = "juel"


@dataclass(frozen=True, slots=True)
class Table:
    """A map with expressions among its keys; of equal keys the last one holds."""

    entries: tuple[tuple[Expression | str, Value], ...]


Value = Expression | str | int | float | bool | None | Mapping[str, "Value"] | Sequence["Value"] | Table
"""A constant, an expression, or maps and lists of them."""


@dataclass(frozen=True, slots=True)
class Event:
    """The definition of an event. `name` is that of the message or signal, or the code of the error (None: any)."""

    kind: EventKind
    name: Expression | str | None = None
    timer: Literal["date", "duration", "cycle"] | None = None
    when: Expression | str | None = None
    """ISO 8601 text of a timer, or what gives it."""
    activity: str | None = None
    """The activity that a compensation throw is about; None: all of its scope."""
    code_variable: str | None = None
    message_variable: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a task asks for: the type that workers subscribe to, its priority, and how it is retried."""

    topic: Expression | str
    priority: Expression | int | None = None
    retry: Expression | str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


Text = Expression | str | None


@dataclass(frozen=True, slots=True)
class Duty:
    """Whose work a user task is, and what people are shown of it. `due` and `follow_up`: ISO 8601, or a duration.

    Candidates are a text with commas, or an expression that gives such a text or a list.
    """

    assignee: Text = None
    candidate_users: Text = None
    candidate_groups: Text = None
    due: Text = None
    follow_up: Text = None
    priority: Text = None
    name: Text = None
    """Where it is an expression; else it is the node's."""
    description: Text = None
    form_key: Text = None


@dataclass(frozen=True, slots=True)
class Script:
    """An expression whose value goes into a variable."""

    expression: Expression
    result_variable: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """One input or output parameter: `name` gets `value`."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Node:
    """One place where a token can be. `scope` is the id of the process or subprocess that it lies in."""

    id: str
    kind: Kind
    scope: str
    name: str | None = None
    event: Event | None = None
    work: Work | None = None
    script: Script | None = None
    duty: Duty | None = None
    inputs: tuple[Assignment, ...] = ()
    outputs: tuple[Assignment, ...] = ()
    default: str | None = None
    """The flow that is taken when no other can be."""
    attached_to: str | None = None
    interrupting: bool = True
    handler: str | None = None
    """Of a compensation boundary event: the activity that undoes the one it is attached to."""
    for_compensation: bool = False
    commit_before: bool = False
    commit_after: bool = False
    link: str | None = None
    """Of a throw link event: the catch event that its token goes on at."""
    element: str | None = None
    """The element that it is in BPMN, where that is not the one most nodes of its kind are."""

    def catches(self, kind: EventKind) -> bool:
        """Whether this is a boundary event of the kind."""
        return self.kind is Kind.BOUNDARY and self.event is not None and self.event.kind is kind


@dataclass(frozen=True, slots=True)
class Flow:
    """A sequence flow."""

    id: str
    source: str
    target: str
    condition: Expression | None = None


@dataclass(frozen=True)
class Graph:
    """One executable process. Nodes and flows keep the order of the document, which decides among equals."""

    process: str
    nodes: Mapping[str, Node]
    flows: Mapping[str, Flow]
    name: str | None = None
    parallel_compensation: bool = False
    """Start all handlers at once (as Camunda 7 does), newest first, instead of one after the other."""
    counting_joins: bool = False
    """A parallel join fires at as many tokens as it has flows (as Camunda 7 does), not at one for each flow."""

    def outgoing(self, node: str) -> Sequence[Flow]:
        return self._outgoing.get(node, ())

    def incoming(self, node: str) -> Sequence[Flow]:
        return self._incoming.get(node, ())

    def boundaries(self, activity: str) -> Sequence[Node]:
        """The boundary events that are attached to an activity."""
        return self._boundaries.get(activity, ())

    def compensation_of(self, activity: str) -> str | None:
        """The handler that undoes an activity, if it has one."""
        events = (node for node in self.boundaries(activity) if node.catches(EventKind.COMPENSATION))
        return next((node.handler for node in events), None)

    def start(self, scope: str) -> Node | None:
        """The none start event of a process or subprocess."""
        starts = (node for node in self._inside.get(scope, ()) if node.kind is Kind.START)
        return next((node for node in starts if node.event is None or node.event.kind is EventKind.NONE), None)

    def starts(self, scope: str) -> Sequence[Node]:
        """All start events of a process or subprocess."""
        return [node for node in self._inside.get(scope, ()) if node.kind is Kind.START]

    def inside(self, scope: str) -> Sequence[Node]:
        """The nodes directly in a process or subprocess."""
        return self._inside.get(scope, ())

    def ways_to(self, gateway: str) -> Mapping[str, frozenset[str]]:
        """For each node the flows into a gateway by which a token could come from it, without passing the gateway."""
        if gateway not in self._ways:
            ways: dict[str, set[str]] = defaultdict(set)
            for flow in self.incoming(gateway):
                for node in self._behind(flow.source, gateway):
                    ways[node].add(flow.id)
            self._ways[gateway] = {node: frozenset(flows) for node, flows in ways.items()}
        return self._ways[gateway]

    @cached_property
    def inclusive(self) -> Sequence[str]:
        """The inclusive gateways, in the order of the document."""
        return [node.id for node in self.nodes.values() if node.kind is Kind.INCLUSIVE]

    @cached_property
    def _outgoing(self) -> Mapping[str, tuple[Flow, ...]]:
        return _grouped((flow.source, flow) for flow in self.flows.values())

    @cached_property
    def _incoming(self) -> Mapping[str, tuple[Flow, ...]]:
        return _grouped((flow.target, flow) for flow in self.flows.values())

    @cached_property
    def _boundaries(self) -> Mapping[str, tuple[Node, ...]]:
        return _grouped((node.attached_to, node) for node in self.nodes.values() if node.attached_to is not None)

    @cached_property
    def _inside(self) -> Mapping[str, tuple[Node, ...]]:
        return _grouped((node.scope, node) for node in self.nodes.values())

    @cached_property
    def _ways(self) -> dict[str, Mapping[str, frozenset[str]]]:
        return {}

    def _behind(self, node: str, barrier: str) -> frozenset[str]:
        """A node and all from which it can be reached: by flows, boundary events and links, not over `barrier`."""
        seen: set[str] = set()
        pending = [node]
        while pending:
            at = pending.pop()
            if at not in seen and at != barrier:
                seen.add(at)
                pending.extend(self._before.get(at, ()))
        return frozenset(seen)

    @cached_property
    def _before(self) -> Mapping[str, tuple[str, ...]]:
        def pairs() -> Iterable[tuple[str, str]]:
            yield from ((flow.target, flow.source) for flow in self.flows.values())
            for node in self.nodes.values():
                if node.attached_to is not None:
                    yield node.id, node.attached_to
                if node.link is not None:
                    yield node.link, node.id

        return _grouped(pairs())


def _grouped(pairs: Iterable[tuple[str, T]]) -> Mapping[str, tuple[T, ...]]:
    groups: dict[str, list[T]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return {key: tuple(values) for key, values in groups.items()}
