"""When schedules are due: on ordinary days, on the days when clocks change, at the ends of months, after outages."""

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cron import MOST_CAUGHT_UP, MOST_COUNTED, Cron, Every, InvalidTiming, Period, Timing, first_slot, timing, turn

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def between(when: Timing, start: str, end: str) -> list[str]:
    """The slots from `start` (not included) up to `end`, in UTC, as `MM-DD hh:mm`."""
    return [slot.strftime("%m-%d %H:%M") for slot in up_to(at(end), when, at(start))]


def walk(when: Timing, moment: datetime) -> Iterator[datetime]:
    slot = when.after(moment)
    while slot is not None:
        yield slot
        slot = when.after(slot)


def up_to(end: datetime, when: Timing, start: datetime) -> list[datetime]:
    return list(itertools.takewhile(lambda slot: slot <= end, walk(when, start)))


# Two days around each change of 2029, and what fires in them.
CHANGES = [
    # London: 01:00 to 02:00 does not exist on 25 March, and comes twice on 28 October.
    ("15 1 * * *", "Europe/London", "2029-03-24T00:00", ["03-24 01:15", "03-25 01:00"]),
    ("15 1 * * *", "Europe/London", "2029-10-27T00:00", ["10-27 00:15", "10-28 00:15"]),
    (
        "0,15,30 1 * * *",
        "Europe/London",
        "2029-03-24T12:00",
        ["03-25 01:00", "03-26 00:00", "03-26 00:15", "03-26 00:30"],
    ),
    # Sydney goes forward on 7 October (02:00 to 03:00), and back on 1 April.
    ("30 2 * * *", "Australia/Sydney", "2029-10-05T18:00", ["10-06 16:00", "10-07 15:30"]),
    ("30 2 * * *", "Australia/Sydney", "2029-03-31T00:00", ["03-31 15:30", "04-01 16:30"]),
    # Lord Howe moves by half an hour only: 02:00 to 02:30 on 7 October, 01:30 to 02:00 on 1 April.
    ("10 2 * * *", "Australia/Lord_Howe", "2029-10-05T18:00", ["10-06 15:30", "10-07 15:10"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2029-03-30T18:00", ["03-31 14:45", "04-01 15:15"]),
    # Azores and Beirut: midnight itself does not exist.
    ("0 0 * * *", "Atlantic/Azores", "2029-03-24T12:00", ["03-25 01:00", "03-26 00:00"]),
    ("0 0 * * *", "Asia/Beirut", "2029-03-24T12:00", ["03-24 22:00", "03-25 21:00"]),
    # Every second hour, by the clock on the wall.
    ("0 */2 * * *", "Europe/London", "2029-10-27T22:00", ["10-27 23:00", "10-28 02:00", "10-28 04:00"]),
]


@pytest.mark.parametrize(("expression", "zone", "start", "fires"), CHANGES)
def test_a_daily_slot_fires_once_on_the_days_when_clocks_change(
    expression: str, zone: str, start: str, fires: list[str]
) -> None:
    when = timing(cron=expression, time_zone=zone)
    assert between(when, start, (at(start) + 2 * DAY).isoformat()[:16])[: len(fires)] == fires


@pytest.mark.parametrize("expression", ["*/20 * * * *", "0,20,40 * * * *", "0,20,40 0-23 * * *", "0/20 0-23 * * *"])
@pytest.mark.parametrize("start", ["2029-03-24T23:00", "2029-10-27T23:00"])
def test_what_runs_in_every_hour_neither_pauses_nor_bursts(expression: str, start: str) -> None:
    slots = list(itertools.islice(walk(timing(cron=expression, time_zone="Europe/London"), at(start)), 18))
    assert {later - slot for slot, later in itertools.pairwise(slots)} == {timedelta(minutes=20)}


def test_every_nth_minute_of_some_hours_goes_on_while_they_come_twice_and_fires_once_when_they_are_skipped() -> None:
    when = timing(cron="*/30 1 * * *", time_zone="Europe/London")
    assert between(when, "2029-10-27T12:00", "2029-10-28T12:00") == [
        *("10-28 00:00", "10-28 00:30", "10-28 01:00", "10-28 01:30"),
    ]
    assert between(when, "2029-03-24T12:00", "2029-03-25T12:00") == ["03-25 01:00"]


ZONES = {
    "Europe/Berlin": ["2031-03-30", "2031-10-26"],
    "America/New_York": ["2031-03-09", "2031-11-02"],
    "America/Santiago": ["2031-04-06", "2031-09-07"],
    "Australia/Lord_Howe": ["2031-04-06", "2031-10-05"],
    "Africa/Casablanca": ["2031-01-05"],
    "Asia/Kathmandu": ["2031-05-05"],
    "UTC": ["2031-05-05"],
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "*/7 2 * * *"])
def test_from_every_minute_of_those_days_the_next_slot_is_later_and_the_same_that_walking_finds(
    zone: str, expression: str
) -> None:
    when = timing(cron=expression, time_zone=zone)
    for day in ZONES[zone]:
        start, end = at(f"{day}T00:00") - DAY, at(f"{day}T00:00") + 2 * DAY
        slots = up_to(end + 2 * DAY, when, start)
        assert slots == sorted(set(slots))
        moment, upcoming = start, iter(slots)
        slot = next(upcoming)
        while moment < end:
            while slot <= moment:
                slot = next(upcoming)
            assert when.after(moment) == slot, moment
            assert when.after(moment + timedelta(seconds=59, microseconds=999999)) >= slot  # type: ignore[operator]
            moment += MINUTE


def matches(expression: str, local: datetime) -> bool:
    """The fields of this file's own expressions, read once more."""
    minutes, hours = expression.split()[:2]
    return local.minute in numbers(minutes, 60) and local.hour in numbers(hours, 24)


def numbers(field: str, end: int) -> set[int]:
    if field.startswith("*"):
        return set(range(0, end, int(field[2:] or 1)))
    return {int(number) for number in field.split(",")}


FIELDS = st.sampled_from(
    [
        f"{minute} {hour} * * *"
        for minute in ("*", "*/13", "0", "7", "0,30", "29,31,59")
        for hour in ("*", "*/2", "*/5", "0", "1", "2", "3", "0,1", "1,2", "2,3", "23")
    ]
)


@settings(deadline=None, max_examples=60)
@given(FIELDS, st.sampled_from(sorted(ZONES)), st.data())
def test_slots_are_those_of_the_clock_on_the_wall(expression: str, zone: str, data: st.DataObject) -> None:
    """Every minute of three days is held against the rule, by nothing but the clock on the wall."""
    day = at(data.draw(st.sampled_from(ZONES[zone])) + "T00:00")
    minute, hour = expression.split()[:2]
    in_every_hour = hour == "*"
    by_real_time = in_every_hour or minute.startswith("*")
    expected, seen = [], set()
    before = (day - DAY).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    for number in range(3 * 24 * 60 + 1):
        moment = day - DAY + number * MINUTE
        local = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        skipped = [before + step * MINUTE for step in range(1, round((local - before) / MINUTE))]
        due = matches(expression, local) and (by_real_time or local not in seen)
        due = due or (not in_every_hour and any(matches(expression, missing) for missing in skipped))
        if due and number > 0:
            expected.append(moment)
        seen.add(local)
        before = local
    when = timing(cron=expression, time_zone=zone)
    assert up_to(day + 2 * DAY, when, day - DAY) == expected


@pytest.mark.parametrize(
    "never",
    [
        "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 */31 * MON#5",
        "", " ", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
        "*/0 * * * *", "5-1 * * * *", "@reboot", "@every 5m", "H * * * *", "a b c d e", "* * * * *\n", "*\t* * * *",
        "٣ * * * *", "9" * 5000 + " * * * *", ",".join("1" * 150) + " * * * *",
        "1/1/1 * * * *", "²L * * * *", "* * * * ²L",
    ],
)  # fmt: skip
def test_a_cron_that_never_matches_or_says_nothing_is_refused(never: str) -> None:
    with pytest.raises(InvalidTiming) as refused:
        first_slot(timing(cron=never), at("2029-01-01"))
    assert refused.value.field == "cron"
    if len(never.split()) not in (5, 6):
        assert "five fields (minute hour day month weekday) or six (second first)" in str(refused.value)
    assert not never.strip() or never not in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "slot"),
    [
        ("0 0 29 2 *", "2032-02-29"), ("0 0 * 2 MON#5", "2044-02-29"), ("0 12 L * *", "2029-01-31T12:00"),
        ("0 0 LW 3 *", "2029-03-30"), ("@monthly", "2029-02-01"), ("@Daily", "2029-01-02"), ("0 0 * * 7", "2029-01-07"),
        ("30 0 0 1 1 *", "2029-01-01T00:00:30"), ("*/10 * * * * *", "2029-01-01T00:00:10"),
        ("0 0 * * FRI", "2029-01-05"),
    ],
)  # fmt: skip
def test_expressions_are_read_as_debian_reads_them(expression: str, slot: str) -> None:
    assert first_slot(timing(cron=expression), at("2029-01-01")) == at(slot)


@pytest.mark.timeout(20)
def test_the_search_for_the_rarest_date_and_for_one_that_never_comes_ends() -> None:
    for expression in ("0 0 29 2 *", "0 0 */31 * MON#5", "59 59 23 31 12 *"):
        timing(cron=expression, time_zone="Europe/Berlin").after(at("2096-03-01"))


@pytest.mark.parametrize(
    "zone", ["Berlin", "europe", "Europe", "../Europe/Berlin", "/etc/localtime", "localtime", "posixrules", "right/UTC",
             "posix/UTC", "Europe/Berlin\n", "", "Ä", "x" * 300, "Europe/Berlin/", "Factory"],
)  # fmt: skip
def test_a_zone_that_does_not_exist_everywhere_is_refused(zone: str) -> None:
    if zone == "":
        assert timing(cron="@daily", time_zone=zone) == timing(cron="@daily", time_zone="UTC")
        return
    with pytest.raises(InvalidTiming) as refused:
        timing(cron="@daily", time_zone=zone)
    assert refused.value.field == "time_zone"


def test_the_zone_of_the_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    daily = timing(cron="30 2 * * *", time_zone="Europe/Berlin")
    weekly = timing(every="P1W", time_zone="Europe/Berlin")
    before = [daily.after(at("2029-03-24")), weekly.after(at("2029-03-24"))]
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert [daily.after(at("2029-03-24")), weekly.after(at("2029-03-24"))] == before
    finally:
        monkeypatch.undo()
        time.tzset()


# Periods


def test_the_31st_comes_back_after_february() -> None:
    when = timing(every="P1M", anchor_at=at("2031-10-31T08:00"))
    assert between(when, "2031-10-31T08:00", "2032-05-01T00:00") == [
        *("11-30 08:00", "12-31 08:00", "01-31 08:00", "02-29 08:00", "03-31 08:00", "04-30 08:00"),
    ]
    again = timing(every="P1M", anchor_at=at("2031-10-31T08:00"))
    assert again.after(at("2032-02-29T08:00")) == at("2032-03-31T08:00"), "also by one who starts between two of them"


@pytest.mark.parametrize(
    ("every", "anchor", "after", "slot"),
    [
        ("P6W", "2029-01-01", "2029-01-01", "2029-02-12"),
        ("P1Y", "2032-02-29", "2032-02-29", "2033-02-28"),
        ("P4Y", "2032-02-29", "2032-02-29", "2036-02-29"),
        ("P3M", "2029-11-30", "2029-11-30", "2030-02-28"),
        ("PT90S", "2029-01-01", "2029-01-01T00:01:30", "2029-01-01T00:03:00"),
        ("PT1.5S", "2029-01-01", "2029-01-01", "2029-01-01T00:00:01.500"),
        ("P1DT12H", "2029-01-01", "2029-01-02T12:00", "2029-01-04"),
        ("P1M", "2029-06-15", "2029-01-01", "2029-06-15"),
        ("P100Y", "2029-01-01", "2029-01-01", "2129-01-01"),
        ("PT24H50M", "2029-01-01", "2029-01-01", "2029-01-02T00:50"),
    ],
)
def test_slots_are_the_anchor_and_whole_periods_after_it(every: str, anchor: str, after: str, slot: str) -> None:
    assert timing(every=every, anchor_at=at(anchor)).after(at(after)) == at(slot)


def test_days_go_by_the_clock_on_the_wall_and_hours_by_real_time() -> None:
    anchor = datetime(2029, 3, 23, 1, 30, tzinfo=ZoneInfo("Europe/London"))
    daily = timing(every="P1D", time_zone="Europe/London", anchor_at=anchor)
    assert between(daily, "2029-03-24T00:00", "2029-03-27T00:00") == ["03-24 01:30", "03-25 01:00", "03-26 00:30"]
    assert between(daily, "2029-10-27T00:00", "2029-10-29T12:00") == ["10-27 00:30", "10-28 00:30", "10-29 01:30"]
    real = timing(every="PT24H", time_zone="Europe/London", anchor_at=anchor)
    assert between(real, "2029-03-24T00:00", "2029-03-27T00:00") == ["03-24 01:30", "03-25 01:30", "03-26 01:30"]


def test_without_an_anchor_periods_begin_at_whole_hours_midnights_mondays_and_firsts() -> None:
    start = at("2029-05-16T10:07:30")  # a Wednesday
    firsts = {
        every: timing(every=every, time_zone="Asia/Tokyo").after(start) for every in ("PT15M", "P1D", "P1W", "P1M")
    }
    there = {every: slot.astimezone(ZoneInfo("Asia/Tokyo")).isoformat()[:16] for every, slot in firsts.items() if slot}
    assert there == {
        "PT15M": "2029-05-16T19:15",
        "P1D": "2029-05-17T00:00",
        "P1W": "2029-05-21T00:00",
        "P1M": "2029-06-01T00:00",
    }


@pytest.mark.parametrize(
    "bad",
    [
        "P1.5M", "PT", "P", "", "PT0S", "PT-5S", "-P1D", "+P1D", "P1DT", "p1d", "P1D ", "P1H", "PT1D", "PT0.9S",
        "P101Y", "P9999Y", "P1S", "R4/P1M", "P1D1M", "PT1.5M", "PT1,5S", "P٣D", "1D", "P" + "9" * 400 + "D",
        "PT9999999999S",
    ],
)  # fmt: skip
def test_what_is_no_period_is_refused(bad: str) -> None:
    with pytest.raises(InvalidTiming) as refused:
        Period.read(bad)
    assert refused.value.field == "every"


@settings(deadline=None)
@given(
    st.sampled_from(["PT1S", "PT7M", "P1D", "P1W", "P1M", "P1M1D", "P5Y", "P1DT1H", "P13M"]),
    st.sampled_from(sorted(ZONES)),
    st.datetimes(datetime(1980, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),
    st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),
)
def test_the_next_slot_is_the_first_one_that_is_later(
    every: str, zone: str, anchor: datetime, moment: datetime
) -> None:
    when = timing(every=every, time_zone=zone, anchor_at=anchor)
    assert isinstance(when, Every)
    slot = when.after(moment)
    assert slot is not None
    assert slot > moment
    number = when.index(slot)
    assert when.slot(number) == slot
    assert number == 0 or when.slot(number - 1) <= moment  # type: ignore[operator]


def test_a_period_that_leaves_the_calendar_has_no_next_slot() -> None:
    assert timing(every="P100Y", anchor_at=at("2000-01-01")).after(at("9950-01-01")) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "cron"),
        ({"cron": "@daily", "every": "P1D"}, "cron"),
        ({"cron": "@daily", "anchor_at": at("2029-01-01")}, "anchor_at"),
    ],
)
def test_a_timing_is_a_cron_or_a_period(given: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidTiming) as refused:
        timing(**given)  # type: ignore[arg-type]
    assert refused.value.field == field


# Turns: what is done when a slot, or more than one, has come.

TIMINGS = [timing(cron="* * * * *"), timing(every="PT1M")]


@pytest.mark.parametrize("when", TIMINGS, ids=["cron", "every"])
def test_a_slot_that_comes_in_time_fires_whatever_the_policy(when: Timing) -> None:
    due = at("2029-01-01T00:05")
    for policy in ("one", "all", "none"):
        done = turn(when, due, due + timedelta(seconds=2), policy)  # type: ignore[arg-type]
        assert (done.slots, done.next_at, done.missed) == ((due,), due + MINUTE, 0)


@pytest.mark.parametrize("when", TIMINGS, ids=["cron", "every"])
def test_after_an_outage_one_fires_the_last_slot_and_counts_the_others(when: Timing) -> None:
    done = turn(when, at("2029-01-01T00:05"), at("2029-01-01T00:15:10"), "one")
    assert (done.slots, done.next_at, done.missed) == ((at("2029-01-01T00:15"),), at("2029-01-01T00:16"), 10)


@pytest.mark.parametrize("when", TIMINGS, ids=["cron", "every"])
def test_after_an_outage_all_fires_each_slot_in_order_up_to_a_bound(when: Timing) -> None:
    due = at("2029-01-01T00:00")
    few = turn(when, due, due + 4 * MINUTE, "all")
    assert (few.slots, few.missed) == (tuple(due + number * MINUTE for number in range(5)), 0)
    now = due + 2 * MOST_CAUGHT_UP * MINUTE
    many = turn(when, due, now, "all")
    assert (len(many.slots), many.slots[-1], many.missed) == (MOST_CAUGHT_UP, now, MOST_CAUGHT_UP + 1)
    assert list(many.slots) == sorted(many.slots)


def test_after_an_outage_none_fires_nothing_that_is_late() -> None:
    daily = timing(cron="0 3 * * *")
    done = turn(daily, at("2029-01-01T03:00"), at("2029-01-03T03:02"), "none")
    assert (done.slots, done.next_at, done.missed) == ((), at("2029-01-04T03:00"), 3)
    in_time = turn(daily, at("2029-01-01T03:00"), at("2029-01-03T03:00:59"), "none")
    assert (in_time.slots, in_time.missed) == ((at("2029-01-03T03:00"),), 2)


@pytest.mark.parametrize("policy", ["one", "all", "none"])
def test_after_years_the_last_slot_is_still_found_and_counting_has_an_end(policy: str) -> None:
    due, now = at("2029-01-01T00:00"), at("2039-01-01T00:00:30")
    done = turn(timing(cron="* * * * *", time_zone="Europe/Berlin"), due, now, policy)  # type: ignore[arg-type]
    assert done.slots == (at("2039-01-01T00:00"),)
    assert (done.next_at, done.missed) == (at("2039-01-01T00:01"), MOST_COUNTED - 1)


def test_the_last_slot_is_found_among_days_that_differ() -> None:
    when = timing(cron="*/5 9-10 * * MON-FRI", time_zone="Europe/London")
    assert isinstance(when, Cron)
    slots = up_to(at("2029-04-10"), when, at("2029-03-20"))
    for index in range(1, len(slots)):
        for now in (
            slots[index] - timedelta(microseconds=1),
            slots[index - 1],
            slots[index - 1] + timedelta(seconds=1),
        ):
            assert when.last(slots[0], now) == slots[index - 1]


def test_waits_of_any_length_neither_overflow_nor_come_early() -> None:
    for days in (24.8, 24.9, 50, 36524):
        start = at("2029-01-01")
        anchor = start + timedelta(days=days)
        assert timing(every="P1D", anchor_at=anchor).after(start) == anchor
