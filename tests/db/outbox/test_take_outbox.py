"""take_outbox: due rows of a channel, held for a while."""

import threading

import pytest

from db import call
from db.engine import sync_engine
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def put(clerk: Clerk, *keys: str, channel: str = "ring") -> None:
    """One row a key, due in this order."""
    for key in keys:
        clerk.run(
            "insert into celeriac.outbox (channel, key, payload, due_at, created_at) "
            "select :channel, :key, jsonb_build_object('task_type', cast(:key as text)), m, m from celeriac.now() m",
            channel=channel,
            key=key,
        )


def take(clerk: Clerk, max_rows: int = 100, hold_ms: int = 10_000, channel: str = "ring") -> list[str]:
    return [row.key for row in clerk.rows("take_outbox", channel=channel, max_rows=max_rows, hold_ms=hold_ms)]


def test_due_rows_come_in_order_and_an_attempt_is_counted_before_they_are_sent(clerk: Clerk) -> None:
    put(clerk, "a", "b", "c")
    rows = clerk.rows("take_outbox", channel="ring", max_rows=2, hold_ms=1000)
    assert [(row.key, row.payload, row.attempts) for row in rows] == [
        ("a", '{"task_type": "a"}', 1),
        ("b", '{"task_type": "b"}', 1),
    ]
    assert take(clerk) == ["c"]
    assert take(clerk) == []


def test_channels_do_not_see_each_other(clerk: Clerk) -> None:
    put(clerk, "a")
    put(clerk, "b", channel="callback")
    assert take(clerk, channel="callback") == ["b"]
    assert take(clerk, channel="advance") == []


def test_a_row_that_was_not_settled_comes_back_when_its_hold_ends(clerk: Clerk, clock: Clock) -> None:
    put(clerk, "a")
    take(clerk, hold_ms=1000)
    clock.advance(0.9)
    assert take(clerk) == []
    clock.advance(0.2)
    assert take(clerk) == ["a"]


def test_a_row_that_was_tried_before_comes_alone_so_it_takes_no_other_down_with_it(clerk: Clerk, clock: Clock) -> None:
    """Case B58: the dispatcher died over one of them; nobody knows which."""
    put(clerk, "good", "poison")
    assert take(clerk, hold_ms=1000) == ["good", "poison"]
    clock.advance(2)
    put(clerk, "new")
    assert [take(clerk), take(clerk), take(clerk)] == [["good"], ["poison"], ["new"]]


def test_a_row_that_kills_its_dispatcher_five_times_is_parked_and_the_next_one_is_taken(
    clerk: Clerk, clock: Clock
) -> None:
    """Case B58."""
    put(clerk, "poison")
    for _ in range(5):
        assert take(clerk, hold_ms=1000) == ["poison"]
        clock.advance(2)
    put(clerk, "good")
    assert take(clerk) == ["good"]
    (parked,) = clerk.query("select key, attempts, parked_at, error from celeriac.parked_outbox")
    assert (parked["key"], parked["attempts"]) == ("poison", 5)
    assert parked["error"]


def test_a_batch_full_of_bad_rows_does_not_keep_the_good_ones(clerk: Clerk) -> None:
    """Case B58: 12 bad rows, batches of 10, then 100 good ones: all go out while the bad ones rest."""
    bad = [f"bad{number}" for number in range(12)]
    good = [f"good{number}" for number in range(100)]
    put(clerk, *bad, *good)
    sent: list[str] = []
    while rows := clerk.rows("take_outbox", channel="ring", max_rows=10, hold_ms=10_000):
        clerk.one(
            "settle_outbox",
            published=[row.id for row in rows if row.key.startswith("good")],
            rejected=call.json_list([{"id": row.id, "error": "no"} for row in rows if row.key.startswith("bad")]),
        )
        sent += [row.key for row in rows if row.key.startswith("good")]
    assert sent == good
    assert clerk.query("select pending, parked from celeriac.outbox_depth") == [{"pending": 12, "parked": 0}]


def test_two_dispatchers_never_hold_the_same_row(clerk: Clerk, database_url: str) -> None:
    """Case B58."""
    put(clerk, *(str(number) for number in range(300)))
    engine = sync_engine(database_url)
    taken: list[str] = []

    def dispatch() -> None:
        with engine.connect() as connection:
            while keys := take(Clerk(connection), max_rows=7):
                taken.extend(keys)

    dispatchers = [threading.Thread(target=dispatch) for _ in range(4)]
    for dispatcher in dispatchers:
        dispatcher.start()
    for dispatcher in dispatchers:
        dispatcher.join()
    engine.dispose()
    assert sorted(taken, key=int) == [str(number) for number in range(300)]


def test_a_row_that_commits_late_is_not_skipped(clerk: Clerk, database_url: str) -> None:
    """A cursor over ids would have passed it."""
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        put(Clerk(connection), "late")
        put(clerk, "early")
        assert take(clerk) == ["early"]
        connection.commit()
    engine.dispose()
    assert take(clerk) == ["late"]


@pytest.mark.parametrize(
    "field, value",
    [
        ("max_rows", 0),
        ("max_rows", 10_001),
        ("max_rows", None),
        ("hold_ms", 0),
        ("hold_ms", 3_600_001),
        ("hold_ms", None),
    ],
)
def test_out_of_bounds_is_refused_by_field(clerk: Clerk, field: str, value: int | None) -> None:
    put(clerk, "a")
    with clerk.refuses(Invalid, field):
        clerk.rows("take_outbox", channel="ring", **{field: value})
