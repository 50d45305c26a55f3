"""A type with `concurrency`: of each concurrency key so many tasks are held at once; the others are BLOCKED."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Row

from db import call
from db.errors import AlreadyEnded, Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk

End = Callable[[Clerk, Clock, Row[Any]], Any]


def limited(clerk: Clerk, concurrency: int = 1, name: str = "mail", **settings: Any) -> None:
    clerk.one("register_task_type", name=name, concurrency=concurrency, **settings)


def states(clerk: Clerk) -> list[str]:
    """Of all open tasks, in the order in which they were enqueued."""
    return [row["state"] for row in clerk.query("select state from celeriac.queue order by task_id")]


def end_lost(clerk: Clerk, clock: Clock, task: Row[Any]) -> None:
    clock.advance(31)
    clerk.one("expire_leases")


ENDS: dict[str, End] = {
    "completed": lambda clerk, _, task: clerk.complete(task),
    "completed in a batch": lambda clerk, _, task: clerk.one(
        "complete_tasks", items=call.json_list([{"task_id": str(task.task_id)}]), worker_id="w1"
    ),
    "failed, with a rest": lambda clerk, _, task: clerk.fail(task, retry_after_ms=60_000),
    "failed for good": lambda clerk, _, task: clerk.fail(task, retries=0),
    "canceled": lambda clerk, _, task: clerk.cancel(task.task_id),
    "released and canceled": lambda clerk, _, task: (clerk.release(task), clerk.cancel(task.task_id)),
    "all released and canceled": lambda clerk, _, task: (
        clerk.one("release_leases", worker_id="w1"),
        clerk.cancel(task.task_id),
    ),
    "lost and canceled": lambda clerk, clock, task: (end_lost(clerk, clock, task), clerk.cancel(task.task_id)),
    "lost too often": end_lost,
}


def test_of_one_key_no_more_are_held_than_the_type_says(clerk: Clerk) -> None:
    limited(clerk, 2)
    for _ in range(4):
        clerk.enqueue(concurrency_key="k")
    assert len(clerk.fetch(max_tasks=10)) == 2
    assert states(clerk) == ["LOCKED", "LOCKED", "BLOCKED", "BLOCKED"]
    assert clerk.fetch(max_tasks=10) == []
    (row,) = clerk.query("select * from celeriac.concurrency_keys")
    assert (row["task_type"], row["key"], row["concurrency"], row["held"], row["blocked"]) == ("mail", "k", 2, 2, 2)


def test_other_keys_and_tasks_without_one_are_not_concerned(clerk: Clerk) -> None:
    limited(clerk)
    limited(clerk, name="scan")
    for key in ("k", "k", "l", None, None):
        clerk.enqueue(**({"concurrency_key": key} if key else {}))
    clerk.enqueue("scan", concurrency_key="k")
    assert len(clerk.fetch("mail", "scan", max_tasks=10)) == 5
    assert states(clerk) == ["LOCKED", "BLOCKED", "LOCKED", "LOCKED", "LOCKED", "LOCKED"]


def test_a_key_means_nothing_to_a_type_without_a_limit(clerk: Clerk) -> None:
    for _ in range(3):
        clerk.enqueue(concurrency_key="k")
    assert len(clerk.fetch(max_tasks=10)) == 3
    assert clerk.scalar("select count(*) from celeriac.slot") == 0


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_whatever_ends_a_lease_lets_the_next_in(clerk: Clerk, clock: Clock, end: End) -> None:
    limited(clerk, expirations=0 if end is end_lost else 5)
    tasks = [clerk.enqueue(concurrency_key="k") for _ in range(3)]
    (held,) = clerk.fetch(max_tasks=10)
    end(clerk, clock, held)
    assert [task.task_id for task in clerk.fetch(max_tasks=10)] == [tasks[1]]
    assert clerk.fetch(max_tasks=10) == []


@pytest.mark.parametrize("verb", ["release", "fail", "lose"])
def test_one_that_comes_back_is_before_those_behind_it(clerk: Clerk, clock: Clock, verb: str) -> None:
    limited(clerk)
    tasks = [clerk.enqueue(concurrency_key="k") for _ in range(3)]
    (held,) = clerk.fetch()
    if verb == "lose":
        end_lost(clerk, clock, held)
    elif verb == "release":
        clerk.release(held)
    else:
        clerk.fail(held, retry_after_ms=0)
    expected = tasks[1] if verb == "fail" else tasks[0]  # a failure goes behind what became due before it
    assert [task.task_id for task in clerk.fetch(max_tasks=3)] == [expected]


def test_completing_and_fetching_in_one_call_goes_through_a_key_one_by_one(clerk: Clerk) -> None:
    limited(clerk)
    tasks = [clerk.enqueue(concurrency_key="k") for _ in range(5)]
    items, done = [], []
    for _ in tasks:
        rows = clerk.rows(
            "complete_and_fetch", items=call.json_list(items), worker_id="w1", task_types=["mail"], max_tasks=3
        )
        (task,) = [row for row in rows if row.ordinal is None]
        done.append(task.task_id)
        items = [{"task_id": str(task.task_id), "fencing_token": task.fencing_token}]
    assert done == tasks


def test_the_next_is_the_best_by_priority_then_the_oldest(clerk: Clerk) -> None:
    limited(clerk)
    first, old, new = (clerk.enqueue(concurrency_key="k") for _ in range(3))
    urgent = clerk.enqueue(concurrency_key="k", priority=5)
    order = []
    for _ in range(4):
        (task,) = clerk.fetch(max_tasks=10)
        order.append(task.task_id)
        clerk.complete(task)
    assert order == [first, urgent, old, new]


def test_blocked_tasks_do_not_hide_the_others(clerk: Clerk) -> None:
    """They came before there was a limit that blocks them, so they lie before the others as READY ones."""
    limited(clerk, 10)
    for _ in range(30):
        clerk.enqueue(concurrency_key="k")
    clerk.run("update celeriac.queue set state = 'READY'")
    clerk.run("update celeriac.task_type set concurrency = 1")
    other = clerk.enqueue(concurrency_key="l")
    assert other in [task.task_id for task in clerk.fetch(max_tasks=2)]
    assert sorted(states(clerk)) == ["BLOCKED"] * 29 + ["LOCKED"] * 2


def test_a_claim_passes_over_a_bounded_number(clerk: Clerk) -> None:
    limited(clerk)
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 1500)
    clerk.run("update celeriac.queue set state = 'READY'")
    assert len(clerk.fetch(max_tasks=10)) == 1
    assert clerk.scalar("select count(*) from celeriac.queue where state = 'BLOCKED'") in range(500, 1020)
    assert clerk.fetch() == []


def test_a_version_that_nobody_runs_keeps_no_other_from_the_slot(clerk: Clerk) -> None:
    limited(clerk)
    clerk.enqueue(concurrency_key="k", version=2)
    mine = [clerk.enqueue(concurrency_key="k", version=1) for _ in range(2)]
    for task_id in mine:
        (task,) = clerk.fetch(versions={"mail": [1]}, max_tasks=10)
        assert task.task_id == task_id
        clerk.complete(task)


def test_canceling_one_that_was_let_in_lets_in_the_next(clerk: Clerk) -> None:
    limited(clerk)
    first, second = (clerk.enqueue(concurrency_key="k") for _ in range(2))
    assert states(clerk) == ["READY", "BLOCKED"]
    clerk.cancel(first)
    assert [task.task_id for task in clerk.fetch()] == [second]


def test_a_blocked_task_is_canceled_like_any_other(clerk: Clerk) -> None:
    limited(clerk)
    clerk.enqueue(concurrency_key="k")
    blocked = clerk.enqueue(concurrency_key="k")
    assert clerk.state(blocked) == "BLOCKED"
    clerk.cancel(blocked)
    assert clerk.state(blocked) == "CANCELED"
    (line,) = clerk.timeline(blocked)
    assert line["detail"]["was"] == "BLOCKED"
    with clerk.refuses(AlreadyEnded):
        clerk.one("redrive_task", task_id=blocked)


def test_enqueue_says_that_a_task_is_blocked(clerk: Clerk) -> None:
    limited(clerk, 2)
    item = {"task_type": "mail", "concurrency_key": "k"}
    rows = clerk.enqueue_items([item, item | {"delay_ms": 5000}, item, item, item | {"concurrency_key": "l"}])
    assert [row.state for row in rows] == ["READY", "SCHEDULED", "READY", "BLOCKED", "READY"]
    rows = clerk.enqueue_items([item | {"idempotency_key": "i"}, item | {"idempotency_key": "i"}])
    assert [(row.state, row.created) for row in rows] == [("BLOCKED", True), ("BLOCKED", False)]


def test_in_a_batch_the_best_are_ready_and_the_others_blocked(clerk: Clerk) -> None:
    limited(clerk, 2)
    rows = clerk.enqueue_items(
        [{"task_type": "mail", "concurrency_key": "k", "priority": priority} for priority in (0, 9, 0, 9)]
    )
    assert [row.state for row in rows] == ["BLOCKED", "READY", "BLOCKED", "READY"]


def test_what_becomes_due_lines_up_behind_the_others(clerk: Clerk, clock: Clock) -> None:
    limited(clerk)
    now = clerk.enqueue(concurrency_key="k")
    later = [clerk.enqueue(concurrency_key="k", delay_ms=1000) for _ in range(3)]
    clock.advance(2)
    assert clerk.one("promote_due").promoted == 3
    assert states(clerk) == ["READY", *["BLOCKED"] * 3]
    order = []
    for _ in range(4):
        (task,) = clerk.fetch(max_tasks=10)
        order.append(task.task_id)
        clerk.complete(task)
    assert order[0] == now
    assert sorted(order[1:]) == sorted(later)


def test_the_chore_lets_in_what_nobody_has_fetched_and_rings(clerk: Clerk) -> None:
    clerk.celery_type()
    limited(clerk)
    clerk.enqueue(concurrency_key="k")
    (task,) = clerk.fetch()
    clerk.enqueue(concurrency_key="k")
    clerk.complete(task)
    clerk.rings()
    answer = clerk.one("promote_due")
    assert (answer.promoted, answer.task_types) == (0, ["mail"])
    assert clerk.rings() == [("fleet", "mail")]
    assert states(clerk) == ["READY"]
    assert clerk.one("promote_due").task_types == []
    assert clerk.rings() == []


def test_the_look_of_an_api_process_lets_in_as_well_and_counts_it(clerk: Clerk) -> None:
    limited(clerk)
    for _ in range(3):
        clerk.enqueue(concurrency_key="k")
    (task,) = clerk.fetch()
    assert clerk.rows("ready_types", task_types=["mail"]) == []
    clerk.complete(task)
    assert [(row.task_type, row.ready) for row in clerk.rows("ready_types", task_types=["mail"])] == [("mail", 1)]


def test_a_fetch_rings_for_what_it_let_in_and_may_not_take(clerk: Clerk) -> None:
    """Workers of another version may be asleep."""
    clerk.celery_type()
    limited(clerk)
    (task, *_) = (clerk.held(concurrency_key="k"), clerk.enqueue(concurrency_key="k", version=2))
    clerk.complete(task)
    clerk.rings()
    assert clerk.fetch(versions={"mail": [1]}) == []
    assert clerk.rings() == [("fleet", "mail")]
    (task,) = clerk.fetch()
    clerk.enqueue(concurrency_key="k")
    clerk.complete(task)
    clerk.rings()
    assert len(clerk.fetch()) == 1
    assert clerk.rings() == []


def test_late_chores_are_made_up_for_by_whoever_looks(clerk: Clerk) -> None:
    """A limit was taken away, and beat is dead: only chores look for openings of a type without limits."""
    limited(clerk)
    for _ in range(3):
        clerk.enqueue(concurrency_key="k")
    clerk.fetch()
    limited(clerk, 0)
    assert len(clerk.fetch(max_tasks=10)) == 2


def test_a_redriven_task_has_its_key_still(clerk: Clerk) -> None:
    limited(clerk)
    dead = clerk.dead(concurrency_key="k")
    clerk.held(concurrency_key="k")
    clerk.one("redrive_task", task_id=dead.task_id)
    assert clerk.fetch() == []
    assert clerk.state(dead.task_id) == "BLOCKED"


def test_a_key_that_is_no_name_is_refused(clerk: Clerk) -> None:
    for wrong in ("", " k", "k\u200b", 7, "k" * 256):
        with clerk.refuses(Invalid, "tasks[0].concurrency_key"):
            clerk.enqueue(concurrency_key=wrong)


def test_an_opening_is_kept_while_somebody_else_holds_the_blocked_task(clerk: Clerk, database_url: str) -> None:
    limited(clerk)
    task = clerk.held(concurrency_key="k")
    blocked = clerk.enqueue(concurrency_key="k")
    with psycopg.connect(database_url) as other:
        other.execute("select from celeriac.queue where task_id = %s for update", [blocked])
        clerk.complete(task)
        assert clerk.fetch() == []
        other.rollback()
    assert [task.task_id for task in clerk.fetch()] == [blocked]
