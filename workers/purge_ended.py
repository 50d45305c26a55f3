"""purge_ended: deletes tasks that ended longer ago than the retention; their idempotency keys stay taken."""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

BATCH: Final = 1000
ROUNDS: Final = 500
DAY_MS: Final = 24 * 60 * 60 * 1000


def purge_ended(tools: Tools) -> Counts:
    """Walk once over what is old enough, batch by batch; the next run begins anew."""
    purged, after = 0, None
    for _ in tools.rounds(ROUNDS):
        batch = tools.one(
            "purge_ended", older_than_ms=tools.settings.retention_days * DAY_MS, after=after, max_tasks=BATCH
        )
        purged, after = purged + batch.purged, batch.last_id
        if after is None:
            break
    return {"purged": purged}
