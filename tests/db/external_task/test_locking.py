"""Lock, extendLock and unlock of one task (camunda7.md 1.5), and what a lost lock costs."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from db.errors import Invalid, LeaseExpired, LeaseLost, NotFound, StaleToken, Suspended
from tests.clock import Clock
from tests.db.external_task.conftest import Bench


def seconds_left(bench: Bench, task_id: UUID, clock: Clock) -> float:
    shown = bench.shown(task_id)
    assert shown is not None
    return float((shown["lock_expires_at"] - clock.now()).total_seconds())


def test_a_lock_is_taken_by_name_and_for_a_time(bench: Bench, clock: Clock) -> None:
    task_id = bench.task_id(bench.start())
    answer = bench.lock(task_id, lock_ms=5000)
    assert (answer.task_id, answer.lock_duration_ms) == (task_id, 5000)
    assert seconds_left(bench, task_id, clock) == 5
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["state"], shown["worker_id"], shown["attempt"]) == ("LOCKED", "w1", 1)
    assert bench.fetch(worker="w2") == []
    assert bench.complete(task_id).state == "COMPLETED"


def test_a_lock_of_another_holds_until_it_has_ended(bench: Bench, clock: Clock) -> None:
    task_id = bench.held(lock_ms=1000)
    with bench.clerk.refuses(LeaseLost) as refused:
        bench.lock(task_id, "w2")
    assert refused.value.detail["held_by"] == "w1"
    clock.advance(1)
    bench.lock(task_id, "w2")
    with bench.clerk.refuses(LeaseLost):
        bench.complete(task_id)
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["worker_id"], shown["attempt"]) == ("w2", 2)


def test_locking_again_extends_and_keeps_the_token(bench: Bench, clock: Clock) -> None:
    bench.start()
    (row,) = bench.fetch(lock_ms=1000)
    bench.lock(row.task_id, lock_ms=60_000)
    assert seconds_left(bench, row.task_id, clock) == 60
    assert bench.clerk.queue(row.task_id)["fencing_token"] == row.fencing_token  # type: ignore[index]


@pytest.mark.parametrize("swept", [False, True])
def test_locking_again_after_the_end_is_a_new_hand_over_of_the_same_attempt(
    bench: Bench, clock: Clock, swept: bool
) -> None:
    bench.start()
    (row,) = bench.fetch(lock_ms=1000)
    clock.advance(2)
    if swept:
        bench.clerk.one("expire_leases")
    bench.lock(row.task_id)
    shown = bench.shown(row.task_id)
    assert shown is not None
    assert shown["attempt"] == 1
    with bench.clerk.refuses(StaleToken):
        bench.clerk.complete(row)


def test_a_rest_is_a_lock_of_its_worker(bench: Bench, clock: Clock) -> None:
    task_id = bench.held()
    bench.fail(task_id, retries=1, retry_after_ms=60_000)
    with bench.clerk.refuses(LeaseLost):
        bench.lock(task_id, "w2")
    bench.extend(task_id, lock_ms=120_000)
    assert seconds_left(bench, task_id, clock) == 120
    clock.advance(61)
    assert bench.fetch(worker="w2") == []
    bench.lock(task_id, lock_ms=1000)
    assert seconds_left(bench, task_id, clock) == 1
    assert bench.complete(task_id).state == "COMPLETED"


def test_what_has_failed_is_not_locked(bench: Bench) -> None:
    task_id = bench.held()
    bench.fail(task_id, retries=0)
    with bench.clerk.refuses(LeaseLost):
        bench.lock(task_id)
    with bench.clerk.refuses(LeaseExpired):
        bench.extend(task_id)


def test_an_extension_counts_from_now(bench: Bench, clock: Clock) -> None:
    task_id = bench.held(lock_ms=60_000)
    clock.advance(10)
    assert bench.extend(task_id, lock_ms=20_000).lock_expires_at == bench.shown(task_id)["lock_expires_at"]  # type: ignore[index]
    assert seconds_left(bench, task_id, clock) == 20


@pytest.mark.parametrize("swept", [False, True])
def test_an_expired_lock_is_not_extended(bench: Bench, clock: Clock, swept: bool) -> None:
    task_id = bench.held(lock_ms=1000)
    clock.advance(1)
    if swept:
        bench.clerk.one("expire_leases")
    with bench.clerk.refuses(LeaseExpired):
        bench.extend(task_id)
    with bench.clerk.refuses(LeaseLost):
        bench.extend(task_id, "w2")


def test_nobody_extends_what_nobody_locked(bench: Bench) -> None:
    task_id = bench.task_id(bench.start())
    with bench.clerk.refuses(LeaseLost):
        bench.extend(task_id)


def test_a_suspended_instance_keeps_locks_from_being_extended_only(bench: Bench) -> None:
    instance = bench.start()
    task_id = bench.fetch()[0].task_id
    bench.suspend(instance)
    with bench.clerk.refuses(Suspended):
        bench.extend(task_id)
    bench.lock(task_id, lock_ms=20_000)
    bench.unlock(task_id)
    assert bench.clerk.state(task_id) == "SCHEDULED"
    bench.lock(task_id)
    assert bench.clerk.state(task_id) == "LOCKED"


def test_an_unlocked_task_is_nobodys(bench: Bench) -> None:
    """Case B02: an operator sees who holds a task, and can take it away."""
    bench.start()
    (row,) = bench.fetch()
    assert bench.shown(row.task_id)["worker_id"] == "w1"  # type: ignore[index]
    answer = bench.unlock(row.task_id)
    assert (answer.state, answer.task_type) == ("READY", "mail")
    shown = bench.shown(row.task_id)
    assert shown is not None
    assert (shown["worker_id"], shown["lock_expires_at"], shown["retries_told"]) == (None, None, False)
    with bench.clerk.refuses(LeaseLost):
        bench.clerk.complete(row)
    assert [again.task_id for again in bench.fetch(worker="w2")] == [row.task_id]


def test_an_unlock_ends_a_rest(bench: Bench) -> None:
    task_id = bench.held()
    bench.fail(task_id, retries=1, retry_after_ms=60_000)
    assert bench.unlock(task_id).state == "READY"
    assert [row.task_id for row in bench.fetch(worker="w2")] == [task_id]


def test_an_unlock_of_what_nobody_holds_changes_nothing(bench: Bench, clock: Clock) -> None:
    task_id = bench.task_id(bench.start())
    before = bench.clerk.everything()
    assert bench.unlock(task_id).state == "READY"
    assert bench.clerk.everything() == before
    lost = bench.held(lock_ms=1000)
    clock.advance(2)
    bench.clerk.one("expire_leases")
    bench.unlock(lost)
    with bench.clerk.refuses(LeaseLost):
        bench.complete(lost)
    with bench.clerk.refuses(NotFound):
        bench.unlock(uuid4())
    with bench.clerk.refuses(NotFound):
        bench.unlock(task_id, only_types=["other"])


@pytest.mark.parametrize("lock_ms", [0, -1])
def test_a_lock_needs_a_time(bench: Bench, lock_ms: int) -> None:
    task_id = bench.held()
    with bench.clerk.refuses(Invalid, "lock_ms"):
        bench.lock(task_id, lock_ms=lock_ms)
    with bench.clerk.refuses(Invalid, "lock_ms"):
        bench.extend(task_id, lock_ms=lock_ms)


def lose(bench: Bench, clock: Clock, **more: str) -> UUID:
    (row,) = bench.fetch(lock_ms=1000, **more)
    clock.advance(2)
    bench.clerk.one("expire_leases")
    return UUID(str(row.task_id))


def test_a_lost_lock_costs_nothing(bench: Bench, clock: Clock) -> None:
    """Case B02: a delivery that was lost does not lower the retries, however often."""
    bench.start()
    for _ in range(8):
        task_id = lose(bench, clock, on_loss="free")
    hot = bench.clerk.queue(task_id)
    assert hot is not None
    assert (hot["state"], hot["retries"], hot["retries_told"], hot["expirations"], hot["on_loss"]) == (
        "READY", 3, None, 0, None,
    )  # fmt: skip


def test_or_one_retry_until_none_is_left(bench: Bench, clock: Clock) -> None:
    """Case B19: one incident, visible, resolvable; no roll-back."""
    instance = bench.start()
    left = []
    for _ in range(2):
        task_id = lose(bench, clock, on_loss="retry")
        shown = bench.shown(task_id)
        assert shown is not None
        left.append((shown["retries"], shown["retries_told"], shown["worker_id"]))
    assert left == [(2, True, "w1"), (1, True, "w1")]
    lose(bench, clock, on_loss="retry")
    bench.advance(instance)
    assert bench.clerk.task(task_id)["state"] == "FAILED"
    assert [one["message"] for one in bench.incidents(instance)] == ["lease_lost"]
    assert bench.clerk.timeline(task_id)[-1]["detail"] == {"expirations": 0, "retries": 0, "for_good": True}
    bench.retries([task_id], 1)
    assert bench.incidents(instance) == []
    assert bench.complete(bench.fetch()[0].task_id).state == "COMPLETED"


def test_or_as_a_lost_lease_of_the_native_face(bench: Bench, clock: Clock) -> None:
    bench.start()
    task_id = lose(bench, clock)
    hot = bench.clerk.queue(task_id)
    assert hot is not None
    assert (hot["retries"], hot["expirations"]) == (3, 1)


def test_what_it_costs_is_asked_for_at_each_fetch(bench: Bench, clock: Clock) -> None:
    bench.start()
    lose(bench, clock, on_loss="free")
    bench.clerk.fetch("mail", lock_duration_ms=1000)
    clock.advance(2)
    bench.clerk.one("expire_leases")
    assert bench.clerk.scalar("select expirations from celeriac.queue") == 1
    with bench.clerk.refuses(Invalid, "on_loss"):
        bench.fetch(on_loss="dear")
    task_id = bench.task_id(UUID(str(bench.clerk.scalar("select id from celeriac.instance"))))
    bench.lock(task_id, lock_ms=1000, on_loss="retry")
    clock.advance(2)
    bench.clerk.one("expire_leases")
    assert bench.clerk.scalar("select retries from celeriac.queue") == 2


def test_a_key_with_one_slot_is_locked_once(bench: Bench) -> None:
    bench.clerk.one("register_task_type", name="mail", concurrency=1)
    ids = [bench.clerk.enqueue("mail", concurrency_key="k") for _ in range(2)]
    bench.lock(ids[0])
    with bench.clerk.refuses(LeaseLost):
        bench.lock(ids[1], "w2")
    bench.complete(ids[0])
    bench.lock(ids[1], "w2")
    assert bench.clerk.query("select * from celeriac.slot_faults") == []


def test_whoever_completes_after_a_loss_makes_room_for_the_next_of_the_key(bench: Bench, clock: Clock) -> None:
    bench.clerk.one("register_task_type", name="mail", concurrency=1)
    first, second = (bench.clerk.enqueue("mail", concurrency_key="k") for _ in range(2))
    assert bench.fetch(lock_ms=1000)[0].task_id == first
    clock.advance(2)
    bench.clerk.one("expire_leases")
    bench.complete(first)
    assert [row.task_id for row in bench.fetch(worker="w2")] == [second]
    assert bench.clerk.query("select * from celeriac.slot_faults") == []
