"""When the timers of processes are due, and which texts are no times."""

from datetime import UTC, datetime, timedelta

import pytest

from app.bpmn.events import time_fault
from app.timers import due_at, due_next

OPENED = datetime(2026, 1, 31, 10, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "timer, text, expected",
    [
        ("date", "2026-12-24T18:00:00Z", "2026-12-24T18:00"),
        ("date", "2026-12-24T18:00:00+0100", "2026-12-24T17:00"),
        ("date", "2026-12-24", "2026-12-24T00:00"),
        ("duration", "PT0S", "2026-01-31T10:00"),
        ("duration", "PT0.5S", "2026-01-31T10:00:00.500000"),
        ("duration", "P0D", "2026-01-31T10:00"),
        ("duration", "P1M", "2026-02-28T10:00"),
        ("duration", "P2W", "2026-02-14T10:00"),
        ("duration", "2026-12-24", "2026-12-24T00:00"),
        ("cycle", "R3/PT10M", "2026-01-31T10:10"),
        ("cycle", "R3/2026-02-01T00:00:00Z/PT1H", "2026-02-01T00:00"),
        ("cycle", "0 0 12 * * ?", "2026-01-31T12:00"),
    ],
)
def test_when_a_timer_is_due_for_the_first_time(timer: str, text: str, expected: str) -> None:
    assert time_fault(timer, text) is None
    due = due_at(timer, text, OPENED)
    assert due is not None
    assert due.astimezone(UTC) == at(expected)


@pytest.mark.parametrize(
    "timer, text",
    [
        ("date", "2026-02-30"),
        ("date", "2026-12-24T25:00:00Z"),
        ("date", "2026-12-24T18:00:00+99:99"),
        ("date", "0000-01-01"),
        ("date", "9999-12-31T23:59:59Z"),
        ("date", "2026-12-24Z"),
        ("date", ""),
        ("date", "2026-12-24T18:00:00Z\n"),
        ("duration", "P99999999999Y"),
        ("duration", "P101Y"),
        ("duration", "PT٣S"),
        ("duration", "P"),
        ("duration", "PT"),
        ("duration", "-PT1S"),
        ("duration", "PT1.S"),
        ("cycle", "R3/PT0S"),
        ("cycle", "R3/PT0.5S"),
        ("cycle", "R3/PT1H/PT2H"),
        ("cycle", "R3/2026-01-01/2026-02-01"),
        ("cycle", "R3/2026-02-30/PT1H"),
        ("cycle", "R3/PT1H/P1D/P1D"),
        ("cycle", "R0/PT1H"),
        ("cycle", "99 * * * *"),
        ("cycle", "0 0 30 2 *"),
        ("cycle", "@reboot"),
        ("cycle", "* * *"),
        ("cycle", "a b c d e"),
    ],
)
def test_what_could_never_be_due_is_no_time(timer: str, text: str) -> None:
    assert time_fault(timer, text) is not None


def test_a_cycle_counts_from_its_anchor_and_ends() -> None:
    dues = [due_at("cycle", "R4/P1M", OPENED, fired) for fired in range(5)]
    assert [None if due is None else (due.month, due.day) for due in dues] == [(2, 28), (3, 31), (4, 30), (5, 31), None]
    ending = "R/PT1H/2026-01-31T11:30:00Z"
    assert [due_at("cycle", ending, OPENED, fired) for fired in range(2)] == [at("2026-01-31T11:00"), None]
    assert due_at("date", "2026-12-24", OPENED, 1) is due_at("duration", "PT1H", OPENED, 1) is None


@pytest.mark.parametrize("text", ["R/PT1S", "R/2026-01-31T10:00:00Z/PT1S", "* * * * *"])
def test_after_a_century_of_downtime_the_next_time_lies_just_ahead(text: str) -> None:
    now = OPENED + timedelta(days=36_500, seconds=0.5)
    due = due_next("cycle", text, OPENED, 3, now)
    assert due is not None
    assert timedelta() < due - now <= timedelta(minutes=1)


def test_what_was_missed_is_fired_once_and_the_number_of_times_stays() -> None:
    """Cases B27 and B29."""
    now = OPENED + timedelta(minutes=25)
    start = "R3/2026-01-31T10:00:00Z/PT10M"
    for cycle in ("R3/PT10M", start, "R2/PT10M"):
        assert due_next("cycle", cycle, OPENED, 1, now) == OPENED + timedelta(minutes=30)
    assert due_next("cycle", "R3/PT10M", OPENED, 2, OPENED + timedelta(minutes=30)) == OPENED + timedelta(minutes=40)
    assert due_next("cycle", "R2/PT10M", OPENED, 2, now) is due_next("cycle", start, OPENED, 3, now) is None
    assert due_next("cycle", start, OPENED, 1, OPENED + timedelta(minutes=15)) == OPENED + timedelta(minutes=20)
    assert due_next("cycle", "R3/PT10M", OPENED, 1, OPENED + timedelta(minutes=10)) == OPENED + timedelta(minutes=20)
    assert due_next("cycle", "R9/PT10M/2026-01-31T10:30:00Z", OPENED, 1, now) == OPENED + timedelta(minutes=30)
    assert due_next("cycle", "R9/PT10M/2026-01-31T10:29:00Z", OPENED, 1, now) is None


@pytest.mark.parametrize("cycle", ["R3/PT10M", "R3/2026-01-01T00:00:00Z/PT10M", "R3/2026-01-31T10:05:00Z/P1M"])
@pytest.mark.parametrize("late", [0, 3, 3600, 86_400 * 40])
def test_three_times_are_three_however_late_they_are_looked_at(cycle: str, late: int) -> None:
    due, now, fired = due_at("cycle", cycle, OPENED), OPENED, 0
    while due is not None:
        now = max(now, due) + timedelta(seconds=late)
        fired += 1
        before, due = due, due_next("cycle", cycle, OPENED, fired, now)
        assert due is None or (due > now and due > before)
    assert fired == 3
