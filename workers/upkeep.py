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
        while not self._stopping.is_set():
            woken = self._woken.wait(ROUND_SECONDS)
            self._woken.clear()
            try:
                self._start_chores(woken)
            except Exception:  # this loop is the last one standing: nothing may end it
                log.exception("a round of upkeep failed")
            self._stopping.wait(WAKE_PAUSE_SECONDS)

    def _start_chores(self, woken: bool) -> None:
        wanted = self._runner.overdue()
        if woken and self._on_wake not in wanted:
            wanted.append(self._on_wake)
        for chore in wanted:
            self._threads.submit(self._runner.run, chore)
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
    """A thread that sets `woken` at each wake-up; without a Redis there is nothing to hear and no thread."""

    def __init__(self, redis_url: str | None, woken: Event) -> None:
        self._redis_url = redis_url
        self._woken = woken
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="ear", daemon=True)
        self._listening: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._redis_url is not None:
            self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join()
        self._loop.close()

    def _cancel(self) -> None:
        if self._listening is not None:
            self._listening.cancel()

    def _run(self) -> None:
        self._listening = self._loop.create_task(self._listen())
        try:
            self._loop.run_until_complete(self._listening)
        except asyncio.CancelledError:
            log.debug("stopped listening")

    async def _listen(self) -> None:
        bell = Bell(self._redis_url)
        while True:
            try:
                async for _ in bell.listen():
                    self._woken.set()
            except Exception:  # whatever a Redis may send, the next wake-up must be heard
                log.exception("listening failed")
            await asyncio.sleep(1)
