"""A database clock that a test can move: replaces ``celeriac.now()`` in one test database."""

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

INSTALL = """
create table celeriac.test_clock (frozen_at timestamptz, shift interval not null);
insert into celeriac.test_clock values (null, '0');
grant select on celeriac.test_clock to public;
create or replace function celeriac.now() returns timestamptz language sql {volatility} as $$
    select coalesce(c.frozen_at, clock_timestamp()) + c.shift from celeriac.test_clock as c
$$;
"""
NOW = "'celeriac.now()'::regprocedure"
VOLATILITY = {"i": "immutable", "s": "stable", "v": "volatile"}


class Clock:
    """The clock of one database. It runs with the real one, ahead or behind, until it is frozen."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        # Kept as it is: an index condition on the time is planned only for a stable function.
        kind = conn.execute(text(f"select provolatile from pg_proc where oid = {NOW}")).scalar_one()
        for statement in INSTALL.format(volatility=VOLATILITY[kind]).split(";\n"):
            if statement.strip():
                conn.execute(text(statement))

    def now(self) -> datetime:
        return self._conn.execute(text("select celeriac.now()")).scalar_one()

    def advance(self, seconds: float) -> None:
        """Move the clock; negative seconds set it back. Seen by every statement that starts later."""
        by = timedelta(seconds=seconds)
        self._conn.execute(text("update celeriac.test_clock set shift = shift + :by"), {"by": by})

    def freeze(self) -> None:
        """Stand still at the present time; advance() still moves it."""
        self._conn.execute(text("update celeriac.test_clock set frozen_at = clock_timestamp()"))

    def thaw(self) -> None:
        self._conn.execute(text("update celeriac.test_clock set frozen_at = null"))
