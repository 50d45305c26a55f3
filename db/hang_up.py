"""The end of a connection to Postgres that does not answer, made from this side of the socket.

TCP keepalives and tcp_user_timeout find a peer that is gone. They do not find one whose kernel still acknowledges while
nobody reads: a frozen proxy or pooler. Once the socket is shut, libpq sees the end of the connection, and the call
that waits ends with the error it ends with when a server dies.
"""

import logging
import os
import socket
from typing import Any

import psycopg

log = logging.getLogger(__name__)


def hang_up(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Shut the socket of a connection; whoever waits for it gets an OperationalError."""
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
