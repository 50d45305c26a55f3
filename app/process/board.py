"""The working copy of one state while facts are worked in: tokens move here, and what the world must do is noted.

Every function first evaluates all it needs, which may fail, and only then changes anything: an error of the model
leaves the token where it is, whole.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.process.decision import Action, DropTask, Note, RaiseIncident
from app.process.graph import Assignment, Event, EventKind, Expression, Flow, Graph, Node, Table, Value
from app.process.state import INSTANCE, NeedsMore, Phase, Run, Scope, State, Status, Subscription, Token, Wait

Evaluate = Callable[[Expression, Mapping[str, Any]], Any]
"""Gives the value of an expression with these variables; raises ModelError."""
TimeFault = Callable[[str, str], str | None]
"""Says of a timer (date, duration, cycle) why its text is no time that can be used; None when it is."""


class ModelError(Exception):
    """The model cannot go on here; `kind` is the incident's. The text names the expression, never values."""

    def __init__(self, message: str, kind: str = "expression") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Opening:
    """What a token will wait for once it stands."""

    node: str
    kind: EventKind
    name: str | None
    when: str | None


class Board:
    """One instance, being moved. `due` are the tokens that are to enter their node."""

    def __init__(
        self, graph: Graph, state: State, evaluate: Evaluate, time_fault: TimeFault, *, restless: bool = False
    ) -> None:
        self.graph = graph
        self.evaluate = evaluate
        self.time_fault = time_fault
        self.restless = restless
        self.status = state.status
        self.outcome = state.outcome
        self.whole = state.whole
        self.number = state.number
        self.tokens = dict(state.tokens)
        self.scopes = dict(state.scopes)
        self.waits = dict(state.waits)
        self.subscriptions = dict(state.subscriptions)
        self.runs = dict(state.runs)
        self.actions: list[Action] = []
        self.again: list[int] = []
        self.due: deque[int] = deque()
        self.continued: set[int] = set()
        """Tokens that were told to go on: no commit point stops them."""

    def state(self) -> State:
        return State(
            status=self.status,
            number=self.number,
            tokens=self.tokens,
            scopes=self.scopes,
            waits=self.waits,
            subscriptions=self.subscriptions,
            runs=self.runs,
            outcome=self.outcome,
            whole=self.whole,
        )

    def next_number(self) -> int:
        self.number += 1
        return self.number

    # Looking

    def node(self, token: Token) -> Node:
        return self.graph.nodes[token.node]

    def view(self, token: Token) -> Mapping[str, Any]:
        """The variables that a token sees: its own, then those of its scopes from the inside out."""
        return ChainMap(dict(token.variables), *self._holders(token.scope))

    def inner_scope(self, host: Token) -> Scope | None:
        """The scope that a token on a subprocess stands for."""
        return next((scope for scope in self.scopes.values() if scope.host == host.id and not scope.ended), None)

    def outwards(self, token: Token) -> Iterator[Token]:
        """A token, then those that stand on the subprocesses around it, from the inside out."""
        at: Token | None = token
        while at is not None:
            yield at
            host = self.scopes[at.scope].host
            at = None if host is None else self.tokens.get(host)

    def waits_of(self, token: Token) -> Sequence[Wait]:
        return [wait for wait in self.waits.values() if wait.token == token.id]

    def tokens_in(self, scope: int) -> Sequence[Token]:
        """All tokens directly in a scope. Raises NeedsMore when only a part of the state is here."""
        self.demand_all()
        return [token for token in self.tokens.values() if token.scope == scope]

    def joining(self, node: str, scope: int) -> Sequence[Token]:
        """The tokens that wait at a gateway for others, the oldest first. They are in every loaded part of a state."""
        waiting = (t for t in self.tokens.values() if t.node == node and t.scope == scope and t.phase is Phase.JOINING)
        return sorted(waiting, key=lambda token: token.id)

    def demand_all(self) -> None:
        if not self.whole:
            raise NeedsMore

    # Values

    def value(self, value: Value, view: Mapping[str, Any]) -> Any:
        """A constant, or what its expressions give. Raises ModelError."""
        if isinstance(value, Expression):
            return self.evaluate(value, view)
        if isinstance(value, Table):
            pairs = [(self.text(key, view, "the key of a map"), inner) for key, inner in value.entries]
            return {key: self.value(inner, view) for key, inner in pairs}
        if isinstance(value, Mapping):
            return {name: self.value(inner, view) for name, inner in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self.value(inner, view) for inner in value]
        return value

    def text(self, value: Expression | str, view: Mapping[str, Any], what: str) -> str:
        given = self.value(value, view)
        if not isinstance(given, str) or not given:
            raise ModelError(f"{what} must be text, and not empty")
        return given

    def holds(self, condition: Expression, view: Mapping[str, Any]) -> bool:
        given = self.evaluate(condition, view)
        if not isinstance(given, bool):
            raise ModelError(f"the condition {condition.text} gives no boolean")
        return given

    def assignments(self, given: Iterable[Assignment], view: Mapping[str, Any]) -> dict[str, Any]:
        """Names and values, each expression seeing what those before it have given."""
        values: dict[str, Any] = {}
        for one in given:
            values[one.name] = self.value(one.value, ChainMap(values, *_maps(view)))
        return values

    def assign(self, scope: int, values: Mapping[str, Any]) -> None:
        """Set variables where they are, looking from a scope outwards; new ones at the root."""
        for name, value in values.items():
            holder = self._holder(scope, name)
            self.scopes[holder.id] = replace(holder, variables={**holder.variables, name: value})

    # Tokens

    def spawn(self, node: str, scope: int, via: str | None = None) -> Token:
        """A new token, due to enter its node."""
        token = Token(self.next_number(), node, scope, via=via)
        self.tokens[token.id] = token
        self._count(scope, 1)
        self.due.append(token.id)
        return token

    def put(self, token: Token) -> Token:
        self.tokens[token.id] = token
        return token

    def send(self, token: Token, node: str, via: str | None = None) -> None:
        """Move a token on. It gets a new number, so that facts about where it stood before are about nothing now."""
        del self.tokens[token.id]
        moved = Token(self.next_number(), node, token.scope, via=via, undoes=token.undoes, run=token.run)
        self.tokens[moved.id] = moved
        self.due.append(moved.id)

    def stand(self, token: Token, openings: Iterable[Opening] = ()) -> Token:
        """Let a token wait for facts."""
        token = self.put(replace(token, phase=Phase.STANDING, stuck=False))
        for opening in openings:
            number = self.next_number()
            self.waits[number] = Wait(number, token.id, opening.node, opening.kind, opening.name, opening.when)
        return token

    def consume(self, token: Token) -> None:
        """The path of a token ends; with the last one its scope does."""
        del self.tokens[token.id]
        self._count(token.scope, -1)
        self.finish_if_empty(token.scope)

    def fork(self, token: Token, flows: Sequence[Flow]) -> None:
        """Send a token along flows, with a new token for each after the first; along none, its path ends."""
        if not flows:
            self.consume(token)
            return
        self.send(token, flows[0].target, flows[0].id)
        for flow in flows[1:]:
            self.spawn(flow.target, token.scope, flow.id)

    def block(self, token: Token, phase: Phase, error: ModelError) -> None:
        """An incident: the token stays, and comes back to `phase` when it is tried again."""
        self.put(replace(token, phase=phase, stuck=True))
        self.actions.append(RaiseIncident(token.id, token.node, error.kind, str(error)))

    def close_waits(self, token: Token) -> None:
        for wait in self.waits_of(token):
            del self.waits[wait.id]

    def demand_rest(self) -> None:
        """What makes another advance follow at once is a loop, where too many have followed each other already."""
        if self.restless:
            raise ModelError("commit points and signals have followed each other for too long without waiting", "loop")

    def note(self, what: str, token: Token) -> None:
        self.actions.append(Note(what, token.node, token.id, self.scopes[token.scope].host))

    # Activities

    def openings(self, events: Iterable[Node], view: Mapping[str, Any]) -> list[Opening]:
        """What events wait for, evaluated; those that nothing outside makes happen are left out."""
        return [
            self._opening(node, node.event, view) for node in events if node.event and _comes_from_outside(node.event)
        ]

    def leave(self, token: Token) -> None:
        """An activity or event was done: outputs, what can be undone from now on, and the way out.

        What has no value there is an incident on the way out: what was done is not done again when it is retried.
        """
        try:
            self._leave(self.put(token))
        except ModelError as error:
            self.block(token, Phase.LEAVING, error)

    def _leave(self, token: Token) -> None:
        node, inner = self.node(token), self.inner_scope(token)
        view = self.view(token) if inner is None else ChainMap(*self._holders(inner.id))
        outputs = self.assignments(node.outputs, view)
        outer = ChainMap(outputs, *self._holders(token.scope))
        flows = [] if token.undoes is not None else self.ways_out(node, outer)
        if node.commit_after and token.phase is not Phase.LEAVING:
            self.demand_rest()
            self.close_waits(token)  # it is done: nothing on it happens any more
            self.put(replace(token, phase=Phase.LEAVING))
            self.again.append(token.id)
            return
        self.close_waits(token)
        self.assign(token.scope, outputs)
        self.note("left", token)
        if token.undoes is not None:
            self._drop_scope(inner)  # what a handler has done is not undone
            self.handler_done(token)
            return
        self._close_scope(inner)
        self._subscribe(node, token, inner)
        self.fork(token, flows)

    def ways_out(self, node: Node, view: Mapping[str, Any]) -> list[Flow]:
        """Every flow that is unconditional or whose condition holds (an implicit fork); else the default one."""
        flows = [flow for flow in self.graph.outgoing(node.id) if flow.id != node.default]
        taken = [flow for flow in flows if flow.condition is None or self.holds(flow.condition, view)]
        if taken or not self.graph.outgoing(node.id):
            return taken
        if node.default is None:
            raise ModelError("no condition of an outgoing flow holds, and there is no default flow", "model")
        return [self.graph.flows[node.default]]

    def cancel(self, token: Token) -> None:
        """Take a token away with all that it stands for. Its scope is not finished by that."""
        self.drop(token)
        self.empty(token)
        for handler in [other for other in self.tokens.values() if other.run == token.id]:
            self.cancel(handler)
        self.runs.pop(token.id, None)
        self.note("canceled", token)
        del self.tokens[token.id]
        self._count(token.scope, -1)

    def drop(self, token: Token) -> None:
        """Nothing that a token waits for is wanted any longer: no event, no work."""
        self.close_waits(token)
        if self.node(token).work is not None:
            self.actions.append(DropTask(token.id))

    def empty(self, host: Token) -> None:
        """Cancel all inside the subprocess that a token stands on; what was done in it can no longer be undone."""
        inner = self.inner_scope(host)
        if inner is None:
            return
        for token in self.tokens_in(inner.id):
            if token.id in self.tokens:
                self.cancel(token)
        self._drop_scope(inner)

    def finish_if_empty(self, scope_id: int) -> None:
        """The last token of a scope is gone: its subprocess is left, or the instance has ended."""
        scope = self.scopes.get(scope_id)
        if scope is None or scope.ended or scope.alive > 0:
            return
        if scope.parent is None:
            # While all is being undone, the end is that of the run.
            self.status = Status.COMPLETED if self.status is Status.ACTIVE else self.status
            return
        self.leave(self.tokens[scope.host or 0])

    # Compensation

    def run(self, number: int, subscriptions: Iterable[Subscription], *, running: int = 0) -> None:
        """Begin to undo, the newest first; `running` handlers are at it already."""
        newest_first = sorted(subscriptions, key=lambda subscription: -subscription.id)
        self.runs[number] = Run(number, tuple(subscription.id for subscription in newest_first), running)
        self.go_on_undoing(number)

    def go_on_undoing(self, number: int) -> None:
        """Start the next handler (or all, if the model says so); with none left the run is over."""
        while True:
            run = self.runs[number]
            if run.running and not self.graph.parallel_compensation:
                return
            if not run.pending:
                if not run.running:
                    del self.runs[number]
                    self._undone(number)
                return
            self._undo(run, self.subscriptions[run.pending[0]])

    def _undo(self, run: Run, subscription: Subscription) -> None:
        self.subscriptions[subscription.id] = replace(subscription, used=True)
        rest = run.pending[1:]
        if subscription.handler is None:
            inside = (s for s in self.subscriptions.values() if s.scope == subscription.inner and not s.used)
            rest = tuple(s.id for s in sorted(inside, key=lambda one: -one.id)) + rest
            self.runs[run.id] = replace(run, pending=rest)
            return
        self.runs[run.id] = replace(run, pending=rest, running=run.running + 1)
        token = self.spawn(subscription.handler, subscription.scope)
        self.put(replace(token, undoes=subscription.id, run=run.id))

    def handler_done(self, token: Token) -> None:
        """One thing is undone: the next one of the run may be."""
        assert token.run is not None
        self.note("undone", token)
        del self.tokens[token.id]
        self._count(token.scope, -1)
        run = self.runs[token.run]
        self.runs[run.id] = replace(run, running=run.running - 1)
        self.go_on_undoing(run.id)

    def _undone(self, number: int) -> None:
        if number == INSTANCE:
            self.status = self.outcome or Status.FAILED_COMPENSATED
            return
        if number not in self.tokens:
            self.demand_all()  # a token that throws is in no part that is about its handlers alone
        self.leave(self.tokens[number])

    def claimed(self) -> set[int]:
        """The subscriptions that a run under way will come to."""
        return {subscription for run in self.runs.values() for subscription in run.pending}

    def undoing(self, token: Token) -> bool:
        """Whether a token stands on a handler, or inside one."""
        return any(one.undoes is not None for one in self.outwards(token))

    def undo_instance(self, outcome: Status) -> None:
        """Cancel all that is under way, undo all that was done in any scope, and end as `outcome`.

        What is being undone already goes on, and what is left of it comes in its turn: nothing is undone twice.
        """
        self.demand_all()
        handlers = [token for token in self.tokens.values() if self.undoing(token)]
        within = {scope for scope in self.scopes if self._within_handler(scope)}
        for token in list(self.tokens.values()):
            if token not in handlers:
                self._abandon(token)
        self.status, self.outcome = Status.COMPENSATING, outcome
        running = [token for token in handlers if token.scope not in within]
        for token in running:
            self.put(replace(token, run=INSTANCE))
        left = (
            s for s in self.subscriptions.values() if not s.used and s.handler is not None and s.scope not in within
        )
        self.run(INSTANCE, left, running=len(running))

    def _within_handler(self, scope_id: int) -> bool:
        scope: Scope | None = self.scopes[scope_id]
        while scope is not None:
            host = None if scope.host is None else self.tokens.get(scope.host)
            if host is not None and host.undoes is not None:
                return True
            scope = None if scope.parent is None else self.scopes[scope.parent]
        return False

    def _abandon(self, token: Token) -> None:
        """Cancel one token, but keep the scopes: what was done in them is to be undone there."""
        self.drop(token)
        self.runs.pop(token.id, None)
        if (inner := self.inner_scope(token)) is not None:
            self.scopes[inner.id] = replace(inner, ended=True)
        self.note("canceled", token)
        del self.tokens[token.id]
        self._count(token.scope, -1)

    def _subscribe(self, node: Node, token: Token, inner: Scope | None) -> None:
        handler = self.graph.compensation_of(node.id)
        kept = inner.id if inner is not None and inner.id in self.scopes else None
        if handler is None and kept is None:
            return
        number = self.next_number()
        self.subscriptions[number] = Subscription(
            number, node.id, token.scope, handler, kept if handler is None else None
        )
        if handler is not None and kept is not None:
            # A handler on the subprocess stands for all that is inside.
            self._drop_scope(inner)

    def _close_scope(self, inner: Scope | None) -> None:
        if inner is None:
            return
        if any(s.scope == inner.id and not s.used for s in self.subscriptions.values()):
            self.scopes[inner.id] = replace(inner, ended=True)
        else:
            self._drop_scope(inner)  # with what was undone in it already

    def _drop_scope(self, scope: Scope | None) -> None:
        """Forget a scope, and all that could be undone in it."""
        if scope is None:
            return
        for subscription in [s for s in self.subscriptions.values() if s.scope == scope.id]:
            del self.subscriptions[subscription.id]
            if subscription.inner is not None:
                self._drop_scope(self.scopes.get(subscription.inner))
        del self.scopes[scope.id]

    # Scopes

    def discount(self, scope_id: int) -> None:
        """One token less in a scope that goes on."""
        self._count(scope_id, -1)

    def _count(self, scope_id: int, by: int) -> None:
        scope = self.scopes[scope_id]
        self.scopes[scope_id] = replace(scope, alive=scope.alive + by)

    def _holders(self, scope_id: int) -> list[dict[str, Any]]:
        """The variables of a scope and of those around it, copied no deeper than their names."""
        holders: list[dict[str, Any]] = []
        scope: Scope | None = self.scopes[scope_id]
        while scope is not None:
            holders.append(dict(scope.variables))
            scope = None if scope.parent is None else self.scopes[scope.parent]
        return holders

    def _holder(self, scope_id: int, name: str) -> Scope:
        scope = self.scopes[scope_id]
        while name not in scope.variables and scope.parent is not None:
            scope = self.scopes[scope.parent]
        return scope

    def _opening(self, node: Node, event: Event, view: Mapping[str, Any]) -> Opening:
        name = None if event.name is None else self.text(event.name, view, f"the name of the {event.kind}")
        when = None if event.when is None else self.text(event.when, view, "the time of the timer")
        if when is not None and (fault := self.time_fault(event.timer or "duration", when)) is not None:
            raise ModelError(f"the timer of {node.id} has no time that can be used: {fault}")
        return Opening(node.id, event.kind, name, when)


def _comes_from_outside(event: Event) -> bool:
    return event.kind in (EventKind.TIMER, EventKind.MESSAGE, EventKind.SIGNAL)


def _maps(view: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    return view.maps if isinstance(view, ChainMap) else [dict(view)]  # type: ignore[return-value]
