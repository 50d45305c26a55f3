"""Dates and times as Camunda 7 writes them: `2024-01-02T03:04:05.678+0000`; read more leniently than it does."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from app.camunda.errors import invalid

_SPELLING = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*"
    r"(?:Z|z|(?:UTC|GMT)?([+-]\d{1,2}(?::?\d{2})?)?)"
)


def shown(moment: datetime | None) -> str | None:
    """In UTC, with three digits of a second, whatever the clock of the server says."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "+0000")


def read_moment(text: str, name: str) -> datetime:
    """ISO 8601 with or without fraction, zone and time; no zone is UTC, `UTC+02:00` is `+02:00`.
    A fraction is one of a second. In UTC."""
    found = _SPELLING.fullmatch(text.strip())
    if found is None:
        raise invalid(f"{name} must be a date such as 2024-01-02T03:04:05.678+0000")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    offset = _offset(zone)
    try:
        return datetime.fromisoformat(
            f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}.{(fraction or '0')[:6]:0<6}{offset}"
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(f"{name} is no date that there is") from None


def _offset(zone: str | None) -> str:
    if zone is None:
        return "+00:00"
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "00")
    return f"{zone[0]}{hours:0>2}:{minutes}"
