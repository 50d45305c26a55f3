"""Durable tasks on real Celery fleets: what they do when nothing goes wrong."""

import itertools
import re
from collections.abc import Callable

import psycopg
import pytest
import redis
from sqlalchemy import Connection, text

from app.dev.processes import Process
from app.dev.waiting import wait_until
from celeriac import NewTask, enqueue_many
from tests.fleet.conftest import StartFleet
from tests.fleet.ringing import ring
from tests.fleet.sights import all_completed, effects, enqueue, started, states, task


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_what_a_transaction_enqueues_runs_exactly_once(
    pool: str, start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet(pool)
    with psycopg.connect(database_url) as connection:
        enqueue_many(connection, [NewTask("mark")] * 10)
        connection.rollback()
    ids = enqueue(database_url, "mark", *[{}] * 30)
    all_completed(conn, 30)
    assert effects(conn) == {task_id: task(conn, task_id).fencing_token for task_id in ids}
    assert {task(conn, task_id).attempts for task_id in ids} == {1}


def test_a_worker_that_starts_makes_its_types_and_itself_known(start_fleet: StartFleet, conn: Connection) -> None:
    start_fleet("solo")
    types = conn.execute(text("select name, lease_ms, delivery, queue from celeriac.task_types order by name")).all()
    assert [tuple(row) for row in types if row.name == "mark"] == [("mark", 30_000, "celery", "fleet")]
    workers = conn.execute(text("select worker_id, kind, task_types, versions from celeriac.live_workers")).all()
    [worker] = workers
    assert re.fullmatch(r"fleet1@test/[0-9a-f]{6}", worker.worker_id)
    assert worker.kind == "fleet"
    assert set(worker.task_types) >= {"mark", "gated", "stubborn", "patient", "moody"}


def test_priority_binds_at_the_fetch(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: Callable[[str], None]
) -> None:
    start_fleet("solo", FLEET_SLICE_TASKS="2")
    enqueue(database_url, "gated", {"gate": "first"})
    started(conn)
    low = enqueue(database_url, "mark", *[{}] * 5)
    high = enqueue(database_url, "mark", *[{}] * 5, priority=9)
    open_gate("first")
    all_completed(conn, 11)
    token = effects(conn)
    assert max(token[task_id] for task_id in high) < min(token[task_id] for task_id in low)


def test_no_task_waits_behind_a_busy_worker_while_another_is_idle(
    start_fleet: StartFleet,
    dispatcher: Process,
    conn: Connection,
    database_url: str,
    open_gate: Callable[[str], None],
) -> None:
    """Cases B09, DB-9: with Celery's own prefetch, one worker takes the ring that the other should have heard."""
    start_fleet("prefork")
    start_fleet("threads")
    for number in range(1, 4):
        enqueue(database_url, "gated", *[{"gate": f"gate {number}"}] * 4)
        started(conn, 4 * number)
        assert "ring_stale" not in dispatcher.output()
        open_gate(f"gate {number}")
        all_completed(conn, 4 * number)


def test_handlers_say_how_an_attempt_ends(start_fleet: StartFleet, conn: Connection, database_url: str) -> None:
    fleet = start_fleet("prefork", concurrency=1)
    moods = ["retry", "fatal", "exit", "nan", "list"]
    ids = dict(zip(moods, enqueue(database_url, "moody", *[{"mood": mood} for mood in moods]), strict=True))
    wait_until(lambda: states(conn) == {"COMPLETED": 1, "FAILED": 4}, what="all ends")
    assert task(conn, ids["retry"]).attempts == 2
    assert task(conn, ids["fatal"]).attempts == 1
    assert {task(conn, ids[mood]).attempts for mood in ("exit", "nan", "list")} == {3}
    assert "SystemExit: 3" in task(conn, ids["exit"]).error
    assert "nan" in task(conn, ids["nan"]).error
    assert "returned list" in task(conn, ids["list"]).error
    assert fleet.is_running


def test_a_version_that_the_fleet_does_not_have_waits(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet("threads")
    with psycopg.connect(database_url) as connection:
        enqueue_many(connection, [NewTask("mark", version=2), NewTask("mark")])
    wait_until(lambda: states(conn) == {"COMPLETED": 1, "READY": 1}, what="the version that is there")


def test_a_backlog_is_worked_off_slice_by_slice_with_few_rings(
    start_fleet: StartFleet, dispatcher: Process, conn: Connection, database_url: str, redis_url: str
) -> None:
    start_fleet("prefork", FLEET_SLICE_TASKS="1")
    enqueue(database_url, "mark", *[{}] * 150)
    most = 0
    with redis.Redis.from_url(redis_url) as client:

        def done() -> bool:
            nonlocal most
            most = max(most, client.llen("fleet"))
            return states(conn) == {"COMPLETED": 150}

        wait_until(done, what="the backlog to be done")
    assert most <= 102  # the dispatcher's hundred, and one a slot
    assert "ring_stale" not in dispatcher.output()  # the fifty that got no ring of their own were rung for by the fleet


def test_a_storm_of_rings_without_work_does_no_harm(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str
) -> None:
    fleet = start_fleet("prefork")
    ring(redis_url, "fleet", *itertools.chain.from_iterable([("mark", "stranger")] * 100))
    with redis.Redis.from_url(redis_url) as client:
        wait_until(lambda: not client.llen("fleet"), what="the rings to be heard")
    enqueue(database_url, "mark", {})
    all_completed(conn, 1)
    assert fleet.is_running
    assert fleet.output().count("Traceback") == 0
