"""A call to Postgres that never hangs for good: when its deadline passes, the socket is shut (db/hang_up.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Final

from sqlalchemy import Connection

from db.hang_up import hang_up

CALL_SECONDS: Final = 10.0


@contextmanager
def deadline(conn: Connection, seconds: float = CALL_SECONDS) -> Iterator[None]:
    """Cut `conn` off from the server when the block takes longer than `seconds`."""
    timer = Timer(seconds, hang_up, [conn.connection.driver_connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
