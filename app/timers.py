"""When the timers of processes are due: dates, durations and cycles of ISO 8601, and cron. Pure.

A date without a zone is in UTC, and so is cron. A cycle counts from when it was opened (or from its own start): its
times are that plus n periods, so the 31st comes back after February. R3 fires three times, whatever it has missed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from app.cron import Cron, Every, InvalidTiming, Period, read_cron, read_zone
from app.process.timing import DURATION, seconds_of, timing_fault

UTC_ZONE: Final = read_zone("UTC")

_SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


def time_fault(timer: str, text: str) -> str | None:
    """Why a `date`, `duration` or `cycle` can never be due, by its shape or by the calendar; None when it can."""
    if (fault := timing_fault(timer, text)) is not None:
        return fault
    try:
        due_at(timer, text, _SOME_DAY)
    except InvalidTiming as wrong:
        return str(wrong)
    return None


def due_at(timer: str, text: str, opened_at: datetime, fired: int = 0) -> datetime | None:
    """When a `date`, `duration` or `cycle` is due after it has fired so many times; None: never again.

    Raises InvalidTiming for what is no such time.
    """
    if timer == "date" or (timer == "duration" and not text.startswith("P")):
        return _moment(text) if fired == 0 else None
    if timer == "duration":
        return _after(text, opened_at) if fired == 0 else None
    if text.startswith("R"):
        return _repeated(text, opened_at, fired)
    # Six fields are Camunda's: seconds first, and ? for "whatever".
    cron = Cron(read_cron(text.replace("?", "*")), UTC_ZONE)
    slot: datetime | None = opened_at
    for _ in range(fired + 1):
        slot = None if slot is None else cron.after(slot)
    return slot


def due_next(timer: str, text: str, opened_at: datetime, fired: int, now: datetime) -> datetime | None:
    """When a cycle that has fired so many times is due again: always ahead; what was missed was fired as one."""
    following = due_at(timer, text, opened_at, fired)
    if following is None or following > now or timer != "cycle":
        return following
    if not text.startswith("R"):
        return Cron(read_cron(text.replace("?", "*")), UTC_ZONE).after(now)
    # The slot that lies ahead, in one step: there may be very many behind.
    cycle, _, end = _cycle(text, opened_at)
    return _until(end, cycle.after(now))


def _after(text: str, moment: datetime) -> datetime | None:
    seconds = seconds_of(text)
    if seconds is not None and seconds < 1:
        return moment + timedelta(seconds=seconds)
    return Every(Period.read(text), moment, UTC_ZONE).slot(1)


def milliseconds(text: str) -> int:
    """A duration as ms, months taken as 30 days. Raises InvalidTiming."""
    period = Period.read(text)
    return round(((30 * period.months + period.days) * timedelta(days=1) + period.time).total_seconds() * 1000)


def _repeated(text: str, opened_at: datetime, fired: int) -> datetime | None:
    count = text[1:].partition("/")[0]
    if count and fired >= int(count):
        return None
    cycle, first, end = _cycle(text, opened_at)
    return _until(end, cycle.slot(first + fired))


def _cycle(text: str, opened_at: datetime) -> tuple[Every, int, datetime | None]:
    """The slots of `R…/PT1H`, `R…/PT1H/end` or `R…/start/PT1H`, the number of the first that fires, and the end."""
    _, _, rest = text.partition("/")
    first, _, second = rest.partition("/")
    if DURATION.fullmatch(first):
        return Every(Period.read(first), opened_at, UTC_ZONE), 1, _moment(second) if second else None
    return Every(Period.read(second), _moment(first), UTC_ZONE), 0, None


def _until(end: datetime | None, slot: datetime | None) -> datetime | None:
    return None if slot is not None and end is not None and slot > end else slot


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(re.sub(r"([+-]\d{2})(\d{2})$", r"\1:\2", text))
        # In UTC: what is in the year 10 000 there can be stored, and then not be read.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        raise InvalidTiming("timer", "a date of a timer must be of ISO 8601") from None
    except OverflowError:
        raise InvalidTiming("timer", "a date of a timer must be of the years 1 to 9999") from None
