"""A call to Postgres that never hangs for good.

TCP keepalives and tcp_user_timeout find a peer that is gone. They do not find one whose kernel still acknowledges while
nobody reads: a frozen proxy or pooler. So every call of a chore has a deadline: when it passes, the socket is shut from
this side, libpq sees the end of the connection, and the call ends with the error it ends with when a server dies.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, Final

import psycopg
from sqlalchemy import Connection

CALL_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


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


def hang_up(connection: psycopg.Connection[Any]) -> None:
    """Shut the socket of a connection; the thread that waits for it gets an OperationalError."""
    try:
        descriptor = os.dup(connection.pgconn.socket)
    except (psycopg.Error, OSError):
        return  # closed meanwhile: there is nobody left to free
    log.warning("no answer from Postgres in time: hanging up")
    with socket.socket(fileno=descriptor) as twin:
        try:
            twin.shutdown(socket.SHUT_RDWR)
        except OSError as gone:
            log.debug("the connection was gone already: %r", gone)
