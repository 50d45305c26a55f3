"""Runs chores: each at most once at a time in this process, and none of them can end the others.

Whoever asks for a chore that is running leaves word, and the run is repeated when it ends: a wake-up that comes while
the dispatcher is about to finish is not lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from db.errors import Unavailable
from workers.chore import Chore, Counts, Tools

STUCK_SECONDS: Final = 60.0
"""Longer than any run can take that is not stuck: chore.LONGEST_RUN_SECONDS and two calls of deadline.CALL_SECONDS."""

TICK_PATIENCE_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


@dataclass
class Turn:
    """What is known about one chore in this process; times are readings of the monotonic clock."""

    running: Lock = field(default_factory=Lock)
    wanted: bool = False
    running_since: float | None = None
    started_at: float = float("-inf")
    ticked_at: float = float("-inf")


class Runner:
    """Runs `chores` with `tools`, from any number of threads."""

    def __init__(self, chores: Iterable[Chore], tools: Tools) -> None:
        self.chores = tuple(chores)
        self._tools = tools
        self._turns = {chore.name: Turn() for chore in self.chores}

    def tick(self, chore: Chore) -> None:
        """Run `chore` because beat asked for it."""
        self._turns[chore.name].ticked_at = time.monotonic()
        self.run(chore)

    def run(self, chore: Chore) -> None:
        """Run `chore` now, or once more when it is running; never raises for what the chore meets."""
        turn = self._turns[chore.name]
        turn.wanted = True
        while turn.wanted and not self._tools.stopping.is_set() and turn.running.acquire(blocking=False):
            try:
                turn.wanted = False
                turn.started_at = turn.running_since = time.monotonic()
                run_once(chore, self._tools)
            finally:
                turn.running_since = None
                turn.running.release()

    def overdue(self) -> list[Chore]:
        """The chores that nobody has run for their period, nor beat has asked for lately: time to run them unasked.

        While ticks come in, this process stays quiet; once they stop, it keeps the period by itself.
        """
        now = time.monotonic()
        return [
            chore
            for chore in self.chores
            if now - self._turns[chore.name].started_at >= chore.period_seconds
            and now - self._turns[chore.name].ticked_at >= chore.period_seconds + TICK_PATIENCE_SECONDS
        ]

    def stuck(self) -> list[Chore]:
        """The chores whose run should have ended long ago."""
        now = time.monotonic()
        since = {chore: self._turns[chore.name].running_since for chore in self.chores}
        return [chore for chore, start in since.items() if start is not None and now - start > STUCK_SECONDS]


def run_once(chore: Chore, tools: Tools) -> Counts | None:
    """One run of `chore`, logged; None when it failed. Whatever it met, the next run starts anew."""
    start = time.monotonic()
    try:
        counts = chore.run(tools)
    except Unavailable as outage:
        log.warning("%s: %s", chore.name, outage)
        return None
    except Exception:  # one bad run must not end the loop, whatever it is
        log.exception("%s failed", chore.name)
        return None
    done = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if done:
        log.info("%s: %s in %.0f ms", chore.name, done, 1000 * (time.monotonic() - start))
    return counts
