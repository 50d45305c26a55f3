"""All the ways in which a Celery worker stops, shrinks and renews itself: none costs an attempt."""

import signal
from collections.abc import Callable, Iterator

import pytest
from celery import Celery
from sqlalchemy import Connection

from app.dev.waiting import wait_until
from tests.fleet.conftest import StartFleet
from tests.fleet.sights import all_completed, enqueue, started, states, task

OpenGate = Callable[[str], None]


@pytest.fixture
def control(redis_url: str) -> Iterator[Celery]:
    """A program that controls workers from outside."""
    app = Celery("control", broker=redis_url, set_as_current=False)
    yield app
    app.close()


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_cold_shutdown_gives_everything_back_at_once_with_its_attempt(
    pool: str, start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    fleet = start_fleet(pool, FLEET_LEASE="60")
    ids = enqueue(database_url, "gated", {"gate": "open"}, {"gate": "open"})
    started(conn, 2)
    fleet.send(signal.SIGQUIT)
    wait_until(lambda: states(conn) == {"READY": 2}, what="what was held to be free again, long before its lease ends")
    fleet.wait()
    assert {task(conn, task_id).attempts for task_id in ids} == {0}
    start_fleet(pool, FLEET_LEASE="60")
    open_gate("open")
    all_completed(conn, 2)
    assert {(task(conn, task_id).attempts, task(conn, task_id).expirations) for task_id in ids} == {(1, 0)}


def test_a_soft_shutdown_begins_nothing_and_gives_back_what_does_not_end_in_time(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    fleet = start_fleet(
        "prefork", FLEET_LEASE="60", FLEET_SLICE_SECONDS="60", FLEET_SETTINGS='{"worker_soft_shutdown_timeout": 4}'
    )
    [quick, slow] = enqueue(database_url, "gated", {"gate": "soon"}, {"gate": "never"})
    started(conn, 2)
    waiting = enqueue(database_url, "mark", *[{}] * 5)
    fleet.send(signal.SIGQUIT)
    fleet.wait_for_output("Initiating Soft Shutdown")
    open_gate("soon")
    wait_until(lambda: task(conn, quick).state == "COMPLETED", what="what ends in time")
    fleet.wait()
    assert (task(conn, slow).state, task(conn, slow).attempts) == ("READY", 0)
    assert {(task(conn, task_id).state, task(conn, task_id).attempts) for task_id in waiting} == {("READY", 0)}


def test_a_shutdown_by_remote_control_finishes_what_runs_and_begins_nothing(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate, control: Celery
) -> None:
    fleet = start_fleet("prefork", concurrency=1, FLEET_SLICE_SECONDS="60")
    [running] = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    waiting = enqueue(database_url, "mark", *[{}] * 5)
    control.control.shutdown(destination=["fleet1@test"])
    fleet.wait_for_output("Got shutdown from remote")
    open_gate("open")
    assert fleet.wait() == 0
    assert task(conn, running).state == "COMPLETED"
    assert {(task(conn, task_id).state, task(conn, task_id).attempts) for task_id in waiting} == {("READY", 0)}


def test_a_pool_that_grows_shrinks_and_renews_its_children_loses_nothing(
    start_fleet: StartFleet, conn: Connection, database_url: str, control: Celery
) -> None:
    start_fleet("prefork", "--max-tasks-per-child=2", FLEET_SLICE_TASKS="5")
    ids = enqueue(database_url, "mark", *[{}] * 100)
    control.control.pool_grow(2, destination=["fleet1@test"])
    wait_until(lambda: states(conn)["COMPLETED"] >= 30, what="some progress")
    control.control.pool_shrink(3, destination=["fleet1@test"])
    all_completed(conn, 100, seconds=90)  # each pair of slices costs a new child
    assert {(task(conn, task_id).attempts, task(conn, task_id).expirations) for task_id in ids} == {(1, 0)}


def test_a_pool_scales_with_its_work(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    start_fleet("prefork", "--autoscale=3,1")
    ids = enqueue(database_url, "gated", *[{"gate": "open"}] * 3)
    assert len({row.pid for row in started(conn, 3)}) == 3
    open_gate("open")
    all_completed(conn, 3)
    assert {task(conn, task_id).attempts for task_id in ids} == {1}


def test_a_worker_that_is_told_to_leave_a_queue_begins_nothing_of_it(
    start_fleet: StartFleet, conn: Connection, database_url: str, control: Celery
) -> None:
    start_fleet("prefork")
    control.control.cancel_consumer("fleet", destination=["fleet1@test"])
    wait_until(
        lambda: not (control.control.inspect(["fleet1@test"]).active_queues() or {}).get("fleet1@test"),
        what="the queue to be left",
    )
    [task_id] = enqueue(database_url, "mark", {})
    start_fleet("prefork")
    all_completed(conn, 1)
    assert task(conn, task_id).worker_id.startswith("fleet2@test/")
