"""redrive_task: FAILED -> READY."""

from uuid import UUID

import pytest

from db.errors import AlreadyEnded, Invalid, NotFound
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_a_dead_task_is_ready_again_with_fresh_counters_and_a_new_token(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.dead(retries=4, priority=3, variables={"to": "ada"})
    dead = clerk.task(task.task_id)
    clock.advance(60)
    answer = clerk.one("redrive_task", task_id=task.task_id)
    assert (answer.task_id, answer.state) == (task.task_id, "READY")
    cold, hot = clerk.task(task.task_id), clerk.queue(task.task_id)
    assert cold == dead | {
        "state": "OPEN", "error": None, "started_at": None, "ended_at": None, "fencing_token": None, "worker_id": None,
        "principal": None, "attempts": 0, "redrives": 1,
    }  # fmt: skip
    assert hot is not None
    assert (hot["state"], hot["retries"], hot["attempts"], hot["expirations"]) == ("READY", 4, 0, 0)
    assert (hot["priority"], hot["run_at"]) == (3, clock.now())
    assert hot["fencing_token"] > task.fencing_token
    (again,) = clerk.fetch(worker_id="w2")
    assert (again.attempt, again.retries, again.variables) == (1, 4, '{"to": "ada"}')
    clerk.complete(again, worker_id="w2")


def test_the_failure_stays_in_the_timeline(clerk: Clerk) -> None:
    task = clerk.dead()
    clerk.one("redrive_task", task_id=task.task_id, principal="anna")
    failed, redriven = clerk.timeline(task.task_id)
    assert (failed["kind"], redriven["kind"]) == ("failed", "redriven")
    assert (redriven["principal"], redriven["detail"]["error"]) == ("anna", "no such mailbox")


def test_one_retry_may_be_given_and_is_fetched_at_once(clerk: Clerk) -> None:
    """Case B19: after the incident, retries 1."""
    task = clerk.dead()
    clerk.one("redrive_task", task_id=task.task_id, retries=1)
    (again,) = clerk.fetch()
    assert again.retries == 1
    assert clerk.fail(again, retry_after_ms=0).state == "FAILED"


@pytest.mark.parametrize("retries", [0, -1])
def test_no_retries_is_no_redrive(clerk: Clerk, retries: int) -> None:
    task = clerk.dead()
    with clerk.refuses(Invalid, "retries"):
        clerk.one("redrive_task", task_id=task.task_id, retries=retries)


def test_only_a_failed_task_can_be_redriven(clerk: Clerk) -> None:
    canceled = clerk.enqueue("canceled")
    clerk.cancel(canceled)
    for task_id in (clerk.enqueue("ready"), clerk.held("held").task_id, clerk.done("done").task_id, canceled):
        with clerk.refuses(AlreadyEnded):
            clerk.one("redrive_task", task_id=task_id)


def test_a_second_redrive_finds_it_open(clerk: Clerk) -> None:
    task = clerk.dead()
    clerk.one("redrive_task", task_id=task.task_id)
    with clerk.refuses(AlreadyEnded):
        clerk.one("redrive_task", task_id=task.task_id)


def test_foreign_and_missing_look_the_same(clerk: Clerk) -> None:
    """Case B66."""
    task = clerk.dead("pay")
    with clerk.refuses(NotFound) as foreign:
        clerk.one("redrive_task", task_id=task.task_id, only_types=["mail"])
    with clerk.refuses(NotFound) as missing:
        clerk.one("redrive_task", task_id=UUID(int=7), only_types=["mail"])
    assert foreign.value.message == missing.value.message


def test_it_rings(clerk: Clerk) -> None:
    clerk.celery_type()
    task = clerk.dead()
    clerk.rings()
    clerk.one("redrive_task", task_id=task.task_id)
    assert clerk.rings() == [("fleet", "mail")]


def test_the_budget_of_lost_leases_starts_anew(clerk: Clerk, clock: Clock) -> None:
    """Case B11."""
    task = clerk.held(lock_duration_ms=1000, policy={"expirations": 1})
    for _ in range(2):
        clock.advance(2)
        clerk.one("expire_leases")
        clerk.fetch(lock_duration_ms=1000)
    assert clerk.state(task.task_id) == "FAILED"
    clerk.one("redrive_task", task_id=task.task_id)
    clerk.fetch(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    assert clerk.state(task.task_id) == "READY"
