"""fail_tasks: each item of a batch is judged by itself."""

from typing import Any
from uuid import UUID

import pytest

from db import call
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def fail(clerk: Clerk, *items: dict[str, Any], **caller: Any) -> list[tuple[Any, ...]]:
    """(state, retries, code) of each item."""
    rows = clerk.rows("fail_tasks", items=call.json_list(items), worker_id="w1", **caller)
    assert [row.ordinal for row in rows] == list(range(len(items)))
    assert [str(row.task_id) for row in rows] == [item["task_id"] for item in items]
    return [(row.state, row.retries, row.code) for row in rows]


def of(task: Any, **fields: Any) -> dict[str, Any]:
    return {"task_id": str(task.task_id), "fencing_token": task.fencing_token, "error": "no"} | fields


def test_every_outcome_stands_beside_its_item(clerk: Clerk, clock: Clock) -> None:
    lost = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    soon, later, last, done = clerk.held("a"), clerk.held("b"), clerk.held("c", retries=1), clerk.done("d")
    missing = {"task_id": str(UUID(int=7))}
    assert fail(
        clerk, of(lost), of(soon, retry_after_ms=0), of(later, retries=9), of(last), of(done), missing
    ) == [
        ("READY", None, "lease_lost"), ("READY", 2, None), ("SCHEDULED", 9, None), ("FAILED", 0, None),
        ("COMPLETED", None, "already_ended"), (None, None, "not_found"),
    ]  # fmt: skip
    assert [line["kind"] for task in (soon, later, last) for line in clerk.timeline(task.task_id)] == ["failed"] * 3
    assert clerk.timeline(done.task_id) == []


def test_a_task_named_twice_fails_once(clerk: Clerk) -> None:
    task = clerk.held()
    assert fail(clerk, of(task), of(task)) == [("SCHEDULED", 2, None)] * 2
    assert len(clerk.timeline(task.task_id)) == 1


def test_of_a_task_named_twice_the_item_with_the_right_token_counts(clerk: Clerk, clock: Clock) -> None:
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    (task,) = clerk.fetch()
    answers = fail(clerk, of(zombie, error="old"), of(task, error="new", retry_after_ms=0))
    assert answers[1] == ("READY", 2, None)
    assert answers[0][2] == "stale_token"
    assert [line["detail"].get("error") for line in clerk.timeline(task.task_id)] == [None, "new"]


def test_a_batch_rings_for_each_type_with_ready_work_and_for_no_other(clerk: Clerk) -> None:
    clerk.celery_type("mail", "a")
    clerk.celery_type("bill", "b")
    clerk.celery_type("later", "c")
    tasks = [clerk.held(name) for name in ("mail", "mail", "bill")]
    later = clerk.held("later")
    clerk.rings()
    fail(clerk, *(of(task, retry_after_ms=0) for task in tasks), of(later, retry_after_ms=1000))
    assert set(clerk.rings()) == {("a", "mail"), ("b", "bill")}


@pytest.mark.parametrize(
    "field, value",
    [("error", 7), ("retries", "3"), ("retries", 2**31), ("retries", 1.5), ("retry_after_ms", "60000"), ("cause", "x")],
)
def test_a_batch_with_a_bad_item_is_refused_as_a_whole(clerk: Clerk, field: str, value: Any) -> None:
    """Case B18."""
    first, second = clerk.held(), clerk.held()
    with clerk.refuses(Invalid, f"items[1].{field}"):
        fail(clerk, of(first), of(second, **{field: value}))


def test_what_is_not_the_callers_is_not_found(clerk: Clerk) -> None:
    mail, pay = clerk.held("mail"), clerk.held("pay")
    assert [code for *_, code in fail(clerk, of(mail), of(pay), only_types=["mail"])] == [None, "not_found"]
    assert clerk.state(pay.task_id) == "LOCKED"
