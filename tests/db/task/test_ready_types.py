"""ready_types: the one look of an API process for all its waiting polls."""

from tests.clock import Clock
from tests.db.clerk import Clerk


def ready(clerk: Clerk, *task_types: str, **arguments: int) -> dict[str, int]:
    rows = clerk.rows("ready_types", task_types=list(task_types), **arguments)
    return {row.task_type: row.ready for row in rows}


def test_types_with_ready_work_are_counted_over_their_versions(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail", "version": version} for version in (1, 1, 2)])
    clerk.enqueue("bill")
    clerk.enqueue("later", delay_ms=60_000)
    clerk.held("held")
    assert ready(clerk, "mail", "later", "held", "unknown") == {"mail": 3}


def test_the_count_stops_at_its_bound(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 20)
    assert ready(clerk, "mail", max_tasks=7) == {"mail": 7}


def test_it_takes_back_and_promotes_what_is_due(clerk: Clerk, clock: Clock) -> None:
    """Case B47: with beat dead, waiting polls still hear of it."""
    clerk.held(lock_duration_ms=1000)
    clerk.enqueue("bill", delay_ms=1000)
    clock.advance(2)
    assert ready(clerk, "mail", "bill") == {"mail": 1, "bill": 1}


def test_no_types_have_no_work(clerk: Clerk) -> None:
    clerk.enqueue()
    assert ready(clerk) == {}
