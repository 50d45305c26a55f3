"""Case B38: a cancel reaches all that a task has asked for, whatever state it is in, and whoever is at it."""

import random
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Row

from db import call
from db.engine import sync_engine
from db.errors import AlreadyEnded, Canceled, Refused
from tests.db.clerk import Clerk
from tests.db.overlap import overlap
from tests.db.waits import another, at_rest, children, fire, for_signal, for_task, send, suspend

ROUNDS = 500


def with_undo(clerk: Clerk, task: Row[Any]) -> Row[Any]:
    """The same task, having registered what must be undone."""
    write = {"task_id": task.task_id, "worker_id": "w1", "fencing_token": task.fencing_token}
    clerk.one("register_compensation", **write, branch="", ordinal=1, name="charge")
    return task


def states(clerk: Clerk) -> dict[str, int]:
    return {
        row["state"]: row["n"] for row in clerk.query("select state, count(*) as n from celeriac.task_list group by 1")
    }


def ready(clerk: Clerk, child: UUID) -> None:
    assert clerk.state(child) == "READY"


def locked(clerk: Clerk, child: UUID) -> None:
    clerk.fetch("child")
    assert clerk.state(child) == "LOCKED"


def waiting(clerk: Clerk, child: UUID) -> None:
    suspend(clerk, clerk.fetch("child")[0], for_signal())
    assert clerk.state(child) == "WAITING"


def scheduled(clerk: Clerk, child: UUID) -> None:
    clerk.fail(clerk.fetch("child")[0], retry_after_ms=60_000)
    assert clerk.state(child) == "SCHEDULED"


@pytest.mark.parametrize("bring", [ready, locked, waiting, scheduled])
@pytest.mark.parametrize("parent_rests", [True, False])
def test_a_child_is_canceled_in_every_state_of_both(
    clerk: Clerk, bring: Callable[[Clerk, UUID], None], parent_rests: bool
) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    if parent_rests:
        suspend(clerk, parent, for_task(child, ordinal=2))
    bring(clerk, child)
    clerk.cancel(parent.task_id, reason="not needed", principal="anna")
    assert states(clerk) == {"CANCELED": 2}
    assert clerk.task(child)["error"] == "not needed"
    assert clerk.timeline(child)[-1]["principal"] == "anna"
    assert (
        clerk.scalar("select count(*) from celeriac.waiting") == clerk.scalar("select count(*) from celeriac.wait") == 0
    )


def test_what_an_ended_child_has_asked_for_is_canceled_and_what_has_ended_stays(clerk: Clerk) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    (middle,) = clerk.fetch("child")
    (grandchild,) = children(clerk, middle, {"task_type": "grandchild"})
    clerk.complete(middle)
    clerk.cancel(parent.task_id)
    assert clerk.state(child) == "COMPLETED"
    assert clerk.state(grandchild) == "CANCELED"


def test_a_child_can_be_canceled_alone_and_its_parent_hears_of_it(clerk: Clerk) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    suspend(clerk, parent, for_task(child, ordinal=2))
    clerk.cancel(child)
    assert clerk.state(parent.task_id) == "READY"


def test_a_deep_chain_ends_in_one_call(clerk: Clerk) -> None:
    """500 deep: a walk, no recursion."""
    root = clerk.enqueue("chain")
    for _ in range(500):
        (task,) = clerk.fetch("chain")
        (child,) = children(clerk, task, {"task_type": "chain"})
        suspend(clerk, task, for_task(child, ordinal=2))
    clerk.cancel(root)
    assert states(clerk) == {"CANCELED": 501}


def test_a_thousand_children_that_are_being_enqueued_go_with_their_parent(clerk: Clerk, database_url: str) -> None:
    """The cancel waits for the transaction that makes them, and sees them all."""
    parent = clerk.held()
    made, canceled = overlap(
        database_url,
        lambda c: children(c, parent, *[{"task_type": "child"}] * 1000),
        lambda c: c.cancel(parent.task_id),
    )
    assert (len(made), canceled.state) == (1000, "CANCELED")
    assert states(clerk) == {"CANCELED": 1001}
    assert clerk.fetch("child") == []


def test_children_that_come_too_late_are_refused(clerk: Clerk, database_url: str) -> None:
    parent = clerk.held()
    _, refused = overlap(database_url, lambda c: c.cancel(parent.task_id), lambda c: children(c, parent))
    assert isinstance(refused, Canceled)
    assert states(clerk) == {"CANCELED": 1}


@pytest.mark.parametrize("kept", [True, False])
def test_a_child_that_somebody_is_at_is_canceled_soon_after(clerk: Clerk, database_url: str, kept: bool) -> None:
    parent = clerk.held()
    ids = children(clerk, parent, *[{"task_type": "child"}] * 3)
    (held,) = clerk.fetch("child")
    with another(database_url) as other:
        other.extend(held)
        assert clerk.cancel(parent.task_id).state == "CANCELED"
        assert [clerk.state(id) for id in ids] == ["LOCKED", "CANCELED", "CANCELED"]
        fire(clerk)  # it is in the other's hands still
        if kept:
            other.conn.exec_driver_sql("commit")
    fire(clerk)
    assert [clerk.state(id) for id in ids] == ["CANCELED"] * 3
    with clerk.refuses(Canceled):
        clerk.extend(held)
    assert clerk.scalar("select count(*) from celeriac.follow_up") == 0


def test_a_child_that_is_making_children_of_its_own_is_canceled_with_them(clerk: Clerk, database_url: str) -> None:
    parent = clerk.held()
    children(clerk, parent)
    (middle,) = clerk.fetch("child")
    overlap(
        database_url,
        lambda c: children(c, middle, *[{"task_type": "grandchild"}] * 100),
        lambda c: c.cancel(parent.task_id),
    )
    fire(clerk)
    assert states(clerk) == {"CANCELED": 102}


def test_a_cancel_with_an_old_snapshot_reaches_children_that_came_since(clerk: Clerk, database_url: str) -> None:
    parent = clerk.held()
    engine = sync_engine(database_url, pool_size=1)
    with engine.connect() as old:
        old.exec_driver_sql("begin isolation level repeatable read")
        old.exec_driver_sql("select count(*) from celeriac.task")
        (child,) = children(clerk, parent)
        Clerk(old).cancel(parent.task_id)
        old.exec_driver_sql("commit")
    engine.dispose()
    fire(clerk)
    assert clerk.state(child) == "CANCELED"


def test_canceling_twice_is_one_effect_and_the_same_answer(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    assert clerk.cancel(task.task_id) == clerk.cancel(task.task_id)
    assert [line["kind"] for line in clerk.timeline(task.task_id)] == ["canceled"]


@pytest.mark.parametrize("rests", [True, False])
def test_a_cancel_that_asks_for_compensation_lets_the_task_be_undone_first(clerk: Clerk, rests: bool) -> None:
    task = with_undo(clerk, clerk.held())
    if rests:
        suspend(clerk, task, for_signal(ordinal=2))
    assert clerk.cancel(task.task_id, compensate=True, reason="not needed").state == "UNDOING"
    if not rests:
        clerk.release(task)
    assert clerk.state(task.task_id) == "READY"
    assert send(clerk).delivered == 0
    (undoing,) = clerk.fetch()
    assert (undoing.task_id, undoing.fencing_token > task.fencing_token) == (task.task_id, True)
    write = {"task_id": undoing.task_id, "worker_id": "w1", "fencing_token": undoing.fencing_token}
    clerk.one("settle_compensation", **write, number=1)
    assert clerk.one("finish_undo", **write).state == "CANCELED"
    assert clerk.task(task.task_id)["error"] == "not needed"


@pytest.mark.parametrize("compensate", [True, False])
def test_a_cancel_while_it_is_being_undone_changes_nothing(clerk: Clerk, compensate: bool) -> None:
    task = with_undo(clerk, clerk.held())
    clerk.fail(task, retries=0)
    (undoing,) = clerk.fetch()
    before = clerk.everything()
    assert clerk.cancel(task.task_id, compensate=compensate).state == "UNDOING"
    assert clerk.everything() == before
    write = {"task_id": undoing.task_id, "worker_id": "w1", "fencing_token": undoing.fencing_token}
    clerk.one("settle_compensation", **write, number=1)
    assert clerk.one("finish_undo", **write).state == "FAILED"


def test_a_task_with_nothing_to_undo_is_canceled_at_once(clerk: Clerk) -> None:
    assert clerk.cancel(clerk.held().task_id, compensate=True).state == "CANCELED"


def test_without_compensation_what_is_registered_is_left_as_it_is(clerk: Clerk) -> None:
    task = with_undo(clerk, clerk.held())
    assert clerk.cancel(task.task_id).state == "CANCELED"
    assert clerk.scalar("select state from celeriac.compensations") == "REGISTERED"


def test_children_are_undone_as_well_and_nobody_waits_for_whom(clerk: Clerk) -> None:
    parent = clerk.held()
    (child,) = children(clerk, parent)
    held = with_undo(clerk, clerk.fetch("child")[0])
    assert clerk.cancel(parent.task_id, compensate=True).state == "CANCELED"
    assert clerk.state(child) == "SCHEDULED"
    clerk.release(held)
    assert clerk.state(child) == "READY"
    assert clerk.scalar("select cause from celeriac.sagas where task_id = :id", id=child) == "canceled"


def test_a_task_that_waits_for_a_person_can_be_canceled_and_needs_nobody_then(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.one(
        "raise_incident", task_id=task.task_id, worker_id="w1", fencing_token=task.fencing_token, kind="other_code",
        branch="", ordinal=1, name="plan", message="expected plan, found copy", detail={},
    )  # fmt: skip
    assert clerk.state(task.task_id) == "WAITING"
    assert clerk.cancel(task.task_id).state == "CANCELED"
    assert clerk.query("select state, resolution from celeriac.incidents") == [
        {"state": "RESOLVED", "resolution": "canceled"}
    ]


@pytest.mark.parametrize("first", ["end", "cancel"])
@pytest.mark.parametrize("end", ["complete", "suspend"])
def test_the_answer_to_a_cancel_and_the_end_agree(clerk: Clerk, database_url: str, first: str, end: str) -> None:
    task = clerk.held()
    ends: dict[str, Callable[[Clerk], Any]] = {
        "complete": lambda c: c.complete(task),
        "suspend": lambda c: suspend(c, task, for_signal()),
    }
    order = [ends[end], lambda c: c.cancel(task.task_id)]
    names = ["end", "cancel"]
    if first == "cancel":
        order, names = order[::-1], names[::-1]
    answers = dict(zip(names, overlap(database_url, *order), strict=True))
    if end == "complete" and first == "end":
        assert isinstance(answers["cancel"], AlreadyEnded)
        assert clerk.state(task.task_id) == "COMPLETED"
    else:
        assert answers["cancel"].state == "CANCELED"
        assert isinstance(answers["end"], Canceled) or first == "end"
        assert clerk.state(task.task_id) == "CANCELED"


def test_five_hundred_completions_against_cancels_agree_with_what_is_stored(clerk: Clerk, database_url: str) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * ROUNDS)
    tasks = clerk.fetch(max_tasks=ROUNDS, lock_duration_ms=600_000)
    engine = sync_engine(database_url, pool_size=2)
    meet = threading.Barrier(2)
    answers: dict[str, list[str]] = {"complete": [], "cancel": []}

    def play(name: str, act: Callable[[Clerk, Row[Any]], str]) -> None:
        chance = random.Random(name)
        with engine.connect() as connection, call.refusals():
            for task in tasks:
                meet.wait(60)
                for _ in range(chance.randrange(2000)):
                    pass
                try:
                    answers[name].append(act(Clerk(connection), task))
                except Refused as refusal:
                    answers[name].append(refusal.code)

    threads = [
        threading.Thread(target=play, args=("complete", lambda c, task: c.complete(task).state)),
        threading.Thread(target=play, args=("cancel", lambda c, task: c.cancel(task.task_id).state)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()
    for task, completed, canceled in zip(tasks, answers["complete"], answers["cancel"], strict=True):
        assert (completed, canceled) in {("COMPLETED", "already_ended"), ("canceled", "CANCELED")}
        assert clerk.state(task.task_id) == ("COMPLETED" if completed == "COMPLETED" else "CANCELED")
