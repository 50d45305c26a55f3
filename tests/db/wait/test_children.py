"""Tasks that ask for tasks, and wait for them."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Row

from db.engine import sync_engine
from db.errors import IdempotencyConflict, Invalid, LeaseLost
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.overlap import overlap
from tests.db.waits import another, at_rest, children, fire, for_task, send, steps, suspend


def outcome(clerk: Clerk, task_id: UUID, ordinal: int = 1) -> dict[str, Any]:
    (found,) = [step[4] for step in steps(clerk, task_id) if step[1] == ordinal]
    assert isinstance(found, dict)
    return found


def rested(clerk: Clerk) -> tuple[Row[Any], Row[Any]]:
    """(a parent that waits for its child, the child, held)."""
    parent = clerk.held()
    (child,) = children(clerk, parent)
    assert suspend(clerk, parent, for_task(child, ordinal=2))[0].state == "WAITING"
    return parent, clerk.fetch("child")[0]


def test_children_are_enqueued_with_the_step_that_names_them(clerk: Clerk) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, {"task_type": "a", "variables": {"n": 1}}, {"task_type": "b", "delay_ms": 1000})
    assert [clerk.state(id) for id in ids] == ["READY", "SCHEDULED"]
    assert steps(clerk, parent.task_id) == [("", 1, "enqueue", "children", [str(id) for id in ids])]
    assert clerk.query("select * from celeriac.child order by task_id") == [
        {"task_id": id, "parent_id": parent.task_id} for id in ids
    ]


def test_the_same_place_again_gives_the_same_children(clerk: Clerk) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, {"task_type": "a"}, {"task_type": "a"})
    clerk.complete(clerk.fetch("a")[0])
    assert children(clerk, parent, {"task_type": "a"}, {"task_type": "a"}) == ids
    assert clerk.scalar("select count(*) from celeriac.task") == 3


def test_another_call_at_the_place_is_refused(clerk: Clerk) -> None:
    parent = clerk.held()
    children(clerk, parent)
    with clerk.refuses(Invalid, "waits"):
        children(clerk, parent, name="others")


def test_who_has_lost_the_lease_enqueues_nothing(clerk: Clerk) -> None:
    parent = clerk.held()
    clerk.release(parent)
    with clerk.refuses(LeaseLost):
        children(clerk, parent)


def test_a_task_found_by_its_key_stays_whose_it_was(clerk: Clerk) -> None:
    other = clerk.enqueue("child", idempotency_key="k")
    parent = clerk.held()
    assert children(clerk, parent, {"task_type": "child", "idempotency_key": "k"}) == [other]
    assert clerk.query("select * from celeriac.child") == []
    clerk.cancel(parent.task_id)
    assert clerk.state(other) == "READY"


def test_what_enqueue_refuses_is_refused_and_leaves_no_step(clerk: Clerk) -> None:
    parent = clerk.held()
    clerk.enqueue("child", idempotency_key="k", variables={"n": 1})
    with clerk.refuses(IdempotencyConflict, "tasks[1].idempotency_key"):
        children(clerk, parent, {"task_type": "a"}, {"task_type": "child", "idempotency_key": "k"})
    assert steps(clerk, parent.task_id) == []


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED", "CANCELED"])
def test_a_parent_is_woken_by_the_end_of_its_child_whichever(clerk: Clerk, end: str) -> None:
    parent, child = rested(clerk)
    if end == "COMPLETED":
        clerk.complete(child, variables={"n": 9007199254740993})
    elif end == "FAILED":
        clerk.fail(child, retries=0, error="no paper")
    else:
        clerk.cancel(child.task_id, reason="not needed")
    assert clerk.state(parent.task_id) == "READY"
    assert outcome(clerk, parent.task_id, 2) == {
        "task_id": str(child.task_id),
        "state": end,
        "result": {"n": 9007199254740993} if end == "COMPLETED" else None,
        "error": {"COMPLETED": None, "FAILED": "no paper", "CANCELED": "not needed"}[end],
    }


def test_a_failure_with_retries_left_wakes_nobody(clerk: Clerk) -> None:
    parent, child = rested(clerk)
    clerk.fail(child, retries=1)
    assert clerk.state(parent.task_id) == "WAITING"


def test_a_child_that_kills_its_workers_is_an_end_as_well(clerk: Clerk, clock: Clock) -> None:
    parent = clerk.held(lock_duration_ms=3_600_000)
    (child,) = children(clerk, parent, {"task_type": "child", "policy": {"expirations": 0}})
    suspend(clerk, parent, for_task(child, ordinal=2))
    clerk.fetch("child", lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    assert outcome(clerk, parent.task_id, 2)["error"] == "lease_lost"


def test_a_child_that_has_ended_is_met_at_once(clerk: Clerk) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    clerk.complete(clerk.fetch("child")[0], variables={"n": 1})
    (met,) = suspend(clerk, parent, for_task(child, ordinal=2))
    assert (met.state, json.loads(met.result)["result"]) == ("SATISFIED", {"n": 1})


def test_one_that_is_gone_is_an_outcome_too(clerk: Clerk) -> None:
    task = clerk.held()
    gone = uuid4()
    (met,) = suspend(clerk, task, for_task(gone))
    assert json.loads(met.result) == {"task_id": str(gone), "state": "PURGED", "result": None, "error": None}


def test_a_wait_for_a_child_can_time_out_and_the_child_goes_on(clerk: Clerk, clock: Clock) -> None:
    parent = clerk.held(lock_duration_ms=3_600_000)
    (child,) = children(clerk, parent)
    suspend(clerk, parent, for_task(child, ordinal=2, timeout_ms=60_000))
    clock.advance(61)
    assert fire(clerk).fired == 1
    assert steps(clerk, parent.task_id)[1][4] is None
    assert clerk.state(child) == "READY"


def test_two_that_wait_for_the_same_task_are_both_woken(clerk: Clerk) -> None:
    child = clerk.held("child")
    parents = [at_rest(clerk, for_task(child.task_id)) for _ in range(2)]
    clerk.complete(child)
    assert [clerk.state(parent.task_id) for parent in parents] == ["READY", "READY"]


def test_children_that_end_while_the_parent_is_ready_are_found_by_its_next_look(clerk: Clerk) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, *[{"task_type": "child"}] * 3)
    waits = [for_task(id, branch=f"2.{n}") for n, id in enumerate(ids)]
    suspend(clerk, parent, *waits)
    for child in clerk.fetch("child", max_tasks=3):
        clerk.complete(child)
    assert len(steps(clerk, parent.task_id)) == 2
    (again,) = clerk.fetch()
    assert [row.branch for row in suspend(clerk, again, *waits)] == ["2.0", "2.1", "2.2"]
    assert clerk.state(parent.task_id) == "LOCKED"


def test_an_answer_holds_as_many_results_as_fit_and_the_rest_comes_next(clerk: Clerk) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, *[{"task_type": "child"}] * 6)
    for child in clerk.fetch("child", max_tasks=6):
        clerk.complete(child, variables={"x": "y" * 1_000_000})
    waits = [for_task(id, ordinal=n + 2) for n, id in enumerate(ids)]
    first = suspend(clerk, parent, *waits)
    assert 1 <= len(first) < 6
    assert suspend(clerk, parent, *waits[len(first) :])[0].state == "SATISFIED"


def test_a_parent_that_is_about_to_rest_waits_for_an_end_that_is_about_to_be(clerk: Clerk, database_url: str) -> None:
    """The other order: the end waits until the parent rests, and finds it."""
    parent = clerk.held()
    (child,) = children(clerk, parent)
    (held,) = clerk.fetch("child")
    rested, _ = overlap(
        database_url, lambda c: suspend(c, parent, for_task(child, ordinal=2)), lambda c: c.complete(held)
    )
    assert rested[0].state == "WAITING"
    assert clerk.state(parent.task_id) == "READY"


@pytest.mark.parametrize("kept", [True, False], ids=["committed", "rolled back"])
def test_an_end_that_takes_long_to_commit_is_heard_later(clerk: Clerk, database_url: str, kept: bool) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    (held,) = clerk.fetch("child")
    with another(database_url) as other:
        other.complete(held)
        assert suspend(clerk, parent, for_task(child, ordinal=2))[0].state == "WAITING"
        fire(clerk)
        assert clerk.state(parent.task_id) == "WAITING"
        if kept:
            other.conn.exec_driver_sql("commit")
    fire(clerk)
    assert clerk.scalar("select count(*) from celeriac.follow_up") == 0
    if not kept:
        assert clerk.state(parent.task_id) == "WAITING"
        clerk.complete(held)
    assert outcome(clerk, parent.task_id, 2)["state"] == "COMPLETED"


def test_an_end_with_an_old_snapshot_is_heard_by_who_came_since(clerk: Clerk, database_url: str) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    (held,) = clerk.fetch("child")
    engine = sync_engine(database_url, pool_size=1)
    with engine.connect() as old:
        old.exec_driver_sql("begin isolation level repeatable read")
        old.exec_driver_sql("select count(*) from celeriac.task")
        suspend(clerk, parent, for_task(child, ordinal=2))
        Clerk(old).complete(held)
        old.exec_driver_sql("commit")
    engine.dispose()
    fire(clerk)
    assert outcome(clerk, parent.task_id, 2)["state"] == "COMPLETED"


def test_two_children_that_end_at_once_do_not_wait_for_each_other(clerk: Clerk, database_url: str) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, *[{"task_type": "child"}] * 2)
    suspend(clerk, parent, *[for_task(id, branch=f"2.{n}") for n, id in enumerate(ids)])
    one, other = clerk.fetch("child", max_tasks=2)
    overlap(database_url, lambda c: c.complete(one), lambda c: c.complete(other))
    fire(clerk)
    (again,) = clerk.fetch()
    assert suspend(clerk, again, *[for_task(id, branch=f"2.{n}") for n, id in enumerate(ids)])[0].state == "SATISFIED"
    assert len(steps(clerk, parent.task_id)) == 3


def test_an_end_beside_one_that_is_rolled_back_is_heard_later(clerk: Clerk, database_url: str) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, *[{"task_type": "child"}] * 2)
    suspend(clerk, parent, *[for_task(id, branch=f"2.{n}") for n, id in enumerate(ids)])
    one, other = clerk.fetch("child", max_tasks=2)
    overlap(database_url, lambda c: c.complete(one), lambda c: c.complete(other), keep=False)
    assert clerk.state(parent.task_id) == "WAITING"
    fire(clerk)
    assert clerk.state(parent.task_id) == "READY"


def test_a_thousand_children_wake_their_parent_a_bounded_number_of_times(clerk: Clerk) -> None:
    """Each look takes all that has ended by then."""
    parent = clerk.held(lock_duration_ms=600_000)
    ids = children(clerk, parent, *[{"task_type": "child"}] * 1000)
    waits = {id: for_task(id, branch=f"2.{n}") for n, id in enumerate(ids)}
    answer = suspend(clerk, parent, *waits.values())
    looks = 0
    while clerk.state(parent.task_id) == "WAITING":
        for child in clerk.fetch("child", max_tasks=200):
            clerk.complete(child)
        (again,) = clerk.fetch(lock_duration_ms=600_000)
        done = {UUID(step[4]["task_id"]) for step in steps(clerk, parent.task_id) if step[2] == "task"}
        answer = suspend(clerk, again, *[wait for id, wait in waits.items() if id not in done])
        waits = {id: wait for id, wait in waits.items() if id not in done}
        waits = {id: wait for id, wait in waits.items() if wait["branch"] not in {row.branch for row in answer}}
        if waits:
            assert suspend(clerk, again, *waits.values())[0].state == "WAITING"
        looks += 1
    assert (looks, clerk.scalar("select count(*) from celeriac.step")) == (5, 1001)
    assert send(clerk).delivered == 0
