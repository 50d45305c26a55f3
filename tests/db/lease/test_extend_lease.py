"""extend_lease: LOCKED -> LOCKED. What it refuses: test_refused_writes.py."""

from datetime import timedelta

import pytest

from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_the_lease_ends_that_long_from_now_and_nothing_else_changes(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(lock_duration_ms=10_000)
    before = clerk.queue(task.task_id)
    clock.advance(5)
    answer = clerk.extend(task, 10_000)
    end = clock.now() + timedelta(seconds=10)
    assert (answer.task_id, answer.lock_expires_at, answer.lock_duration_ms) == (task.task_id, end, 10_000)
    assert before is not None
    assert clerk.queue(task.task_id) == before | {"lease_expires_at": end}


def test_a_lease_that_is_extended_in_time_is_never_lost(clerk: Clerk, clock: Clock) -> None:
    """Case B04: each heartbeat is in the row at once, and the sweep judges by it."""
    task = clerk.held(lock_duration_ms=3000)
    for _ in range(10):
        clock.advance(2)
        clerk.extend(task, 3000)
        assert clerk.one("expire_leases").expired == 0
        assert clerk.fetch(worker_id="w2") == []
    clerk.complete(task)


def test_a_lease_may_be_made_shorter(clerk: Clerk, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=60_000)
    clerk.extend(task, 1000)
    clock.advance(2)
    assert clerk.one("expire_leases").expired == 1


@pytest.mark.parametrize("lock_duration_ms", [0, -1, 2_592_000_001, 2**63 - 1, None])
def test_one_ms_to_thirty_days(clerk: Clerk, lock_duration_ms: int | None) -> None:
    """Case B18: the field is named also for what no interval could hold."""
    task = clerk.held()
    with clerk.refuses(Invalid, "lock_duration_ms"):
        clerk.extend(task, lock_duration_ms)  # type: ignore[arg-type]
    assert clerk.extend(task, 2_592_000_000).lock_duration_ms == 2_592_000_000
    clerk.extend(task, 1)


def test_heartbeats_rewrite_no_index(clerk: Clerk) -> None:
    """Case B44: with an old snapshot held they would pile up index entries; HOT updates leave none."""
    clerk.run("alter table celeriac.queue set (autovacuum_enabled = off)")
    tasks = [clerk.held() for _ in range(10)]
    seen = """
        select n_tup_upd as updates, n_tup_hot_upd as hot
          from pg_stat_user_tables where relid = 'celeriac.queue'::regclass"""
    clerk.run("select pg_stat_force_next_flush()")
    (before,) = clerk.query(seen)
    for _ in range(50):
        for task in tasks:
            clerk.extend(task)
    clerk.run("select pg_stat_force_next_flush()")
    (after,) = clerk.query(seen)
    assert after["updates"] - before["updates"] == 500
    assert after["hot"] - before["hot"] >= 450
