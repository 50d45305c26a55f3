"""WAITING -> READY for those whose time has come; each once, none early."""

from typing import Any

import pytest

from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.overlap import overlap
from tests.db.waits import at_rest, fire, for_signal, for_task, for_time, send, steps, suspend

DAY_MS = 24 * 60 * 60 * 1000


def test_a_task_sleeps_for_as_long_as_it_asked(clerk: Clerk, clock: Clock) -> None:
    task = at_rest(clerk, for_time(60_000))
    clock.advance(59)
    assert fire(clerk) == (0, [])
    clock.advance(2)
    assert fire(clerk) == (1, ["mail"])
    assert steps(clerk, task.task_id) == [("", 1, "timer", "sleep", None)]
    assert fire(clerk) == (0, [])
    assert clerk.fetch()[0].task_id == task.task_id


@pytest.mark.parametrize("days", [24.84, 24.87, 30, 50, 36525])
def test_no_sleep_is_too_long(clerk: Clerk, clock: Clock, days: float) -> None:
    """Case B30: past 2**31 ms, and up to 100 years."""
    at_rest(clerk, for_time(int(days * DAY_MS)))
    assert fire(clerk).fired == 0
    clock.advance(days * DAY_MS / 1000 - 60)
    assert fire(clerk).fired == 0
    clock.advance(61)
    assert fire(clerk).fired == 1


def test_until_is_the_same_moment_whatever_zone_the_session_has(clerk: Clerk) -> None:
    clerk.run("set timezone = 'Asia/Kolkata'")
    for until in ("2040-03-01T12:00:00Z", "2040-03-01T17:30:00+05:30"):
        at_rest(clerk, {"kind": "timer", "name": "until", "ordinal": 1, "until": until})
    assert clerk.scalar("select count(distinct until) from celeriac.waits where until = '2040-03-01 12:00:00Z'") == 1


def test_a_thousand_that_were_due_during_an_outage_fire_once_each(clerk: Clerk, clock: Clock) -> None:
    """Case B27.4."""
    clerk.enqueue_items([{"task_type": "mail"}] * 1000)
    for _ in range(10):
        for task in clerk.fetch(max_tasks=100):
            suspend(clerk, task, for_time(60_000))
    clock.advance(600)
    fired = [fire(clerk, max_tasks=300).fired for _ in range(5)]
    assert fired == [300, 300, 300, 100, 0]
    assert clerk.scalar("select count(*) from celeriac.step") == 1000


def test_all_that_is_due_of_a_task_comes_at_once_and_counts_as_one(clerk: Clerk, clock: Clock) -> None:
    task = at_rest(
        clerk, for_time(1000, ordinal=1), for_signal(ordinal=2, timeout_ms=1000), for_time(DAY_MS, ordinal=3)
    )
    clock.advance(2)
    assert fire(clerk).fired == 1
    assert [ordinal for _, ordinal, _, _, _ in steps(clerk, task.task_id)] == [1, 2]


def test_two_beats_fire_each_timer_once(clerk: Clerk, clock: Clock, database_url: str) -> None:
    for _ in range(4):
        at_rest(clerk, for_time(1000))
    clock.advance(2)
    one, other = overlap(database_url, lambda c: fire(c, max_tasks=3), fire)
    assert (one.fired, other.fired) == (3, 1)


def test_one_that_somebody_is_at_is_passed_over(clerk: Clerk, clock: Clock, database_url: str) -> None:
    held = at_rest(clerk, for_signal(branch="1.0"), for_time(1000, branch="1.1"))
    at_rest(clerk, for_time(1000))
    clock.advance(2)
    _, fired = overlap(database_url, send, fire, keep=False)
    assert fired.fired == 1
    assert clerk.state(held.task_id) == "WAITING"
    assert fire(clerk).fired == 1


def test_a_child_that_ended_at_the_last_moment_is_no_time_out(clerk: Clerk, clock: Clock) -> None:
    child = clerk.held("child")
    parent = at_rest(clerk, for_task(child.task_id, timeout_ms=60_000))
    clerk.run("update celeriac.wait set armed = false")  # the end is not heard
    clerk.complete(child)
    clerk.run("update celeriac.wait set armed = true")
    clock.advance(61)
    fire(clerk)
    ((_, _, _, _, outcome),) = steps(clerk, parent.task_id)
    assert outcome["state"] == "COMPLETED"


def test_without_beat_fetches_wake_a_few(clerk: Clerk, clock: Clock) -> None:
    at_rest(clerk, for_time(1000))
    fire(clerk)
    clock.advance(1.5)
    assert clerk.fetch() == []  # somebody may still come and do the chore
    clock.advance(2)
    assert len(clerk.fetch()) == 1


def test_a_fleet_is_rung_once_a_type(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type()
    for _ in range(5):
        at_rest(clerk, for_time(1000))
    clerk.rings()
    clock.advance(2)
    fire(clerk)
    assert clerk.rings() == [("fleet", "mail")]


def test_what_is_disarmed_does_not_fire(clerk: Clerk, clock: Clock) -> None:
    task: Any = at_rest(clerk, for_signal(branch="1.0"), for_time(1000, branch="1.1"))
    send(clerk)
    clock.advance(2)
    assert fire(clerk).fired == 0
    assert len(steps(clerk, task.task_id)) == 1
    assert suspend(clerk, clerk.fetch()[0], for_time(1000, branch="1.1"))[0].state == "SATISFIED"
