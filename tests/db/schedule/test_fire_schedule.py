"""A slot becomes one task, whoever asks for it and how often; and the limit of starts a second is exact."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Row

from app.dev.waiting import wait_until
from db.engine import sync_engine
from db.errors import IdempotencyConflict, Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.schedule.conftest import Put, moment_after

MINUTE = timedelta(minutes=1)


def seen(clerk: Clerk, name: str = "nightly") -> Row[Any]:
    return next(row for row in clerk.rows("due_schedules") if row.name == name)


def fire(clerk: Clerk, due: Any, **changed: Any) -> Row[Any]:
    arguments: dict[str, Any] = {
        "name": due.name,
        "due_at": due.next_at,
        "seen_at": due.seen_at,
        "slot_at": due.next_at,
        "next_at": due.next_at + MINUTE,
    }
    return clerk.one("fire_schedule", **(arguments | changed))


def schedule(clerk: Clerk, name: str = "nightly") -> dict[str, Any]:
    return clerk.query("select * from celeriac.schedules where name = :name", name=name)[0]


def test_only_what_has_come_is_due_the_oldest_slot_first(clerk: Clerk, put: Put, clock: Clock) -> None:
    put("late", in_seconds=10)
    put("later", in_seconds=20)
    put("future", in_seconds=31)
    clock.advance(30)
    due = clerk.rows("due_schedules")
    assert [row.name for row in due] == ["late", "later"]
    assert {row.now_at for row in due} == {clock.now()}
    assert [row.name for row in clerk.rows("due_schedules", max_schedules=1)] == ["late"]
    assert clerk.scalar("select count(*) from celeriac.chores where name = 'run_schedules'") == 1


def test_a_slot_becomes_a_task_and_the_next_slot_is_awaited(clerk: Clerk, put: Put, clock: Clock) -> None:
    item = {"task_type": "mail", "variables": {"n": 1}, "priority": 3, "business_key": "b", "retries": 9, "version": 2}
    put(in_seconds=0, task=item, slot_variable="slot")
    due = seen(clerk)
    fired = fire(clerk, due, missed=4)
    assert (fired.outcome, fired.task_type, fired.state) == ("FIRED", "mail", "READY")
    task = clerk.task(fired.task_id)
    slot = json.loads(task["variables"])["slot"]
    assert slot == due.next_at.isoformat(timespec="microseconds").replace("+00:00", "Z").rstrip("Z").rstrip("0") + "Z"
    assert task["idempotency_key"] == f"schedule:nightly:{slot}"
    assert (task["priority"], task["retries"], task["version"], task["business_key"]) == (3, 9, 2, "b")
    row = schedule(clerk)
    assert (row["next_at"], row["last_slot_at"]) == (due.next_at + MINUTE, due.next_at)
    assert (row["fired"], row["missed"], row["last_task_id"]) == (1, 4, fired.task_id)


def test_a_whole_second_is_written_without_a_fraction(clerk: Clerk, put: Put) -> None:
    due = put(in_seconds=0)
    clerk.run("update celeriac.schedule set next_at = date_trunc('second', next_at)")
    task = clerk.task(fire(clerk, seen(clerk)).task_id)
    slot = due.next_at.replace(microsecond=0).isoformat().replace("+00:00", "Z")
    assert task["idempotency_key"] == f"schedule:nightly:{slot}"


def test_what_was_seen_before_fires_nothing_a_second_time(clerk: Clerk, put: Put) -> None:
    put(in_seconds=0)
    due = seen(clerk)
    assert [fire(clerk, due).outcome for _ in range(3)] == ["FIRED", "GONE", "GONE"]
    assert clerk.scalar("select count(*) from celeriac.task") == 1


CHANGES: dict[str, Callable[[Clerk, Put], object]] = {
    "paused": lambda clerk, put: clerk.one("pause_schedule", name="nightly", paused=True),
    "deleted": lambda clerk, put: clerk.one("delete_schedule", name="nightly"),
    "given another task": lambda clerk, put: put(in_seconds=0, task={"task_type": "print"}),
    "given another timing": lambda clerk, put: put(cron="5 * * * *"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_since_it_was_seen_does_not_fire(clerk: Clerk, put: Put, clock: Clock, change: str) -> None:
    put(in_seconds=0)
    due = seen(clerk)
    clock.advance(1)
    CHANGES[change](clerk, put)
    assert fire(clerk, due).outcome == "GONE"
    assert clerk.scalar("select count(*) from celeriac.task") == 0


def test_passing_on_fires_nothing_counts_what_is_missed_and_keeps_the_reason(clerk: Clerk, put: Put) -> None:
    put(in_seconds=0)
    passed = fire(clerk, seen(clerk), slot_at=None, missed=3, error="too_large: no")
    assert (passed.outcome, passed.task_id) == ("PASSED", None)
    row = schedule(clerk)
    assert (row["fired"], row["missed"], row["error"], row["last_slot_at"]) == (0, 3, "too_large: no", None)


def test_a_slot_that_fires_clears_the_error_of_the_one_before(clerk: Clerk, put: Put, clock: Clock) -> None:
    put(in_seconds=0)
    fire(clerk, seen(clerk), slot_at=None, error="x" * 9000)
    assert len(schedule(clerk)["error"]) == 8192
    clock.advance(60)
    fire(clerk, seen(clerk))
    assert schedule(clerk)["error"] is None


def test_a_schedule_without_a_next_slot_is_never_due_again(clerk: Clerk, put: Put, clock: Clock) -> None:
    put(in_seconds=0)
    fire(clerk, seen(clerk), next_at=None)
    clock.advance(10**9)
    assert clerk.rows("due_schedules") == []


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"slot_at": 61}, "slot_at"),
        ({"slot_at": -1}, "slot_at"),
        ({"due_at": 61}, "slot_at"),
        ({"next_at": 0}, "next_at"),
        ({"slot_at": 30, "next_at": 30}, "next_at"),
        ({"missed": -1}, "missed"),
        ({"starts_per_second": 0}, "starts_per_second"),
    ],
)
def test_no_slot_is_fired_before_its_time_and_time_only_goes_on(
    clerk: Clerk, put: Put, clock: Clock, changed: dict[str, Any], field: str
) -> None:
    put(in_seconds=0)
    clock.advance(60)
    due = seen(clerk)
    times = {k: due.next_at + timedelta(seconds=v) if k.endswith("_at") else v for k, v in changed.items()}
    with clerk.refuses(Invalid, field):
        fire(clerk, due, **times)


def test_a_key_that_somebody_used_with_another_input_is_refused_and_keeps_the_slot(clerk: Clerk, put: Put) -> None:
    put(in_seconds=0)
    clerk.run("update celeriac.schedule set next_at = date_trunc('second', next_at)")
    due = seen(clerk)
    key = f"schedule:nightly:{due.next_at.isoformat().replace('+00:00', 'Z')}"
    clerk.enqueue(idempotency_key=key, variables={"not": "ours"})
    with clerk.refuses(IdempotencyConflict, "tasks[0].idempotency_key"):
        fire(clerk, due)
    assert seen(clerk).next_at == due.next_at


def test_a_slot_that_was_fired_by_a_schedule_of_the_same_name_is_that_task(clerk: Clerk, put: Put) -> None:
    put(in_seconds=0)
    due = seen(clerk)
    first = fire(clerk, due)
    clerk.one("delete_schedule", name="nightly")
    put(in_seconds=0)
    assert fire(clerk, seen(clerk)).task_id == first.task_id


def test_a_fleet_is_rung_for_what_fires(clerk: Clerk, put: Put) -> None:
    clerk.celery_type("mail", "fleet")
    put(in_seconds=0)
    fire(clerk, seen(clerk))
    assert clerk.rings() == [("fleet", "mail")]


def test_no_more_start_in_a_second_than_may(clerk: Clerk, put: Put, clock: Clock) -> None:
    for number in range(5):
        put(f"s{number}", in_seconds=0)
    due = clerk.rows("due_schedules")
    assert Counter(fire(clerk, row, starts_per_second=3).outcome for row in due) == {"FIRED": 3, "LATER": 2}
    assert fire(clerk, clerk.rows("due_schedules")[0], slot_at=None).outcome == "PASSED", "it starts nothing"
    clock.advance(1)
    assert fire(clerk, clerk.rows("due_schedules")[0], starts_per_second=3).outcome == "FIRED"


def test_the_limit_of_starts_survives_a_clock_that_is_set_back(clerk: Clerk, put: Put, clock: Clock) -> None:
    put("s1", in_seconds=-7200)
    put("s2", in_seconds=-7200)
    assert fire(clerk, seen(clerk, "s1"), starts_per_second=1).outcome == "FIRED"
    clock.advance(-3600)
    assert fire(clerk, seen(clerk, "s2"), starts_per_second=1).outcome == "FIRED"


def at_once(database_url: str, calls: list[Callable[[Clerk], Row[Any]]]) -> list[Row[Any]]:
    """What each call answers, made by a thread and a connection of its own, all let go together."""
    go = threading.Barrier(len(calls))
    answers: list[Row[Any]] = []
    engine = sync_engine(database_url, pool_size=len(calls))

    def make(one_call: Callable[[Clerk], Row[Any]]) -> None:
        with engine.connect() as conn:
            go.wait()
            answers.append(one_call(Clerk(conn)))

    threads = [threading.Thread(target=make, args=(one_call,)) for one_call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()
    return answers


def test_eight_at_once_fire_each_slot_once(clerk: Clerk, put: Put, clock: Clock, database_url: str) -> None:
    put(in_seconds=0)
    for slot in range(1, 31):
        due = seen(clerk)
        answers = at_once(database_url, [lambda other, due=due: fire(other, due)] * 8)
        assert Counter(answer.outcome for answer in answers) == {"FIRED": 1, "GONE": 7}
        assert clerk.scalar("select count(*) from celeriac.task") == slot
        clock.advance(60)


def test_the_limit_of_starts_is_exact_for_many_at_once(clerk: Clerk, put: Put, clock: Clock, database_url: str) -> None:
    for number in range(8):
        put(f"s{number}", in_seconds=0)
    due = clerk.rows("due_schedules")
    calls = [lambda other, row=row: fire(other, row, starts_per_second=3) for row in due]
    assert Counter(answer.outcome for answer in at_once(database_url, calls)) == {"FIRED": 3, "LATER": 5}


@pytest.fixture
def slow(clerk: Clerk, conn: Connection, database_url: str) -> psycopg.Connection[Any]:
    """Another session, inside a transaction."""
    with psycopg.connect(database_url) as connection:
        yield connection
        connection.rollback()


def test_who_comes_while_another_fires_passes_by_and_finds_it_fired_or_as_it_was(
    clerk: Clerk, put: Put, slow: psycopg.Connection[Any]
) -> None:
    put(in_seconds=0)
    due = seen(clerk)
    statement = "select outcome from celeriac.fire_schedule(%s, %s, %s, %s, %s)"
    values = (due.name, due.next_at, due.seen_at, due.next_at, due.next_at + MINUTE)
    slow.execute(statement, values)
    assert fire(clerk, due).outcome == "GONE"
    slow.rollback()  # killed before its commit
    assert fire(clerk, due).outcome == "FIRED"


def test_a_drop_that_meets_a_firing_waits_for_it(
    clerk: Clerk, put: Put, slow: psycopg.Connection[Any], database_url: str
) -> None:
    put(in_seconds=0)
    due = seen(clerk)
    statement = "select outcome from celeriac.fire_schedule(%s, %s, %s, %s, %s)"
    slow.execute(statement, (due.name, due.next_at, due.seen_at, due.next_at, due.next_at + MINUTE))
    dropper = threading.Thread(
        target=at_once, args=(database_url, [lambda other: other.one("delete_schedule", name="nightly")])
    )
    dropper.start()
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%delete_schedule%'"
    wait_until(lambda: clerk.scalar(waiting) == 1, what="the drop to wait")
    slow.commit()
    dropper.join()
    assert clerk.query("select * from celeriac.schedules") == []
    assert clerk.scalar("select count(*) from celeriac.task") == 1


def test_a_firing_that_meets_a_drop_passes_by(clerk: Clerk, put: Put, slow: psycopg.Connection[Any]) -> None:
    put(in_seconds=0)
    due = seen(clerk)
    slow.execute("select from celeriac.delete_schedule('nightly')")
    assert fire(clerk, due).outcome == "GONE"
    slow.commit()
    assert fire(clerk, due).outcome == "GONE"


def test_times_do_not_depend_on_the_zone_of_the_session(clerk: Clerk, put: Put, clock: Clock) -> None:
    put(in_seconds=0, slot_variable="slot")
    clerk.run("set timezone = 'Asia/Kolkata'")
    task = clerk.task(fire(clerk, seen(clerk)).task_id)
    clerk.run("reset timezone")
    assert json.loads(task["variables"])["slot"].startswith(moment_after(clock, 0).strftime("%Y-%m-%dT%H:%M:%S"))
