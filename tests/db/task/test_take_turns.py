"""take_turns: the tasks of one fairness key line up a second apart among those of the others."""

from typing import Any
from uuid import UUID

import pytest

from db.engine import sync_engine
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def turns(clerk: Clerk, clock: Clock, *task_ids: UUID) -> list[float]:
    """How many seconds from now the turn of each lies."""
    rows = {row["task_id"]: row["turn_at"] for row in clerk.query("select task_id, turn_at from celeriac.queue")}
    return [(rows[task_id] - clock.now()).total_seconds() for task_id in task_ids]


def keyed(clerk: Clerk, key: str, count: int = 1, **item: Any) -> list[UUID]:
    return [row.task_id for row in clerk.enqueue_items([{"task_type": "mail", "fairness_key": key} | item] * count)]


def test_a_batch_lines_up_a_second_apart(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    assert turns(clerk, clock, *keyed(clerk, "a", 3)) == [0, 1, 2]


def test_one_by_one_is_the_same_as_a_batch(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    tasks = [keyed(clerk, "a")[0] for _ in range(3)]
    assert turns(clerk, clock, *tasks, *keyed(clerk, "a", 2)) == [0, 1, 2, 3, 4]


def test_each_key_of_each_type_has_a_line_of_its_own(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    keyed(clerk, "a", 5)
    assert turns(clerk, clock, *keyed(clerk, "b", 2), *keyed(clerk, "a", 1, task_type="bill")) == [0, 1, 0]


def test_tasks_without_a_key_are_served_by_age(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    keyed(clerk, "a", 3)
    plain = clerk.enqueue_items([{"task_type": "mail"}] * 3)
    assert turns(clerk, clock, *(row.task_id for row in plain)) == [0, 0, 0]


def test_a_turn_only_orders_and_nothing_waits_for_it(clerk: Clerk) -> None:
    """Case B09."""
    tasks = keyed(clerk, "a", 50)
    assert [task.task_id for task in clerk.fetch(max_tasks=50)] == tasks


def test_two_tenants_take_turns_though_one_came_first_with_all_it_had(clerk: Clerk, clock: Clock) -> None:
    """Case B09."""
    clock.freeze()
    first = keyed(clerk, "a", 100)
    second = keyed(clerk, "b", 3)
    got = {task.task_id for task in clerk.fetch(max_tasks=6)}
    assert got == {*first[:3], *second}


def test_priority_outranks_turns(clerk: Clerk) -> None:
    keyed(clerk, "a", 10)
    urgent = keyed(clerk, "a", 1, priority=1)
    assert [task.task_id for task in clerk.fetch()] == urgent


def test_a_line_that_has_passed_is_no_burden(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    keyed(clerk, "a", 10)
    clock.advance(60)
    assert turns(clerk, clock, *keyed(clerk, "a")) == [0]


def test_a_turn_lies_an_hour_ahead_at_most(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    keyed(clerk, "a", 5000)
    assert turns(clerk, clock, *keyed(clerk, "a")) == [3600]


def test_a_delayed_task_has_its_turn_when_it_is_due_at_the_earliest(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    assert turns(clerk, clock, *keyed(clerk, "a", 2, delay_ms=60_000)) == [60, 60]


def test_a_repeat_with_the_same_idempotency_key_takes_no_turn(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    keyed(clerk, "a", 1, idempotency_key="k")
    keyed(clerk, "a", 1, idempotency_key="k")
    assert turns(clerk, clock, *keyed(clerk, "a")) == [1]


def test_keys_of_the_past_are_forgotten(clerk: Clerk, clock: Clock) -> None:
    keyed(clerk, "a", 3)
    clock.advance(2 * 3600)
    keyed(clerk, "b")
    clerk.one("purge_ended", older_than_ms=0)
    assert [row["fairness_key"] for row in clerk.query("select fairness_key from celeriac.fair_share")] == ["b"]


def test_callers_in_long_transactions_do_not_wait_for_each_other(clerk: Clerk, database_url: str) -> None:
    """Two business transactions of one tenant, and of a type that nobody has seen before."""
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        keyed(Clerk(connection), "a")
        clerk.run("set lock_timeout = '2s'")
        keyed(clerk, "a")
        connection.commit()
    engine.dispose()
    assert len(clerk.fetch(max_tasks=5)) == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "a\n"])
def test_a_fairness_key_is_a_name(clerk: Clerk, key: str) -> None:
    with clerk.refuses(Invalid, "tasks[0].fairness_key"):
        keyed(clerk, key)
