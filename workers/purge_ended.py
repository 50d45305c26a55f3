"""purge_ended: deletes what ended longer ago than the retention: tasks, whose idempotency keys stay, and instances."""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

BATCH: Final = 1000
INSTANCES: Final = 100
ROUNDS: Final = 500
DAY_MS: Final = 24 * 60 * 60 * 1000


def purge_ended(tools: Tools) -> Counts:
    """Walk once over what is old enough, batch by batch; the next run begins anew."""
    return {
        "purged": _walk(tools, "purge_ended", max_tasks=BATCH),
        "instances": _walk(tools, "purge_instances", max_instances=INSTANCES),
    }


def _walk(tools: Tools, function: str, **bound: int) -> int:
    purged, after = 0, None
    for _ in tools.rounds(ROUNDS):
        batch = tools.one(function, older_than_ms=tools.settings.retention_days * DAY_MS, after=after, **bound)
        purged, after = purged + batch.purged, batch.last_id
        if after is None:
            break
    return purged
