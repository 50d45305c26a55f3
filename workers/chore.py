"""What a chore is, and what it is given.

A chore is a function `(tools) -> counts`: a bounded loop of calls to the database, each its own short transaction. It
may run in any number of processes at once, be killed between two calls and be run again at any moment, since rows
decide what there is to do. It never decides by the clock of this machine; it uses it only to stop in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

from sqlalchemy import Engine, Row

from app.bell import SyncBell
from app.settings import Settings
from db import call
from workers.broker import Broker
from workers.deadline import deadline

LONGEST_RUN_SECONDS: Final = 10.0
"""A run that has more to do stops here; the next tick goes on. Keeps a shutdown short."""

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Tools:
    """What a chore may use: the database, the broker for rings, the bell for wake-ups."""

    settings: Settings
    engine: Engine
    bell: SyncBell
    broker: Broker
    stopping: Event

    def rows(self, function: str, /, **arguments: Any) -> list[Row[Any]]:
        """Call a function of schema `celeriac` in a transaction of its own; raises db.errors.Unavailable, Refused."""
        with call.refusals(), self.engine.connect() as conn, deadline(conn):
            return list(call.rows(conn, function, **arguments))

    def one(self, function: str, /, **arguments: Any) -> Row[Any]:
        """Like `rows`, for functions that answer with exactly one row."""
        with call.refusals(), self.engine.connect() as conn, deadline(conn):
            return call.one(conn, function, **arguments)

    def rounds(self, most: int) -> Iterator[int]:
        """0, 1, 2 … at most `most` of them, and none once this process stops or the run has taken its time."""
        until = time.monotonic() + LONGEST_RUN_SECONDS
        for number in range(most):
            if self.stopping.is_set() or time.monotonic() > until:
                return
            yield number


@dataclass(frozen=True)
class Chore:
    """A chore under its name: the same word in SQL, in logs, and as `celeriac.<name>` in Celery."""

    name: str
    period_seconds: float
    run: Callable[[Tools], Counts]

    @property
    def task_name(self) -> str:
        return f"celeriac.{self.name}"

    @property
    def queue(self) -> str:
        """The Celery queue of its ticks. One a chore: how many ticks lie in it tells whether one more is needed."""
        return f"celeriac.maintenance.{self.name}"
