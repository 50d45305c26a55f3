"""Case B49: a fleet and its dispatcher behind PgBouncer in transaction mode: many slots, five server connections."""

import dataclasses

import pytest
from sqlalchemy import Connection, text

from app.dev.processes import Process
from app.dev.waiting import wait_until
from app.settings import Settings
from tests.db.pgbouncer import SERVER_CONNECTIONS
from tests.fleet.conftest import StartFleet
from tests.fleet.sights import effects, enqueue, states, task


@pytest.fixture
def settings(settings: Settings, pooled_url: str) -> Settings:
    return dataclasses.replace(settings, database_url=pooled_url)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_all_that_a_fleet_says_goes_through_a_pooler(
    pool: str, start_fleet: StartFleet, dispatcher: Process, conn: Connection, database_url: str, pooled_url: str
) -> None:
    fleets = [start_fleet(pool, concurrency=6, FLEET_DATABASE_URL=pooled_url) for _ in range(2)]
    marks = enqueue(database_url, "mark", *[{}] * 100)
    enqueue(database_url, "tiny", *[{}] * 100)
    [again, never] = enqueue(database_url, "moody", {"mood": "retry"}, {"mood": "fatal"})
    enqueue(database_url, "regret", {})
    wait_until(lambda: states(conn) == {"COMPLETED": 201, "FAILED": 2}, 60, what="all ends")
    assert set(effects(conn)) == set(marks)
    assert {task(conn, task_id).attempts for task_id in [*marks, never]} == {1}
    assert task(conn, again).attempts == 2
    seen = (
        "select count(*) from pg_stat_activity where datname = current_database() and query like '%complete_and_fetch%'"
    )
    assert conn.execute(text(seen)).scalar_one() <= SERVER_CONNECTIONS + 1
    assert "prepared statement" not in "".join(process.output() for process in [*fleets, dispatcher])
