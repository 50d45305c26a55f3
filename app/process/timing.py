"""What the text of a timer may look like. When it is due is for whoever knows the calendar."""

from __future__ import annotations

import re
from typing import Final

DURATION: Final = re.compile(r"P(?=.)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
COUNT: Final = re.compile(r"R([1-9]\d{0,8})?")
CRON: Final = re.compile(r"@[a-z]+|[\w*/,\-?#]+( +[\w*/,\-?#]+){4,6}")


def timing_fault(timer: str, text: str) -> str | None:
    """Why a text can be no `date`, `duration` or `cycle`; None when it can."""
    if timer == "date":
        return None if DATE.fullmatch(text) else "timeDate is a date and time of ISO 8601"
    if timer == "duration":
        return (
            None
            if DURATION.fullmatch(text) or DATE.fullmatch(text)
            else "timeDuration is a duration of ISO 8601 (PT5M)"
        )
    if not text.startswith("R"):
        return None if CRON.fullmatch(text) else "timeCycle is R3/PT10M, or a cron expression"
    count, _, rest = text.partition("/")
    if COUNT.fullmatch(count) is None:
        return "timeCycle repeats a number of times from 1 (R3/PT10M), or for ever (R/PT10M)"
    parts = rest.split("/")
    if not 1 <= len(parts) <= 2 or not any(DURATION.fullmatch(part) for part in parts):
        return "timeCycle is R, a number, and a duration of ISO 8601 (R3/PT10M)"
    if not all(DURATION.fullmatch(part) or DATE.fullmatch(part) for part in parts):
        return "timeCycle is R, a number, and a duration of ISO 8601 (R3/PT10M)"
    return None
