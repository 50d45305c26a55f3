"""The life of one task in a worker: run its handler, keep its lease, report its outcome.

A life is on the worker's event loop, where no handler runs, so plain attributes need no locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeVar

from celeriac import _clock, _requests
from celeriac._handlers import Handler, Slots
from celeriac._lease import Lease
from celeriac._outcome import Completed, Failed, Outcome, Stopped, refused_result
from celeriac._requests import Request
from celeriac._stats import Tally
from celeriac.client import AsyncClient
from celeriac.errors import (
    AlreadyEnded,
    Canceled,
    CeleriacError,
    Conflict,
    ConnectionFailed,
    Invalid,
    LeaseLost,
    NotFound,
    ServerUnavailable,
    TooLarge,
    UnexpectedAnswer,
)

T = TypeVar("T")
log = logging.getLogger("celeriac.worker")

RELEASE_SECONDS: Final = 3.0
LONGEST_ANSWER_SECONDS: Final = 10.0
SHORTEST_ANSWER_SECONDS: Final = 0.5
_PASSING: Final = (ConnectionFailed, ServerUnavailable, UnexpectedAnswer)


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker was told to do."""

    worker_id: str
    concurrency: int
    wait_ms: int
    lock_duration_ms: int | None
    grace_seconds: float
    handlers: Mapping[str, Handler]
    versions: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Means:
    """What a life works with."""

    orders: Orders
    client: AsyncClient
    slots: Slots
    tally: Tally


class Life:
    """One task under one lease."""

    def __init__(self, lease: Lease, means: Means) -> None:
        self.lease = lease
        self._task = lease.task
        self._means = means
        # One call at a time: an extension must not overtake the completion after which it would be refused.
        self._calling = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None
        self._reporting = False
        self._reported = False
        self._end_noted = False

    async def run(self) -> None:
        """Run the handler to its end and report what came of it, extending the lease meanwhile."""
        self._keeping = asyncio.create_task(self._keep())
        try:
            handler = self._means.orders.handlers[self._task.task_type]
            outcome = await asyncio.wrap_future(self._means.slots.run(handler, self.lease))
            self._reporting = True
            await self._report(outcome)
            self._reported = True
        finally:
            self._keeping.cancel()

    async def release(self) -> None:
        """Tell the handler to stop and give the task back: READY at once, and the attempt does not count."""
        self._end_noted = True
        self.lease.end(LeaseLost("the worker has shut down and given the task back", task_id=self._task.task_id))
        if self._keeping is not None:
            self._keeping.cancel()
        request = _requests.release_task(
            self._task.task_id, worker_id=self._means.orders.worker_id, fencing_token=self._task.fencing_token
        )
        async with self._calling:
            if self._reported:
                return
            try:
                await self._means.client.send(request, patience_seconds=RELEASE_SECONDS, answer_seconds=RELEASE_SECONDS)
                self._means.tally.count(released=1)
            except CeleriacError as error:
                log.warning("task %s is not given back, its lease will run out: %s", self._task.task_id, error)

    async def _keep(self) -> None:
        """Extend the lease at each third of it, for as long as it can be extended."""
        while not self.lease.ended:
            await asyncio.sleep(self.lease.next_extension_in)
            try:
                async with asyncio.timeout(self.lease.remaining):
                    await self._extend()
            except TimeoutError:
                self._lost(LeaseLost("the lease ran out before it could be extended", task_id=self._task.task_id))
            except AlreadyEnded as reason:
                # While reporting: the completion did arrive and its answer was lost. It is repeated and then answered.
                if not self._reporting:
                    self._lost(reason)
                return
            except (Conflict, NotFound) as reason:
                self._lost(reason)
            except CeleriacError as error:
                log.error("cannot extend the lease of task %s: %s", self._task.task_id, error)
                await asyncio.sleep(self.lease.duration / 6)

    async def _extend(self) -> None:
        request = _requests.extend_lease(
            self._task.task_id,
            worker_id=self._means.orders.worker_id,
            fencing_token=self._task.fencing_token,
            lock_duration_ms=self._task.lock_duration_ms,
        )
        asked_at, extended = await self._insist(request)
        self.lease.extended(asked_at, extended.lock_duration_ms)
        self._means.tally.count(extended=1)

    def _lost(self, reason: Conflict | NotFound) -> None:
        """End the lease, and note it once, whoever found out first."""
        if self._end_noted:
            return
        self._end_noted = True
        log.warning("task %s is no longer ours: %s", self._task.task_id, reason)
        self.lease.end(reason)
        if isinstance(reason, Canceled):
            self._means.tally.count(canceled=1)
        else:
            self._means.tally.count(leases_lost=1)

    async def _report(self, outcome: Outcome) -> None:
        """Tell the server what the attempt came to. A late outcome is sent, too: the server is the judge."""
        if isinstance(outcome, Stopped):
            if self.lease.ended is not None:
                self._lost(self.lease.ended)
            log.info("the handler of task %s stopped: %s", self._task.task_id, outcome.reason)
            return
        try:
            await self._deliver(outcome)
        except (Conflict, NotFound) as refused:
            log.warning("the outcome of task %s was refused: %s", self._task.task_id, refused)
            self._means.tally.count(refused=1)
        except CeleriacError as error:
            log.error("the outcome of task %s cannot be told: %s", self._task.task_id, error)
            self._means.tally.count(dropped=1)

    async def _deliver(self, outcome: Completed | Failed) -> None:
        if isinstance(outcome, Completed):
            try:
                await self._insist(outcome.request)
            except (Invalid, TooLarge) as error:
                outcome = refused_result(self.lease, self._means.orders.worker_id, error)
            else:
                self._means.tally.count(completed=1)
                return
        log.warning("task %s failed: %s", self._task.task_id, outcome.reason)
        await self._insist(outcome.request)
        self._means.tally.count(failed=1)

    async def _insist(self, request: Request[T]) -> tuple[float, T]:
        """Make a call until it is answered, at least once and as long as the lease lives.

        Returns when the answered one was sent, and its result. A call may take a third of the lease,
        so that a dead connection is noticed while there is time for another.
        """
        duration = self.lease.duration
        answer_seconds = min(max(duration / 3, SHORTEST_ANSWER_SECONDS), LONGEST_ANSWER_SECONDS)
        backoff = replace(self._means.client.link.backoff, cap_seconds=min(10.0, duration / 6))
        for failures in count(1):
            try:
                async with self._calling:
                    asked_at = _clock.now()
                    send = self._means.client.send(request, patience_seconds=0, answer_seconds=answer_seconds)
                    return asked_at, await send
            except _PASSING as error:
                if self.lease.ended:
                    raise
                log.info("a call about task %s is repeated: %s", self._task.task_id, error)
            await asyncio.sleep(backoff.pause(failures))
        raise AssertionError("count() has no end")
