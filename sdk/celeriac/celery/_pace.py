"""How many tiny tasks to take at once, so that a batch is about a tenth of a second of work."""

from __future__ import annotations

from typing import Final

BATCH_SECONDS: Final = 0.1
LARGEST: Final = 500


class Pace:
    """Learns from each batch how large the next one may be. Begins with one task, and doubles while there is time."""

    def __init__(self) -> None:
        self.size = 1
        self._careful = False

    def took(self, tasks: int, seconds: float) -> None:
        """A batch of so many tasks took so long, with all that belongs to it."""
        if self._careful:
            self._careful = False
        elif seconds > BATCH_SECONDS * 1.5:
            self.size = max(1, int(tasks * BATCH_SECONDS / seconds))
        elif tasks >= self.size and seconds < BATCH_SECONDS * 0.6:
            self.size = min(LARGEST, self.size * 2)

    def one_by_one(self) -> None:
        """Begin anew, and not with this batch: one of the tasks that come now may take its worker down."""
        self.size = 1
        self._careful = True
