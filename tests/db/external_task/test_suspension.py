"""The tasks of a suspended instance stand still, on both faces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from tests.clock import Clock
from tests.db.external_task.conftest import Bench
from tests.db.waits import for_signal, send, suspend


def hidden(bench: Bench) -> bool:
    """Whether neither face hands anything out, whatever the chores do."""
    bench.clerk.one("promote_due")
    ready = bench.clerk.scalar("select count(*) from celeriac.queue where state = 'READY'")
    return bench.clerk.fetch("mail", worker_id="w9") == [] and bench.fetch(worker="w9") == [] and ready == 0


def test_a_ready_one_comes_back_in_its_old_place(bench: Bench, clock: Clock) -> None:
    instance, younger = bench.start(), bench.start()
    task_id = bench.task_id(instance)
    before = bench.clerk.queue(task_id)
    bench.suspend(instance)
    bench.suspend(instance)
    assert [row.instance_id for row in bench.fetch(most=5)] == [younger]
    assert hidden(bench)
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["suspended"], shown["worker_id"], shown["lock_expires_at"]) == (True, None, None)
    clock.advance(5)
    bench.suspend(instance, False)
    bench.suspend(instance, False)
    assert bench.clerk.queue(task_id) == before


def test_a_resting_one_goes_on_resting(bench: Bench, clock: Clock) -> None:
    instance = bench.start()
    task_id = bench.fetch()[0].task_id
    bench.fail(task_id, retries=1, retry_after_ms=60_000)
    due = clock.now() + timedelta(seconds=60)
    bench.suspend(instance)
    listed = bench.clerk.query("select run_at from celeriac.open_task_list")
    assert [row["run_at"] for row in listed] == [due]
    assert bench.shown(task_id)["lock_expires_at"] == due  # type: ignore[index]
    bench.suspend(instance, False)
    assert hidden(bench)
    bench.suspend(instance)
    clock.advance(61)
    assert hidden(bench)
    bench.suspend(instance, False)
    assert [row.task_id for row in bench.fetch(worker="w2")] == [task_id]


def fails(bench: Bench, task_id: UUID, clock: Clock) -> None:
    (row,) = bench.clerk.query("select * from celeriac.queue where task_id = :id", id=task_id)
    bench.clerk.one(
        "fail_task", task_id=task_id, worker_id="w1", fencing_token=row["fencing_token"], error="x", retry_after_ms=0
    )


def releases(bench: Bench, task_id: UUID, clock: Clock) -> None:
    bench.clerk.one("release_task", task_id=task_id, worker_id="w1")


def loses(bench: Bench, task_id: UUID, clock: Clock) -> None:
    clock.advance(11)
    bench.clerk.one("expire_leases")


def unlocks(bench: Bench, task_id: UUID, clock: Clock) -> None:
    bench.unlock(task_id)


@pytest.mark.parametrize("ends", [fails, releases, loses, unlocks])
def test_a_held_one_stands_still_when_it_comes_back(
    bench: Bench, clock: Clock, ends: Callable[[Bench, UUID, Clock], None]
) -> None:
    instance = bench.start()
    task_id = bench.fetch()[0].task_id
    bench.suspend(instance)
    ends(bench, task_id, clock)
    assert bench.clerk.state(task_id) == "SCHEDULED"
    assert hidden(bench)
    bench.suspend(instance, False)
    assert [row.task_id for row in bench.fetch(worker="w2")] == [task_id]


def test_a_failed_one_that_is_opened_again_waits_as_well(bench: Bench, clock: Clock) -> None:
    instance = bench.start()
    task_id = bench.fetch()[0].task_id
    bench.fail(task_id, retries=0)
    bench.suspend(instance)
    assert bench.retries([task_id], 1)[0].state == "SCHEDULED"
    assert hidden(bench)
    bench.suspend(instance, False)
    bench.advance(instance)
    assert bench.incidents(instance) == []
    assert [row.task_id for row in bench.fetch()] == [task_id]


def test_a_durable_task_that_is_woken_waits_as_well(bench: Bench) -> None:
    instance = bench.start()
    (task,) = bench.clerk.fetch()
    suspend(bench.clerk, task, for_signal("paid"))
    bench.suspend(instance)
    send(bench.clerk, "paid")
    assert bench.clerk.state(task.task_id) == "SCHEDULED"
    assert hidden(bench)
    bench.suspend(instance, False)
    assert [row.task_id for row in bench.clerk.fetch()] == [task.task_id]


def test_a_stop_lets_what_is_undone_go_on(bench: Bench) -> None:
    """Stopped while it stands still, an instance is resumed: the task that undoes must not stand for ever."""
    instance = bench.start("paid")
    bench.complete(bench.fetch("pay")[0].task_id)
    bench.clerk.one("stop_instance", instance_id=instance, compensate=True)
    bench.advance(instance)
    bench.suspend(instance)
    assert bench.fetch("refund") == []
    bench.clerk.one("stop_instance", instance_id=instance)
    bench.complete(bench.fetch("refund")[0].task_id)
    assert bench.status(instance) == "CANCELED"


def test_a_stop_of_one_that_stands_still_ends_its_tasks(bench: Bench) -> None:
    instance = bench.start()
    task_id = bench.task_id(instance)
    bench.suspend(instance)
    bench.clerk.one("stop_instance", instance_id=instance)
    bench.advance(instance)
    assert (bench.clerk.state(task_id), bench.shown(task_id)) == ("CANCELED", None)


def test_a_key_of_one_slot_goes_to_another_meanwhile(bench: Bench) -> None:
    bench.clerk.one("register_task_type", name="mail", concurrency=1)
    instance = bench.start()
    task_id = bench.task_id(instance)
    bench.clerk.run("update celeriac.queue set concurrency_key = 'k'")
    bench.clerk.run("update celeriac.task set concurrency_key = 'k'")
    other = bench.clerk.enqueue("mail", concurrency_key="k")
    bench.suspend(instance)
    assert [row.task_id for row in bench.fetch()] == [other]
    bench.suspend(instance, False)
    assert bench.clerk.state(task_id) == "BLOCKED"
    bench.suspend(instance)
    bench.complete(other)
    assert hidden(bench)
    bench.suspend(instance, False)
    assert [row.task_id for row in bench.fetch()] == [task_id]
    assert bench.clerk.query("select * from celeriac.slot_faults") == []
