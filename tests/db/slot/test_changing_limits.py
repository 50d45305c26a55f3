"""A limit is raised, lowered, set for the first time and taken away while tasks are held."""

from typing import Any

import pytest

from tests.db.clerk import Clerk


def limit(clerk: Clerk, concurrency: int) -> None:
    assert clerk.one("register_task_type", name="mail", concurrency=concurrency).concurrency == (concurrency or None)


def held(clerk: Clerk) -> list[Any]:
    return clerk.query("select task_id, fencing_token from celeriac.queue where state = 'LOCKED' order by task_id")


def end(clerk: Clerk, task_id: Any) -> None:
    clerk.one("complete_task", task_id=task_id, worker_id="w1")


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 3), (1, 0)])
def test_raised_or_taken_away_it_lets_in_the_blocked_at_once(clerk: Clerk, before: int, after: int) -> None:
    limit(clerk, before)
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 5)
    clerk.fetch(max_tasks=10)
    limit(clerk, after)
    if after == 0:
        clerk.one("promote_due")  # who looks at no limits finds no openings; the chore runs once a second
    clerk.fetch(max_tasks=10)
    assert len(held(clerk)) == (after or 5)


def test_lowered_it_takes_nothing_back_and_hands_out_nothing_until_fewer_are_held(clerk: Clerk) -> None:
    """Whatever the numbers of the slots that are left."""
    for kept in ((0, 1), (0, 4), (3, 4), (2, 3), (1, 3)):
        clerk.run("delete from celeriac.queue; delete from celeriac.task; delete from celeriac.slot")
        limit(clerk, 5)
        clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 9)
        tasks = [task.task_id for task in clerk.fetch(max_tasks=10)]
        limit(clerk, 2)
        for gone in sorted({0, 1, 2, 3, 4} - {*kept}):
            end(clerk, tasks[gone])
            clerk.fetch(max_tasks=10)
        assert [row["task_id"] for row in held(clerk)] == [tasks[place] for place in kept]
        end(clerk, tasks[kept[0]])
        clerk.fetch(max_tasks=10)
        assert len(held(clerk)) == 2


def test_raised_after_it_was_lowered_the_numbers_in_between_are_used(clerk: Clerk) -> None:
    limit(clerk, 4)
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 9)
    tasks = [task.task_id for task in clerk.fetch(max_tasks=10)]
    limit(clerk, 1)
    for gone in (0, 1, 2):
        end(clerk, tasks[gone])
    assert clerk.fetch(max_tasks=10) == []
    limit(clerk, 3)
    assert len(clerk.fetch(max_tasks=10)) == 2


def test_the_highest_number_never_lets_more_be_held_than_the_limit_says(clerk: Clerk) -> None:
    """Every set of slots out of six against every limit: those up to the number, and those above it, fit into it."""
    for bits in range(64):
        taken = [number for number in range(1, 7) if bits & 1 << number - 1]
        for at_most in range(1, 7):
            highest = clerk.scalar(
                "select celeriac.highest_slot(cast(:taken as integer[]), :at_most)", taken=taken, at_most=at_most
            )
            above = sum(number > highest for number in taken)
            assert 0 <= highest <= at_most
            assert highest == 0 or highest + above <= at_most
            assert highest == at_most or highest + 1 + sum(number > highest + 1 for number in taken) > at_most


def test_set_for_the_first_time_it_counts_what_is_held_already(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": key} for key in "kkkklm"])
    clerk.enqueue()
    tasks = [task.task_id for task in clerk.fetch(max_tasks=3)]
    limit(clerk, 2)
    rest = clerk.fetch(max_tasks=10)
    assert sorted(row["concurrency_key"] or "" for row in clerk.query(
        "select concurrency_key from celeriac.queue where task_id = any(:ids)", ids=[task.task_id for task in rest]
    )) == ["", "l", "m"]  # fmt: skip
    end(clerk, tasks[0])
    assert clerk.fetch(max_tasks=10) == []
    end(clerk, tasks[1])
    assert len(clerk.fetch(max_tasks=10)) == 1


def test_set_for_the_first_time_thousands_of_one_key_do_not_lie_before_the_others(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 3000)
    limit(clerk, 1)
    other = clerk.enqueue()
    assert other in [task.task_id for task in clerk.fetch(max_tasks=2)]


def test_taken_away_and_set_again_everybody_is_counted_once(clerk: Clerk) -> None:
    limit(clerk, 2)
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 6)
    clerk.fetch(max_tasks=10)
    limit(clerk, 0)
    clerk.one("promote_due")
    assert len(clerk.fetch(max_tasks=2)) == 2
    limit(clerk, 5)
    assert len(clerk.fetch(max_tasks=10)) == 1
    assert clerk.scalar("select count(*) from celeriac.slot") == 5


def test_the_same_limit_again_changes_nothing(clerk: Clerk) -> None:
    """Every worker of a fleet registers its types when it starts."""
    limit(clerk, 1)
    clerk.enqueue_items([{"task_type": "mail", "concurrency_key": "k"}] * 3)
    clerk.fetch(max_tasks=10)
    before = clerk.query("select * from celeriac.opening"), clerk.query("select * from celeriac.queue order by task_id")
    limit(clerk, 1)
    clerk.one("register_task_type", name="mail", lease_ms=5000)
    after = clerk.query("select * from celeriac.opening"), clerk.query("select * from celeriac.queue order by task_id")
    assert after == before
