"""What a worker counts."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What a worker has done since it started."""

    running: int = 0
    """Handlers at work now; the others are counts."""
    fetched: int = 0
    completed: int = 0
    failed: int = 0
    refused: int = 0
    """Outcomes that came too late: the server refused them and changed nothing."""
    dropped: int = 0
    """Outcomes that never reached the server while their lease lived."""
    released: int = 0
    """Tasks given back at shutdown."""
    extended: int = 0
    leases_lost: int = 0
    canceled: int = 0


class Tally:
    """The counts of a running worker. Written by one thread; any thread may read `stats`."""

    def __init__(self) -> None:
        self.stats = WorkerStats()

    def count(self, **more: int) -> None:
        self.stats = replace(self.stats, **{name: getattr(self.stats, name) + by for name, by in more.items()})
