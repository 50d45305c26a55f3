"""The external worker: pulls tasks over HTTP, runs handlers, extends leases, reports outcomes."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Final, Self, TypeVar

from celeriac._handlers import Handler, Slots
from celeriac._life import Orders
from celeriac._link import Link
from celeriac._stats import WorkerStats
from celeriac._work_loop import WorkLoop
from celeriac.client import AsyncClient, Client

H = TypeVar("H", bound=Handler)
log = logging.getLogger("celeriac.worker")

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Worker:
    """Runs handlers for tasks that it fetches from the server.

        worker = Worker("https://celeriac.example.com", key="clrc_…", concurrency=8)

        @worker.task("media.copy")
        def copy(task: TaskContext) -> dict[str, Any]:
            return {"bytes": copy_file(task.variables["source"], task.variables["target"])}

        worker.run()

    `server` is an address or a client whose settings to use. `concurrency` is how many handlers run at once; never
    more tasks are fetched. `lease_seconds` is the lease (None: that of the task type); it is extended as long as the
    handler runs, so it says how soon others take over after a crash, not how long a handler may take. `wait_seconds`
    is how long a poll waits for work. `grace_seconds` is how long handlers may go on after SIGTERM. `worker_id` names
    this process in lists and leases (default: host, pid and a random part).

    A handler, plain or async, gets a TaskContext and returns a dict (the result) or None. When it raises, the attempt
    fails; `Retry` and `Fatal` say how. Plain handlers run in threads, coroutines on one event loop; there they get a
    CancelledError when the lease ends. C code that keeps the interpreter's lock (the GIL) for longer than the lease
    stops the extension, too: such work belongs into a child process.
    """

    def __init__(
        self,
        server: str | Client | AsyncClient,
        key: str | None = None,
        *,
        worker_id: str | None = None,
        concurrency: int = 1,
        lease_seconds: float | None = None,
        wait_seconds: float = 20.0,
        grace_seconds: float = 30.0,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency must be 1 or more")
        self._link = Link(server, key) if isinstance(server, str) else server.link
        self._worker_id = worker_id
        self._random = secrets.token_hex(4)
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._wait_seconds = wait_seconds
        self._grace_seconds = grace_seconds
        self._handlers: dict[str, Handler] = {}
        self._versions: dict[str, Sequence[int]] = {}
        self._run: _Run | None = None

    @property
    def worker_id(self) -> str:
        """The name of this worker: given, or made of the host, the process and a random part."""
        return self._worker_id or f"{socket.gethostname()[:200]}-{os.getpid()}-{self._random}"

    @property
    def stats(self) -> WorkerStats:
        """What has been done since the start, as of now."""
        return self._run.stats if self._run else WorkerStats()

    def task(self, task_type: str, *, versions: Sequence[int] | None = None) -> Callable[[H], H]:
        """Register a handler for a task type, for all versions of its tasks or for some. Returns it unchanged."""

        def register(handler: H) -> H:
            if task_type in self._handlers:
                raise ValueError(f"task type {task_type!r} has a handler already")
            self._handlers[task_type] = handler
            if versions is not None:
                self._versions[task_type] = tuple(versions)
            return handler

        return register

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then return: finish what runs within the grace, give back the rest.

        A second signal gives everything back at once; a third one ends the process. Only for the main thread of a
        process; elsewhere use start() and stop(). Raises Invalid when the server does not take what is asked for.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("run() belongs to the main thread; use start() and stop() elsewhere")
        run = self._prepare()
        with _signals(run):
            run.start()
            run.wait()

    def start(self) -> Self:
        """Begin to work in the background; returns at once."""
        self._prepare().start()
        return self

    def stop(self, grace_seconds: float | None = None) -> None:
        """Stop fetching, let handlers finish within the grace, give back the rest, and wait for all that.

        Harmless when stopped already. Raises what run() raises.
        """
        if self._run is not None:
            self._run.stop(grace_seconds)
            self._run.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> _Run:
        if not self._handlers:
            raise ValueError("there is no handler; register one with @worker.task(…)")
        if self._run is not None:
            raise RuntimeError("this worker has been started before")
        self._run = _Run(self._orders(), self._link)
        return self._run

    def _orders(self) -> Orders:
        return Orders(
            worker_id=self.worker_id,
            concurrency=self._concurrency,
            wait_ms=round(self._wait_seconds * 1000),
            lock_duration_ms=None if self._lease_seconds is None else round(self._lease_seconds * 1000),
            grace_seconds=self._grace_seconds,
            handlers=dict(self._handlers),
            versions=dict(self._versions),
        )


class _Run:
    """The thread of a worker's event loop, as seen from other threads and from signal handlers."""

    def __init__(self, orders: Orders, link: Link) -> None:
        self._orders = orders
        self._link = link
        self._error: BaseException | None = None
        self._wishes: deque[Callable[[WorkLoop], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: WorkLoop | None = None
        self._ready = threading.Event()
        self._ended = threading.Event()

    @property
    def stats(self) -> WorkerStats:
        return self._work.stats if self._work else WorkerStats()

    def start(self) -> None:
        log.info("worker %s works on %s", self._orders.worker_id, ", ".join(self._orders.handlers))
        threading.Thread(target=self._main, name="celeriac-worker", daemon=True).start()
        self._ready.wait()

    def stop(self, grace_seconds: float | None = None) -> None:
        self._wish(lambda work: work.stop(grace_seconds))

    def hurry(self) -> None:
        self._wish(lambda work: work.hurry())

    def wait(self) -> None:
        self._ended.wait()
        if self._error is not None:
            raise self._error

    def _wish(self, wish: Callable[[WorkLoop], None]) -> None:
        # No locks here, since a signal handler may come in between anything. A wish from before the start is kept.
        self._wishes.append(wish)
        if self._loop is not None and not self._ended.is_set():
            with suppress(RuntimeError):  # the loop was closed just now: there is nothing left to stop
                self._loop.call_soon_threadsafe(self._grant)

    def _grant(self) -> None:
        assert self._work is not None
        while self._wishes:
            self._wishes.popleft()(self._work)

    def _main(self) -> None:
        try:
            asyncio.run(self._work_until_stopped())
        except BaseException as error:  # noqa: BLE001 - raised again in wait()
            self._error = error
        finally:
            self._ready.set()
            self._ended.set()

    async def _work_until_stopped(self) -> None:
        slots = Slots(self._orders.concurrency, self._orders.worker_id)
        async with AsyncClient.over(self._link) as client:
            self._work = WorkLoop(self._orders, client, slots)
            self._loop = asyncio.get_running_loop()
            self._grant()
            slots.open()
            self._ready.set()
            try:
                await self._work.run()
            finally:
                slots.close()


@contextmanager
def _signals(run: _Run) -> Iterator[None]:
    """Let signals stop the run: the first politely, the second at once, the third ends the process."""
    answers = iter((run.stop, run.hurry))

    def on_signal(number: int, frame: FrameType | None) -> None:
        if answer := next(answers, None):
            answer()
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    before = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
