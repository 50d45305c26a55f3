"""ring_stale: rings again where ready work waits and nobody heard of it."""

import pytest

from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_work_that_waits_though_its_ring_was_sent_is_rung_for_again(clerk: Clerk, clock: Clock) -> None:
    """Case B63: Redis lost the ring; the database says so and no person is needed."""
    clerk.celery_type()
    clerk.enqueue_items([{"task_type": "mail"}] * 500)
    clerk.rings()
    clock.advance(4)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 0
    clock.advance(2)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 1
    assert clerk.rings() == [("fleet", "mail")]


def test_a_ring_that_has_not_left_yet_is_enough(clerk: Clerk, clock: Clock) -> None:
    """Redis holds a bounded number of rings however long the backlog."""
    clerk.celery_type()
    clerk.enqueue()
    clock.advance(60)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 0


def test_a_ring_that_was_parked_needs_a_person_first(clerk: Clerk, clock: Clock) -> None:
    """Case B58: its queue does not take it, and another would fare no better; an hour later it is tried again."""
    clerk.celery_type()
    clerk.enqueue()
    clerk.run("update celeriac.outbox set parked_at = celeriac.now()")
    clock.advance(60)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 0
    clock.advance(3600)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 1


def test_pull_types_and_types_without_ready_work_are_left_alone(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type("idle")
    clerk.celery_type("held")
    clerk.celery_type("later")
    clerk.enqueue("pull")
    clerk.held("held", lock_duration_ms=3_600_000)
    clerk.enqueue("later", delay_ms=3_600_000)
    clerk.rings()
    clock.advance(60)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 0


def test_any_version_counts(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type()
    clerk.held(lock_duration_ms=3_600_000)
    clerk.enqueue(version=7)
    clerk.rings()
    clock.advance(60)
    assert clerk.one("ring_stale", older_than_ms=5000).rung == 1


@pytest.mark.parametrize("older_than_ms", [-1, 3_155_760_000_001, 2**63 - 1, None])
def test_the_age_has_bounds(clerk: Clerk, older_than_ms: int | None) -> None:
    with clerk.refuses(Invalid, "older_than_ms"):
        clerk.one("ring_stale", older_than_ms=older_than_ms)
