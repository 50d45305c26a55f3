"""Graphs drawn in a few words, and an instance that is moved by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from app.process.advance import advance
from app.process.board import Evaluate, ModelError
from app.process.decision import Action, Decision, DropTask, MakeTask, RaiseIncident
from app.process.facts import Completed, Continued, Fact, Failed, Happened, Started, Stopped, Thrown
from app.process.graph import Event, EventKind, Expression, Flow, Graph, Kind, Node, Work
from app.process.state import INSTANCE, Phase, State, Status, Token

PROCESS = "p"


def node(place: str, kind: Kind, scope: str = PROCESS, **more: Any) -> Node:
    if kind is Kind.TASK:
        more.setdefault("work", Work(place))
    return Node(place, kind, scope, **more)


def draw(nodes: list[Node], *paths: str, conditions: Mapping[str, str] | None = None, **more: Any) -> Graph:
    """A graph of nodes and paths such as `start a b end`; a condition belongs to a flow `a>b`."""
    flows: dict[str, Flow] = {}
    for path in paths:
        stops = path.split()
        for source, target in pairwise(stops):
            name = f"{source}>{target}"
            condition = (conditions or {}).get(name)
            flows[name] = Flow(name, source, target, None if condition is None else Expression(condition))
    return Graph(PROCESS, {one.id: one for one in nodes}, flows, **more)


def start(scope: str = PROCESS, name: str = "start") -> Node:
    return node(name, Kind.START, scope)


def end(scope: str = PROCESS, name: str = "end", **more: Any) -> Node:
    return node(name, Kind.END, scope, **more)


def boundary(
    place: str,
    host: str,
    kind: EventKind,
    scope: str = PROCESS,
    *,
    name: str | None = None,
    when: str | None = None,
    **more: Any,
) -> Node:
    return node(place, Kind.BOUNDARY, scope, attached_to=host, event=Event(kind, name=name, when=when), **more)


def evaluate(expression: Expression, variables: Mapping[str, Any]) -> Any:
    """Python stands for the expressions here: the core does not care which language they are in."""
    try:
        return eval(expression.text, {"__builtins__": {}}, dict(variables))
    except Exception as error:
        raise ModelError(f"{expression.text}: {type(error).__name__}") from error


@dataclass
class Instance:
    """One instance and all that it asked for so far."""

    graph: Graph
    state: State = field(default_factory=State)
    actions: list[Action] = field(default_factory=list)

    evaluate: Evaluate = evaluate
    commits: int = 0
    """How often it went on from a commit point."""

    def tell(self, *facts: Fact) -> Instance:
        decision = advance(self.graph, self.state, facts, self.evaluate)
        self._take(decision)
        while decision.again:
            self.commits += 1
            decision = advance(self.graph, self.state, [Continued(token) for token in decision.again], self.evaluate)
            self._take(decision)
        return self

    def _take(self, decision: Decision) -> None:
        self.state = decision.state
        self.actions += decision.actions
        assert_whole(self.state)

    def start(self, **variables: Any) -> Instance:
        return self.tell(Started(variables))

    def complete(self, name: str, **variables: Any) -> Instance:
        return self.tell(Completed(self.token(name).id, variables))

    def fail(self, name: str, message: str = "broken") -> Instance:
        return self.tell(Failed(self.token(name).id, message))

    def throw(self, name: str, code: str, **variables: Any) -> Instance:
        return self.tell(Thrown(self.token(name).id, code, "said so", variables))

    def happen(self, name: str, **variables: Any) -> Instance:
        """The event of this node comes."""
        waits = [wait for wait in self.state.waits.values() if wait.node == name]
        return self.tell(Happened(waits[0].id, variables))

    def retry(self, name: str) -> Instance:
        return self.tell(Continued(self.token(name).id))

    def stop(self, *, compensate: bool = False) -> Instance:
        return self.tell(Stopped(compensate))

    def token(self, name: str) -> Token:
        """The oldest token at a node."""
        return min((t for t in self.state.tokens.values() if t.node == name), key=lambda token: token.id)

    @property
    def at(self) -> list[str]:
        """Where tokens stand, those on subprocesses left out."""
        inner = {scope.host for scope in self.state.scopes.values() if not scope.ended}
        return sorted(t.node for t in self.state.tokens.values() if t.id not in inner)

    @property
    def work(self) -> list[str]:
        """The tasks that are wanted now, by node."""
        dropped = [action.token for action in self.actions if isinstance(action, DropTask)]
        made = [action for action in self.actions if isinstance(action, MakeTask) and not action.again]
        wanted = (a.node for a in made if a.token in self.state.tokens and a.token not in dropped)
        return sorted(node for node in wanted if not self.token(node).stuck)

    @property
    def made(self) -> list[str]:
        """Every task that was ever wanted, in order."""
        return [action.node for action in self.actions if isinstance(action, MakeTask)]

    @property
    def incidents(self) -> list[tuple[str, str]]:
        """(node, kind) of every incident so far."""
        return [(a.node, a.kind) for a in self.actions if isinstance(a, RaiseIncident)]

    @property
    def status(self) -> Status:
        return self.state.status

    @property
    def variables(self) -> Mapping[str, Any]:
        """Those of the root."""
        return next(scope.variables for scope in self.state.scopes.values() if scope.parent is None)


def assert_whole(state: State) -> None:
    """Nothing is lost, doubled or left over: whatever is named in a state is there, and counts are right."""
    counts = Counter(token.scope for token in state.tokens.values())
    assert all(scope.alive == counts[scope.id] for scope in state.scopes.values())
    assert counts.keys() <= state.scopes.keys()
    assert all(wait.token in state.tokens for wait in state.waits.values())
    for scope in state.scopes.values():
        assert scope.parent is None or scope.parent in state.scopes
        if scope.parent is not None and not scope.ended and not state.ended:
            host = state.tokens[scope.host or 0]
            assert scope.alive > 0 or host.phase is Phase.LEAVING
    for one in state.subscriptions.values():
        assert one.scope in state.scopes
        assert one.inner is None or one.inner in state.scopes
    for token in state.tokens.values():
        if token.undoes is not None:
            assert state.subscriptions[token.undoes].used
            assert token.run in state.runs
    running = Counter(token.run for token in state.tokens.values() if token.undoes is not None)
    for run in state.runs.values():
        assert run.running == running[run.id]
        assert run.id == INSTANCE or state.tokens[run.id].phase is Phase.STANDING
        assert all(number in state.subscriptions for number in run.pending)
        assert run.running or state.ended, "a run goes on or is over"


def without_numbers(state: State) -> tuple[Any, ...]:
    """What two states have in common that came to the same by different ways."""

    def place(token: Token) -> tuple[Any, ...]:
        scope = state.scopes[token.scope]
        return (token.node, scope.node, token.phase, token.stuck, repr(sorted(token.variables.items())))

    return (
        state.status,
        sorted(place(token) for token in state.tokens.values()),
        sorted((s.node, s.alive, s.ended, repr(sorted(s.variables.items()))) for s in state.scopes.values()),
        sorted((w.node, w.kind, w.name or "", w.fired) for w in state.waits.values()),
        sorted((s.activity, s.used) for s in state.subscriptions.values()),
    )


__all__ = [
    "Instance",
    "assert_whole",
    "boundary",
    "draw",
    "end",
    "evaluate",
    "node",
    "replace",
    "start",
    "without_numbers",
]
