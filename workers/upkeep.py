"""The part of the maintenance worker that needs neither beat nor Celery nor Redis.

One thread goes round four times a second: it runs the dispatcher when a wake-up came, runs by itself every chore whose
ticks stay out (beat is dead, the broker is down), and leaves the sign of life. A second thread listens to the bell.
Postgres decides what there is to do, so chores go on whatever happens to the rest.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Final

from app.bell import Bell
from app.settings import Settings
from workers.chore import Chore
from workers.health import MAINTENANCE, leave_sign
from workers.runner import Runner

ROUND_SECONDS: Final = 0.25
WAKE_PAUSE_SECONDS: Final = 0.02
"""Between two runs of the dispatcher, so that a storm of wake-ups costs Postgres 50 queries a second and not 5 000."""

log = logging.getLogger(__name__)


class Upkeep:
    """Runs the chores of `runner` when nobody else does, and `on_wake` when the bell rings. Start, then stop."""

    def __init__(self, settings: Settings, runner: Runner, on_wake: Chore, stopping: Event) -> None:
        self._settings = settings
        self._runner = runner
        self._on_wake = on_wake
        self._stopping = stopping
        self._woken = Event()
        self._threads = ThreadPoolExecutor(len(runner.chores), thread_name_prefix="chore")
        self._round_thread = Thread(target=self._go_round, name="upkeep", daemon=True)
        self._ear = Ear(settings.redis_url, self._woken)

    def start(self) -> None:
        self._round_thread.start()
        self._ear.start()

    def stop(self) -> None:
        """Let running chores end and wait for them; `stopping` is set already or is set here."""
        self._stopping.set()
        self._woken.set()
        self._ear.stop()
        self._round_thread.join()
        self._threads.shutdown()

    def _go_round(self) -> None:
        submitted_wake = False
        while not self._stopping.is_set():
            submitted_wake = self._woken.wait(ROUND_SECONDS)
            self._woken.clear()
            for chore in self._runner.overdue():
                self._threads.submit(self._runner.run, chore)
            if submitted_wake:
                self._threads.submit(self._runner.run, self._on_wake)
                self._stopping.wait(WAKE_PAUSE_SECONDS)
            self._leave_sign()

    def _leave_sign(self) -> None:
        if stuck := self._runner.stuck():
            log.error("stuck: %s", ", ".join(chore.name for chore in stuck))
            return
        try:
            leave_sign(self._settings, MAINTENANCE)
        except OSError as failure:
            log.warning("cannot leave a sign of life in %s: %s", self._settings.state_dir, failure)


class Ear:
    """A thread that sets `woken` at each wake-up; silent without a Redis."""

    def __init__(self, redis_url: str | None, woken: Event) -> None:
        self._bell = Bell(redis_url)
        self._woken = woken
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="ear", daemon=True)
        self._listening: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join()

    def _cancel(self) -> None:
        if self._listening is not None:
            self._listening.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._listen())
            except asyncio.CancelledError:
                log.debug("stopped listening")

    async def _listen(self) -> None:
        self._listening = asyncio.current_task()
        async for _ in self._bell.listen():
            self._woken.set()
