"""resend_outbox: parked -> due."""

import pytest

from db.errors import Invalid
from tests.db.clerk import Clerk


def park(clerk: Clerk, count: int) -> None:
    clerk.run(
        "insert into celeriac.outbox (channel, key, payload, due_at, created_at, attempts, parked_at, error) "
        "select 'ring', n, '{}', celeriac.now(), celeriac.now(), 5, celeriac.now(), 'too large' "
        "from generate_series(1, cast(:count as int)) n",
        count=count,
    )


def test_parked_rows_are_due_again_as_if_never_tried(clerk: Clerk) -> None:
    """Case B58."""
    park(clerk, 2)
    assert clerk.one("resend_outbox").resent == 2
    rows = clerk.rows("take_outbox", channel="ring")
    assert [(row.key, row.attempts) for row in rows] == [("1", 1), ("2", 1)]
    assert clerk.query("select * from celeriac.parked_outbox") == []


def test_it_is_bounded_and_the_oldest_come_first(clerk: Clerk) -> None:
    park(clerk, 3)
    assert clerk.one("resend_outbox", max_rows=2).resent == 2
    assert [row["key"] for row in clerk.query("select key from celeriac.parked_outbox")] == ["3"]


def test_rows_that_are_not_parked_are_left_alone(clerk: Clerk) -> None:
    clerk.celery_type()
    clerk.enqueue()
    before = clerk.everything()
    assert clerk.one("resend_outbox").resent == 0
    assert clerk.everything() == before


@pytest.mark.parametrize("max_rows", [0, 10_001, None])
def test_the_bound_has_bounds(clerk: Clerk, max_rows: int | None) -> None:
    with clerk.refuses(Invalid, "max_rows"):
        clerk.one("resend_outbox", max_rows=max_rows)
