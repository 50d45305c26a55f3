"""JSON keeps what it was given, or is refused with the place of what is wrong."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection
from sqlalchemy import text as sql

from celeriac import Invalid, TooLarge, UnexpectedAnswer
from celeriac._json import _has_room, decode, decoder, encode

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)


@given(values)
def test_what_goes_out_comes_back(value: Any) -> None:
    assert decode(encode(value), decoder()) == value


decimals = st.decimals(allow_nan=False, allow_infinity=False).filter(_has_room)


@given(decimals)
def test_decimals_keep_every_digit(number: Decimal) -> None:
    back = decode(encode({"x": [number]}), decoder(Decimal))["x"][0]
    assert Decimal(back) == number
    assert str(Decimal(back)).lstrip("-") == str(number).lstrip("-")


@given(st.lists(texts | decimals))
def test_decimals_and_texts_are_never_mixed_up(value: list[Any]) -> None:
    assert json.loads(encode(value), parse_float=Decimal, parse_int=Decimal) == value


@pytest.mark.parametrize(
    "text", ["9007199254740993", "-9223372036854775809", "1" * 5000, "1e400", "100000.10", "0.1", "-0.0"]
)
def test_numbers_are_read_without_rounding_when_asked_for(text: str) -> None:
    assert Decimal(decode(text.encode(), decoder(Decimal))) == Decimal(text)


def test_without_asking_only_fractions_become_floats_and_never_infinity() -> None:
    read = decode(b"[9007199254740993, 0.1, 1e400, 100000.10]", decoder())
    assert read == [9007199254740993, 0.1, Decimal("1e400"), 100000.1]
    assert encode(read) == b"[9007199254740993,0.1,1E+400,100000.1]"


@pytest.mark.parametrize("text", ["9.9E+131071", "-1E-16383", "0E+200000"])
def test_numbers_are_taken_as_far_as_postgres_has_room(text: str, conn: Connection) -> None:
    sent = encode([Decimal(text)]).decode()
    statement = "select cast(cast(:sent as jsonb) ->> 0 as numeric) = cast(:text as numeric)"
    assert conn.execute(sql(statement), {"sent": sent, "text": text}).scalar_one()


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        ({"a": [1, {"b": float("nan")}]}, "a[1].b", "is nan"),
        ({"a": float("-inf")}, "a", "is -inf"),
        ({"a": Decimal("sNaN")}, "a", "is sNaN"),
        ({"a": [Decimal("1e200000")]}, "a[0]", "more digits than Postgres has room for"),
        ({"a": Decimal("-12e131071")}, "a", "more digits"),
        ({"a": Decimal("1e-16384")}, "a", "more digits"),
        ({"a": "x\0"}, "a", "NUL"),
        ({"a": {"x\0": 1}}, "a", "name that holds a NUL"),
        ({"a": "\udc80"}, "a", "surrogate"),
        ({"a": ("x", b"y")}, "a[1]", "type bytes"),
        ({"a": {(1, 2): 3}}, "a", "type tuple"),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: Any, place: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as refused:
        encode(value)
    assert refused.value.field == place


def test_backslashes_before_u0000_are_just_text() -> None:
    assert decode(encode(r"\u0000"), decoder()) == r"\u0000"
    with pytest.raises(Invalid):
        encode("\\\0")


def test_circles_and_bottomless_nesting_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(Invalid, match="too deep, or in a circle"):
            encode(value)


def test_a_body_that_the_server_would_not_read_is_not_sent() -> None:
    with pytest.raises(TooLarge):
        encode("x" * (4 * 1024 * 1024))


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_no_json_is_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(UnexpectedAnswer):
        decode(body, decoder())
