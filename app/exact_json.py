"""JSON that keeps numbers as they are: whole ones of any size, fractions as decimals, in both directions."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from typing import Any, Final

MOST_DIGITS: Final = 4000
"""Longer whole numbers come as decimals, digit for digit: Python reads no int of more than 4300."""


def loads(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=_whole)


def _whole(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= MOST_DIGITS else Decimal(digits)


def dumps(value: Any) -> str:
    """Raises TypeError for what JSON does not have."""
    mark = uuid.uuid4().hex

    def default(thing: Any) -> str:
        # `json` writes no decimals: they go in as marked text, and lose mark and quotes after.
        if isinstance(thing, Decimal) and thing.is_finite():
            return f"{mark}{thing}"
        raise TypeError(f"{type(thing).__name__} is nothing that JSON has")

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)
    if mark not in text:
        return text
    head, *rest = text.split(f'"{mark}')
    return head + "".join(part.replace('"', "", 1) for part in rest)
