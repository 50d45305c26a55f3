"""complete_and_fetch: outcomes and the next tasks in one round trip, each answered as the calls it stands for."""

from typing import Any

import pytest
from sqlalchemy import Row

from db import call
from db.errors import Forbidden, Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk


def turn(
    clerk: Clerk, *tasks: Any, max_tasks: int = 1, types: tuple[str, ...] = ("mail",), **more: Any
) -> list[Row[Any]]:
    """Completes leased tasks (or items as they are) and fetches the next."""
    items = [
        task if isinstance(task, dict) else {"task_id": str(task.task_id), "fencing_token": task.fencing_token}
        for task in tasks
    ]
    arguments = {"worker_id": "w1", "task_types": list(types), "max_tasks": max_tasks} | more
    return clerk.rows("complete_and_fetch", items=call.json_list(items), **arguments)


def test_it_completes_what_is_held_and_hands_out_the_next(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    following = clerk.enqueue(variables={"n": 2}, business_key="b", priority=3, retries=5)
    done = {"task_id": str(task.task_id), "fencing_token": task.fencing_token, "variables": {"m": 1}}
    answer, leased = turn(clerk, done, lock_duration_ms=5000)
    assert (answer.ordinal, answer.code, answer.message, answer.task_id) == (0, None, None, task.task_id)
    assert (answer.task_type, answer.fencing_token) == (None, None)
    assert clerk.task(task.task_id)["result"] == '{"m": 1}'
    hot = clerk.queue(following)
    assert hot is not None
    assert (hot["state"], hot["lease_owner"], hot["lease_expires_at"]) == ("LOCKED", "w1", leased.lock_expires_at)
    assert (leased.ordinal, leased.code, leased.message, leased.task_id) == (None, None, None, following)
    assert leased._mapping["variables"] == '{"n": 2}'
    assert (leased.task_type, leased.version, leased.business_key, leased.priority) == ("mail", 1, "b", 3)
    assert (leased.fencing_token, leased.lock_duration_ms) == (hot["fencing_token"], 5000)
    assert (leased.retries, leased.attempt, leased.resumed, leased.undoing) == (5, 1, False, False)


def test_a_leased_task_has_all_that_a_fetch_gives(clerk: Clerk) -> None:
    first = clerk.held()
    clerk.release(first)
    (fetched,) = clerk.fetch()
    clerk.release(fetched)
    (leased,) = turn(clerk)
    before = fetched._mapping
    same = {name for name in leased._fields if name in before} - {"fencing_token", "lock_expires_at"}
    assert set(before) - set(leased._fields) == {"payload_bytes", "more"}
    assert {name: leased._mapping[name] for name in same} == {name: before[name] for name in same}
    assert (leased.resumed, leased.undoing) == (True, False)


def test_a_leased_task_tells_how_many_leases_it_has_lost(clerk: Clerk, clock: Clock) -> None:
    clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    (leased,) = turn(clerk)
    assert (leased.expirations, leased.lives) == (1, 0)


def test_a_refused_item_keeps_neither_the_others_nor_the_fetch_from_theirs(clerk: Clerk, clock: Clock) -> None:
    lost = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    good, canceled = clerk.held("b"), clerk.held("c")
    clerk.cancel(canceled.task_id)
    answers = turn(clerk, lost, good, canceled)
    assert [(row.ordinal, row.code) for row in answers] == [(0, "lease_lost"), (1, None), (2, "canceled"), (None, None)]
    assert answers[0].message is not None
    assert answers[3].task_id == lost.task_id
    assert clerk.state(good.task_id) == "COMPLETED"


def test_either_half_may_be_empty(clerk: Clerk) -> None:
    assert turn(clerk) == []
    task = clerk.held()
    assert [(row.ordinal, row.code) for row in turn(clerk, task, max_tasks=0, types=())] == [(0, None)]
    assert turn(clerk, max_tasks=0, types=()) == []
    clerk.enqueue()
    assert [row.ordinal for row in turn(clerk)] == [None]


def test_the_same_call_again_after_a_lost_answer_holds(clerk: Clerk) -> None:
    task = clerk.held()
    turn(clerk, task)
    assert [(row.ordinal, row.code) for row in turn(clerk, task)] == [(0, None)]


def test_a_task_that_has_just_been_completed_by_it_makes_room_for_no_doubt(clerk: Clerk) -> None:
    """Batches: all items are answered in their order, then as many tasks as asked for."""
    tasks = [clerk.held() for _ in range(5)]
    for _ in range(7):
        clerk.enqueue()
    rows = turn(clerk, *reversed(tasks), max_tasks=6)
    assert [row.ordinal for row in rows] == [0, 1, 2, 3, 4, *[None] * 6]
    assert [row.task_id for row in rows[:5]] == [task.task_id for task in reversed(tasks)]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"max_tasks": -1}, "max_tasks"),
        ({"max_tasks": None}, "max_tasks"),
        ({"max_tasks": 1001}, "max_tasks"),
        ({"worker_id": ""}, "worker_id"),
        ({"task_types": []}, "number of task_types"),
        ({"items": None}, "items"),
        ({"items": call.Json("{}")}, "items"),
        ({"items": call.Json('[{"task_id": "nonsense"}]')}, "items[0].task_id"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_refused_and_changes_nothing(
    clerk: Clerk, changed: dict[str, Any], field: str
) -> None:
    clerk.held()
    clerk.enqueue()
    asked = {"items": call.Json("[]"), "worker_id": "w1", "task_types": ["mail"], "max_tasks": 1} | changed
    with clerk.refuses(Invalid, field):
        clerk.rows("complete_and_fetch", **asked)


def test_a_foreign_type_is_refused_before_anything_is_completed(clerk: Clerk) -> None:
    task = clerk.held()
    with clerk.refuses(Forbidden, "task_types"):
        turn(clerk, task, types=("other",), only_types=["mail"])


def test_a_result_that_is_too_large_is_refused_before_anything_is_handed_out(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.enqueue()
    item = {"task_id": str(task.task_id), "variables": {"text": "x" * 1_048_576}}
    with clerk.refuses(TooLarge, "items[0].variables"):
        turn(clerk, item)
