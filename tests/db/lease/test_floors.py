"""Floors: where a claim begins to look while a snapshot that someone holds open keeps dead entries in the index."""

import psycopg

from tests.clock import Clock
from tests.db.clerk import Clerk


def raise_floor(clerk: Clerk, ahead: str = "0") -> None:
    """As after a slow claim that found nothing; `ahead` puts the floor higher than work that is there."""
    clerk.fetch("another")  # finds nothing, so it does what the chores have left, and the type is known
    clerk.run(
        "update celeriac.stream set floor_urgency = 0, floor_turn_at = celeriac.now() + cast(:ahead as interval), "
        "floor_until = celeriac.now() + interval '1 second'",
        ahead=ahead,
    )


def test_work_that_comes_after_it_is_found(clerk: Clerk, clock: Clock) -> None:
    """Case B44."""
    clerk.done()
    raise_floor(clerk)
    clock.advance(0.1)
    task_id = clerk.enqueue()
    assert [task.task_id for task in clerk.fetch()] == [task_id]


def test_higher_priorities_are_always_found(clerk: Clerk) -> None:
    """Case B44."""
    urgent, hidden = clerk.enqueue(priority=1), clerk.enqueue()
    raise_floor(clerk, ahead="1 hour")
    assert [task.task_id for task in clerk.fetch(max_tasks=5)] == [urgent]
    assert clerk.state(hidden) == "READY"


def test_what_is_older_is_found_when_the_second_is_over(clerk: Clerk, clock: Clock) -> None:
    """Case B44: a task that was given back, or committed late."""
    task = clerk.held()
    raise_floor(clerk)
    clerk.release(task)
    clock.advance(1)
    assert [again.task_id for again in clerk.fetch()] == [task.task_id]
    assert clerk.rows("ready_types", task_types=["mail"]) == []


def test_a_clock_set_back_by_an_hour_hides_nothing(clerk: Clerk, clock: Clock) -> None:
    """Case B05: a floor holds for its second only, whatever the clock says."""
    clerk.done()
    raise_floor(clerk)
    clock.advance(-3600)
    task_id = clerk.enqueue()
    assert [task.task_id for task in clerk.fetch()] == [task_id]


def test_a_clock_set_back_by_an_hour_keeps_no_lost_lease_from_a_fetch(clerk: Clerk, clock: Clock) -> None:
    """Cases B05, B47: the chores ran, the clock was set back, and beat died."""
    clerk.one("expire_leases")
    clerk.one("promote_due")
    clock.advance(-3600)
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(10)
    assert [again.task_id for again in clerk.fetch(worker_id="w2")] == [task.task_id]


def pass_through(clerk: Clerk, count: int) -> None:
    clerk.enqueue_items([{"task_type": "mail"} for _ in range(count)])
    for _ in range(count // 1000):
        clerk.fetch(max_tasks=1000)


def test_a_floor_is_raised_where_a_held_snapshot_keeps_thousands_of_claimed_entries(
    clerk: Clerk, database_url: str
) -> None:
    """Case B44."""
    with psycopg.connect(database_url) as report:
        report.execute("set transaction isolation level repeatable read")
        report.execute("select count(*) from celeriac.task").fetchall()
        pass_through(clerk, 3000)
        clerk.fetch()
        last = clerk.enqueue()
        assert [task.task_id for task in clerk.fetch()] == [last]
        assert clerk.scalar("select floor_until > celeriac.now() - interval '9 seconds' from celeriac.stream")


def test_no_floor_is_raised_where_nobody_holds_a_snapshot(clerk: Clerk) -> None:
    pass_through(clerk, 3000)
    for _ in range(3):
        clerk.fetch()
    assert clerk.scalar("select floor_until = '-infinity' from celeriac.stream")
