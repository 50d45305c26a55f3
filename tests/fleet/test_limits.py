"""Time limits of attempts: in a child of its own, and in a process with others."""

import json
import os
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from app.dev.waiting import wait_until
from tests.fleet.conftest import StartFleet
from tests.fleet.ringing import send
from tests.fleet.sights import all_completed, enqueue, started, states, task

OpenGate = Callable[[str], None]
HARD = "the hard time limit of 0.5 s was exceeded"


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_soft_limit_is_raised_in_the_handler_which_may_clean_up(
    pool: str, start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet(pool)
    [cleaned, failed] = enqueue(database_url, "limited", {"mood": "clean up"}, {})
    wait_until(lambda: states(conn) == {"COMPLETED": 1, "FAILED": 1}, what="both ends")
    assert json.loads(task(conn, cleaned).result) == {
        "cleaned up after": "the soft time limit of 0.5 s was exceeded",
        "celery's": "True",
    }
    assert "the soft time limit of 0.5 s was exceeded" in task(conn, failed).error


@pytest.mark.parametrize("mood", ["wait", "hold"])
def test_a_child_whose_hard_limit_is_over_is_killed_after_its_attempt_was_failed(
    mood: str, start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    fleet = start_fleet("prefork", concurrency=1)
    [doomed] = enqueue(database_url, "endless", {"gate": "never", "mood": mood})
    [start] = started(conn)
    others = enqueue(database_url, "mark", {}, {})
    wait_until(lambda: states(conn) == {"FAILED": 1, "COMPLETED": 2}, what="the failure, and what waited behind it")
    assert HARD in task(conn, doomed).error
    assert {task(conn, other).attempts for other in others} == {1}
    wait_until(lambda: not _lives(start.pid), what="the end of the child")
    assert fleet.is_running


def test_an_attempt_in_a_thread_is_failed_and_fenced_off_when_its_hard_limit_is_over(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    fleet = start_fleet("threads")
    [doomed] = enqueue(database_url, "endless", {"gate": "later"})
    wait_until(lambda: states(conn) == {"FAILED": 1}, what="the failure, while the handler still runs")
    assert HARD in task(conn, doomed).error
    open_gate("later")
    enqueue(database_url, "mark", {}, {})
    wait_until(lambda: states(conn) == {"FAILED": 1, "COMPLETED": 2}, what="work that comes after")
    assert fleet.is_running


def test_the_limits_of_the_app_hold_for_tasks_without_their_own_and_not_for_rings(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet("prefork", "--time-limit=1", concurrency=1, FLEET_SLICE_SECONDS="60", FLEET_LEASE="30")
    [doomed] = enqueue(database_url, "gated", {"gate": "never"})
    wait_until(lambda: task(conn, doomed).attempts >= 2, what="a second attempt, since the first was ended")
    history = conn.execute(
        text("select detail ->> 'error' from celeriac.task_timeline where task_id = :id and kind = 'failed'"),
        {"id": doomed},
    )
    assert history.scalars().all()[0] == "the hard time limit of 1 s was exceeded"


def test_plain_tasks_in_the_same_children_keep_the_soft_limit_of_celery(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str
) -> None:
    fleet = start_fleet("prefork", concurrency=1)
    enqueue(database_url, "limited", {"mood": "clean up"})
    all_completed(conn, 1)  # by now the child has taken the signal over
    send(redis_url, "fleet", "dawdle")
    fleet.wait_for_output("celery's own soft limit")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
