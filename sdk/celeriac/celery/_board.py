"""A page of memory that a worker's parent shares with the children it forks.

    byte 0   the worker is stopping: finish what runs, fetch nothing more
    byte 1   somebody watches the events of tasks
    then     a place for each child: the attempt that its parent must end by force, and when

Celery tells the parent alone that it shuts down, or that somebody watches, and only the parent can end a child whose
handler does not give the interpreter back. Pools that run in one process use the same page, and so does a child that
was not forked but started anew: its page is its own, it hears nothing, and its slice ends within a second anyway.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

PLACES: Final = 1024
"""Children beyond these have no hard time limit of ours."""
_HEADER: Final = 64
_PLACE: Final = struct.Struct("=d16sqddq")  # ends_at, task id, fencing token, seconds, lease ends at, pid


@dataclass(frozen=True, slots=True)
class Deadline:
    """An attempt that is over at `ends_at` (on the clock of leases), whether it has come to its end or not."""

    ends_at: float
    task_id: str
    fencing_token: int
    seconds: float
    lease_seconds: float
    pid: int


class Board:
    """The page. Each place is written by one child only."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _HEADER + PLACES * _PLACE.size)

    @property
    def stopping(self) -> bool:
        return self._page[0] != 0

    @stopping.setter
    def stopping(self, value: bool) -> None:
        self._page[0] = value

    @property
    def watched(self) -> bool:
        return self._page[1] != 0

    @watched.setter
    def watched(self, value: bool) -> None:
        self._page[1] = value

    def set_deadline(self, place: int, deadline: Deadline) -> None:
        """Ask the parent to end this attempt by force when its time has come."""
        offset = _HEADER + place * _PLACE.size
        packed = _PLACE.pack(
            0.0,
            UUID(deadline.task_id).bytes,
            deadline.fencing_token,
            deadline.seconds,
            deadline.lease_seconds,
            os.getpid(),
        )
        # The time goes in last, and first out: the parent never reads it beside another attempt's token.
        self._page[offset : offset + _PLACE.size] = packed
        self._page[offset : offset + 8] = struct.pack("=d", deadline.ends_at)

    def clear_deadline(self, place: int) -> None:
        """The attempt has come to its end by itself."""
        offset = _HEADER + place * _PLACE.size
        self._page[offset : offset + 8] = bytes(8)

    def deadlines(self, places: int) -> dict[int, Deadline]:
        """What is to be ended by force, by place, among the first `places`."""
        found: dict[int, Deadline] = {}
        for place in range(min(places, PLACES)):
            offset = _HEADER + place * _PLACE.size
            ends_at, task_id, token, seconds, lease_seconds, pid = _PLACE.unpack_from(self._page, offset)
            if ends_at:
                found[place] = Deadline(ends_at, str(UUID(bytes=task_id)), token, seconds, lease_seconds, pid)
        return found
