"""One attempt at one task: run the handler under its lease, and say what it came to.

    read what is recorded ──► run the handler ──► Completion | Failure
                                   │ ▲
                     it must wait  ▼ │ what it waits for has come already
                                 suspend ──► None

A task that is being undone runs its handler over what is recorded, and then what undoes it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from celeriac import _json
from celeriac._faults import point
from celeriac._lease import Lease
from celeriac._outcome import error_text
from celeriac.durable import _loop
from celeriac.durable._async_context import AsyncContext
from celeriac.durable._context import AnyContext, Context
from celeriac.durable._declaration import DurableTask
from celeriac.durable._failure import failure, thrown
from celeriac.durable._fork import parent_only
from celeriac.durable._form import PLAIN, Unreadable, read_input
from celeriac.durable._gather import SWALLOWED
from celeriac.durable._ledger import Ledger
from celeriac.durable._replay import Branch, Replay
from celeriac.durable._score import Do, Score, aplay, play
from celeriac.durable._transactions import Transactions
from celeriac.durable._undo import Undos
from celeriac.durable._unwinding import OtherCode, Suspended, Undecided
from celeriac.errors import BpmnError, Fatal, Invalid, OutOfPlace, Retry, StepFailed, TooLarge
from celeriac.values import Completion, Failure

log = logging.getLogger("celeriac.durable")

T = TypeVar("T")


def run(task: DurableTask, lease: Lease, ledger: Ledger, transactions: Transactions) -> Completion | Failure | None:
    """What the attempt came to; None when there is nothing to report, since the lease is over or given up.

    Raises nothing, whatever the handler does: SystemExit and the like end the attempt, not the worker.
    """
    subject = lease.task.task_type
    with parent_only():
        try:
            point("attempt.begin", subject)
            outcome = _attempt(task, lease, ledger, transactions)
            point("attempt.end", subject)
            return outcome
        except BaseException as error:  # noqa: BLE001
            return _raised(task, lease, error)


def _attempt(
    task: DurableTask, lease: Lease, ledger: Ledger, transactions: Transactions
) -> Completion | Failure | None:
    known = lease.task
    records = ledger.read_steps() if known.resumed or known.undoing or known.attempt > 1 else []
    here: Callable[[], Any] = asyncio.current_task if task.is_async else threading.get_ident
    replay = Replay(lease, ledger, records, here)
    course = _Course(task, replay, transactions)
    try:
        if not known.undoing:
            return course.forward()
        course.undo()
    except OtherCode as other:
        ledger.raise_incident("other_code", other.branch, other.ordinal, other.name, other.message, other.detail)
    except Undecided as undecided:
        ledger.settle_operation(undecided.operation_id, undecided.name, "UNKNOWN", error=undecided.why)
    return None


class _Course:
    """The handler's way through its record and beyond."""

    def __init__(self, task: DurableTask, replay: Replay, transactions: Transactions) -> None:
        self._task = task
        self._replay = replay
        self._transactions = transactions

    def forward(self) -> Completion | Failure | None:
        """Run the handler until it ends or has to wait."""
        while True:
            try:
                result = self._handle(Undos(self._replay))
            except Suspended as suspended:
                over = self._replay.ledger.suspend(suspended.waits)
                if not over:
                    return None
                for record in over:
                    self._replay.learn(record)
            else:
                self._replay.check_end()
                self._play(self._replay.settle_failures(self._replay.root))
                return self._completion(result)

    def undo(self) -> None:
        """Run the handler over what is recorded, and undo what it did."""
        undos = Undos(self._replay)
        try:
            self._handle(undos)
        except (OtherCode, Unreadable):
            raise
        except BaseException as error:  # noqa: BLE001 - it ended so in the first run, or it ends where the record does
            log.debug("task %s is undone; its handler came to %r", self._replay.lease.task.task_id, error)
        if reason := self._replay.lease.stopped:
            raise reason
        self._play(undos.run(self._task.compensate_retry))

    def _handle(self, undos: Undos) -> Any:
        """Call the handler from its top. Raises what it raises, or why it had to be left."""
        branch = self._replay.rewind()
        ctx = (AsyncContext if self._task.is_async else Context)(self._replay, undos, self._transactions)
        takes, _ = self._task.forms
        inputs = () if takes is None else (read_input(takes, ctx.variables),)
        try:
            result = self._call(branch, ctx, inputs)
        except Exception:
            if branch.unwinding is None or isinstance(branch.unwinding, Suspended):
                raise
        except BaseException:
            if branch.unwinding is None:
                raise
        else:
            if isinstance(branch.unwinding, Suspended):
                raise OutOfPlace(SWALLOWED)
            if branch.unwinding is None:
                return result
        raise branch.unwinding

    def _call(self, branch: Branch, ctx: AnyContext, inputs: tuple[Any, ...]) -> Any:
        async def awaited() -> Any:
            with self._replay.within(branch):
                return await self._task.handler(ctx, *inputs)

        if self._task.is_async:
            return _loop.run(awaited(), self._replay.lease)
        with self._replay.within(branch):
            return Do(self._task.handler, (ctx, *inputs)).perform()

    def _play(self, score: Score[T]) -> T:
        return _loop.run(aplay(score), self._replay.lease) if self._task.is_async else play(score)

    def _completion(self, result: Any) -> Completion | Failure:
        """The result as it is stored: an object or nothing."""
        lease, (_, gives) = self._replay.lease, self._task.forms
        try:
            text = gives.write(result, "result")
        except (Invalid, TooLarge) as error:
            return failure(lease, f"the handler's result cannot be stored: {error}")
        stored = result if gives is PLAIN else _json.decode(text.encode(), _json.decoder())
        if stored is not None and not isinstance(stored, dict):
            return failure(lease, f"the handler returned {type(result).__qualname__}; a result is an object or None")
        return Completion(lease.task.task_id, lease.task.fencing_token, stored)


def _raised(task: DurableTask, lease: Lease, error: BaseException) -> Failure | None:
    if lease.ended:
        log.info("the handler of task %s stopped: %s", lease.task.task_id, error_text(error))
        return None
    if isinstance(error, asyncio.CancelledError) and lease.stopped:
        error = lease.stopped
    if isinstance(error, Retry):
        return failure(lease, f"Retry: {error}", retry_after=error.after)
    if isinstance(error, BpmnError):
        return thrown(lease, error)
    if isinstance(error, Fatal):
        return failure(lease, f"Fatal: {error}", retries=0)
    cause = error.__cause__ if isinstance(error, StepFailed) else None
    hopeless = isinstance(error, task.retry.never) or isinstance(cause, task.retry.never)
    return failure(lease, error_text(error), retries=0 if hopeless else None)
