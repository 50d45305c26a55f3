"""Two at once on one external task: whoever comes second sees what the first has done; nothing falls in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from app.engine import advance
from db import call
from db.errors import LeaseLost, NotFound, Refused
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.external_task.conftest import Bench
from tests.db.overlap import overlap

Act = Callable[[Clerk, UUID, UUID], Any]


def writes(function: str, worker: str = "w1", **more: Any) -> Act:
    return lambda clerk, task, _: clerk.one(function, task_id=task, worker_id=worker, **more)


complete = writes("complete_external_task")
throw = writes("throw_external_task", error_code="E")
fail = writes("fail_external_task", retries=2)
fail_for_good = writes("fail_external_task", retries=0)
extend = writes("extend_external_task", lock_ms=60_000)
lock = writes("lock_external_task", lock_ms=60_000)
natively_fail = writes("fail_task", retry_after_ms=0)
release = writes("release_task")


def fetch(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    topics = call.json_list([{"topic": "mail", "lock_ms": 10_000}])
    return clerk.rows("fetch_external_tasks", worker_id="w2", topics=topics, max_tasks=5)


def choose(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    topics = call.json_list([{"topic": "mail", "lock_ms": 10_000, "process_keys": ["p"]}])
    return clerk.rows("fetch_external_tasks", worker_id="w2", topics=topics, max_tasks=5)


def unlock(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    return clerk.one("unlock_external_task", task_id=task)


def expire(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    return clerk.one("expire_leases")


def retries(number: int) -> Act:
    return lambda clerk, task, _: clerk.rows("set_external_task_retries", task_ids=[task], retries=number)


def redrive(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    return clerk.one("redrive_task", task_id=task)


def redrive_many(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    return clerk.rows("redrive_tasks")


def suspend(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    return clerk.one("suspend_instance", instance_id=instance, suspended=True)


def resume(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    return clerk.one("suspend_instance", instance_id=instance, suspended=False)


def stop(clerk: Clerk, task: UUID, instance: UUID) -> Any:
    clerk.one("stop_instance", instance_id=instance)
    return advance(clerk.conn, str(instance))


def race(bench: Bench, url: str, task: UUID, first: Act, second: Act) -> tuple[Any, Any]:
    instance = bench.clerk.scalar("select instance_id from celeriac.task where id = :id", id=task)
    return overlap(url, lambda clerk: first(clerk, task, instance), lambda clerk: second(clerk, task, instance))


def refused(answer: Any) -> bool:
    return isinstance(answer, Refused)


def lost(bench: Bench, clock: Clock) -> UUID:
    task = bench.held(lock_ms=1000)
    clock.advance(2)
    return task


@pytest.mark.parametrize("act", [complete, throw, fail, fail_for_good])
@pytest.mark.parametrize("taker", [fetch, choose, writes("lock_external_task", "w2", lock_ms=1000)])
def test_an_expired_lock_is_ended_by_its_worker_or_taken_by_another(
    bench: Bench, clock: Clock, database_url: str, act: Act, taker: Act
) -> None:
    task = lost(bench, clock)
    taken, ended = race(bench, database_url, task, taker, act)
    assert taken
    assert type(ended) is LeaseLost
    other = lost(bench, clock)
    ended, taken = race(bench, database_url, other, act, taker)
    assert not refused(ended)
    # A fetch passes over what is being ended; a lock waits, and finds it gone or resting under its last worker's name.
    assert taken == [] or refused(taken) or ended.state == "READY"


@pytest.mark.parametrize("act", [complete, throw])
@pytest.mark.parametrize("again", [complete, throw, fail, fail_for_good, extend, lock])
def test_what_is_ended_is_ended_once(bench: Bench, database_url: str, act: Act, again: Act) -> None:
    first, second = race(bench, database_url, bench.held(), act, again)
    assert first.state == "COMPLETED"
    assert type(second) is NotFound
    assert bench.clerk.scalar("select count(*) from celeriac.fact") == 1


@pytest.mark.parametrize("act", [complete, throw, fail])
@pytest.mark.parametrize("again", [complete, throw, retries(3), redrive])
def test_a_failed_one_is_taken_back_once(bench: Bench, database_url: str, act: Act, again: Act) -> None:
    for first_act, second_act in ((act, again), (again, act)):
        task = bench.held()
        bench.fail(task, retries=0)
        instance = bench.clerk.scalar("select instance_id from celeriac.task where id = :id", id=task)
        first, _ = race(bench, database_url, task, first_act, second_act)
        assert not refused(first)
        bench.advance(instance)
        tasks = bench.clerk.query("select id, state from celeriac.task where instance_id = :id", id=instance)
        assert [row["id"] for row in tasks] == [task]
        queued = bench.clerk.queue(task)
        assert (queued is not None) == (tasks[0]["state"] == "OPEN")
        if redrive not in (act, again):  # a redrive of the native face leaves the incident to the end of the task
            assert bench.incidents(instance) == []


@pytest.mark.parametrize("act", [complete, fail, retries(1)])
def test_a_failed_one_is_not_taken_back_from_a_token_that_goes(bench: Bench, database_url: str, act: Act) -> None:
    """Else a task would stay open that belongs to nothing."""
    task = bench.held()
    bench.fail(task, retries=0)
    instance = bench.clerk.scalar("select instance_id from celeriac.task where id = :id", id=task)
    bench.clerk.one("stop_instance", instance_id=instance)
    _, late = race(bench, database_url, task, lambda clerk, *_: advance(clerk.conn, str(instance)), act)
    assert type(late) is NotFound
    assert bench.clerk.queue(task) is None


BACK = [natively_fail, release, fail, unlock]


@pytest.mark.parametrize("back", BACK)
def test_a_task_that_comes_back_while_its_instance_is_suspended_stands_still(
    bench: Bench, database_url: str, back: Act
) -> None:
    for first, second in ((back, suspend), (suspend, back)):
        task = bench.held()
        race(bench, database_url, task, first, second)
        # Where the face refuses its worker it is LOCKED still, and stands still when its lock is lost.
        assert bench.clerk.state(task) == ("LOCKED" if second is fail else "SCHEDULED")
        assert fetch(bench.clerk, task, task) == []
        bench.clerk.run(
            "update celeriac.queue set lease_expires_at = leased_at, reap_at = leased_at where state = 'LOCKED'"
        )
        expire(bench.clerk, task, task)
        assert bench.clerk.state(task) == "SCHEDULED"


@pytest.mark.parametrize("back", [expire, retries(1), redrive, redrive_many])
def test_also_one_that_others_bring_back(bench: Bench, clock: Clock, database_url: str, back: Act) -> None:
    for first, second in ((back, suspend), (suspend, back)):
        task = bench.held(lock_ms=1000)
        if back is not expire:
            bench.fail(task, retries=0)
        clock.advance(2)
        race(bench, database_url, task, first, second)
        expire(bench.clerk, task, task)
        # Of many it leaves out those of an instance that somebody is changing.
        assert bench.clerk.state(task) == ("FAILED" if second is redrive_many else "SCHEDULED")
        assert fetch(bench.clerk, task, task) == []


@pytest.mark.parametrize("back", BACK)
def test_and_none_stands_still_for_ever(bench: Bench, database_url: str, back: Act) -> None:
    for first, second in ((back, resume), (resume, back)):
        instance = bench.start()
        task = bench.fetch()[0].task_id
        if back is not fail:
            suspend(bench.clerk, task, instance)
        race(bench, database_url, task, first, second)
        assert bench.clerk.state(task) == "READY"
        assert [row.task_id for row in fetch(bench.clerk, task, instance)] == [task]
        complete_by_other = writes("complete_external_task", "w2")
        complete_by_other(bench.clerk, task, instance)


def test_a_claim_that_was_first_stays(bench: Bench, database_url: str) -> None:
    task = bench.task_id(bench.start())
    taken, _ = race(bench, database_url, task, fetch, suspend)
    assert [row.task_id for row in taken] == [task]
    assert bench.clerk.state(task) == "LOCKED"
    other = bench.task_id(bench.start())
    _, taken = race(bench, database_url, other, suspend, fetch)
    assert taken == []


@pytest.mark.parametrize("other", [fetch, choose, complete, fail, extend, unlock, suspend, resume, retries(2), expire])
def test_a_priority_waits_its_turn(bench: Bench, database_url: str, other: Act) -> None:
    urgent = lambda clerk, task, _: clerk.one("set_external_task_priority", task_id=task, priority=7)  # noqa: E731
    for first, second in ((urgent, other), (other, urgent)):
        task = bench.held() if other not in (fetch, choose) else bench.task_id(bench.start())
        race(bench, database_url, task, first, second)
        hot = bench.clerk.queue(task)
        if hot is not None:
            assert hot["priority"] == bench.clerk.task(task)["priority"] == 7
        bench.clerk.run("delete from celeriac.queue")
        bench.clerk.run("delete from celeriac.task")
