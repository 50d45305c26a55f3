"""Engines: autocommit, exact JSON text, no session state, and no lost connection is used twice."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import sqlalchemy.exc
from sqlalchemy import Engine, text

from app.dev.postgres import EmbeddedPostgres
from app.dev.waiting import wait_until
from db import call
from db.engine import async_engine, driver_url, sync_engine
from db.errors import Invalid, Unavailable
from tests.db.clerk import Clerk


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = sync_engine(database_url)
    yield engine
    engine.dispose()


def ask(engine: Engine) -> int:
    with call.refusals(), engine.connect() as connection:
        return connection.execute(text("select 1")).scalar_one()


def test_every_statement_commits(engine: Engine, clerk: Clerk) -> None:
    with engine.connect() as connection:
        Clerk(connection).enqueue()
        assert clerk.scalar("select count(*) from celeriac.task") == 1


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_json_comes_back_as_its_very_text(engine: Engine, kind: str) -> None:
    """Case B17."""
    value = (
        '{"n": 9007199254740993, "d": 250000.10, "e": 1E-7}'
        if kind == "json"
        else '{"d": 250000.10, "n": 9007199254740993}'
    )
    with engine.connect() as connection:
        assert connection.execute(text(f"select cast(:value as {kind})"), {"value": value}).scalar_one() == value


async def test_the_async_engine_does_the_same(database_url: str) -> None:
    """Case B17."""
    engine = async_engine(database_url)
    async with engine.connect() as connection:
        tasks = call.Json('[{"task_type": "mail", "variables": {"n": 9007199254740993}}]')
        await call.aone(connection, "enqueue_tasks", tasks=tasks)
        (task,) = await call.arows(connection, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=1)
    await engine.dispose()
    assert task.variables == '{"n": 9007199254740993}'


def test_no_statement_is_prepared_on_the_server(engine: Engine) -> None:
    """Case B49: a pooler may hand the next statement to another server connection."""
    with engine.connect() as connection:
        clerk = Clerk(connection)
        for _ in range(20):
            clerk.enqueue()
        assert clerk.query("select * from pg_prepared_statements") == []


def test_a_number_takes_the_type_of_its_argument(engine: Engine) -> None:
    """Case B18: from smallint to beyond bigint the same function is called."""
    with engine.connect() as connection:
        for lease_ms in (1, 2**15, 2**31):
            assert call.one(connection, "register_task_type", name="mail", lease_ms=lease_ms).lease_ms == lease_ms
        for backoff_factor in (1, 1.5, 1e2):
            row = call.one(connection, "register_task_type", name="mail", backoff_factor=backoff_factor)
            assert row.backoff_factor == backoff_factor
        for beyond in (2**63, 10**40):
            with pytest.raises(Invalid):
                call.one(connection, "register_task_type", name="mail", lease_ms=beyond)


def test_a_connection_whose_backend_was_killed_is_dropped_and_the_next_call_works(engine: Engine, clerk: Clerk) -> None:
    """Case B49."""
    with engine.connect() as connection:
        pid = connection.execute(text("select pg_backend_pid()")).scalar_one()
        clerk.run("select pg_terminate_backend(cast(:pid as int), 5000)", pid=pid)
        with pytest.raises(Unavailable):
            call.rows(connection, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=1)
        assert connection.invalidated
    assert ask(engine) == 1


def test_a_killed_backend_does_not_cost_the_other_connections(engine: Engine, clerk: Clerk) -> None:
    with engine.connect() as other:
        pid_of_other = other.execute(text("select pg_backend_pid()")).scalar_one()
        with engine.connect() as connection:
            pid = connection.execute(text("select pg_backend_pid()")).scalar_one()
            clerk.run("select pg_terminate_backend(cast(:pid as int), 5000)", pid=pid)
            with pytest.raises(Unavailable):
                call.rows(connection, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=1)
    with engine.connect() as one, engine.connect() as another:
        pids = [each.execute(text("select pg_backend_pid()")).scalar_one() for each in (one, another)]
    assert pid_of_other in pids


def test_a_server_turned_read_only_is_unavailable_and_is_reached_anew_when_it_is_not(
    engine: Engine, clerk: Clerk
) -> None:
    """A fail-over: old connections lead to the standby, new ones to the new primary."""
    database = clerk.scalar("select current_database()")
    clerk.run(f"alter database {database} set default_transaction_read_only = on")
    try:
        with engine.connect() as connection, pytest.raises(Unavailable):
            Clerk(connection).enqueue()
    finally:
        clerk.run("set default_transaction_read_only = off")
        clerk.run(f"alter database {database} reset default_transaction_read_only")
    with engine.connect() as connection:
        Clerk(connection).enqueue()


def test_a_server_that_restarts_is_unavailable_and_then_there_again(
    engine: Engine, clerk: Clerk, postgres: EmbeddedPostgres
) -> None:
    """Case B47."""
    assert ask(engine) == 1
    postgres.stop("immediate")
    with pytest.raises(Unavailable):
        ask(engine)
    postgres.start()
    assert ask(engine) == 1


def test_a_pool_in_full_use_is_unavailable(database_url: str) -> None:
    engine = sync_engine(database_url, pool_size=1, pool_timeout=0.01)
    with engine.connect(), pytest.raises(Unavailable):
        ask(engine)
    assert ask(engine) == 1
    engine.dispose()


def test_a_database_that_is_not_there_is_unavailable(postgres: EmbeddedPostgres) -> None:
    engine = sync_engine("postgresql://postgres@127.0.0.1:1/x")
    with pytest.raises(Unavailable):
        ask(engine)
    engine.dispose()


def test_whatever_a_url_calls_its_driver_ours_is_used() -> None:
    for url in ("postgresql://a@b/c", "postgresql+psycopg://a@b/c", "postgresql+psycopg2://a@b/c"):
        assert driver_url(url).drivername == "postgresql+psycopg"


def test_the_clock_of_a_caller_and_its_zone_change_nothing(database_url: str, clerk: Clerk) -> None:
    """Case B05: a process ten minutes ahead of the database, in another zone."""
    program = (
        "import datetime, sys, time\n"
        "time.time = lambda real=time.time: real() + 600\n"
        "from db import call\nfrom db.engine import sync_engine\n"
        "arguments = dict(worker_id='w1', task_types=['mail'], max_tasks=1, lock_duration_ms=60000)\n"
        "with sync_engine(sys.argv[1]).connect() as connection:\n"
        "    call.rows(connection, 'enqueue_tasks', tasks=call.json_list([{'task_type': 'mail'}]))\n"
        "    call.one(connection, 'fetch_tasks', **arguments)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, database_url], check=True, env=os.environ | {"TZ": "Pacific/Kiritimati"}
    )
    left = clerk.scalar("select extract(epoch from lease_expires_at - clock_timestamp()) from celeriac.queue")
    assert 0 < left <= 60


def test_threads_share_an_engine(engine: Engine, clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 100)
    tokens: list[int] = []

    def work() -> None:
        for _ in range(20):
            with engine.connect() as connection:
                tokens.extend(task.fencing_token for task in Clerk(connection).fetch())

    workers = [threading.Thread(target=work) for _ in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(set(tokens)) == len(tokens) == 100


def test_a_statement_that_waits_can_be_seen_as_ours(engine: Engine, clerk: Clerk) -> None:
    with engine.connect():
        seen = (
            "select count(*) from pg_stat_activity where application_name = 'celeriac' and datname = current_database()"
        )
        wait_until(lambda: clerk.scalar(seen) >= 1, what="our name in pg_stat_activity")


def test_an_error_that_is_no_outage_keeps_its_connection(engine: Engine) -> None:
    with engine.connect() as connection:
        pid = connection.execute(text("select pg_backend_pid()")).scalar_one()
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            connection.execute(text("select 1/0"))
        assert connection.execute(text("select pg_backend_pid()")).scalar_one() == pid
