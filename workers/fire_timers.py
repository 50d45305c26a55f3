"""fire_timers: WAITING -> READY for tasks whose time has come, by the clock of the database; and what other transitions
have left to follow: ends of children to be told, signals to be delivered, children to be canceled.
"""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

BATCH: Final = 1000
ROUNDS: Final = 100


def fire_timers(tools: Tools) -> Counts:
    """Make tasks ready that have waited long enough, and wake those who can take them."""
    fired = 0
    for _ in tools.rounds(ROUNDS):
        batch = tools.one("fire_timers", max_tasks=BATCH)
        tools.bell.ring(batch.task_types or ())
        fired += batch.fired
        if batch.fired < BATCH:
            break
    return {"fired": fired}
