"""What every write of a worker needs: this lease, this owner, this principal, this token, in time."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Row

from db.errors import AlreadyEnded, Canceled, Invalid, LeaseExpired, LeaseLost, NotFound, StaleToken
from tests.clock import Clock
from tests.db.clerk import Clerk

WRITES: dict[str, Callable[..., Row[Any]]] = {
    "extend": Clerk.extend,
    "complete": Clerk.complete,
    "fail": Clerk.fail,
    "release": Clerk.release,
}
every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@every_write
def test_a_stale_token_is_refused_after_the_task_was_handed_over(
    clerk: Clerk, clock: Clock, write: Callable[..., Any]
) -> None:
    """Case B64: the frozen worker wakes up, before the second one is done."""
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    clerk.fetch(worker_id="w2")
    with clerk.refuses(StaleToken):
        write(clerk, zombie)


@every_write
def test_a_stale_token_of_the_same_worker_is_refused_too(clerk: Clerk, clock: Clock, write: Callable[..., Any]) -> None:
    """Case B64: the task came back to the same worker, whose older thread wakes up."""
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.fetch(worker_id="w1")
    with clerk.refuses(StaleToken):
        write(clerk, zombie)


@every_write
def test_nothing_can_be_written_over_what_another_worker_completed(
    clerk: Clerk, clock: Clock, write: Callable[..., Any]
) -> None:
    """Case B64: the frozen worker wakes up, after the second one is done."""
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    (second,) = clerk.fetch(worker_id="w2")
    clerk.complete(second, worker_id="w2", variables={"by": "w2"})
    with clerk.refuses(AlreadyEnded):
        write(clerk, zombie)


@every_write
def test_an_expired_lease_is_refused_though_nobody_took_the_task(
    clerk: Clerk, clock: Clock, write: Callable[..., Any]
) -> None:
    """Case B64: never half; the worker must fetch again."""
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(1)
    with clerk.refuses(LeaseExpired):
        write(clerk, task)


@every_write
def test_a_lost_lease_is_refused_while_nobody_holds_the_task(
    clerk: Clerk, clock: Clock, write: Callable[..., Any]
) -> None:
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(1)
    clerk.one("expire_leases")
    with clerk.refuses(LeaseLost):
        write(clerk, task)


@every_write
def test_a_lease_holds_until_the_very_moment_that_it_ends(
    clerk: Clerk, clock: Clock, write: Callable[..., Any]
) -> None:
    clock.freeze()
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(0.999999)
    write(clerk, task)


@every_write
@pytest.mark.parametrize("changed", [{"worker_id": "w2"}, {"principal": "eve"}], ids=["worker", "principal"])
def test_another_worker_or_principal_is_refused_even_with_the_right_token(
    clerk: Clerk, write: Callable[..., Any], changed: dict[str, str]
) -> None:
    task = clerk.held()
    with clerk.refuses(LeaseLost):
        write(clerk, task, **changed)


@every_write
@pytest.mark.parametrize("changed", [{"worker_id": "w2"}, {"principal": "eve"}], ids=["worker", "principal"])
def test_without_a_token_owner_and_principal_must_match(
    clerk: Clerk, write: Callable[..., Any], changed: dict[str, str]
) -> None:
    task = clerk.held()
    with clerk.refuses(LeaseLost):
        write(clerk, task, fencing_token=None, **changed)


@every_write
def test_without_a_token_the_holder_is_let_in(clerk: Clerk, write: Callable[..., Any]) -> None:
    write(clerk, clerk.held(), fencing_token=None)


@every_write
def test_a_task_that_nobody_holds_is_refused(clerk: Clerk, write: Callable[..., Any]) -> None:
    task = clerk.held()
    clerk.one("release_task", task_id=task.task_id, worker_id="w1")
    with clerk.refuses(LeaseLost):
        write(clerk, task, fencing_token=task.fencing_token + 1)


@every_write
def test_a_canceled_task_is_refused_as_canceled(clerk: Clerk, write: Callable[..., Any]) -> None:
    task = clerk.held()
    clerk.cancel(task.task_id)
    with clerk.refuses(Canceled):
        write(clerk, task)


@every_write
def test_a_redriven_task_is_refused_to_the_worker_before(clerk: Clerk, write: Callable[..., Any]) -> None:
    task = clerk.dead()
    clerk.one("redrive_task", task_id=task.task_id)
    clerk.fetch(worker_id="w2")
    if write is Clerk.fail:  # a repeat of the failure that holds: its answer, and nothing changes
        before = clerk.everything()
        assert clerk.fail(task).state == "FAILED"
        assert clerk.everything() == before
        return
    with clerk.refuses(StaleToken):
        write(clerk, task)


@every_write
def test_a_task_that_never_was_is_not_found(clerk: Clerk, write: Callable[..., Any]) -> None:
    task = clerk.held()
    with clerk.refuses(NotFound):
        write(clerk, task, task_id=UUID(int=7))


@every_write
def test_a_task_of_a_type_that_is_not_the_callers_looks_like_one_that_never_was(
    clerk: Clerk, write: Callable[..., Any]
) -> None:
    """Case B66: with its real token; and rights taken away while a task is held count at once."""
    task = clerk.held("pay")
    with clerk.refuses(NotFound) as foreign:
        write(clerk, task, only_types=["mail"])
    with clerk.refuses(NotFound) as missing:
        write(clerk, task, task_id=UUID(int=7), only_types=["mail"])
    assert foreign.value.message == missing.value.message
    write(clerk, task, only_types=["mail", "p%"])


@every_write
@pytest.mark.parametrize("worker_id", ["", "x" * 256, "w\t", None])
def test_a_worker_id_is_a_name(clerk: Clerk, write: Callable[..., Any], worker_id: str | None) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, "worker_id"):
        write(clerk, task, worker_id=worker_id)


@every_write
def test_a_refusal_is_counted_and_says_whose_write_it_was(
    clerk: Clerk, clock: Clock, write: Callable[..., Any]
) -> None:
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    before = clerk.scalar("select total from celeriac.refusals")
    with clerk.refuses(LeaseExpired) as caught:
        write(clerk, task)
    assert clerk.scalar("select total from celeriac.refusals") == before + 1
    assert caught.value.detail["task_id"] == str(task.task_id)
    assert caught.value.detail["worker_id"] == "w1"
    assert caught.value.detail["fencing_token"] == task.fencing_token


def test_a_call_for_nothing_is_not_counted_as_a_stale_write(clerk: Clerk) -> None:
    task = clerk.held()
    with clerk.refuses(NotFound):
        clerk.extend(task, task_id=UUID(int=7))
    assert clerk.scalar("select total from celeriac.refusals") == 0
