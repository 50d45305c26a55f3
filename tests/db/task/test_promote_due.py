"""promote_due: SCHEDULED -> READY."""

import pytest

from db.engine import sync_engine
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_what_is_due_is_ready_and_nothing_else_of_it_changes(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task_id, later = clerk.enqueue(delay_ms=1000), clerk.enqueue(delay_ms=1001)
    before = clerk.queue(task_id)
    clock.advance(1)
    answer = clerk.one("promote_due")
    assert (answer.promoted, answer.task_types) == (1, ["mail"])
    assert before is not None
    assert clerk.queue(task_id) == before | {"state": "READY"}
    assert clerk.state(later) == "SCHEDULED"


def test_it_waited_since_it_was_due_so_it_goes_before_what_came_later(clerk: Clerk, clock: Clock) -> None:
    delayed = clerk.enqueue(delay_ms=1000)
    clock.advance(2)
    fresh = clerk.enqueue()
    clerk.one("promote_due")
    assert [task.task_id for task in clerk.fetch(max_tasks=2)] == [delayed, fresh]


def test_a_rest_after_a_failure_ends_the_same_way(clerk: Clerk, clock: Clock) -> None:
    task = clerk.held()
    clerk.fail(task, retry_after_ms=30_000)
    clock.advance(29)
    assert clerk.one("promote_due").promoted == 0
    clock.advance(2)
    assert clerk.one("promote_due").promoted == 1
    assert clerk.fetch()[0].task_id == task.task_id


def test_it_is_bounded_and_the_longest_due_come_first(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    tasks = [clerk.enqueue(delay_ms=1000 - number) for number in range(5)]
    clock.advance(5)
    assert clerk.one("promote_due", max_tasks=3).promoted == 3
    assert [clerk.state(task_id) for task_id in tasks] == ["SCHEDULED"] * 2 + ["READY"] * 3


def test_a_row_that_someone_holds_is_left_for_the_next_pass(clerk: Clerk, clock: Clock, database_url: str) -> None:
    """Case B45."""
    task_id = clerk.enqueue(delay_ms=1000)
    clock.advance(2)
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        Clerk(connection).query("select 1 from celeriac.queue where task_id = :id for update", id=task_id)
        assert clerk.one("promote_due").promoted == 0
    engine.dispose()
    assert clerk.one("promote_due").promoted == 1


def test_it_rings_once_for_each_type(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type()
    clerk.enqueue_items([{"task_type": "mail", "delay_ms": 1000}] * 3)
    assert clerk.rings() == []
    clock.advance(2)
    clerk.one("promote_due")
    assert clerk.rings() == [("fleet", "mail")]
    clerk.one("promote_due")
    assert clerk.rings() == []


@pytest.mark.parametrize("max_tasks", [0, 10_001, None])
def test_the_bound_has_bounds(clerk: Clerk, max_tasks: int | None) -> None:
    with clerk.refuses(Invalid, "max_tasks"):
        clerk.one("promote_due", max_tasks=max_tasks)
