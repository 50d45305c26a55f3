"""An operation: a step with an effect outside, which happens at most once unless somebody can say that it did not.

That it begins is written down before `do`. An attempt that finds it begun and not ended asks `reconcile`, with the plan
that was written down. Whoever cannot tell leaves it to a person: the task waits at an incident.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from celeriac._faults import point
from celeriac.durable._declaration import RetryPolicy
from celeriac.durable._failure import reason_of
from celeriac.durable._form import NULL, Form, first_parameter, returned_by
from celeriac.durable._ledger import Operation
from celeriac.durable._replay import Place, Replay
from celeriac.durable._score import Ask, Do, Score
from celeriac.durable._step import storable
from celeriac.durable._tries import ONCE, tries
from celeriac.durable._undo import Undos
from celeriac.durable._unwinding import Undecided


@dataclass(frozen=True, slots=True)
class Done:
    """It took effect; this is its result."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotDone:
    """It had no effect, and will have none: it may be done again."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can find out; a person must decide."""

    why: str = "nobody can find out whether it took effect"


def operation(
    replay: Replay,
    undos: Undos,
    name: str,
    plan: Any,
    do: Callable[..., Any],
    reconcile: Callable[..., Any] | None,
    retry: RetryPolicy | None,
    compensate: Callable[..., Any] | None,
) -> Score[Any]:
    """What `do` returned, or `reconcile` found, now or in an earlier attempt."""
    takes, gives = first_parameter(do, plan), returned_by(do)
    with replay.at("operation", name) as place:
        text = takes.write(plan, "plan")
        undos.announce(place, compensate, (takes.read(text),), {}, gives)
        if place.record is not None:
            return replay.recall(place, gives)
        yield from replay.go_on(place)
        if compensate is not None:
            yield Ask(lambda: replay.ledger.register_compensation(place.branch.path, place.ordinal, name))
        entry = _Entry(replay, place, text, takes, gives, do, reconcile)
        place.give_up = entry.give_up
        result = yield from tries(replay.lease, retry or ONCE, name, entry.once)
        return gives.read(result)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One operation in the ledger."""

    replay: Replay
    place: Place
    plan: str
    takes: Form
    gives: Form
    do: Callable[..., Any]
    reconcile: Callable[..., Any] | None

    def once(self) -> Score[str]:
        """Do it, or find out what became of it. The result is JSON text."""
        begun = yield from self._begin()
        if not begun.fresh:
            outcome = yield from self._find_out(begun)
            if isinstance(outcome, Done):
                return (yield from self._settle_done(begun, outcome.result))
            yield from self._settle(begun, "NOT_DONE")
            begun = yield from self._begin()
        self.replay.tried.add(begun.operation_id)
        try:
            point("operation.do.before", self.place.name)
            result = yield Do(self.do, (self.takes.read(begun.plan or NULL),))
            point("operation.do.after", self.place.name)
            return (yield from self._settle_done(begun, result))
        except Exception as error:
            if not self.replay.lease.stopped:
                yield from self._settle(begun, "ERRED", reason_of(error))
            raise

    def give_up(self, error: str) -> Score[None]:
        """The handler goes on without it. That takes certainty: what it may still have done, nobody would look for."""
        begun = yield from self._begin()
        if not begun.fresh:
            outcome = yield from self._find_out(begun)
            if isinstance(outcome, Done):
                raise self._undecided(begun, f"it took effect, but the handler goes on as if it had not: {error}")
        yield from self._settle(begun, "FAILED", error)
        self.replay.learn(self.place.failed(error))

    def _begin(self) -> Score[Operation]:
        place, ledger = self.place, self.replay.ledger
        begun: Operation = yield Ask(
            lambda: ledger.begin_operation(place.branch.path, place.ordinal, place.name, self.plan)
        )
        if begun.is_ours and begun.operation_id not in self.replay.tried:
            # The answer to the first call was lost, and nothing has been done since.
            return replace(begun, fresh=True)
        return begun

    def _find_out(self, begun: Operation) -> Score[Done | NotDone]:
        """What became of it. Raises Undecided."""
        if self.reconcile is None:
            raise self._undecided(begun, "it was begun before, and there is no `reconcile` to ask" + _last(begun))
        point("operation.reconcile.before", self.place.name)
        outcome = yield Do(self.reconcile, (self.takes.read(begun.plan or NULL),))
        point("operation.reconcile.after", self.place.name)
        if isinstance(outcome, Unknown):
            raise self._undecided(begun, outcome.why + _last(begun))
        if not isinstance(outcome, Done | NotDone):
            raise TypeError(f"`reconcile` of {self.place.name!r} must return Done(result), NotDone() or Unknown(why)")
        return outcome

    def _settle_done(self, begun: Operation, result: Any) -> Score[str]:
        text = storable(self.place, self.gives, result)
        yield from self._settle(begun, "DONE", result=text)
        self.replay.learn(self.place.ended(text))
        return text

    def _settle(
        self, begun: Operation, outcome: str, error: str | None = None, result: str | None = None
    ) -> Score[None]:
        settle = self.replay.ledger.settle_operation
        kept = None if result == NULL else result
        yield Ask(lambda: settle(begun.operation_id, self.place.name, outcome, result=kept, error=error))

    def _undecided(self, begun: Operation, why: str) -> Undecided:
        return Undecided(begun.operation_id, self.place.name, why)


def _last(begun: Operation) -> str:
    return f"; its last error was {begun.error}" if begun.error else ""
