"""Durable tasks on a real Postgres, carried in this process, and a table in which their effects are counted."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, text

from celeriac import _faults
from tests.clock import Clock
from tests.durable.carrier import Carrier

BUSINESS = """
create table effect (number int generated always as identity, name text not null);
create table asset (path text primary key);
grant all on effect, asset to public
"""


@pytest.fixture
def carrier(fleet_url_db: str, conn: Connection, clock: Clock) -> Iterator[Carrier]:
    for statement in BUSINESS.split(";\n"):
        conn.execute(text(statement))
    carrier = Carrier(fleet_url_db, conn, clock)
    yield carrier
    _faults.disarm()
    carrier.database.close()


@pytest.fixture
def effect(conn: Connection) -> Callable[..., str]:
    """`effect("charge")`: something that happens outside, and can be counted."""

    def happen(name: str) -> str:
        conn.execute(text("insert into effect (name) values (:name)"), {"name": name})
        return name

    return happen


@pytest.fixture
def effects(conn: Connection) -> Callable[[], list[str]]:
    """The names of all effects, in their order."""
    return lambda: list(conn.execute(text("select name from effect order by number")).scalars())


@pytest.fixture
def assets(conn: Connection) -> Callable[[], list[str]]:
    return lambda: sorted(conn.execute(text("select path from asset")).scalars())
