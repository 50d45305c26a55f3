"""Putting, pausing and dropping schedules: what stays, what is refused, and who may."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from db.errors import Forbidden, Invalid, NotFound, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.schedule.conftest import Put, moment_after

ANCHOR = datetime(2027, 1, 31, 10, tzinfo=UTC)


def listed(clerk: Clerk) -> list[dict[str, Any]]:
    return clerk.query("select * from celeriac.schedules order by name")


def test_a_schedule_is_put_with_its_first_slot_and_listed(clerk: Clerk, put: Put, clock: Clock) -> None:
    made = put(cron="30 2 * * *", time_zone="Europe/Berlin", principal="ops", slot_variable="due")
    (row,) = listed(clerk)
    assert row["next_at"] == made.next_at == moment_after(clock, 60)
    assert (row["task_type"], row["cron"], row["time_zone"]) == ("mail", "30 2 * * *", "Europe/Berlin")
    assert (row["principal"], row["catch_up"], row["slot_variable"]) == ("ops", "one", "due")
    assert (row["fired"], row["missed"], row["paused"], row["error"]) == (0, 0, False, None)


def test_the_same_timing_again_keeps_the_next_slot_and_what_was_counted(clerk: Clerk, put: Put, clock: Clock) -> None:
    first = put(every="P1M", anchor_at=ANCHOR)
    clerk.run("update celeriac.schedule set fired = 7, missed = 2")
    clock.advance(5)
    again = put(every="P1M", anchor_at=ANCHOR, task={"task_type": "print"}, catch_up="none")
    assert (again.next_at, again.fired, again.missed) == (first.next_at, 7, 2)
    assert (again.created_at, again.catch_up) == (first.created_at, "none")
    assert again.updated_at > first.updated_at
    assert listed(clerk)[0]["task_type"] == "print"


@pytest.mark.parametrize(
    "changed",
    [
        {"cron": "5 * * * *"},
        {"time_zone": "Europe/Berlin"},
        {"cron": None, "every": "PT5M", "anchor_at": ANCHOR},
    ],
)
def test_another_timing_brings_its_own_next_slot(put: Put, changed: dict[str, Any]) -> None:
    first = put()
    assert put(in_seconds=5, **changed).next_at == first.next_at - timedelta(seconds=55)


def test_putting_a_schedule_that_stood_still_starts_it_anew(clerk: Clerk, put: Put, clock: Clock) -> None:
    put()
    clerk.run("update celeriac.schedule set next_at = null, error = 'no such zone'")
    again = put(in_seconds=5)
    assert (again.next_at, again.error) == (moment_after(clock, 5), None)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": " nightly"}, "name"),
        ({"name": "n" * 201}, "length of name"),
        ({"cron": None}, "cron"),
        ({"cron": "* * * * *", "every": "P1D", "anchor_at": ANCHOR}, "cron"),
        ({"cron": "\n"}, "cron"),
        ({"every": " P1D", "anchor_at": ANCHOR}, "every"),
        ({"every": "P1D"}, "anchor_at"),
        ({"cron": "* * * * *", "anchor_at": ANCHOR}, "anchor_at"),
        ({"time_zone": None}, "time_zone"),
        ({"catch_up": "some"}, "catch_up"),
        ({"slot_variable": ""}, "slot_variable"),
        ({"in_seconds": 250 * 366 * 86400}, "next_at"),
        ({"task": {}}, "task.task_type"),
        ({"task": {"task_type": "mail", "delay_ms": 5}}, "task.delay_ms"),
        ({"task": {"task_type": "mail", "idempotency_key": "mine"}}, "task.idempotency_key"),
        ({"task": {"task_type": "mail", "retries": 0}}, "task.retries"),
        ({"task": {"task_type": "mail", "variables": []}}, "task.variables"),
        ({"task": {"task_type": "mail", "policy": {"lease_ms": 0}}}, "task.policy.lease_ms"),
    ],
)
def test_what_could_never_fire_is_refused_by_its_field(
    clerk: Clerk, put: Put, changed: dict[str, Any], field: str
) -> None:
    with clerk.refuses(Invalid, field):
        put(**changed)
    assert listed(clerk) == []


def test_a_next_slot_at_no_time_is_refused(clerk: Clerk) -> None:
    task = {"task_type": "mail"}
    for never in ("infinity", "-infinity", None):
        with clerk.refuses(Invalid, "next_at"):
            clerk.one("put_schedule", name="n", task=task, cron="* * * * *", next_at=never)


def test_variables_over_the_limit_are_refused(clerk: Clerk, put: Put) -> None:
    with clerk.refuses(TooLarge, "task.variables"):
        put(task={"task_type": "mail", "variables": {"text": "x" * (1 << 20)}})


def test_nobody_schedules_or_takes_over_what_is_not_theirs(clerk: Clerk, put: Put) -> None:
    with clerk.refuses(Forbidden, "task.task_type"):
        put(task={"task_type": "pay"}, only_types=["mail"])
    put("salaries", task={"task_type": "pay"})
    with clerk.refuses(Forbidden, "name"):
        put("salaries", only_types=["mail"])
    for function, arguments in {"pause_schedule": {"paused": True}, "delete_schedule": {}}.items():
        with clerk.refuses(NotFound):
            clerk.one(function, name="salaries", only_types=["mail"], **arguments)
    assert [(row["task_type"], row["paused"]) for row in listed(clerk)] == [("pay", False)]


def test_a_paused_schedule_is_never_due_and_resumes_at_the_slot_it_is_told(
    clerk: Clerk, put: Put, clock: Clock
) -> None:
    made = put(in_seconds=1)
    paused = clerk.one("pause_schedule", name="nightly", paused=True)
    assert (paused.paused, paused.next_at) == (True, None)
    clock.advance(3600)
    assert clerk.rows("due_schedules") == []
    later = moment_after(clock, 30)
    resumed = clerk.one("pause_schedule", name="nightly", paused=False, next_at=later, seen_at=made.updated_at)
    assert (resumed.paused, resumed.next_at, resumed.missed) == (False, later, 0)


def test_putting_a_paused_schedule_leaves_it_paused(clerk: Clerk, put: Put) -> None:
    put()
    clerk.one("pause_schedule", name="nightly", paused=True)
    assert (put(cron="5 * * * *").paused, listed(clerk)[0]["next_at"]) == (True, None)


def test_resuming_by_a_definition_that_was_replaced_changes_nothing(clerk: Clerk, put: Put, clock: Clock) -> None:
    seen = put()
    clerk.one("pause_schedule", name="nightly", paused=True)
    clock.advance(1)
    put(cron="5 * * * *")
    stale = {"name": "nightly", "paused": False, "next_at": moment_after(clock, 9), "seen_at": seen.updated_at}
    assert clerk.rows("pause_schedule", **stale) == []
    assert listed(clerk)[0]["paused"] is True


def test_resuming_what_runs_changes_nothing(clerk: Clerk, put: Put, clock: Clock) -> None:
    made = put()
    later = moment_after(clock, 3600)
    again = clerk.one("pause_schedule", name="nightly", paused=False, next_at=later, seen_at=made.updated_at)
    assert again.next_at == made.next_at


def test_resuming_needs_a_slot(clerk: Clerk, put: Put) -> None:
    made = put()
    with clerk.refuses(Invalid, "next_at"):
        clerk.one("pause_schedule", name="nightly", paused=False, seen_at=made.updated_at)
    with clerk.refuses(Invalid, "paused"):
        clerk.one("pause_schedule", name="nightly", paused=None)


def test_a_dropped_schedule_is_gone_and_its_tasks_go_on(clerk: Clerk, put: Put, clock: Clock) -> None:
    made = put(in_seconds=0)
    fired = clerk.one(
        "fire_schedule",
        name="nightly",
        due_at=made.next_at,
        seen_at=made.updated_at,
        slot_at=made.next_at,
        next_at=None,
    )
    assert clerk.one("delete_schedule", name="nightly").name == "nightly"
    assert listed(clerk) == []
    assert clerk.state(fired.task_id) == "READY"
    with clerk.refuses(NotFound):
        clerk.one("delete_schedule", name="nightly")
