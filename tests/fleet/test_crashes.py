"""What fleets do when children, workers and brokers die, freeze, forget and stop."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from sqlalchemy import Connection, text

from app.dev.postgres import EmbeddedPostgres
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from db import call
from tests.fleet.conftest import StartFleet
from tests.fleet.sights import all_completed, effects, enqueue, started, states, task
from tests.workers.probes import answers

OpenGate = Callable[[str], None]


def test_a_task_whose_child_is_killed_is_taken_over_after_its_lease(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    fleet = start_fleet("prefork", FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    [first] = started(conn)
    os.kill(first.pid, signal.SIGKILL)
    second = started(conn, 2)[1]
    open_gate("open")
    all_completed(conn, 1)
    assert effects(conn) == {task_id: second.fencing_token}
    assert second.fencing_token > first.fencing_token
    assert task(conn, task_id).expirations == 1
    assert fleet.is_running


def test_a_task_whose_worker_is_killed_is_taken_over_by_another(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    doomed = start_fleet("threads", FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    doomed.kill()
    start_fleet("threads", FLEET_LEASE="1")
    second = started(conn, 2)[1]
    open_gate("open")
    all_completed(conn, 1)
    assert effects(conn) == {task_id: second.fencing_token}


def test_the_outcome_of_a_worker_that_slept_past_its_lease_is_refused(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    sleeper = start_fleet("prefork", concurrency=1, FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "stubborn", {"gate": "open"})
    started(conn)
    sleeper.freeze()
    start_fleet("prefork", concurrency=1, FLEET_LEASE="1")
    second = started(conn, 2)[1]
    open_gate("open")
    all_completed(conn, 1)
    sleeper.thaw()
    sleeper.wait_for_output(f"the outcome of task {task_id} was refused")
    assert task(conn, task_id).worker_id.startswith("fleet2@test/")
    assert task(conn, task_id).fencing_token == second.fencing_token


def test_a_lease_is_kept_for_as_long_as_the_handler_runs(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    start_fleet("prefork", FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    first_end = task(conn, task_id).lock_expires_at
    wait_until(lambda: (task(conn, task_id).lock_expires_at - first_end).total_seconds() > 1, what="extensions")
    open_gate("open")
    all_completed(conn, 1)
    assert (task(conn, task_id).attempts, task(conn, task_id).expirations) == (1, 0)


def test_a_handler_learns_that_its_task_was_canceled(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    fleet = start_fleet("threads", FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "gated", {"gate": "never"})
    started(conn)
    call.one(conn, "cancel_task", task_id=task_id)
    fleet.wait_for_output(f"the handler of task {task_id} stopped: celeriac.errors.Canceled")
    assert states(conn) == {"CANCELED": 1}


@pytest.mark.parametrize("dies", [False, True])
def test_what_undoes_a_canceled_step_comes_after_it(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate, tmp_path: Path, dies: bool
) -> None:
    told = tmp_path / "told"
    first = start_fleet("prefork", concurrency=1, FLEET_LEASE="2" if dies else "30")
    [task_id] = enqueue(database_url, "order", {"file": str(told), "gate": "open"})
    started(conn)
    start_fleet("prefork", concurrency=1, FLEET_LEASE="2" if dies else "30")
    call.one(conn, "cancel_task", task_id=task_id, compensate=True)
    assert states(conn) == {"SCHEDULED": 1}
    if dies:
        first.kill()
    open_gate("open")
    wait_until(lambda: states(conn) == {"CANCELED": 1}, 20, what="the end of the undo")
    assert told.read_text().split() == (["refund"] if dies else ["charge", "refund"])


def test_a_flushed_broker_costs_no_task(
    start_fleet: StartFleet, conn: Connection, database_url: str, valkey: EmbeddedValkey
) -> None:
    start_fleet("prefork", FLEET_SLICE_TASKS="1")
    ids = enqueue(database_url, "mark", *[{}] * 100)
    wait_until(lambda: states(conn)["COMPLETED"] >= 20, what="the middle")
    valkey.flush()
    all_completed(conn, 100, seconds=60)
    assert set(effects(conn)) == set(ids)
    assert {task(conn, task_id).attempts for task_id in ids} == {1}


def test_an_outcome_is_reported_when_postgres_is_back(
    start_fleet: StartFleet, conn: Connection, database_url: str, postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    fleet = start_fleet("threads")
    [task_id] = enqueue(database_url, "patient", {"file": str(tmp_path / "go")})
    started(conn)
    postgres.stop()
    (tmp_path / "go").touch()
    fleet.wait_for_output(f"the report on task {task_id} is repeated")
    postgres.start()
    wait_until(lambda: answers(conn), what="Postgres")
    all_completed(conn, 1)
    assert task(conn, task_id).attempts == 1
    enqueue(database_url, "mark", {})
    all_completed(conn, 2)


def test_a_warm_shutdown_finishes_what_runs_and_begins_nothing(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str, open_gate: OpenGate
) -> None:
    # A slice that would go on for long, if the child did not hear of the shutdown.
    fleet = start_fleet("prefork", concurrency=1, FLEET_SLICE_SECONDS="60")
    [running] = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    waiting = enqueue(database_url, "mark", *[{}] * 5)
    fleet.send(signal.SIGTERM)
    fleet.wait_for_output("Warm shutdown")
    open_gate("open")
    assert fleet.wait() == 0
    assert task(conn, running).state == "COMPLETED"
    assert {(task(conn, task_id).state, task(conn, task_id).attempts) for task_id in waiting} == {("READY", 0)}
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen("fleet") > 0  # the work that is left is rung for
    start_fleet("prefork", concurrency=1)
    all_completed(conn, 6)


def test_no_connection_is_shared_with_a_child_that_is_forked_later(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    start_fleet("prefork", "--max-tasks-per-child=1", concurrency=3, FLEET_SLICE_TASKS="1")
    enqueue(database_url, "gated", *[{"gate": "open"}] * 3)
    old = {row.pid for row in started(conn, 3)}
    open_gate("open")
    enqueue(database_url, "gated", *[{"gate": "never"}] * 3)
    new = {row.pid for row in started(conn, 6)} - old
    assert (len(old), len(new)) == (3, 3)  # by now the parent had a connection to pass on
    backends = conn.execute(text("select count(*) from pg_stat_activity where application_name = 'celeriac-fleet'"))
    assert backends.scalar_one() >= 4
    assert states(conn) == {"COMPLETED": 3, "LOCKED": 3}
