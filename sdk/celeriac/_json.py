"""JSON that keeps what it was given, or refuses it before anything is sent.

Whole numbers are exact in both directions, whatever their length. Fractions become `float` by default, as in `json`;
with `parse_float=Decimal` they keep every digit, and `Decimal` may be sent. A number that a float cannot hold (1e400)
is read as a Decimal rather than as infinity.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from celeriac.errors import Invalid, TooLarge, UnexpectedAnswer

BODY_LIMIT: Final = 4 * 1024 * 1024
"""What the server reads at most, in bytes."""

_LONGEST_INT: Final = 4300  # digits; Python refuses to read longer ones into an int
_DEEPEST: Final = 100
_BEFORE_POINT: Final = 131_072
_BEHIND_POINT: Final = 16_383
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def encode(value: Any, name: str = "") -> bytes:
    """`value` as compact UTF-8 JSON.

    Raises Invalid for NaN, infinities, Decimals that Postgres has no room for, NUL characters, lone surrogates, foreign
    types, circles and bottomless nesting, with the place (inside `name`) in `field`; TooLarge for more than the server
    would read.
    """
    mark = uuid.uuid4().hex
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_marker(mark))
        body = _unmark(text, mark).encode()
    except (TypeError, ValueError, RecursionError) as error:
        place, reason = fault_in(value, name) or (name, str(error))
        raise Invalid(f"{place or 'value'} {reason}", field=place or None) from None
    if "\\u0000" in text and _NUL.search(text):
        place, reason = fault_in(value, name) or (name, "holds a NUL character")
        raise Invalid(f"{place or 'value'} {reason}", field=place or None)
    if len(body) > BODY_LIMIT:
        raise TooLarge(f"{len(body)} bytes of JSON are more than the {BODY_LIMIT} that a request may have")
    return body


def decoder(parse_float: Callable[[str], Any] = float) -> json.JSONDecoder:
    """A decoder that never rounds a whole number and never reads an infinity."""
    return json.JSONDecoder(parse_int=_exact_int, parse_float=_finite_float if parse_float is float else parse_float)


def decode(body: bytes, using: json.JSONDecoder) -> Any:
    """The value of a JSON body; raises UnexpectedAnswer when it is none."""
    try:
        return using.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise UnexpectedAnswer(f"the answer is not JSON that can be read: {error}") from None


def fault_in(value: Any, place: str = "", depth: int = 0) -> tuple[str, str] | None:
    """The first thing in `value` that JSON (or the server) does not take: (`variables.rows[3].price`, reason)."""
    if depth > _DEEPEST:
        return place[:200], "is nested too deep, or in a circle"
    if isinstance(value, dict):
        return _fault_in_dict(value, place, depth)
    if isinstance(value, list | tuple):
        found = (fault_in(item, f"{place}[{number}]", depth + 1) for number, item in enumerate(value))
        return next(filter(None, found), None)
    reason = _fault_of(value)
    return (place, reason) if reason else None


def _fault_in_dict(value: dict[Any, Any], place: str, depth: int) -> tuple[str, str] | None:
    for name, item in value.items():
        inside = f"{place}.{name!s}" if place else str(name)
        if not isinstance(name, str | int | float | bool | None):
            return place, f"has a name of type {type(name).__name__}; names must be text"
        if reason := _fault_of(name):
            return place, f"has a name that {reason}"
        if found := fault_in(item, inside, depth + 1):
            return found
    return None


def _fault_of(value: Any) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return "holds a NUL character"
        return "holds half of a surrogate pair" if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"is {value}, which JSON does not have"
    if isinstance(value, Decimal) and not value.is_finite():
        return f"is {value}, which JSON does not have"
    if isinstance(value, Decimal):
        return None if _has_room(value) else "has more digits than Postgres has room for"
    if value is None or isinstance(value, int):
        return None
    return f"is of type {type(value).__name__}, which JSON does not have"


def _marker(mark: str) -> Callable[[Any], str]:
    """`json` writes no Decimals: they go in as marked text first, and lose mark and quotes after."""

    def default(value: Any) -> str:
        if isinstance(value, Decimal) and value.is_finite() and _has_room(value):
            return f"{mark}{value}"
        raise TypeError(f"is of type {type(value).__name__}, which JSON does not have")

    return default


def _has_room(number: Decimal) -> bool:
    """Whether Postgres can store it: as a numeric, with so many digits before the point and so many behind it."""
    exponent = number.as_tuple().exponent
    return (
        isinstance(exponent, int) and exponent >= -_BEHIND_POINT and (not number or number.adjusted() < _BEFORE_POINT)
    )


def _unmark(text: str, mark: str) -> str:
    return re.sub(f'"{mark}([^"]*)"', r"\1", text) if mark in text else text


def _exact_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _LONGEST_INT else Decimal(digits)


def _finite_float(digits: str) -> float | Decimal:
    value = float(digits)
    return value if math.isfinite(value) else Decimal(digits)
