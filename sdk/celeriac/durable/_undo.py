"""Undoing: what a task that failed for good has done is undone, newest first.

The handler is replayed over what is recorded, which brings back the functions and the arguments; it stops at the first
call that has no record. An undo is registered before its step begins, so it also runs for a step that began and has
not ended: its `result` is None then, and it must bear that nothing was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from celeriac._faults import point
from celeriac.durable._declaration import RetryPolicy
from celeriac.durable._form import Form, takes_result
from celeriac.durable._ledger import Compensation
from celeriac.durable._replay import Place, Replay
from celeriac.durable._score import Ask, Do, Score
from celeriac.durable._tries import tries
from celeriac.durable._unwinding import OtherCode
from celeriac.errors import StepFailed


class Undos:
    """The undos that a replay of the handler came past, by the place of their calls."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._found: dict[tuple[str, int], Do] = {}

    def announce(
        self,
        place: Place,
        compensate: Callable[..., Any] | None,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        form: Form,
    ) -> None:
        """This call has an undo, or none."""
        if self._replay.undoing and compensate is not None:
            if takes_result(compensate):
                done = place.record is not None and place.record.error is None
                kwargs = {**kwargs, "result": self._replay.recall(place, form) if done else None}
            self._found[place.branch.path, place.ordinal] = Do(compensate, args, kwargs)

    def run(self, policy: RetryPolicy) -> Score[None]:
        """Undo all that is still to be undone, and end the task; or leave it at an incident.

        Raises OtherCode for an undo that this code does not have.
        """
        ledger = self._replay.ledger
        for compensation in (yield Ask(ledger.read_compensations)):
            if compensation.state != "REGISTERED":
                continue
            once = partial(_once, compensation, self._of(compensation))
            try:
                yield from tries(self._replay.lease, policy, compensation.name, once)
            except StepFailed as failed:
                yield Ask(partial(self._incident, compensation, failed))
                return
            yield Ask(partial(ledger.settle_compensation, compensation))
        yield Ask(ledger.finish_undo)

    def _of(self, compensation: Compensation) -> Do:
        undo = self._found.get((compensation.branch, compensation.ordinal))
        if undo is None:
            message = f"{compensation.name!r} is to be undone, but this code does not say how"
            raise OtherCode(compensation.branch, compensation.ordinal, compensation.name, message, {})
        return undo

    def _incident(self, compensation: Compensation, failed: StepFailed) -> None:
        why = f"the undo of {compensation.name!r} failed: {failed.error}"
        self._replay.ledger.raise_incident(
            "undo_failed", compensation.branch, compensation.number, compensation.name, why, {}
        )


def _once(compensation: Compensation, undo: Do) -> Score[None]:
    point("undo.do.before", compensation.name)
    yield undo
    point("undo.do.after", compensation.name)
