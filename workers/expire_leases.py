"""expire_leases: LOCKED -> READY or FAILED for tasks whose worker did not extend its lease in time.

The database judges by its own clock and skips rows that somebody holds; the next run sees those again.
"""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

BATCH: Final = 500
ROUNDS: Final = 100


def expire_leases(tools: Tools) -> Counts:
    """Give back what dead workers hold, and wake those who can take it."""
    expired = failed = rearmed = 0
    for _ in tools.rounds(ROUNDS):
        batch = tools.one("expire_leases", max_tasks=BATCH)
        tools.bell.ring(batch.task_types or ())
        expired, failed, rearmed = expired + batch.expired, failed + batch.failed, rearmed + batch.rearmed
        if batch.expired + batch.rearmed < BATCH:  # `failed` are some of the expired
            break
    return {"expired": expired, "failed": failed, "rearmed": rearmed}
