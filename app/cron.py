"""When a schedule is due: cron expressions with a time zone, and periods from an anchor. Pure: no clock, no I/O.

cronsim reads the expression and walks the calendar; what its matches mean on the days when clocks change is decided
here (docs/decisions/0026). In short: a time that does not exist is due when the gap ends, one that comes twice is due
the first time; what runs in every hour, or at every n-th minute, goes by real time and knows neither pause nor burst.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

CatchUp = Literal["one", "all", "none"]

MOST_CAUGHT_UP: Final = 1000
"""How many slots `all` makes up for, the newest ones; the older ones are missed."""
MOST_COUNTED: Final = 20_000
"""Beyond so many slots of a cron expression we do not count on, so `missed` is then less than the truth."""
LATE_SECONDS: Final = 60
"""A slot that is this late is missed for `none`."""
LONGEST_CRON: Final = 200
LONGEST_YEARS: Final = 100
DEFAULT_ANCHOR: Final = "2001-01-01T00:00:00"
"""In the schedule's time zone. A Monday and the first of a month: PT15M is then due at :00, P1W on Mondays."""

_SECOND: Final = timedelta(seconds=1)
_ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_PERIOD: Final = re.compile(
    r"P(?=.)(?:([0-9]{1,4})Y)?(?:([0-9]{1,5})M)?(?:([0-9]{1,5})W)?(?:([0-9]{1,6})D)?"
    r"(?:T(?=.)(?:([0-9]{1,7})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,10}(?:\.[0-9]{1,3})?)S)?)?"
)


class InvalidTiming(ValueError):
    """A timing that cannot be used; `field` names what is wrong with it. The text never holds what was sent."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Cron:
    """A cron expression of five fields (or six, seconds first) on the clocks of a time zone."""

    expression: str
    zone: tzinfo

    def columns(self) -> Mapping[str, Any]:
        """The timing as put_schedule takes it."""
        return {"cron": self.expression, "time_zone": str(self.zone)}

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than `moment`, in UTC; None when there is none in 50 years."""
        there = moment.astimezone(self.zone)
        local = there.replace(tzinfo=None, fold=0)
        change = change_at(local, self.zone)
        if change is not None and there.fold:
            # The second time round: either all of it counts again, or none of it does.
            found = self._match(local if self._goes_by_real_time else change.end - _SECOND)
            if found is not None and found < change.end:
                return in_utc(found, self.zone, fold=1)
        elif change is not None and change.is_overlap and self._goes_by_real_time:
            found = self._match(local)
            if found is not None and found >= change.end:
                found = self._match(change.begin - _SECOND)
                if found is not None and found < change.end:
                    return in_utc(found, self.zone, fold=1)
        else:
            found = self._match(local)
        return self._instant(found)

    def last(self, due: datetime, now: datetime) -> datetime:
        """The last slot that is not later than `now`, given that `due` is one of them."""
        # `after` never falls: between low, where it is still at or before now, and high, where it is not, lies a step.
        low, high, last = due - _SECOND, now + _SECOND, due
        while high - low > _SECOND:
            middle = low + (high - low) / 2
            slot = self.after(middle)
            if slot is not None and slot <= now:
                low, last = middle, slot
            else:
                high = middle
        return last

    def count(self, due: datetime, now: datetime) -> int:
        """How many slots there are from `due` up to `now`; MOST_COUNTED stands for that many or more."""
        return sum(1 for _ in slots(self, due, now, MOST_COUNTED))

    def newest(self, due: datetime, now: datetime, most: int) -> list[datetime]:
        """The newest slots from `due` up to `now`, oldest first, at most `most` of them."""
        found = deque(slots(self, due, now, MOST_COUNTED), maxlen=most)
        last = self.last(found[-1], now)
        return list(found) if last == found[-1] else [last]

    @cached_property
    def _fields(self) -> tuple[CronSim, str]:
        read = CronSim(self.expression, datetime(2001, 1, 1))
        return read, read.parts[1]

    @property
    def _runs_in_every_hour(self) -> bool:
        return len(self._fields[0].hours) == 24

    @property
    def _goes_by_real_time(self) -> bool:
        return self._runs_in_every_hour or self._fields[1].startswith("*")

    def _match(self, local: datetime) -> datetime | None:
        """The first time on the calendar that matches and is later than `local`."""
        return next(CronSim(self.expression, local), None)

    def _instant(self, local: datetime | None) -> datetime | None:
        """When a time of the calendar is due, or the next one if it never is."""
        while local is not None:
            change = change_at(local, self.zone)
            if change is None or change.is_overlap:
                return in_utc(local, self.zone)
            if not self._runs_in_every_hour:
                return change.moment
            local = self._match(change.end - _SECOND)
        return None


@dataclass(frozen=True)
class Period:
    """A length of time as ISO 8601 writes it: months and days of the calendar, and a time that is always as long."""

    text: str
    months: int
    days: int
    time: timedelta

    @classmethod
    def read(cls, text: str) -> Period:
        """`P1M`, `P2W`, `PT90S`, `P1DT12H`; InvalidTiming for what is no period of 1 second to 100 years."""
        parts = _PERIOD.fullmatch(text)
        if parts is None:
            raise InvalidTiming("every", "every must be an ISO 8601 period such as PT15M, P1D, P1W or P1M")
        years, months, weeks, days, hours, minutes = (int(part or 0) for part in parts.groups()[:-1])
        seconds = timedelta(seconds=float(parts[7] or 0))
        period = cls(text, 12 * years + months, 7 * weeks + days, timedelta(hours=hours, minutes=minutes) + seconds)
        length = timedelta(days=31 * period.months + period.days) + period.time
        if not _SECOND <= length <= timedelta(days=31 * 12 * LONGEST_YEARS):
            raise InvalidTiming("every", f"every must be between 1 second and {LONGEST_YEARS} years")
        return period


@dataclass(frozen=True)
class Every:
    """anchor, anchor + 1 period, anchor + 2 periods …: each from the anchor, so the 31st comes back after February.

    Months and days go by the calendar and the clocks of `zone`, hours and less by real time.
    """

    period: Period
    anchor: datetime
    zone: tzinfo

    def columns(self) -> Mapping[str, Any]:
        """The timing as put_schedule takes it."""
        return {"every": self.period.text, "anchor_at": self.anchor, "time_zone": str(self.zone)}

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than `moment`, in UTC; None when the calendar ends before."""
        return self.slot(self.index(moment) + 1)

    def last(self, due: datetime, now: datetime) -> datetime:
        """The last slot that is not later than `now`, given that `due` is one of them."""
        return self.slot(self.index(now)) or due

    def count(self, due: datetime, now: datetime) -> int:
        """How many slots there are from `due` up to `now`."""
        return self.index(now) - self.index(due) + 1

    def newest(self, due: datetime, now: datetime, most: int) -> list[datetime]:
        """The newest slots from `due` up to `now`, oldest first, at most `most` of them."""
        first = max(self.index(due), self.index(now) - most + 1)
        return [slot for number in range(first, self.index(now) + 1) if (slot := self.slot(number)) is not None]

    def slot(self, number: int) -> datetime | None:
        """The slot `number` periods after the anchor, in UTC; None past the end of the calendar."""
        try:
            if number == 0 or not (self.period.months or self.period.days):
                return self.anchor.astimezone(UTC) + number * self.period.time
            local = self.anchor.astimezone(self.zone).replace(tzinfo=None, fold=0)
            local = add_months(local, number * self.period.months) + timedelta(days=number * self.period.days)
            change = change_at(local, self.zone)
            start = in_utc(local, self.zone) if change is None or change.is_overlap else change.moment
            return start + number * self.period.time
        except (OverflowError, ValueError):
            return None

    def index(self, moment: datetime) -> int:
        """The number of the last slot that is not later than `moment`; -1 before the anchor."""
        if moment < self.anchor:
            return -1
        if not (self.period.months or self.period.days):
            return (moment - self.anchor) // self.period.time
        low, high = 0, 1
        while (slot := self.slot(high)) is not None and slot <= moment:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            slot = self.slot(middle)
            low, high = (middle, high) if slot is not None and slot <= moment else (low, middle)
        return low


Timing = Cron | Every


@dataclass(frozen=True)
class Turn:
    """What a schedule has to do now: fire `slots` (oldest first), then wait for `next_at`; `missed` are never fired."""

    slots: tuple[datetime, ...]
    next_at: datetime | None
    missed: int


def timing(
    *,
    cron: str | None = None,
    every: str | None = None,
    time_zone: str | None = None,
    anchor_at: datetime | None = None,
) -> Timing:
    """The timing that these settings describe; InvalidTiming names the one that is wrong. Without a zone it is UTC."""
    zone = read_zone(time_zone or "UTC")
    if (cron is None) == (every is None):
        raise InvalidTiming("cron", "give either cron or every")
    if cron is not None:
        if anchor_at is not None:
            raise InvalidTiming("anchor_at", "anchor_at goes with every, not with cron")
        return Cron(read_cron(cron), zone)
    assert every is not None
    anchor = anchor_at or in_utc(datetime.fromisoformat(DEFAULT_ANCHOR), zone)
    return Every(Period.read(every), anchor, zone)


def first_slot(timing: Timing, now: datetime) -> datetime:
    """The first slot later than `now`; InvalidTiming when it never comes, or in more than LONGEST_YEARS."""
    slot = timing.after(now)
    if slot is None and isinstance(timing, Cron):
        raise InvalidTiming("cron", "cron is never due: no date matches it")
    if slot is None or slot > now + timedelta(days=366 * LONGEST_YEARS):
        raise InvalidTiming("anchor_at", f"anchor_at must lie within {LONGEST_YEARS} years")
    return slot


def turn(timing: Timing, due: datetime, now: datetime, catch_up: CatchUp) -> Turn:
    """What is to be done at `now` by a schedule whose slot `due` has come.

    `one` fires the last slot that has come: the run that makes up for an outage and the next regular one are then at
    least a period apart. `all` fires every one, up to the newest MOST_CAUGHT_UP. `none` fires only what is not late.
    """
    if catch_up == "all":
        fired = timing.newest(due, now, MOST_CAUGHT_UP)
    else:
        last = timing.last(due, now)
        is_late = catch_up == "none" and now - last > timedelta(seconds=LATE_SECONDS)
        fired = [] if is_late else [last]
    return Turn(tuple(fired), timing.after(now), max(timing.count(due, now) - len(fired), 0))


def slots(timing: Timing, due: datetime, now: datetime, most: int) -> Iterator[datetime]:
    """`due` and the slots after it up to `now`, at most `most`."""
    slot: datetime | None = due
    for _ in range(most):
        if slot is None or slot > now:
            return
        yield slot
        slot = timing.after(slot)


def read_cron(text: str) -> str:
    """The expression in full; InvalidTiming when it is none."""
    expression = _ALIASES.get(text.strip().lower(), text)
    try:
        if len(expression) > LONGEST_CRON or not expression.isascii() or not expression.isprintable():
            raise CronSimError
        CronSim(expression, datetime(2001, 1, 1))
    except (CronSimError, ValueError):
        raise InvalidTiming(
            "cron",
            "cron must be five fields (minute hour day month weekday) or six (second first), of a possible date",
        ) from None
    return expression


@lru_cache(maxsize=1000)
def read_zone(name: str) -> tzinfo:
    """The time zone of an IANA name; InvalidTiming when there is none of this name."""
    # posix/ and right/ count seconds in their own ways, localtime is another zone on every machine.
    if re.fullmatch(r"(?!posix|right|localtime|Factory)[A-Za-z][A-Za-z0-9_+-]{0,40}(/[A-Za-z0-9_+-]{1,40}){0,2}", name):
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, LookupError):
            pass
    raise InvalidTiming("time_zone", "time_zone must be the name of a time zone, such as Europe/Berlin")


@dataclass(frozen=True)
class Change:
    """A change of clocks at `moment` (UTC): local times from `begin` up to `end` come twice, or never."""

    moment: datetime
    begin: datetime
    end: datetime
    is_overlap: bool


def change_at(local: datetime, zone: tzinfo) -> Change | None:
    """The change that makes `local` come twice or never; None for a time that comes once."""
    first, second = offset(local, zone, 0), offset(local, zone, 1)
    if first == second:
        return None
    # The moment lies between the two readings of `local`: look for it to the second.
    low, high = sorted(((local - first).replace(tzinfo=UTC), (local - second).replace(tzinfo=UTC)))
    before = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    at = high.replace(tzinfo=None)
    begin, end = sorted((at + first, at + second))
    return Change(high.replace(microsecond=0), begin, end, is_overlap=first > second)


def offset(local: datetime, zone: tzinfo, fold: int) -> timedelta:
    return local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()


def in_utc(local: datetime, zone: tzinfo, fold: int = 0) -> datetime:
    """The moment of a local time; `fold` 1 is the second one of a time that comes twice."""
    return (local - offset(local, zone, fold)).replace(tzinfo=UTC)


def add_months(local: datetime, months: int) -> datetime:
    """The same day `months` later, or the last one of a month that is too short for it."""
    years, month = divmod(local.month - 1 + months, 12)
    year = local.year + years
    if not 1 <= year <= 9999:
        raise OverflowError
    return local.replace(year=year, month=month + 1, day=min(local.day, monthrange(year, month + 1)[1]))
