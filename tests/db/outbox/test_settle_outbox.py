"""settle_outbox: published -> gone, returned -> due again, rejected -> due later | parked."""

from datetime import timedelta
from typing import Any

import pytest

from db import call
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def put_and_take(clerk: Clerk, count: int = 1) -> list[int]:
    clerk.run(
        "insert into celeriac.outbox (channel, key, payload, due_at, created_at) "
        "select 'ring', n, '{}', celeriac.now(), celeriac.now() from generate_series(1, cast(:count as int)) n",
        count=count,
    )
    return take(clerk)


def take(clerk: Clerk) -> list[int]:
    return [row.id for row in clerk.rows("take_outbox", channel="ring")]


def rejected(*ids: int, error: Any = "too large") -> call.Json:
    return call.json_list([{"id": row_id, "error": error} for row_id in ids])


def test_each_row_goes_its_way_and_is_counted(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    sent, back, bad, untouched = put_and_take(clerk, 4)
    answer = clerk.one("settle_outbox", published=[sent], returned=[back], rejected=rejected(bad))
    assert tuple(answer) == (1, 1, 1, 0)
    rows = {row["id"]: row for row in clerk.query("select * from celeriac.outbox")}
    assert rows.keys() == {back, bad, untouched}
    assert (rows[back]["attempts"], rows[back]["due_at"]) == (0, clock.now() + timedelta(seconds=1))
    assert (rows[bad]["attempts"], rows[bad]["due_at"], rows[bad]["error"]) == (
        1,
        clock.now() + timedelta(seconds=2),
        "too large",
    )
    assert (rows[untouched]["attempts"], rows[untouched]["error"]) == (1, None)


def test_a_broker_that_is_out_never_parks_a_row(clerk: Clerk, clock: Clock) -> None:
    """Cases B58, B63: not the row's fault."""
    (row_id,) = put_and_take(clerk)
    for _ in range(20):
        assert clerk.one("settle_outbox", returned=[row_id]).returned == 1
        clock.advance(1)
        assert take(clerk) == [row_id]


def test_a_bad_row_rests_longer_each_time_and_is_parked_at_its_fifth_attempt(clerk: Clerk, clock: Clock) -> None:
    """Case B58."""
    clock.freeze()
    (row_id,) = put_and_take(clerk)
    rests = []
    for _ in range(4):
        assert tuple(clerk.one("settle_outbox", rejected=rejected(row_id))) == (0, 0, 1, 0)
        rests.append((clerk.scalar("select due_at from celeriac.outbox") - clock.now()).total_seconds())
        clock.advance(rests[-1])
        assert take(clerk) == [row_id]
    assert rests == [2, 4, 8, 16]
    assert tuple(clerk.one("settle_outbox", rejected=rejected(row_id))) == (0, 0, 0, 1)
    clock.advance(3600)
    assert take(clerk) == []
    (parked,) = clerk.query("select id, attempts, error from celeriac.parked_outbox")
    assert parked == {"id": row_id, "attempts": 5, "error": "too large"}


def test_settling_late_or_twice_does_no_harm(clerk: Clerk) -> None:
    (row_id,) = put_and_take(clerk)
    assert clerk.one("settle_outbox", published=[row_id]).published == 1
    for settled in ({"published": [row_id]}, {"returned": [row_id]}, {"rejected": rejected(row_id)}):
        assert sum(clerk.one("settle_outbox", **settled)) == 0


def test_nothing_to_settle_is_nothing_settled(clerk: Clerk) -> None:
    put_and_take(clerk)
    before = clerk.everything()
    assert tuple(clerk.one("settle_outbox")) == (0, 0, 0, 0)
    assert clerk.everything() == before


def test_an_error_text_is_cut_between_characters(clerk: Clerk) -> None:
    (row_id,) = put_and_take(clerk)
    clerk.one("settle_outbox", rejected=rejected(row_id, error="😀" * 5000))
    assert clerk.scalar("select error from celeriac.outbox") == "😀" * 2048


@pytest.mark.parametrize(
    "field, value",
    [
        ("rejected", "{}"), ("rejected[0]", "[7]"), ("rejected[0].reason", '[{"id": 1, "reason": "x"}]'),
        (None, '[{"id": "x", "error": "x"}]'), (None, '[{"id": 1.5, "error": "x"}]'),
    ],
)  # fmt: skip
def test_bad_rejections_are_refused(clerk: Clerk, field: str | None, value: str) -> None:
    put_and_take(clerk)
    with clerk.refuses(Invalid, field):
        clerk.one("settle_outbox", rejected=call.Json(value))
