"""PUT retries and PUT priority (camunda7.md 1.3, 1.6)."""

from __future__ import annotations

from uuid import uuid4

import pytest

from db.errors import Invalid, NotFound
from tests.clock import Clock
from tests.db.external_task.conftest import Bench


def test_retries_open_a_failed_task_again_under_its_id(bench: Bench) -> None:
    """Case B19: fetchable at once, and the incident is resolved."""
    instance = bench.start()
    task_id = bench.fetch()[0].task_id
    bench.fail(task_id, retries=0)
    (row,) = bench.retries([task_id], 1)
    assert (row.task_id, row.state, row.task_type, row.instance_id) == (task_id, "READY", "mail", instance)
    assert bench.incidents(instance) == []
    (resolved,) = bench.incidents(instance, "RESOLVED")
    assert (resolved["resolution"], resolved["resolved_by"]) == ("retry", "postgres")
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["retries"], shown["retries_told"], shown["worker_id"]) == (1, True, None)
    (again,) = bench.fetch()
    assert (again.task_id, again.retries) == (task_id, 1)
    bench.complete(task_id)
    assert bench.status(instance) == "COMPLETED"
    assert bench.clerk.scalar("select count(*) from celeriac.task") == 1


def test_an_open_task_gets_another_number_whoever_holds_it(bench: Bench) -> None:
    instance = bench.start()
    task_id = bench.task_id(instance)
    bench.retries([task_id], 7)
    (row,) = bench.fetch()
    assert row.retries == 7
    assert bench.retries([task_id], 9)[0].state == "LOCKED"
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["retries"], shown["retries_told"], shown["worker_id"]) == (9, True, "w1")
    bench.complete(task_id)


@pytest.mark.parametrize("way", ["fresh", "held", "resting", "lost"])
def test_none_left_is_an_incident_at_once(bench: Bench, clock: Clock, way: str) -> None:
    instance = bench.start("paid")
    bench.complete(bench.fetch("pay")[0].task_id)
    task_id = bench.task_id(instance)
    if way != "fresh":
        bench.fetch(lock_ms=1000)
    if way == "resting":
        bench.fail(task_id, retries=2, retry_after_ms=60_000)
    if way == "lost":
        clock.advance(2)
        bench.clerk.one("expire_leases")
    (row,) = bench.retries([task_id], 0)
    assert (row.state, row.instance_id) == ("FAILED", instance)
    assert bench.fetch("mail", "refund", worker="w2") == []
    (incident,) = bench.incidents(instance)
    assert incident["message"] == ("broken" if way == "resting" else "no retries are left")
    assert bench.status(instance) == "ACTIVE"
    assert bench.retries([task_id], 0)[0].instance_id is None
    assert len(bench.incidents(instance)) == 1
    if way == "fresh":
        bench.retries([task_id], 1)
        assert bench.fetch()[0].task_id == task_id
    assert bench.complete(task_id).state == "COMPLETED"


def test_many_at_once_or_none(bench: Bench) -> None:
    ids = [bench.task_id(bench.start()) for _ in range(3)]
    bench.fetch()
    bench.fail(ids[0], retries=0)
    with bench.clerk.refuses(NotFound) as refused:
        bench.retries([*ids, uuid4()], 5)
    assert refused.value.detail["task_id"]
    with bench.clerk.refuses(NotFound):
        bench.retries(ids, 5, only_types=["other"])
    with bench.clerk.refuses(Invalid, "retries"):
        bench.retries(ids, -1)
    rows = bench.retries([*ids, ids[0]], 5)
    assert [row.task_id for row in rows] == sorted(ids)
    assert {row.retries for row in bench.fetch(most=5)} == {5}
    assert bench.retries([], 1) == []


def test_the_native_face_sees_the_same_number(bench: Bench) -> None:
    """One column of truth: what one face said, the other goes on from."""
    task_id = bench.task_id(bench.start())
    bench.retries([task_id], 2)
    (task,) = bench.clerk.fetch()
    assert bench.clerk.fail(task, retry_after_ms=0).retries == 1
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["retries"], shown["retries_told"]) == (1, True)
    (row,) = bench.fetch()
    assert bench.clerk.complete(row).state == "COMPLETED"


@pytest.mark.parametrize("priority", [5, -5, 2147483647, -2147483647])
def test_a_priority_counts_from_the_next_fetch_on(bench: Bench, priority: int) -> None:
    first, second = (bench.task_id(bench.start()) for _ in range(2))
    row = bench.clerk.one("set_external_task_priority", task_id=second, priority=priority)
    assert (row.task_id, row.state) == (second, "READY")
    order = [second, first] if priority > 0 else [first, second]
    assert [row.task_id for row in bench.fetch(most=2)] == order
    assert bench.shown(second)["priority"] == bench.clerk.task(second)["priority"] == priority  # type: ignore[index]


def test_also_of_one_that_is_held_or_has_failed(bench: Bench) -> None:
    task_id = bench.held()
    bench.clerk.one("set_external_task_priority", task_id=task_id, priority=3)
    bench.fail(task_id, retries=0)
    bench.clerk.one("set_external_task_priority", task_id=task_id, priority=4)
    bench.retries([task_id], 1)
    assert bench.fetch()[0].priority == 4
    with bench.clerk.refuses(Invalid, "priority"):
        bench.clerk.one("set_external_task_priority", task_id=task_id, priority=-2147483648)
    with bench.clerk.refuses(NotFound):
        bench.clerk.one("set_external_task_priority", task_id=uuid4(), priority=1)
