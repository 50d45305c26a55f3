"""promote_due: SCHEDULED -> READY for tasks whose time has come, by the clock of the database."""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

BATCH: Final = 1000
ROUNDS: Final = 100


def promote_due(tools: Tools) -> Counts:
    """Make due tasks ready, and wake those who can take them."""
    promoted = 0
    for _ in tools.rounds(ROUNDS):
        batch = tools.one("promote_due", max_tasks=BATCH)
        tools.bell.ring(batch.task_types or ())
        promoted += batch.promoted
        if batch.promoted < BATCH:
            break
    return {"promoted": promoted}
