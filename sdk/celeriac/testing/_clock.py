"""The database's clock, in the hands of a test.

Postgres decides when a lease has run out, a timer is due or a wait is over, and it asks `celeriac.now()`. In a test
database that function is replaced by one which adds a shift, so that a month passes in a millisecond.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

_KIND: Final = "select provolatile, current_database() from pg_proc where oid = 'celeriac.now()'::regprocedure"
_VOLATILITY: Final = {"i": "immutable", "s": "stable", "v": "volatile"}
_TABLE: Final = """
    create table if not exists celeriac.test_clock (frozen_at timestamptz, shift interval not null);
    insert into celeriac.test_clock select null, '0' where not exists (select from celeriac.test_clock);
    grant select on celeriac.test_clock to public"""
_FUNCTION: Final = """
    create or replace function celeriac.now() returns timestamptz language sql {} as $$
        select coalesce(c.frozen_at, clock_timestamp()) + c.shift from celeriac.test_clock as c
    $$"""


class Clock:
    """The clock of one database. It goes with the real one, shifted, until it is frozen.

    `connection` is one in autocommit as the owner of the schema. Raises ValueError for a database whose name does not
    contain `test`: in any other, nobody must move the clock. What a program does by its own clock is not moved.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        # Kept as it is: an index condition on the time is planned only for a stable function.
        kind, database = self._row(_KIND)
        if "test" not in _text(database):
            raise ValueError(
                f"the clock of {_text(database)!r} is not moved: the name of a test's database holds 'test'"
            )
        connection.execute(_TABLE)
        connection.execute(sql.SQL(_FUNCTION).format(sql.SQL(_VOLATILITY[_text(kind)])))

    def now(self) -> datetime:
        """What `celeriac.now()` says."""
        [moment] = self._row("select celeriac.now()")
        assert isinstance(moment, datetime)
        return moment

    def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Move the clock; a negative sum sets it back. Seen by every statement that starts later."""
        by = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        self._connection.execute("update celeriac.test_clock set shift = shift + %s", [by])

    def advance_to(self, moment: datetime) -> None:
        """Move the clock to a moment that is still to come; no change when it is past."""
        self._connection.execute(
            "update celeriac.test_clock set shift = shift + greatest(%s - celeriac.now(), '0')", [moment]
        )

    def freeze(self) -> None:
        """Stand still at the present time; advance() still moves it."""
        self._connection.execute("update celeriac.test_clock set frozen_at = clock_timestamp()")

    def thaw(self) -> None:
        """Go on with the real clock, shifted as before."""
        self._connection.execute("update celeriac.test_clock set frozen_at = null")

    def _row(self, statement: LiteralString) -> tuple[Any, ...]:
        with psycopg.Cursor(self._connection, row_factory=tuple_row) as cursor:  # whatever the caller's rows are like
            row = cursor.execute(statement).fetchone()
        assert row is not None
        return row


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
