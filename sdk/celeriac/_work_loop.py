"""A worker at work, on an event loop of its own where no handler runs.

    fetch ──► Life (one a task: run the handler in a slot, extend the lease beside it, report the outcome)
      ▲         │
      └─────────┘ as many as there are free slots         beat: say every few seconds that this worker exists

`stop` ends the fetching, gives handlers their grace, and releases what is left. A poll in flight may be answered
for a moment more, then it is hung up; what it still brings is released. `hurry` cuts all of it short.

Everything here is on one thread. Handlers that burn CPU slow it down by Python's switching of threads
(about 5 ms each time), no more. C code that keeps the interpreter's lock for longer than a lease does stop it:
then the lease runs out, the handler is told, and its result is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from celeriac import _clock, _requests
from celeriac._handlers import Slots
from celeriac._lease import Lease
from celeriac._life import Life, Means, Orders
from celeriac._link import VERSION
from celeriac._requests import Fetched
from celeriac._stats import Tally, WorkerStats
from celeriac.client import AsyncClient
from celeriac.errors import CeleriacError, Invalid, ServerUnavailable

log = logging.getLogger("celeriac.worker")

BEAT_SECONDS: Final = 10.0
MOST_TASKS: Final = 1000
"""What one fetch may ask for."""
HANG_UP_SECONDS: Final = 0.5
"""How long a poll in flight may still be answered at shutdown."""
SOON_SECONDS: Final = 0.25
"""An empty answer that comes sooner was not waited for; the next poll is then put off as after an error."""


class WorkLoop:
    """One run of a worker. All its methods belong to its event loop."""

    def __init__(self, orders: Orders, client: AsyncClient, slots: Slots) -> None:
        self._orders = orders
        self._client = client
        self._tally = Tally()
        self._means = Means(orders, client, slots, self._tally)
        self._grace_seconds = orders.grace_seconds
        self._lives: dict[asyncio.Task[None], Life] = {}
        self._releases: set[asyncio.Task[None]] = set()
        self._slot_freed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()

    @property
    def stats(self) -> WorkerStats:
        return replace(self._tally.stats, running=len(self._lives))

    def stop(self, grace_seconds: float | None = None) -> None:
        """Fetch no more; give running handlers their grace (in seconds; None: as ordered), then release them."""
        if grace_seconds is not None:
            self._grace_seconds = grace_seconds
        if not self._stopping.is_set():
            log.info("stopping: %d handlers have %g s to end", len(self._lives), self._grace_seconds)
        self._stopping.set()
        self._slot_freed.set()

    def hurry(self) -> None:
        """Release everything now."""
        self.stop()
        self._hurrying.set()

    async def run(self) -> None:
        """Work until stopped. Raises Invalid when the server does not take what is asked for at all."""
        beating = asyncio.create_task(self._beat())
        fetching = asyncio.create_task(self._fetch_until_stopped())
        try:
            await _first(fetching, self._stopping)
            await self._hang_up(fetching)
            await self._drain()
        finally:
            leftover = [beating, fetching, *self._lives]
            for task in leftover:
                task.cancel()
            await asyncio.gather(*leftover, return_exceptions=True)
        if not fetching.cancelled() and (error := fetching.exception()):
            raise error

    async def _fetch_until_stopped(self) -> None:
        failures = 0
        while await self._a_slot_is_free():
            asked_at = _clock.now()
            try:
                fetched = await self._fetch()
            except Invalid:
                raise
            except CeleriacError as error:
                failures += 1
                log.warning("cannot fetch (%d in a row): %s", failures, error)
                await self._pause(failures, error)
                continue
            self._take(fetched, asked_at)
            soon = not fetched.tasks and _clock.now() - asked_at < SOON_SECONDS
            failures = failures + 1 if soon else 0
            if soon:
                await self._pause(failures)

    async def _a_slot_is_free(self) -> bool:
        """Wait for a free slot; False when the worker is to stop instead."""
        while len(self._lives) >= self._orders.concurrency and not self._stopping.is_set():
            self._slot_freed.clear()
            await self._slot_freed.wait()
        return not self._stopping.is_set()

    async def _fetch(self) -> Fetched:
        """Ask for exactly as many tasks as can run at once: a task that waits in a worker runs nowhere else."""
        orders = self._orders
        request = _requests.poll(
            orders.worker_id,
            list(orders.handlers),
            min(orders.concurrency - len(self._lives), MOST_TASKS),
            orders.lock_duration_ms,
            orders.wait_ms,
            orders.versions or None,
        )
        # One try: this loop repeats it, and knows when each was sent and when to give up.
        return await self._client.send(request, patience_seconds=0)

    def _take(self, fetched: Fetched, asked_at: float) -> None:
        """Start a life for each task; at shutdown give them back; pass over leases that are over already."""
        # A lease begins when the server takes the task: not before the poll was sent plus the time it says it waited.
        # That counts the time for which the process was frozen or the machine asleep in the middle of a poll.
        began_at = _clock.now() if fetched.waited_ms is None else asked_at + fetched.waited_ms / 1000
        self._tally.count(fetched=len(fetched.tasks))
        for task in fetched.tasks:
            life = Life(Lease(task, began_at), self._means)
            if self._stopping.is_set():
                self._releases.add(asyncio.create_task(life.release()))
            elif life.lease.ended:
                log.warning("task %s came when its lease was over", task.task_id)
                self._tally.count(leases_lost=1)
            else:
                self._start(life)

    def _start(self, life: Life) -> None:
        running = asyncio.create_task(life.run())
        self._lives[running] = life
        running.add_done_callback(self._life_ended)

    def _life_ended(self, running: asyncio.Task[None]) -> None:
        del self._lives[running]
        self._slot_freed.set()
        if not running.cancelled() and (error := running.exception()):
            log.error("a fault in the worker itself; the task comes back when its lease runs out", exc_info=error)

    async def _pause(self, failures: int, error: CeleriacError | None = None) -> None:
        asked = error.retry_after_seconds if isinstance(error, ServerUnavailable) else None
        pause = max(self._client.link.backoff.pause(failures), asked or 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._stopping.wait()

    async def _hang_up(self, fetching: asyncio.Task[None]) -> None:
        """Let a poll that is being answered end; cut off one that waits for work.

        The server looks at the connection before it hands out a lease, so a cut poll takes nothing with it.
        """
        await _first(fetching, self._hurrying, HANG_UP_SECONDS)
        fetching.cancel()
        await asyncio.wait({fetching})

    async def _drain(self) -> None:
        """Wait for the handlers within their grace, then release what is left."""
        try:
            async with asyncio.timeout(self._grace_seconds):
                while self._lives and not self._hurrying.is_set():
                    await _first(asyncio.gather(*self._lives, return_exceptions=True), self._hurrying)
        except TimeoutError:
            log.warning("%d handlers still run after the grace of %g s", len(self._lives), self._grace_seconds)
        leftover = [life.release() for life in self._lives.values()]
        await asyncio.gather(*leftover, *self._releases)

    async def _beat(self) -> None:
        """Tell the server that this worker exists, best effort: nothing depends on it but what people see."""
        orders = self._orders
        request = _requests.register_worker(
            orders.worker_id,
            task_types=list(orders.handlers),
            versions=orders.versions or None,
            details=_details(orders),
        )
        while True:
            try:
                await self._client.send(request, patience_seconds=0)
            except CeleriacError as error:
                log.info("heartbeat not taken: %s", error)
            await asyncio.sleep(BEAT_SECONDS)


async def _first(work: asyncio.Future[Any], event: asyncio.Event, seconds: float | None = None) -> None:
    """Wait until `work` is done or `event` is set, at most so long. The work goes on."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({work, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _details(orders: Orders) -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "concurrency": orders.concurrency,
        "sdk": VERSION,
    }
