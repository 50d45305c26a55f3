"""Several lines of durable calls at once, each a branch of its own: whoever comes first, every call has the same place.

In a handler that is a plain function the branches run in threads, else in asyncio tasks. One that waits lets its thread
go. When all have ended or wait, the gather returns, raises the first error, or leaves the handler until a wait is over.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from celeriac.durable._replay import GATHER, Branch, Replay
from celeriac.durable._score import Score
from celeriac.durable._unwinding import Suspended, leading
from celeriac.errors import OutOfPlace

THREADS: Final = 16
SWALLOWED: Final = (
    "it went on after a call that suspends the task: the exception that leaves the handler there is not to be caught "
    "(`except BaseException` or a bare `except`)"
)

Outcome = tuple[Any, BaseException | None]


def gather(replay: Replay, callables: Sequence[Callable[[], Any] | Awaitable[Any]]) -> Score[list[Any]]:
    """What each of them returned, in their order."""
    with replay.at(GATHER, GATHER) as place:
        branches = replay.forks(place, len(callables))
        outcomes: list[Outcome] = yield _Together(replay, list(zip(branches, callables, strict=True)))
        for branch in branches:
            place.branch.failed += branch.failed
        if error := leading([error for _, error in outcomes if error is not None]):
            raise error
        return [result for result, _ in outcomes]


@dataclass(frozen=True, slots=True)
class _Together:
    replay: Replay
    work: Sequence[tuple[Branch, Any]]

    def perform(self) -> list[Outcome]:
        if not self.work:
            return []
        with ThreadPoolExecutor(min(THREADS, len(self.work)), thread_name_prefix="celeriac-gather") as threads:
            # Each in a copy of the handler's context: a tenant or a trace that is set there is seen here.
            calls = [threads.submit(self._run, contextvars.copy_context(), *one) for one in self.work]
            return [call.result() for call in calls]

    async def aperform(self) -> list[Outcome]:
        calls = [asyncio.create_task(self._arun(*one)) for one in self.work]
        try:
            return [await call for call in calls]
        except asyncio.CancelledError:
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            raise

    def _run(self, context: contextvars.Context, branch: Branch, work: Callable[[], Any]) -> Outcome:
        try:
            with self.replay.within(branch):
                return ended(branch, context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised in the handler's own thread
            return None, error

    async def _arun(self, branch: Branch, work: Callable[[], Awaitable[Any]] | Awaitable[Any]) -> Outcome:
        try:
            with self.replay.within(branch):
                return ended(branch, await (work() if callable(work) else work))
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and self.replay.lease.stopped:
                raise
            return None, error


def ended(branch: Branch, result: Any) -> Outcome:
    """What a branch came to that has returned: if it should have been left by an exception, that was swallowed."""
    if isinstance(branch.unwinding, Suspended):
        return None, OutOfPlace(SWALLOWED)
    return result, branch.unwinding
