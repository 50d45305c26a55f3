"""ring_stale: asks again for rings of task types that have ready work and were not heard of for a while.

A broker loses messages: flushed, evicted, restored from yesterday, popped by a worker that died. The rows know better.
"""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

OLDER_THAN_MS: Final = 10_000


def ring_stale(tools: Tools) -> Counts:
    """Write outbox rows for what waits unheard; dispatch_outbox sends them."""
    return {"rung": tools.one("ring_stale", older_than_ms=OLDER_THAN_MS).rung}
