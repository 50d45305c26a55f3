"""Where handlers run: a fixed number of threads, and one event loop for those that are coroutines.

The threads are daemons: a handler that hangs for ever must not keep the process from ending. A coroutine occupies a
slot like any handler; its thread just waits. The event loop of the handlers is not the one that extends leases, so a
handler that blocks its loop delays other handlers but never a lease.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from celeriac._lease import Lease
from celeriac._outcome import Outcome, raised, returned
from celeriac.context import TaskContext

log = logging.getLogger("celeriac.worker")

Handler = Callable[[TaskContext], Any]


class Slots:
    """`count` threads that run one handler each at a time."""

    def __init__(self, count: int, worker_id: str) -> None:
        self._worker_id = worker_id
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"celeriac-slot-{number}", daemon=True) for number in range(count)
        ]
        self._coroutines = Coroutines()

    def open(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let idle threads end, and busy ones after their handler."""
        for _ in self._threads:
            self._waiting.put(None)
        self._coroutines.close()

    def run(self, handler: Handler, lease: Lease) -> concurrent.futures.Future[Outcome]:
        """Run the handler in a free slot; the future never fails, whatever the handler does."""
        future: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
        # Nobody can call it off from here on. Before it is put: a quick handler is done before put returns.
        future.set_running_or_notify_cancel()
        self._waiting.put(lambda: future.set_result(self._attempt(handler, lease)))
        return future

    def _serve(self) -> None:
        while (attempt := self._waiting.get()) is not None:
            attempt()

    def _attempt(self, handler: Handler, lease: Lease) -> Outcome:
        # SystemExit or KeyboardInterrupt in a handler end its attempt, not the worker.
        try:
            result = handler(TaskContext(lease))
            if inspect.isawaitable(result):
                result = self._coroutines.run(result, lease)
            return returned(lease, self._worker_id, result)
        except BaseException as error:  # noqa: BLE001
            return raised(lease, self._worker_id, error)


class Coroutines:
    """One thread with an event loop for all handlers that are coroutines; started by the first one."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = threading.Lock()

    def run(self, awaitable: Awaitable[Any], lease: Lease) -> Any:
        """Wait for the coroutine from another thread; it gets a CancelledError when the lease ends."""
        with self._turn:
            loop = self._loop = self._loop or _start_loop()
        result, error = asyncio.run_coroutine_threadsafe(_guarded(awaitable, lease), loop).result()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Cancel what is left, and end the thread when that has ended."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_end_loop(), self._loop)


async def _guarded(awaitable: Awaitable[Any], lease: Lease) -> tuple[Any, BaseException | None]:
    """The coroutine's result or error. As a value, since a SystemExit that leaves a task would end the loop."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    lease.when_stopped(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001
        return None, error


async def _end_loop() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)
    loop.call_soon(loop.stop)


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=_run_loop, args=(loop,), name="celeriac-coroutines", daemon=True).start()
    return loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
            break
        except (SystemExit, KeyboardInterrupt):
            log.exception("a task started by a handler tried to end the process")
    loop.close()
