"""A task that fails for good with something to undo is not FAILED yet: it is handed out once more, to be undone."""

from typing import Any

import pytest

from db.call import json_list
from db.errors import Canceled, Conflict, Invalid, LeaseLost, StaleToken
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger
from tests.db.overlap import overlap


def test_it_is_ready_again_to_be_undone_with_full_budgets(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    clerk.celery_type()
    clerk.enqueue(retries=3, priority=5, variables={"n": 1}, policy={"expirations": 1})
    (task,) = clerk.fetch(lock_duration_ms=1000)
    ledger.register(task)
    clock.advance(1)
    clerk.one("expire_leases")
    (task,) = clerk.fetch()
    clerk.rings()
    clock.advance(1)
    answer = clerk.fail(task, retries=0, retry_after_ms=60_000, error="out of stock")
    assert (answer.state, answer.retries, answer.run_at) == ("READY", 3, clock.now())
    assert clerk.rings() == [("fleet", "mail")]
    hot = clerk.queue(task.task_id)
    assert hot is not None
    assert hot | {"attempts": 2, "fencing_token": task.fencing_token} == {
        "task_id": task.task_id, "run_at": clock.now(), "turn_at": clock.now(), "version": 1, "priority": 5,
        "payload_bytes": 8, "retries": 3, "expirations": 0, "task_type": "mail", "state": "READY", "attempts": 2,
        "fencing_token": task.fencing_token, "leased_at": None, "lease_expires_at": None, "reap_at": None,
        "lease_owner": None, "lease_principal": None, "resumed": True, "undoing": True, "concurrency_key": None,
        "last_owner": None, "last_principal": None, "last_until": None, "held_until": None, "on_loss": None,
        "retries_told": None,
    }  # fmt: skip
    assert clerk.task(task.task_id)["state"] == "OPEN"
    assert clerk.query("select cause, error, began_at, ended_at from celeriac.sagas") == [
        {"cause": "failed", "error": "out of stock", "began_at": clock.now(), "ended_at": None}
    ]
    (again,) = clerk.fetch(worker_id="w2")
    assert (again.task_id, again.attempt, again.resumed, again.undoing) == (task.task_id, 3, True, True)
    assert again.fencing_token > task.fencing_token


def test_it_stands_in_the_timeline(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    clerk.fail(task, retries=0, error="out of stock")
    lines = {line["kind"]: line for line in clerk.timeline(task.task_id)}
    assert lines.keys() == {"failed", "undoing"}
    assert lines["undoing"]["detail"] == {"cause": "failed", "error": "out of stock"}
    assert (lines["undoing"]["worker_id"], lines["undoing"]["fencing_token"]) == ("w1", task.fencing_token)


def test_without_anything_to_undo_it_is_failed(clerk: Clerk, ledger: Ledger) -> None:
    other = clerk.held()
    ledger.register(other)
    task = clerk.held()
    assert clerk.fail(task, retries=0).state == "FAILED"
    assert clerk.query("select * from celeriac.saga") == []


def test_a_failure_with_retries_left_undoes_nothing(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held(retries=2)
    ledger.register(task)
    assert clerk.fail(task, retry_after_ms=0).state == "READY"
    (again,) = clerk.fetch()
    assert again.undoing is False


def test_the_last_retry_begins_it_as_well(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held(retries=1)
    ledger.register(task)
    assert clerk.fail(task).state == "READY"
    assert clerk.fetch()[0].undoing is True


def test_so_does_one_lost_lease_too_many(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000, policy={"expirations": 0})
    ledger.register(task)
    clock.advance(2)
    swept = clerk.one("expire_leases")
    assert (swept.expired, swept.failed, swept.task_types) == (1, 0, ["mail"])
    (undo,) = clerk.fetch()
    assert (undo.undoing, undo.retries) == (True, 3)
    assert clerk.query("select cause, error from celeriac.sagas") == [{"cause": "failed", "error": "lease_lost"}]


def test_the_failure_again_holds_and_begins_no_second_one(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    first = clerk.fail(task, retries=0)
    before = clerk.everything()
    assert clerk.fail(task, retries=0) == first
    assert clerk.everything() == before
    clerk.fetch(worker_id="w2")
    assert clerk.fail(task, retries=0) == first


def test_a_stale_failure_begins_none(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    zombie = clerk.held(lock_duration_ms=1000)
    ledger.register(zombie)
    clock.advance(2)
    clerk.fetch(worker_id="w2")
    with clerk.refuses(StaleToken):
        clerk.fail(zombie, retries=0)


def test_a_stale_worker_cannot_disturb_it(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    clerk.fail(task, retries=0)
    with clerk.refuses(LeaseLost):
        clerk.complete(task)
    clerk.fetch(worker_id="w2")
    for write in (clerk.complete, clerk.release, clerk.extend):
        with clerk.refuses(StaleToken):
            write(task)


def test_what_is_being_undone_cannot_complete(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    with clerk.refuses(Invalid):
        clerk.complete(task)
    (answer,) = clerk.rows("complete_tasks", worker_id="w1", items=json_list([{"task_id": str(task.task_id)}]))
    assert (answer.state, answer.code) == ("LOCKED", "invalid")
    with clerk.refuses(LeaseLost):
        clerk.complete(task, worker_id="w2")


def test_a_batch_of_failures_tells_what_became_of_each(clerk: Clerk, ledger: Ledger) -> None:
    with_undo, without = clerk.held(), clerk.held()
    ledger.register(with_undo)
    items = [
        {"task_id": str(task.task_id), "fencing_token": task.fencing_token, "retries": 0}
        for task in (with_undo, without)
    ]
    rows = clerk.rows("fail_tasks", worker_id="w1", items=json_list(items))
    assert [(row.state, row.retries, row.code) for row in rows] == [("READY", 3, None), ("FAILED", 0, None)]


def test_it_can_be_released_lost_and_fail_like_any_other(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = ledger.undoing()
    clerk.release(task)
    (task,) = clerk.fetch(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    (task,) = clerk.fetch()
    assert clerk.fail(task, retry_after_ms=0).state == "READY"
    (task,) = clerk.fetch()
    assert (task.undoing, task.retries) == (True, 2)


@pytest.mark.parametrize("retries, reached", [(0, 1), (1, 1), (4, 4)])
def test_its_budget_is_that_of_the_task_and_at_least_one(
    clerk: Clerk, ledger: Ledger, retries: int, reached: int
) -> None:
    task = clerk.held()
    clerk.run("update celeriac.task set retries = :n", n=retries)
    ledger.register(task)
    assert clerk.fail(task, retries=0).retries == reached


def test_after_a_cancel_it_ends_canceled(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    assert clerk.cancel(task.task_id, compensate=True, reason="no longer wanted", principal="anna").state == "UNDOING"
    clerk.release(task)
    (undo,) = clerk.fetch()
    assert undo.undoing
    assert clerk.query("select cause, error from celeriac.sagas") == [
        {"cause": "canceled", "error": "no longer wanted"}
    ]
    line = clerk.timeline(task.task_id)[-1]
    assert (line["kind"], line["principal"]) == ("undoing", "anna")
    ledger.undone(undo, 1)
    assert ledger.finish(undo) == "CANCELED"
    row = clerk.task(task.task_id)
    assert (row["state"], row["error"]) == ("CANCELED", "no longer wanted")


def test_after_a_cancel_it_waits_for_whoever_was_at_it(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    """What undoes a step must not come before the step."""
    clock.freeze()
    clerk.celery_type()
    task = clerk.held(lock_duration_ms=30_000)
    ledger.register(task)
    clock.advance(10)
    clerk.cancel(task.task_id, compensate=True)
    clerk.rings()
    row = clerk.query("select state, undoing, run_at from celeriac.task_list")[0]
    assert (row["state"], row["undoing"], row["run_at"]) == ("SCHEDULED", True, task.lock_expires_at)
    assert clerk.fetch() == []
    for refused in (clerk.extend, clerk.complete, clerk.fail):
        with clerk.refuses(Canceled):
            refused(task)
    with clerk.refuses(LeaseLost):
        clerk.release(task, worker_id="w2")
    with clerk.refuses(LeaseLost):
        clerk.release(task, fencing_token=task.fencing_token - 1)
    assert clerk.state(task.task_id) == "SCHEDULED"
    for _ in range(2):
        assert clerk.release(task).state == "READY"
    assert (clerk.state(task.task_id), clerk.rings()) == ("READY", [("fleet", "mail")])
    (undo,) = clerk.fetch()
    assert (undo.undoing, undo.expirations) == (True, 0)
    clerk.release(task)  # late, and a second time
    with clerk.refuses(Canceled):
        clerk.extend(task)
    ledger.undone(undo, 1)
    assert ledger.finish(undo) == "CANCELED"


def test_or_for_the_end_of_that_lease(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(lock_duration_ms=30_000)
    ledger.register(task)
    clock.advance(10)
    clerk.cancel(task.task_id, compensate=True)
    clock.advance(19)
    clerk.one("promote_due")
    assert clerk.fetch() == []
    clock.advance(1)
    clerk.one("promote_due")
    (undo,) = clerk.fetch(worker_id="w2")
    assert undo.undoing
    clerk.fail(undo, worker_id="w2", retry_after_ms=60_000)
    assert clerk.release(task).state == "READY"  # very late: it brings nothing forward
    assert clerk.state(task.task_id) == "SCHEDULED"


def test_a_lease_that_has_run_out_holds_nothing_up(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    ledger.register(task)
    clock.advance(2)
    clerk.cancel(task.task_id, compensate=True)
    assert clerk.fetch()[0].undoing


def test_a_second_cancel_begins_no_second_one(clerk: Clerk, ledger: Ledger) -> None:
    """Case: a stale resume never starts a second rollback."""
    task = ledger.undoing()
    before = clerk.everything()
    assert clerk.cancel(task.task_id, compensate=True).state == "UNDOING"
    assert clerk.cancel(task.task_id).state == "UNDOING"
    assert clerk.everything() == before


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_cancel_beside_the_last_failure_begins_it_once(
    clerk: Clerk, ledger: Ledger, database_url: str, cancel_first: bool
) -> None:
    task = clerk.held()
    ledger.register(task)
    calls: list[Any] = [
        lambda clerk: clerk.cancel(task.task_id, compensate=True).state,
        lambda clerk: clerk.fail(task, retries=0).state,
    ]
    answers = overlap(database_url, *(calls if cancel_first else calls[::-1]))
    cancel, failure = answers if cancel_first else answers[::-1]
    assert cancel == "UNDOING"
    assert isinstance(failure, Canceled) if cancel_first else failure == "READY"
    (saga,) = clerk.query("select cause from celeriac.saga")
    assert saga["cause"] == ("canceled" if cancel_first else "failed")
    if cancel_first:
        clerk.release(task)
    assert clerk.fetch()[0].undoing


@pytest.mark.parametrize("sweep_first", [True, False])
def test_a_sweep_beside_the_last_failure_begins_it_once(
    clerk: Clerk, ledger: Ledger, clock: Clock, database_url: str, sweep_first: bool
) -> None:
    task = clerk.held(lock_duration_ms=1000, policy={"expirations": 0})
    ledger.register(task)
    clock.freeze()
    calls: list[Any] = [
        lambda clerk: (clock.advance(2), clerk.one("expire_leases").expired)[1],
        lambda clerk: clerk.fail(task, retries=0).state,
    ]
    first, second = overlap(database_url, *(calls if sweep_first else calls[::-1]))
    assert first in (1, "READY")
    assert second == 0 or isinstance(second, Conflict)
    assert clerk.scalar("select count(*) from celeriac.saga") == 1
    clock.advance(1)
    assert clerk.fetch()[0].undoing


def test_it_keeps_its_concurrency_key_and_lets_go_of_its_slot(clerk: Clerk, ledger: Ledger) -> None:
    clerk.one("register_task_type", name="mail", concurrency=1)
    task = clerk.held(concurrency_key="k")
    ledger.register(task)
    clerk.fail(task, retries=0)
    assert clerk.query("select * from celeriac.slot") == []
    (undo,) = clerk.fetch()
    assert (undo.task_id, undo.undoing) == (task.task_id, True)
    assert len(clerk.query("select * from celeriac.slot")) == 1


def test_it_is_handed_out_after_what_became_due_before_it(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    ledger.register(task)
    clock.advance(1)
    other = clerk.enqueue()
    clock.advance(1)
    clerk.fail(task, retries=0)
    assert [got.task_id for got in clerk.fetch(max_tasks=2)] == [other, task.task_id]
