"""Processes written in Python: the graph that the reader makes of a drawn model, checked by the same rules.

    order = (
        Process("order")
        .parallel(
            Path().task("reserve", compensate="release"),
            Path().task("check credit"),
        )
        .task("charge", compensate="refund", retry="R5/PT10M")
        .on_error("REFUSED", Path().user("ask the customer").go_to("charge"))
        .exclusive(("${total > 1000}", Path().user("approve")), (DEFAULT, Path()))
        .task("ship")
    )
    file = order.bpmn()

A step is named by its first argument, which is its id in the graph. Where a text holds `${…}` it is an expression; for
CEL there is `Expression("total > 1000", "cel")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from app.bpmn.checks import check
from app.bpmn.names import is_name
from app.bpmn.problems import Finding, Report
from app.bpmn.writer import write
from app.expressions.evaluator import fault_in
from app.expressions.syntax import has_expression
from app.process.graph import (
    Assignment,
    Event,
    EventKind,
    Expression,
    Flow,
    Graph,
    Kind,
    Node,
    Script,
    Table,
    Value,
    Work,
)
from app.timers import time_fault

DEFAULT: Final = None
"""In place of a condition: the way that is taken when no condition holds."""

Text = str | Expression


class Misdrawn(ValueError):
    """The process cannot be run: `findings` are all the reasons."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("; ".join(f"{one.element}: {one.message}" for one in findings))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Way:
    """A flow that has its source, and will have as target the next node that is drawn."""

    source: str
    condition: Text | None = None
    default: bool = False


Step = Callable[["Drawing", list[Way], str], list[Way]]
"""Draws itself behind the ways that lead to it, in a scope; gives the ways that lead on."""


class Path:
    """A piece of a process: steps one after the other. Every method adds a step and gives the path again."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._activity: str | None = None
        """The last activity, which boundary events are attached to."""

    # Activities

    def task(
        self,
        name: str,
        topic: Text | None = None,
        *,
        compensate: Text | None = None,
        priority: int | Expression | None = None,
        retry: Text | None = None,
        properties: Mapping[str, str] | None = None,
        inputs: Mapping[str, Value] | None = None,
        outputs: Mapping[str, Value] | None = None,
    ) -> Self:
        """Work for whoever fetches `topic` (the name, when it is left out).

        `compensate` is the topic of the work that undoes it; `retry` as `camunda:failedJobRetryTimeCycle`.
        """
        work = Work(topic or name, priority, retry, properties or {})
        self._activity_step(Node(name, Kind.TASK, "", work=work), inputs, outputs)
        return self if compensate is None else self._undone_by(f"undo-{name}", compensate)

    def user(self, name: str, *, inputs: Mapping[str, Value] | None = None) -> Self:
        """Work for a person."""
        return self._activity_step(Node(name, Kind.USER, ""), inputs)

    def receive(self, name: str, message: Text | None = None) -> Self:
        """Wait for a message; without one, for being completed by its id. Unlike `message` it has boundary events."""
        event = None if message is None else Event(EventKind.MESSAGE, name=message)
        return self._activity_step(Node(name, Kind.RECEIVE, "", event=event))

    def script(self, name: str, expression: Text, result: str | None = None) -> Self:
        """Set the variable `result` to the value of an expression."""
        script = Script(expression if isinstance(expression, Expression) else Expression(expression), result)
        return self._activity_step(Node(name, Kind.SCRIPT, "", script=script))

    def subprocess(
        self,
        name: str,
        path: Path,
        *,
        inputs: Mapping[str, Value] | None = None,
        outputs: Mapping[str, Value] | None = None,
    ) -> Self:
        """Steps with variables of their own, which boundary events interrupt together."""
        self._activity_step(Node(name, Kind.SUBPROCESS, ""), inputs, outputs)
        self._steps.append(lambda drawing, ways, _: drawing.inside(name, path, ways))
        return self

    # Boundary events of the last activity

    def on_error(
        self, code: str | None, path: Path, *, code_variable: str | None = None, message_variable: str | None = None
    ) -> Self:
        """Where the token goes when the last activity throws this error (None: any)."""
        event = Event(EventKind.ERROR, code, code_variable=code_variable, message_variable=message_variable)
        return self._boundary(event, path, interrupting=True)

    def on_timer(self, after: Text, path: Path, *, interrupting: bool = True) -> Self:
        """What happens when the last activity takes longer (`PT1H`), or again and again meanwhile (`R/PT1H`)."""
        cycle = str(after if isinstance(after, str) else after.text).startswith("R")
        event = Event(EventKind.TIMER, timer="cycle" if cycle else "duration", when=after)
        return self._boundary(event, path, interrupting=interrupting)

    def on_message(self, message: Text, path: Path, *, interrupting: bool = True) -> Self:
        """What happens when a message comes during the last activity."""
        return self._boundary(Event(EventKind.MESSAGE, name=message), path, interrupting=interrupting)

    def on_signal(self, signal: Text, path: Path, *, interrupting: bool = True) -> Self:
        """What happens when a signal comes during the last activity."""
        return self._boundary(Event(EventKind.SIGNAL, name=signal), path, interrupting=interrupting)

    # Events on the way

    def timer(self, name: str, *, after: Text | None = None, at: Text | None = None) -> Self:
        """Wait for a duration (`PT5M`) or until a moment, in ISO 8601."""
        timer: Literal["duration", "date"] = "duration" if after is not None else "date"
        return self._step(Node(name, Kind.CATCH, "", event=Event(EventKind.TIMER, timer=timer, when=after or at)))

    def message(self, name: str, message: Text) -> Self:
        """Wait for a message."""
        return self._step(Node(name, Kind.CATCH, "", event=Event(EventKind.MESSAGE, name=message)))

    def signal(self, name: str, signal: Text) -> Self:
        """Wait for a signal."""
        return self._step(Node(name, Kind.CATCH, "", event=Event(EventKind.SIGNAL, name=signal)))

    def throw_signal(self, name: str, signal: Text) -> Self:
        """Tell everything that waits for a signal, in all instances."""
        return self._step(Node(name, Kind.THROW, "", event=Event(EventKind.SIGNAL, name=signal)))

    def compensate(self, name: str, activity: str | None = None) -> Self:
        """Undo what was done in this scope, newest first, or one activity of it; then go on."""
        return self._step(Node(name, Kind.THROW, "", event=Event(EventKind.COMPENSATION, activity=activity)))

    # Gateways

    def parallel(self, *paths: Path) -> Self:
        """All paths at once; it goes on when all have come to their end."""
        return self._gateway(Kind.PARALLEL, [(DEFAULT, path) for path in paths], Kind.PARALLEL, asks=False)

    def exclusive(self, *ways: tuple[Text | None, Path]) -> Self:
        """The first path whose condition holds; the one with DEFAULT when none does."""
        return self._gateway(Kind.EXCLUSIVE, list(ways), Kind.EXCLUSIVE)

    def inclusive(self, *ways: tuple[Text | None, Path]) -> Self:
        """Every path whose condition holds; it goes on when those have come to their end."""
        return self._gateway(Kind.INCLUSIVE, list(ways), Kind.INCLUSIVE)

    def first_of(self, *paths: Path) -> Self:
        """Whichever of the events that the paths begin with comes first."""
        return self._gateway(Kind.EVENT_GATEWAY, [(DEFAULT, path) for path in paths], Kind.EXCLUSIVE, asks=False)

    def repeat(self, path: Path, *, again: Text) -> Self:
        """A path, and once more as long as the condition `again` holds after it."""

        def draw(drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
            entry = drawing.gateway("again", Kind.EXCLUSIVE, scope)
            drawing.join(ways, entry)
            rest = path.draw(drawing, [Way(entry)], scope)
            decision = drawing.gateway("decide", Kind.EXCLUSIVE, scope)
            drawing.join(rest, decision)
            drawing.join([Way(decision, again)], entry)
            return [Way(decision, default=True)]

        self._steps.append(draw)
        return self

    # Ends

    def go_to(self, name: str) -> Self:
        """Go on at a step that is drawn elsewhere."""

        def draw(drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
            drawing.join(ways, name)
            return []

        self._steps.append(draw)
        return self

    def end(self, name: str = "end") -> Self:
        """The path ends; so do all paths that are not joined."""
        return self._end(Node(name, Kind.END, "", event=Event(EventKind.NONE)))

    def end_with_error(self, name: str, code: str) -> Self:
        """The path ends with a business error for a boundary event outside."""
        return self._end(Node(name, Kind.END, "", event=Event(EventKind.ERROR, name=code)))

    def end_all(self, name: str = "end all") -> Self:
        """Everything in this process or subprocess ends."""
        return self._end(Node(name, Kind.END, "", event=Event(EventKind.TERMINATE)))

    def end_with_compensation(self, name: str = "undo all") -> Self:
        """All that was done in this scope is undone, newest first, and the path ends."""
        return self._end(Node(name, Kind.END, "", event=Event(EventKind.COMPENSATION)))

    def draw(self, drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
        for step in self._steps:
            ways = step(drawing, ways, scope)
        return ways

    def _step(self, node: Node) -> Self:
        def draw(drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
            drawing.add(replace(node, scope=scope))
            drawing.join(ways, node.id)
            return [Way(node.id)]

        self._activity = None
        self._steps.append(draw)
        return self

    def _activity_step(
        self, node: Node, inputs: Mapping[str, Value] | None = None, outputs: Mapping[str, Value] | None = None
    ) -> Self:
        self._step(replace(node, inputs=_assigned(inputs), outputs=_assigned(outputs)))
        self._activity = node.id
        return self

    def _boundary(self, event: Event, path: Path, *, interrupting: bool) -> Self:
        host = self._host()

        def draw(drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
            name = drawing.free(f"{host}-{event.kind}")
            drawing.add(Node(name, Kind.BOUNDARY, scope, event=event, attached_to=host, interrupting=interrupting))
            path.draw(drawing, [Way(name)], scope)
            return ways

        self._steps.append(draw)
        return self

    def _undone_by(self, handler: str, topic: Text) -> Self:
        host = self._host()

        def draw(drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
            event = Event(EventKind.COMPENSATION)
            drawing.add(Node(f"{host}-undone", Kind.BOUNDARY, scope, event=event, attached_to=host, handler=handler))
            drawing.add(Node(handler, Kind.TASK, scope, work=Work(topic), for_compensation=True))
            return ways

        self._steps.append(draw)
        return self

    def _gateway(self, kind: Kind, branches: list[tuple[Text | None, Path]], join: Kind, *, asks: bool = True) -> Self:
        def draw(drawing: Drawing, ways: list[Way], scope: str) -> list[Way]:
            split = drawing.gateway("split", kind, scope)
            drawing.join(ways, split)
            rest = [
                way
                for condition, path in branches
                for way in path.draw(drawing, [Way(split, condition, asks and condition is DEFAULT)], scope)
            ]
            if len(rest) < 2:
                return rest
            joined = drawing.gateway("join", join, scope)
            drawing.join(rest, joined)
            return [Way(joined)]

        self._activity = None
        self._steps.append(draw)
        return self

    def _end(self, node: Node) -> Self:
        self._step(node)
        self._steps.append(lambda _drawing, _ways, _scope: [])
        return self

    def _host(self) -> str:
        if self._activity is None:
            raise ValueError("a boundary event follows the activity that it is about")
        return self._activity


class Process(Path):
    """A whole process. `start` may be an event instead: Event(EventKind.MESSAGE, name="new order")."""

    def __init__(
        self,
        process: str,
        name: str | None = None,
        *,
        start: Event | None = None,
        parallel_compensation: bool = False,
        counting_joins: bool = False,
    ) -> None:
        super().__init__()
        self._process = process
        self._name = name
        self._start = start or Event(EventKind.NONE)
        self._parallel_compensation = parallel_compensation
        self._counting_joins = counting_joins

    def graph(self) -> Graph:
        """The graph, checked. Raises Misdrawn with everything that is wrong."""
        drawing = Drawing(self._process)
        drawing.begin(self, self._process, "start", self._start)
        graph = Graph(
            self._process, drawing.nodes, drawing.flows, self._name, self._parallel_compensation, self._counting_joins
        )
        check(graph, {}, drawing.report)
        if drawing.report.errors:
            raise Misdrawn(drawing.report.errors)
        return graph

    def bpmn(self) -> bytes:
        """The process as a file, to be deployed. Raises Misdrawn."""
        return write(self.graph())


@dataclass
class Drawing:
    """A graph that is being drawn."""

    process: str
    nodes: dict[str, Node] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    report: Report = field(default_factory=Report)

    def begin(self, path: Path, scope: str, name: str, event: Event) -> None:
        """A start event, the path, and an end event where it has none of its own."""
        self.add(Node(name, Kind.START, scope, event=event))
        rest = path.draw(self, [Way(name)], scope)
        if rest:
            end = self.free("end" if scope == self.process else f"{scope}-end")
            self.add(Node(end, Kind.END, scope, event=Event(EventKind.NONE)))
            self.join(rest, end)

    def inside(self, subprocess: str, path: Path, ways: list[Way]) -> list[Way]:
        self.begin(path, subprocess, f"{subprocess}-start", Event(EventKind.NONE))
        return ways

    def add(self, node: Node) -> None:
        if not is_name(node.id):
            self.report.error(node.id, 0, "a name has 1 to 255 printable characters and no space around them")
        elif node.id in self.nodes:
            self.report.error(node.id, 0, "two steps have this name")
        else:
            self.nodes[node.id] = self._checked(node)

    def gateway(self, what: str, kind: Kind, scope: str) -> str:
        name = self.free(what)
        self.add(Node(name, kind, scope))
        return name

    def free(self, name: str) -> str:
        """A name that nothing has yet."""
        number, free = 1, name
        while free in self.nodes:
            number += 1
            free = f"{name}-{number}"
        return free

    def join(self, ways: list[Way], target: str) -> None:
        for way in ways:
            number, name = 1, f"{way.source}--{target}"
            while name in self.flows:
                number += 1
                name = f"{way.source}--{target}-{number}"
            condition = None if way.condition is None else self._condition(way.condition, name)
            self.flows[name] = Flow(name, way.source, target, condition)
            if way.default:
                self.nodes[way.source] = replace(self.nodes[way.source], default=name)

    def _condition(self, text: Text, flow: str) -> Expression:
        condition = text if isinstance(text, Expression) else Expression(text)
        if condition.language == "juel" and not has_expression(condition.text):
            self.report.error(flow, 0, "a condition is an expression: ${…}")
        return self._expression(condition, flow)

    def _checked(self, node: Node) -> Node:
        """A node whose texts are expressions where they hold any; faults of those are told."""

        def given(value: Any) -> Any:
            if isinstance(value, Expression):
                return self._expression(value, node.id)
            return (
                self._expression(Expression(value), node.id)
                if isinstance(value, str) and has_expression(value)
                else value
            )

        def deep(value: Any) -> Any:
            if isinstance(value, Mapping):
                if any(isinstance(given(key), Expression) for key in value):
                    return Table(tuple((given(key), deep(inner)) for key, inner in value.items()))
                return {key: deep(inner) for key, inner in value.items()}
            return [deep(inner) for inner in value] if isinstance(value, list | tuple) else given(value)

        event, work, script = node.event, node.work, node.script
        if event is not None:
            event = replace(event, name=given(event.name), when=given(event.when))
            self._check_time(event, node.id)
        if work is not None:
            work = replace(work, topic=given(work.topic), priority=given(work.priority), retry=given(work.retry))
        if script is not None:
            script = replace(script, expression=given(script.expression))
        inputs = tuple(Assignment(one.name, deep(one.value)) for one in node.inputs)
        outputs = tuple(Assignment(one.name, deep(one.value)) for one in node.outputs)
        return replace(node, event=event, work=work, script=script, inputs=inputs, outputs=outputs)

    def _check_time(self, event: Event, name: str) -> None:
        if event.kind is not EventKind.TIMER:
            return
        if event.when is None:
            self.report.error(name, 0, "a timer has a time")
        elif isinstance(event.when, str) and (fault := time_fault(event.timer or "duration", event.when)):
            self.report.error(name, 0, fault)

    def _expression(self, expression: Expression, element: str) -> Expression:
        if (fault := fault_in(expression)) is not None:
            self.report.error(element, 0, f"the expression {expression.text} cannot be run: {fault}")
        return expression


def _assigned(values: Mapping[str, Value] | None) -> tuple[Assignment, ...]:
    return tuple(Assignment(name, value) for name, value in (values or {}).items())
