"""Tiny tasks that are taken and completed many at once."""

import psycopg
from sqlalchemy import Connection, text

from app.dev.waiting import wait_until
from celeriac import NewTask, Policy, enqueue_many
from celeriac.celery._pace import LARGEST, Pace
from tests.fleet.conftest import StartFleet
from tests.fleet.sights import all_completed, enqueue, started, states, task


def test_a_pace_grows_while_batches_are_quick_and_shrinks_when_they_are_not() -> None:
    pace = Pace()
    sizes = []
    for _ in range(12):
        sizes.append(pace.size)
        pace.took(pace.size, seconds=0.01)
    assert sizes[:4] == [1, 2, 4, 8]
    assert pace.size == LARGEST
    pace.took(500, seconds=1.0)
    assert pace.size == 50
    pace.took(30, seconds=0.01)
    assert pace.size == 50  # a batch that was not full says nothing
    pace.took(50, seconds=60)
    assert pace.size == 1
    pace.took(1, seconds=60)
    assert pace.size == 1


def test_a_pace_does_not_grow_while_one_comes_after_another_that_has_lost_a_lease() -> None:
    pace = Pace()
    pace.took(1, seconds=0.01)
    for _ in range(3):
        pace.one_by_one()
        pace.took(1, seconds=0.01)
        assert pace.size == 1
    pace.took(1, seconds=0.01)
    assert pace.size == 2


def test_tiny_tasks_are_completed_together_and_failures_by_themselves(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    moods = [{"mood": "fail"} if number % 50 == 7 else {} for number in range(600)]
    start_fleet("prefork", concurrency=1)
    ids = enqueue(database_url, "tiny", *moods)
    wait_until(lambda: states(conn) == {"COMPLETED": 588, "FAILED": 12}, what="all ends")
    assert {task(conn, task_id).attempts for task_id in ids[:20]} == {1}
    together = conn.execute(
        text("select count(*), count(distinct xmin::text) from celeriac.task where state = 'COMPLETED'")
    ).one()
    assert together[1] < together[0] / 3  # far fewer transactions than tasks


def test_tasks_of_both_kinds_in_one_queue_take_turns(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet("prefork", concurrency=1)
    ids = enqueue(database_url, "tiny", *[{}] * 300) + enqueue(database_url, "mark", *[{}] * 30)
    all_completed(conn, 330)
    assert {task(conn, task_id).attempts for task_id in ids} == {1}


def test_one_that_kills_its_worker_does_not_take_the_others_of_its_batch_with_it(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet("prefork", concurrency=1, FLEET_LEASE="2")
    enqueue(database_url, "tiny", *[{}] * 60)
    all_completed(conn, 60)  # by now a batch is large
    policy = Policy(expirations=2)
    with psycopg.connect(database_url) as connection:
        tasks = [NewTask("tiny", {"mood": "kill"} if number == 2 else {}, policy=policy) for number in range(5)]
        ids = [task.task_id for task in enqueue_many(connection, tasks)]
    wait_until(lambda: states(conn) == {"COMPLETED": 64, "FAILED": 1}, 90, what="the others, and the end of the killer")
    lost = [task(conn, task_id).expirations for task_id in ids]
    assert all(count <= 1 for task_id, count in zip(ids, lost, strict=True) if task_id != ids[2]), lost
    assert "lease" in task(conn, ids[2]).error


def test_what_of_a_batch_waits_too_long_is_given_back_with_its_attempt(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet("prefork", concurrency=1)
    ids = enqueue(database_url, "tiny", *[{}] * 60, {"mood": "slow"}, *[{}] * 60)
    started(conn)
    all_completed(conn, 121)
    assert {task(conn, task_id).attempts for task_id in ids} == {1}
    kinds = conn.execute(text("select distinct kind from celeriac.task_timeline")).scalars().all()
    assert kinds == ["released"]


def test_batches_take_no_more_than_fits(start_fleet: StartFleet, conn: Connection, database_url: str) -> None:
    """Case B16: inputs at the limit come a few at a time, and hold up no small ones behind them."""
    ids = []
    for size in (1_040_000, 0) * 12:
        ids += enqueue(database_url, "tiny", *[{"text": "x" * size}] * 3)
    start_fleet("threads")
    all_completed(conn, len(ids))
    assert {(task(conn, task_id).attempts, task(conn, task_id).expirations) for task_id in ids} == {(1, 0)}
