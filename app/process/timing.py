"""What the text of a timer may look like. When it is due is for whoever knows the calendar."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

LONGEST_YEARS: Final = 100
DURATION: Final = re.compile(
    r"P(?=.)(\d{1,9}Y)?(\d{1,9}M)?(\d{1,9}W)?(\d{1,9}D)?"
    r"(T(?=.)(\d{1,9}H)?(\d{1,9}M)?(\d{1,9}(?:\.\d{1,9})?S)?)?",
    re.ASCII,
)
DATE: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?)(Z|[+-]\d{2}:?\d{2})?", re.ASCII
)
COUNT: Final = re.compile(r"R([1-9]\d{0,8})?", re.ASCII)
CRON: Final = re.compile(r"@[a-z]+|[\w*/,\-?#]+( +[\w*/,\-?#]+){4,6}", re.ASCII)

_DAYS: Final = (365, 30, 7, 1)


def timing_fault(timer: str, text: str) -> str | None:
    """Why a text can be no `date`, `duration` or `cycle`; None when it can."""
    if timer == "date":
        return None if _is_date(text) else "timeDate is a date and time of ISO 8601"
    if timer == "duration":
        known = _is_duration(text) or _is_date(text)
        return None if known else f"timeDuration is a duration of ISO 8601 (PT5M), of at most {LONGEST_YEARS} years"
    if not text.startswith("R"):
        return None if CRON.fullmatch(text) else "timeCycle is R3/PT10M, or a cron expression"
    return _cycle_fault(text)


def seconds_of(text: str) -> float | None:
    """The length of a duration, years and months taken as 365 and 30 days; None for what is no duration."""
    found = DURATION.fullmatch(text)
    if found is None:
        return None
    *days, _, hours, minutes, seconds = found.groups()
    whole = sum(int(part[:-1]) * length for part, length in zip(days, _DAYS, strict=True) if part)
    given = ((hours, 3600), (minutes, 60), (seconds, 1))
    return whole * 86_400 + sum(float(part[:-1]) * length for part, length in given if part)


def _cycle_fault(text: str) -> str | None:
    count, _, rest = text.partition("/")
    if COUNT.fullmatch(count) is None:
        return "timeCycle repeats a number of times from 1 (R3/PT10M), or for ever (R/PT10M)"
    parts = rest.split("/")
    lengths = [seconds for part in parts if (seconds := seconds_of(part)) is not None]
    if len(parts) > 2 or len(lengths) != 1 or not all(_is_duration(part) or _is_date(part) for part in parts):
        return "timeCycle is R, a number, and a duration of ISO 8601 (R3/PT10M), with a start or an end"
    return None if lengths[0] >= 1 else "timeCycle repeats after a second at the earliest"


def _is_duration(text: str) -> bool:
    seconds = seconds_of(text)
    return seconds is not None and seconds <= LONGEST_YEARS * 365 * 86_400


def _is_date(text: str) -> bool:
    if (found := DATE.fullmatch(text)) is None or (found[2] and "T" not in text):
        return False
    zone = found[2] or ""
    try:
        moment = datetime.fromisoformat(
            found[1] + (zone if ":" in zone or zone == "Z" else f"{zone[:3]}:{zone[3:]}" if zone else "")
        )
    except ValueError:
        return False
    return 1 < moment.year < 9999
