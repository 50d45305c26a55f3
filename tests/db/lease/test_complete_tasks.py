"""complete_tasks: each item of a batch is judged by itself."""

from typing import Any
from uuid import UUID

import pytest

from db import call
from db.errors import Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk


def complete(clerk: Clerk, *items: dict[str, Any], worker_id: str = "w1", **caller: Any) -> list[tuple[Any, ...]]:
    """(state, code) of each item."""
    rows = clerk.rows("complete_tasks", items=call.json_list(items), worker_id=worker_id, **caller)
    assert [row.ordinal for row in rows] == list(range(len(items)))
    assert [str(row.task_id) for row in rows] == [item["task_id"] for item in items]
    assert all((row.code is None) == (row.message is None) for row in rows)
    return [(row.state, row.code) for row in rows]


def of(task: Any, **fields: Any) -> dict[str, Any]:
    return {"task_id": str(task.task_id), "fencing_token": task.fencing_token} | fields


def test_every_outcome_stands_beside_its_item(clerk: Clerk, clock: Clock) -> None:
    lost = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    good, other, canceled, dead, done = (
        clerk.held("a"),
        clerk.held("b"),
        clerk.held("c"),
        clerk.dead("d"),
        clerk.done("e"),
    )
    clerk.cancel(canceled.task_id)
    assert complete(
        clerk, of(lost), of(good, variables={"n": 1}), of(other, fencing_token=10**9), of(canceled), of(dead), of(done),
        of(done, variables={"n": 2}), {"task_id": str(UUID(int=7))},
    ) == [
        ("READY", "lease_lost"), ("COMPLETED", None), ("LOCKED", "stale_token"), ("CANCELED", "canceled"),
        ("FAILED", "already_ended"), ("COMPLETED", None), ("COMPLETED", "already_ended"), (None, "not_found"),
    ]  # fmt: skip
    assert clerk.task(good.task_id)["result"] == '{"n": 1}'
    assert clerk.state(other.task_id) == "LOCKED"


def test_a_task_named_twice_is_completed_once_and_the_repeat_is_told_as_any_repeat(clerk: Clerk) -> None:
    task = clerk.held()
    assert complete(clerk, of(task), of(task), of(task, variables={"other": 1})) == [
        ("COMPLETED", None),
        ("COMPLETED", None),
        ("COMPLETED", "already_ended"),
    ]


def test_of_a_task_named_twice_the_item_with_the_right_token_counts(clerk: Clerk, clock: Clock) -> None:
    """A worker that lost a task and got it again may send both in one batch."""
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    (task,) = clerk.fetch()
    assert complete(clerk, of(zombie, variables={"old": 1}), of(task, variables={"new": 1})) == [
        ("LOCKED", "stale_token"),
        ("COMPLETED", None),
    ]
    assert clerk.task(task.task_id)["result"] == '{"new": 1}'


def test_a_thousand_items_in_any_order(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 1000)
    tasks = clerk.fetch(max_tasks=1000)
    assert set(complete(clerk, *map(of, reversed(tasks)))) == {("COMPLETED", None)}


def test_what_is_not_the_callers_is_not_found(clerk: Clerk) -> None:
    mail, pay = clerk.held("mail"), clerk.held("pay")
    assert complete(clerk, of(mail), of(pay), only_types=["mail"]) == [("COMPLETED", None), (None, "not_found")]
    assert clerk.state(pay.task_id) == "LOCKED"


BAD: list[tuple[str, str]] = [
    ("items", "{}"),
    ("items", "null"),
    ("length of items", "[]"),
    ("items[1]", '[{"task_id": "%s"}, 7]'),
    ("items[1].token", '[{"task_id": "%s"}, {"task_id": "%s", "token": 1}]'),
    ("items.task_id", '[{"task_id": "%s"}, {}]'),
    ("items[1].task_id", '[{"task_id": "%s"}, {"task_id": "x"}]'),
    ("items[1].fencing_token", '[{"task_id": "%s"}, {"task_id": "%s", "fencing_token": 0}]'),
    ("items[1].fencing_token", '[{"task_id": "%s"}, {"task_id": "%s", "fencing_token": 1.5}]'),
    ("items[1].fencing_token", '[{"task_id": "%s"}, {"task_id": "%s", "fencing_token": "1"}]'),
    ("items[1].fencing_token", '[{"task_id": "%s"}, {"task_id": "%s", "fencing_token": 1e30}]'),
    ("items[1].variables", '[{"task_id": "%s"}, {"task_id": "%s", "variables": []}]'),
]


@pytest.mark.parametrize("field, items", BAD, ids=[items for _, items in BAD])
def test_a_batch_with_a_bad_item_is_refused_as_a_whole(clerk: Clerk, field: str, items: str) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, field):
        clerk.rows("complete_tasks", items=call.Json(items.replace("%s", str(task.task_id))), worker_id="w1")


def test_a_result_that_is_too_large_is_named(clerk: Clerk) -> None:
    tasks = [clerk.held(), clerk.held()]
    items = [of(tasks[0]), of(tasks[1], variables={"blob": "x" * 1_048_576})]
    with clerk.refuses(TooLarge, "items[1].variables"):
        complete(clerk, *items)


def test_a_thousand_items_are_the_most(clerk: Clerk) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, "length of items"):
        complete(clerk, *[of(task)] * 1001)
