"""Counts that several threads write."""

from __future__ import annotations

import threading

from celeriac._stats import Tally


class SharedTally(Tally):
    """A Tally for the threads of a pool."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Lock()

    def count(self, **more: int) -> None:
        with self._turn:
            super().count(**more)
