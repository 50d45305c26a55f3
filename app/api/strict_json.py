"""JSON as Celeriac takes it: strict, bounded, and with numbers that keep their digits.

What other parsers let through and Postgres or the next reader chokes on is refused here, with the place named: NaN and
infinities, numbers outside the range of a double, NUL and lone surrogates (also in keys), doubled keys, more than
DEPTH levels, numbers of more than DIGITS characters.

A number with a point or an exponent becomes an ExactFloat, an integer beyond 64 bits an ExactInteger: numbers for
whoever calculates, and still the very text they came as for `dumps`. So 100000.10 keeps its zero, and a big integer its
last digit, on the way from the caller to the database.

The parser's hooks put a Flaw where something is wrong and go on; the tree is walked for the place only when there was a
Flaw, or when the bytes say that there may be one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final

import orjson

DEPTH: Final = 100
DIGITS: Final = 400
"""A double has at most 309 digits before the point; nobody needs 400, and int() of 100 000 takes seconds."""

_SIGNED_64: Final = range(-(2**63), 2**64)
_DUMP_OPTIONS: Final = orjson.OPT_PASSTHROUGH_SUBCLASS

Path = tuple[str | int, ...]


class RefusedJson(ValueError):
    """The text is not JSON that we take; `path` is where, () when it is the text as a whole."""

    def __init__(self, reason: str, path: Path = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class ExactFloat(float):
    """A double that remembers the digits it was written with."""

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


class ExactInteger(int):
    """An integer beyond 64 bits, which orjson writes only from its text."""


class Flaw:
    """Stands in the tree where a value was that we refuse; `key` when it is one of the value's own keys."""

    def __init__(self, reason: str, key: str | None = None) -> None:
        self.reason = reason
        self.place: Path = () if key is None else (key,)


def loads(raw: bytes | bytearray) -> Any:
    """The value of `raw`; RefusedJson says what is wrong and where."""
    flaws: list[Flaw] = []
    try:
        text = raw.decode("utf-8")
        tree = _decoder(flaws).decode(text)
    except UnicodeDecodeError as wrong:
        raise RefusedJson(f"not valid UTF-8 at byte {wrong.start}") from None
    except RecursionError:
        raise RefusedJson(f"nested deeper than {DEPTH} levels") from None
    except json.JSONDecodeError as wrong:
        raise RefusedJson(f"not valid JSON: {wrong.msg} at character {wrong.pos}") from None
    if flaws or _may_hold_bad_text(raw) or (_has_many_brackets(raw) and _is_too_deep(tree)):
        _refuse_flaws(tree)
    return tree


def dumps(value: Any) -> str:
    """`value`, as `loads` gave it, as JSON text without spaces, every number in its own digits."""
    return orjson.dumps(value, default=_write_exact, option=_DUMP_OPTIONS).decode()


def _decoder(flaws: list[Flaw]) -> json.JSONDecoder:
    def flaw(reason: str, key: str | None = None) -> Flaw:
        flaws.append(Flaw(reason, key))
        return flaws[-1]

    def read_float(text: str) -> Any:
        if len(text) > DIGITS:
            return flaw(f"a number of more than {DIGITS} characters")
        number = ExactFloat(text)
        if math.isinf(number):
            return flaw("a number outside the range of a double")
        mantissa, _, exponent = text.lower().partition("e")
        if not number and (mantissa.strip("-0.") or len(exponent) > 4):
            return flaw("a number too close to zero for a double")
        return number

    def read_integer(text: str) -> Any:
        if len(text) < 19:
            return int(text)
        if len(text) > DIGITS:
            return flaw(f"a number of more than {DIGITS} characters")
        number = int(text)
        if number in _SIGNED_64:
            return number
        return ExactInteger(number) if len(text) < 309 else flaw("a number outside the range of a double")

    def read_constant(text: str) -> Flaw:
        return flaw(f"{text} is not a JSON number")

    def read_object(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) < len(pairs):
            return flaw("the same key twice in one object", _first_doubled(pairs))
        return found

    return json.JSONDecoder(
        parse_float=read_float, parse_int=read_integer, parse_constant=read_constant, object_pairs_hook=read_object
    )


def _first_doubled(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("no key is doubled")


def _may_hold_bad_text(raw: bytes | bytearray) -> bool:
    """Whether a walk could find bad characters, which the hooks cannot see: only an escape brings them in."""
    return b"\\u" in raw and (b"\\u0000" in raw or b"\\ud" in raw or b"\\uD" in raw)


def _has_many_brackets(raw: bytes | bytearray) -> bool:
    return raw.count(b"[") + raw.count(b"{") > DEPTH


def _is_too_deep(tree: Any) -> bool:
    """Level by level and without paths, since 4 MiB can hold a million empty lists."""
    level: list[Any] = [tree]
    for _ in range(DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _refuse_flaws(tree: Any) -> None:
    stack: list[tuple[Path, Any]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, Flaw):
            raise RefusedJson(value.reason, path + value.place)
        if isinstance(value, str):
            _refuse_text(value, path)
        if isinstance(value, dict | list):
            if len(path) >= DEPTH:
                raise RefusedJson(f"nested deeper than {DEPTH} levels", path[:3])
            stack.extend(_children(path, value))


def _children(path: Path, value: dict[str, Any] | list[Any]) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, list):
        for index, child in enumerate(value):
            # Numbers, true, false and null cannot be wrong any more; a million of them need no path each.
            if isinstance(child, str | dict | list | Flaw):
                yield (*path, index), child
        return
    for key, child in value.items():
        _refuse_text(key, path)
        yield (*path, key), child


def _refuse_text(text: str, path: Path) -> None:
    if "\x00" in text:
        raise RefusedJson("the character NUL (U+0000)", path)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise RefusedJson("half of a surrogate pair", path)


def _write_exact(value: Any) -> Any:
    if isinstance(value, ExactFloat):
        return orjson.Fragment(value.text)
    if isinstance(value, ExactInteger):
        return orjson.Fragment(int.__repr__(value))
    raise TypeError(f"not JSON: {type(value).__name__}")
