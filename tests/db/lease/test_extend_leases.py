"""extend_leases: all leases of a process in one call, each judged as extend_lease judges it."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from db import call
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def extend(clerk: Clerk, *items: dict[str, Any], worker_id: str = "w1", **caller: Any) -> list[tuple[Any, ...]]:
    """(lock_duration_ms, code) of each item."""
    rows = clerk.rows("extend_leases", items=call.json_list(items), worker_id=worker_id, **caller)
    assert [(row.ordinal, str(row.task_id)) for row in rows] == [(n, item["task_id"]) for n, item in enumerate(items)]
    assert all((row.code is None) == (row.message is None) == (row.lock_duration_ms is not None) for row in rows)
    return [(row.lock_duration_ms, row.code) for row in rows]


def of(task: Any, lock_duration_ms: int = 60_000, **fields: Any) -> dict[str, Any]:
    named = {"task_id": str(task.task_id), "fencing_token": task.fencing_token}
    return named | {"lock_duration_ms": lock_duration_ms} | fields


def test_every_lease_ends_when_its_item_says(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    tasks = [clerk.held() for _ in range(3)]
    assert extend(clerk, *(of(task, 1000 * n) for n, task in enumerate(tasks, 1))) == [
        (1000, None), (2000, None), (3000, None),
    ]  # fmt: skip
    ends = [hot["lease_expires_at"] for task in tasks if (hot := clerk.queue(task.task_id))]
    assert ends == [clock.now() + timedelta(seconds=n) for n in (1, 2, 3)]


def test_what_is_refused_stands_beside_its_item_and_the_others_hold(clerk: Clerk, clock: Clock) -> None:
    expired = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    good, stale, canceled, done = clerk.held("a"), clerk.held("b"), clerk.held("c"), clerk.done("d")
    clerk.cancel(canceled.task_id)
    unknown = {"task_id": str(UUID(int=7)), "lock_duration_ms": 1}
    answers = extend(clerk, of(expired), of(good), of(stale, fencing_token=10**9), of(canceled), of(done), unknown)
    assert [code for _, code in answers] == [
        "lease_expired", None, "stale_token", "canceled", "already_ended", "not_found",
    ]  # fmt: skip
    assert clerk.scalar("select total from celeriac.refusals") == 4


def test_nobody_extends_for_another(clerk: Clerk) -> None:
    task = clerk.held()
    before = clerk.everything()
    assert extend(clerk, of(task), worker_id="w2") == [(None, "lease_lost")]
    assert extend(clerk, of(task), principal="eve") == [(None, "lease_lost")]
    assert extend(clerk, of(task), only_types=["other"]) == [(None, "not_found")]
    assert clerk.everything() == before


def test_a_heartbeat_rewrites_no_index(clerk: Clerk) -> None:
    task = clerk.held()
    before = clerk.queue(task.task_id)
    extend(clerk, of(task, 3_600_000))
    after = clerk.queue(task.task_id)
    assert before is not None
    assert after is not None
    assert (after["reap_at"], after["lease_expires_at"] > before["lease_expires_at"]) == (before["reap_at"], True)


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({}, "items[0].lock_duration_ms"),
        ({"lock_duration_ms": 0}, "items[0].lock_duration_ms"),
        ({"lock_duration_ms": 2_592_000_001}, "items[0].lock_duration_ms"),
        ({"lock_duration_ms": 1, "more": 1}, "items[0].more"),
    ],
    ids=str,
)
def test_an_item_that_says_no_good_duration_refuses_the_call(clerk: Clerk, item: dict[str, Any], field: str) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, field):
        extend(clerk, {"task_id": str(task.task_id)} | item)


def test_a_call_without_items_is_refused(clerk: Clerk) -> None:
    with clerk.refuses(Invalid, "length of items"):
        extend(clerk)
