"""The fixtures of tests/conftest.py do what they promise; all other tests lean on them."""

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.dev.postgres import EmbeddedPostgres
from app.settings import Settings
from db.engine import sync_engine
from tests.clock import Clock


def test_the_clock_runs_with_the_real_one_until_it_is_moved(conn: Connection, clock: Clock) -> None:
    before = clock.now()
    clock.advance(3600)
    assert (clock.now() - before).total_seconds() >= 3600
    clock.advance(-7200)
    assert clock.now() < before


def test_a_frozen_clock_stands_still_and_can_be_moved(clock: Clock) -> None:
    clock.freeze()
    before = clock.now()
    clock.advance(1.5)
    assert (clock.now() - before).total_seconds() == 1.5


def test_the_moved_clock_is_seen_by_the_api_role(clock: Clock, api_url_db: str) -> None:
    clock.freeze()
    with psycopg.connect(api_url_db) as api:
        assert api.execute("select celeriac.now()").fetchone() == (clock.now(),)


def test_the_api_role_cannot_touch_tables(settings: Settings) -> None:
    engine = sync_engine(settings.database_url)
    with engine.connect() as api, pytest.raises(ProgrammingError, match="permission denied"):
        api.execute(text("select * from celeriac.task"))
    engine.dispose()


async def test_both_connections_reach_the_same_database(conn: Connection, aconn: AsyncConnection) -> None:
    name = text("select current_database()")
    assert (await aconn.execute(name)).scalar_one() == conn.execute(name).scalar_one()


def test_a_database_can_be_asked_for_after_the_server_was_killed(postgres: EmbeddedPostgres) -> None:
    postgres.kill()


def test_and_here_it_is(conn: Connection) -> None:
    assert conn.execute(text("select count(*) from celeriac.task")).scalar_one() == 0
