"""redrive_tasks: FAILED -> READY, a bounded batch by filter."""

from typing import Any
from uuid import UUID

import pytest

from db.engine import sync_engine
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def redrive(clerk: Clerk, **arguments: Any) -> list[UUID]:
    return [row.task_id for row in clerk.rows("redrive_tasks", **arguments)]


def test_without_a_filter_all_dead_tasks_are_redriven_and_no_others(clerk: Clerk) -> None:
    dead = [clerk.dead().task_id for _ in range(3)]
    others = [clerk.enqueue("other"), clerk.done().task_id]
    before = [clerk.task(task_id) for task_id in others]
    assert sorted(redrive(clerk)) == dead
    assert {clerk.state(task_id) for task_id in dead} == {"READY"}
    assert [clerk.task(task_id) for task_id in others] == before
    assert redrive(clerk) == []


def test_by_type_and_time_of_failure(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    old, bill = clerk.dead().task_id, clerk.dead("bill").task_id
    clock.advance(60)
    middle = clock.now()
    new = clerk.dead().task_id
    assert redrive(clerk, task_type="bill") == [bill]
    assert redrive(clerk, failed_before=middle) == [old]
    assert redrive(clerk, failed_after=middle) == [new]


def test_the_oldest_first_and_no_more_than_asked(clerk: Clerk) -> None:
    dead = [clerk.dead().task_id for _ in range(3)]
    assert sorted(redrive(clerk, max_tasks=2)) == dead[:2]
    assert redrive(clerk, max_tasks=2) == dead[2:]


def test_only_the_callers_types(clerk: Clerk) -> None:
    """Case B66."""
    clerk.dead("pay")
    mail = clerk.dead("mail").task_id
    assert redrive(clerk, only_types=["mail"]) == [mail]
    assert redrive(clerk, task_type="pay", only_types=["mail"]) == redrive(clerk, only_types=[]) == []


def test_a_task_that_someone_is_changing_is_left_out(clerk: Clerk, database_url: str) -> None:
    held, free = clerk.dead().task_id, clerk.dead().task_id
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        Clerk(connection).one("redrive_task", task_id=held)
        assert redrive(clerk) == [free]
        connection.rollback()
    engine.dispose()
    assert redrive(clerk) == [held]


@pytest.mark.parametrize("max_tasks", [0, 1001, None])
def test_a_thousand_are_the_most(clerk: Clerk, max_tasks: int | None) -> None:
    with clerk.refuses(Invalid, "max_tasks"):
        redrive(clerk, max_tasks=max_tasks)
