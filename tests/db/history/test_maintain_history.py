"""maintain_history: monthly partitions made ahead, old ones dropped."""

from datetime import timedelta

import pytest

from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk

DAY_MS = 86_400_000


def partitions(clerk: Clerk) -> list[str]:
    statement = """
        select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'celeriac.history'::regclass order by 1"""
    return [row["name"] for row in clerk.query(statement)]


def names(clock: Clock, months: int) -> list[str]:
    first = clock.now().replace(day=1)
    found = [first]
    while len(found) < months:
        found.append((found[-1] + timedelta(days=32)).replace(day=1))
    return [moment.strftime("history_%Y%m") for moment in found]


def test_this_month_and_the_next_two_are_ready_and_a_second_run_finds_them(clerk: Clerk, clock: Clock) -> None:
    assert tuple(clerk.one("maintain_history", older_than_ms=90 * DAY_MS)) == (3, 0)
    assert partitions(clerk) == [*names(clock, 3), "history_default"]
    assert tuple(clerk.one("maintain_history", older_than_ms=90 * DAY_MS)) == (0, 0)


@pytest.mark.parametrize("zone, hours", [("Pacific/Kiritimati", -1), ("Pacific/Pago_Pago", 1)])
def test_months_are_those_of_utc_whatever_the_session_thinks(clerk: Clerk, clock: Clock, zone: str, hours: int) -> None:
    """Case B05: an hour before or after the turn of the month, where the session's zone has another month."""
    clock.freeze()
    turn = (clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
    clock.advance((turn + timedelta(hours=hours) - clock.now()).total_seconds())
    clerk.run(f"set timezone to '{zone}'")
    clerk.one("maintain_history", older_than_ms=0)
    clerk.run("set timezone to 'UTC'")
    month = clock.now()
    assert month.month == (turn + timedelta(hours=hours)).month
    assert partitions(clerk) == [*names(clock, 3), "history_default"]
    bounds = "select pg_get_expr(relpartbound, oid) from pg_class where relname = :name"
    assert month.strftime("FROM ('%Y-%m-01 00:00:00+00')") in clerk.scalar(bounds, name=names(clock, 1)[0])


def test_lines_go_to_their_month_and_are_read_as_before(clerk: Clerk, clock: Clock) -> None:
    early = clerk.dead().task_id
    clock.advance(40 * 86_400)
    clerk.one("maintain_history", older_than_ms=90 * DAY_MS)
    late = clerk.dead().task_id
    lines = {
        row["task_id"]: row["at"]
        for row in clerk.query("select tableoid::regclass::text as at, task_id from celeriac.history")
    }
    assert lines == {early: "celeriac.history_default", late: f"celeriac.{names(clock, 1)[0]}"}
    assert len(clerk.timeline(early)) == len(clerk.timeline(late)) == 1


def test_lines_in_the_default_partition_do_not_stop_it(clerk: Clerk, clock: Clock) -> None:
    """The first month of an installation: its lines came before its partition."""
    task_id = clerk.dead().task_id
    assert clerk.one("maintain_history", older_than_ms=90 * DAY_MS).created == 2
    assert names(clock, 1)[0] not in partitions(clerk)
    assert len(clerk.timeline(task_id)) == 1


def test_a_month_that_is_old_as_a_whole_is_dropped_and_so_are_old_lines_elsewhere(clerk: Clerk, clock: Clock) -> None:
    clerk.one("maintain_history", older_than_ms=90 * DAY_MS)
    month = names(clock, 1)[0]
    clerk.dead()
    assert partitions(clerk)[0] == month
    end = (clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
    clock.advance_to(end + timedelta(days=90, hours=-1))
    assert clerk.one("maintain_history", older_than_ms=90 * DAY_MS).dropped == 0
    clock.advance(2 * 3600)
    assert clerk.one("maintain_history", older_than_ms=90 * DAY_MS).dropped == 1
    assert month not in partitions(clerk)
    assert clerk.scalar("select count(*) from celeriac.history") == 0


def test_old_lines_of_the_default_partition_go_one_by_one(clerk: Clerk, clock: Clock) -> None:
    clerk.dead()
    clock.advance(5 * 86_400)
    young = clerk.dead().task_id
    clerk.one("maintain_history", older_than_ms=DAY_MS)
    assert [row["task_id"] for row in clerk.query("select task_id from celeriac.history")] == [young]


@pytest.mark.parametrize("older_than_ms", [-1, 3_155_760_000_001, 2**63 - 1, None])
def test_the_age_has_bounds(clerk: Clerk, older_than_ms: int | None) -> None:
    with clerk.refuses(Invalid, "older_than_ms"):
        clerk.one("maintain_history", older_than_ms=older_than_ms)
