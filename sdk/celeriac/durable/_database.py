"""Connections of a fleet process to Postgres, one borrowed for each call.

Nothing is connected before the first call, and there are never more connections than calls at the same moment: two in
a child of the prefork pool (one for its lease keeper), elsewhere one a thread or greenlet, and one. Statements are
prepared only where Postgres itself is at the other end: a pooler in transaction mode may be in between, and would send
the next call to a session that does not know them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from celeriac import _clock
from celeriac._sqlstates import refusal_in
from celeriac.errors import ConnectionFailed, Invalid, UnexpectedAnswer

# A server that is gone without a word is noticed within seconds, not after hours. What the URL says goes first.
PARAMETERS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "celeriac-fleet",
}

ANSWER_SECONDS: Final = 10.0
"""How long a call may take. The settings above do not notice a peer whose kernel still acknowledges: a frozen proxy."""

TOO_COMPLEX: Final = ("54000", "54001")
"""SQLSTATEs of values that are too large or nested too deep, beside those of psycopg.DataError: no outage either."""

PREPARED_AFTER: Final = 2
"""Calls of a statement on a connection before it is prepared: most are made by the thousand."""

Row = dict[str, Any]


class Impatient(psycopg.Connection[Row]):
    """A connection whose calls may have a deadline on this side of the socket. What a handler sends has none."""

    answer_by: float | None = None

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        if self.answer_by is not None:
            gen = _until(self.answer_by, gen)
        return super().wait(gen, *args, **kwargs)


def _until(deadline: float, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """`gen`, given up when it still waits at the deadline: psycopg wakes it some ten times a second."""
    try:
        waits_for = next(gen)
        while True:
            ready = yield waits_for
            if not ready and _clock.now() > deadline:
                raise psycopg.OperationalError("no answer from Postgres in time")
            waits_for = gen.send(ready)
    except StopIteration as end:
        return end.value


class Database:
    """Makes calls on whatever connection is free. One object a process: forget it in a fork's child."""

    def __init__(self, url: str) -> None:
        # SQLAlchemy's spelling of the same URL.
        plain = url.replace("postgresql+psycopg://", "postgresql://", 1)
        self.conninfo = make_conninfo(**(PARAMETERS | dict(conninfo_to_dict(plain))))
        """All that is needed to connect as these connections do."""
        # Each connection with the one cursor that it is used through: a new one costs a tenth of a call.
        self._idle: list[psycopg.Cursor[Row]] = []

    def rows(self, statement: LiteralString, **values: Any) -> list[Row]:
        """All rows of one statement, which is a transaction of its own and may be made twice.

        Raises Refused when a function refused or a value cannot be stored, ConnectionFailed when there is no answer,
        UnexpectedAnswer for the rest.
        """
        try:
            kept = self._idle.pop()
        except IndexError:
            return self._call(self._connect(), statement, values)
        try:
            return self._call(kept, statement, values)
        except ConnectionFailed:
            # It may have been lost long ago, in a restart of the server, while nobody used it.
            return self._call(self._connect(), statement, values)

    @contextmanager
    def borrow(self) -> Iterator[psycopg.Connection[Row]]:
        """A connection for several statements, in autocommit and with no transaction open.

        Raises ConnectionFailed when there is none to be had; what the statements raise is passed on as it is.
        """
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self._connect()
        connection = cursor.connection
        try:
            yield connection
        finally:
            if not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE:
                self._idle.append(cursor)
            else:
                connection.close()

    def close(self) -> None:
        """Close what nobody uses now."""
        while self._idle:
            self._idle.pop().connection.close()

    def _call(self, cursor: psycopg.Cursor[Row], statement: LiteralString, values: Mapping[str, Any]) -> list[Row]:
        connection: Any = cursor.connection
        connection.answer_by = _clock.now() + ANSWER_SECONDS
        try:
            rows = cursor.execute(statement, values).fetchall()
            connection.answer_by = None
        except psycopg.Error as error:
            connection.answer_by = None
            if refused := refusal_in(error):
                self._idle.append(cursor)
                raise refused from None
            cursor.connection.close()
            self.close()  # the others were likely lost at the same time
            raise _failure(error) from error
        except BaseException:
            # A time limit struck in the middle of the call: what comes next on this socket is unknown.
            cursor.connection.close()
            raise
        self._idle.append(cursor)
        return rows

    def _connect(self) -> psycopg.Cursor[Row]:
        try:
            connection = Impatient.connect(self.conninfo, autocommit=True, prepare_threshold=None, row_factory=dict_row)
            connection.answer_by = _clock.now() + ANSWER_SECONDS
            if _is_direct(connection):
                connection.prepare_threshold = PREPARED_AFTER
            connection.answer_by = None
            return connection.cursor()
        except psycopg.Error as error:
            raise ConnectionFailed(f"Postgres is not reached: {error}", sent=False) from error


def _is_direct(connection: psycopg.Connection[Row]) -> bool:
    """Whether no pooler is in between: one makes up the process number that a client is told when it connects."""
    asked = connection.execute("select pg_backend_pid() as pid").fetchone()
    return asked is not None and asked["pid"] == connection.info.backend_pid


def _failure(error: psycopg.Error) -> Invalid | ConnectionFailed | UnexpectedAnswer:
    if isinstance(error, psycopg.DataError) or error.sqlstate in TOO_COMPLEX:
        return Invalid(f"Postgres does not take it: {error.diag.message_primary or error}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return ConnectionFailed(f"no answer from Postgres: {error}", sent=True)
    return UnexpectedAnswer(f"{type(error).__name__}: {error}")
