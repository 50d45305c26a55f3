"""A type with `rate_tasks` and `rate_ms`: in no period of that length does it hand out more tasks than that."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from app.dev.waiting import wait_until
from tests.clock import Clock
from tests.db.clerk import Clerk


@pytest.fixture(autouse=True)
def frozen(clock: Clock) -> None:
    clock.freeze()


def rated(clerk: Clerk, tasks: int, ms: int, name: str = "mail", **settings: Any) -> None:
    clerk.one("register_task_type", name=name, rate_tasks=tasks, rate_ms=ms, **settings)


def many(clerk: Clerk, count: int, task_type: str = "mail", **item: Any) -> None:
    clerk.enqueue_items([{"task_type": task_type} | item] * count)


def ready(clerk: Clerk, *task_types: str) -> dict[str, int]:
    return {row.task_type: row.ready for row in clerk.rows("ready_types", task_types=list(task_types) or ["mail"])}


def due_rings(clerk: Clerk) -> list[timedelta]:
    """How long from now each ring in the outbox is due."""
    return [
        row["rest"] for row in clerk.query("select due_at - celeriac.now() as rest from celeriac.outbox order by 1")
    ]


def test_so_many_are_handed_out_and_the_next_when_the_period_is_over(clerk: Clerk, clock: Clock) -> None:
    rated(clerk, 3, 10_000)
    many(clerk, 10)
    assert len(clerk.fetch(max_tasks=10)) == 3
    assert clerk.fetch(max_tasks=10) == []
    clock.advance(9.999)
    assert clerk.fetch(max_tasks=10) == []
    clock.advance(0.001)
    assert len(clerk.fetch(max_tasks=10)) == 3


def test_each_counts_for_a_period_from_when_it_was_handed_out(clerk: Clerk, clock: Clock) -> None:
    rated(clerk, 3, 10_000)
    many(clerk, 10)
    for _ in range(3):
        assert len(clerk.fetch(max_tasks=1)) == 1
        clock.advance(3)
    assert clerk.fetch() == []  # 9 s after the first
    clock.advance(1)
    assert len(clerk.fetch(max_tasks=5)) == 1
    clock.advance(3)
    assert len(clerk.fetch(max_tasks=5)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_no_period_ever_holds_more_and_a_busy_fleet_gets_nearly_all(clerk: Clerk, clock: Clock, seed: int) -> None:
    """Whoever asks when; the moments are those that the leases say."""
    lot = random.Random(seed)
    limit, period = lot.choice([(5, 1000), (20, 60_000), (7, 100), (1, 5000)])
    rated(clerk, limit, period, lease_ms=2_592_000_000)
    many(clerk, 40 * limit)
    began = clock.now()
    while clock.now() - began < timedelta(milliseconds=12 * period):
        clerk.fetch(max_tasks=lot.choice([1, 2, limit, 3 * limit]))
        clock.advance(period * lot.choice([1, 1, 3, 10]) / 1000 / 100)
    moments: list[datetime] = [row["leased_at"] for row in clerk.query(
        "select leased_at from celeriac.queue where state = 'LOCKED' order by 1")]  # fmt: skip
    assert all(
        later - sooner >= timedelta(milliseconds=period)
        for sooner, later in zip(moments, moments[limit:], strict=False)
    )
    assert len(moments) >= 10 * limit


def test_other_types_are_not_concerned_and_take_what_is_left(clerk: Clerk) -> None:
    rated(clerk, 2, 10_000)
    many(clerk, 10)
    many(clerk, 10, "scan")
    assert sorted(task.task_type for task in clerk.fetch("mail", "scan", max_tasks=8)) == ["mail"] * 2 + ["scan"] * 6
    assert [task.task_type for task in clerk.fetch("mail", "scan", max_tasks=8)] == ["scan"] * 4


def test_all_versions_of_a_type_share_its_rate(clerk: Clerk) -> None:
    rated(clerk, 3, 10_000)
    for version in (1, 2, 3):
        many(clerk, 3, version=version)
    assert len(clerk.fetch(max_tasks=9)) == 3


def test_a_completion_that_fetches_is_held_to_it_as_well(clerk: Clerk) -> None:
    rated(clerk, 1, 10_000)
    many(clerk, 2)
    asked = {"items": "[]", "worker_id": "w1", "task_types": ["mail"], "max_tasks": 2}
    assert len(clerk.rows("complete_and_fetch", **asked)) == 1
    assert clerk.rows("complete_and_fetch", **asked) == []


def test_ready_work_is_only_what_may_be_handed_out(clerk: Clerk, clock: Clock) -> None:
    """Else every poll and every ring would run into the limit, again and again."""
    rated(clerk, 3, 10_000)
    many(clerk, 10)
    many(clerk, 2, "scan")
    assert ready(clerk, "mail", "scan") == {"mail": 3, "scan": 2}
    clerk.fetch(max_tasks=2)
    assert ready(clerk) == {"mail": 1}
    clerk.fetch(max_tasks=2)
    assert ready(clerk) == {"mail": 0}
    clock.advance(10)
    assert ready(clerk) == {"mail": 3}


def test_one_ring_is_due_when_the_next_may_be_handed_out(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type()
    rated(clerk, 2, 10_000)
    many(clerk, 10)
    clerk.rings()
    clerk.fetch()
    clock.advance(4)
    assert due_rings(clerk) == []
    clerk.fetch(max_tasks=5)
    assert due_rings(clerk) == [timedelta(seconds=6)]
    for _ in range(5):
        clerk.fetch(max_tasks=5)
        clock.advance(1)
    assert due_rings(clerk) == [timedelta(seconds=1)]
    clock.advance(1)
    clerk.rings()
    assert len(clerk.fetch(max_tasks=5)) == 1
    assert due_rings(clerk) == [timedelta(seconds=4)]


def test_who_comes_in_vain_leaves_a_ring_for_the_time_when_it_may(clerk: Clerk, clock: Clock) -> None:
    """The backlog was handed out and the ring with it; then came a new task, whose ring found nothing to do yet."""
    clerk.celery_type()
    rated(clerk, 1, 10_000)
    many(clerk, 1)
    clerk.fetch()
    clerk.rings()
    clerk.run("update celeriac.rate set rung_for = '-infinity'")
    many(clerk, 1)
    clerk.rings()
    clock.advance(3)
    assert clerk.fetch() == []
    assert due_rings(clerk) == [timedelta(seconds=7)]


def test_a_stale_ring_is_not_repeated_for_what_may_not_be_handed_out(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type()
    rated(clerk, 1, 3_600_000)
    many(clerk, 5)
    clerk.fetch()
    clerk.rings()
    clock.advance(60)
    assert clerk.one("ring_stale").rung == 0
    clock.advance(3600)
    assert clerk.one("ring_stale").rung == 1


def test_a_pulled_type_asks_for_no_ring(clerk: Clerk) -> None:
    rated(clerk, 1, 10_000)
    many(clerk, 5)
    clerk.fetch()
    clerk.fetch()
    assert clerk.rings() == []


def test_raised_it_gives_more_at_once_and_lowered_it_counts_what_was(clerk: Clerk, clock: Clock) -> None:
    rated(clerk, 2, 10_000)
    many(clerk, 20)
    assert len(clerk.fetch(max_tasks=10)) == 2
    rated(clerk, 5, 10_000)
    assert len(clerk.fetch(max_tasks=10)) == 3
    rated(clerk, 1, 10_000)
    clock.advance(9)
    assert clerk.fetch(max_tasks=10) == []
    clock.advance(1)
    assert len(clerk.fetch(max_tasks=10)) == 1
    rated(clerk, 0, 0)
    assert len(clerk.fetch(max_tasks=10)) == 10


def test_a_clock_that_is_set_back_does_not_lock_a_type_up(clerk: Clerk, clock: Clock) -> None:
    rated(clerk, 1, 10_000)
    many(clerk, 3)
    clerk.fetch()
    clock.advance(-3600)
    clerk.run("update celeriac.queue set run_at = '-infinity', turn_at = '-infinity' where state = 'READY'")
    assert len(clerk.fetch()) == 1
    assert clerk.fetch() == []


def test_what_is_written_down_stays_short(clerk: Clerk, clock: Clock) -> None:
    rated(clerk, 1000, 10_000)
    many(clerk, 1000)
    for _ in range(500):
        clerk.fetch()
        clock.advance(0.05)
    assert clerk.scalar("select cardinality(tasks) from celeriac.rate") <= 52


def test_a_limit_of_both_kinds_holds_both(clerk: Clerk, clock: Clock) -> None:
    clerk.one("register_task_type", name="mail", concurrency=1, rate_tasks=2, rate_ms=10_000)
    many(clerk, 3, concurrency_key="k")
    many(clerk, 3, concurrency_key="l")
    first = clerk.fetch(max_tasks=10)
    assert len(first) == 2
    clock.advance(10)
    clerk.complete(first[0])
    assert len(clerk.fetch(max_tasks=10)) == 1


def test_many_connections_at_once_hand_out_exactly_as_many(clerk: Clerk, database_url: str) -> None:
    rated(clerk, 37, 3_600_000)
    rated(clerk, 11, 3_600_000, "scan")
    many(clerk, 200)
    many(clerk, 200, "scan")

    def fetch_all(number: int) -> int:
        lot = random.Random(number)
        taken = 0
        with psycopg.connect(database_url, autocommit=True) as connection:
            for _ in range(20):
                types = lot.choice([["mail"], ["scan"], ["mail", "scan"], ["scan", "mail"]])
                fetch = "select task_id from celeriac.fetch_tasks(%s, %s, %s)"
                taken += len(connection.execute(fetch, [f"w{number}", types, lot.choice([1, 2, 5])]).fetchall())
        return taken

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(fetch_all, range(8))) == 48
    held = clerk.query("select task_type, count(*) from celeriac.queue where state = 'LOCKED' group by 1 order by 1")
    assert [tuple(row.values()) for row in held] == [("mail", 37), ("scan", 11)]


def test_a_claim_waits_for_one_in_flight_and_counts_it(clerk: Clerk, database_url: str) -> None:
    rated(clerk, 2, 3_600_000)
    many(clerk, 10)
    fetch = "select task_id from celeriac.fetch_tasks('w1', '{mail}', 5)"
    waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    for end, expected in {"rollback": 2, "commit": 0}.items():
        with (
            psycopg.connect(database_url) as one,
            psycopg.connect(database_url) as other,
            ThreadPoolExecutor(1) as thread,
        ):
            assert len(one.execute(fetch).fetchall()) == 2
            second = thread.submit(lambda: other.execute(fetch).fetchall())
            wait_until(lambda: clerk.query(waiting), what="the second claim to wait")
            getattr(one, end)()
            assert len(second.result()) == expected
            other.rollback()
