"""maintain_history: makes the partitions of the timeline that come next and drops those past their keeping."""

from __future__ import annotations

from typing import Final

from workers.chore import Counts, Tools

DAY_MS: Final = 24 * 60 * 60 * 1000


def maintain_history(tools: Tools) -> Counts:
    partitions = tools.one("maintain_history", older_than_ms=tools.settings.history_days * DAY_MS)
    return {"created": partitions.created, "dropped": partitions.dropped}
