"""The JSON that is taken, the JSON that is not, and that numbers keep their digits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.strict_json import DEPTH, RefusedJson, dumps, loads


@pytest.mark.parametrize(
    "text",
    [
        '{"decimal":100000.10,"tiny":1e-7,"big":9223372036854775808,"max":9223372036854775807}',
        '{"many":0.1234567890123456789012345,"minus":-0.0,"exponent":1.5E+10,"huge":-99999999999999999999}',
        '{"text":"snow ☃ and a pair 😀","empty":"","list":[1,[],{}],"none":null,"yes":true}',
        "[" * DEPTH + "]" * DEPTH,
        '{"v":' * DEPTH + "1" + "}" * DEPTH,
        "17",
    ],
)
def test_what_is_read_is_written_digit_for_digit(text: str) -> None:
    assert dumps(loads(text.encode())) == text


@pytest.mark.parametrize(
    "text, place",
    [
        ('{"v":NaN}', ("v",)),
        ('{"v":[1,Infinity]}', ("v", 1)),
        ('{"v":-Infinity}', ("v",)),
        ('{"v":1e400}', ("v",)),
        ('{"v":-1e200000}', ("v",)),
        ('{"v":1e-400}', ("v",)),
        ('{"v":0e-99999}', ("v",)),
        ('{"v":%s}' % ("9" * 5000), ("v",)),
        ('{"v":0.%s}' % ("1" * 5000), ("v",)),
        ('{"a":1,"a":2}', ("a",)),
        ('{"o":{"a":1,"b":2,"b":3}}', ("o", "b")),
        (r'{"v":"a\u0000b"}', ("v",)),
        (r'{"o":{"a\u0000":1}}', ("o",)),
        (r'{"v":["ok","\ud800"]}', ("v", 1)),
        (r'{"v":"\uDFFF\uD800"}', ("v",)),
        ('{"v":"a\x00b"}', ()),
        ("[" * (DEPTH + 1) + "]" * (DEPTH + 1), (0, 0, 0)),
        ("[" * 200_000 + "]" * 200_000, ()),
        ('{"v":' * 6000 + "1" + "}" * 6000, ()),
        ("{} {}", ()),
        ("{", ()),
        ("", ()),
        ("\ufeff{}", ()),
    ],
)
def test_what_others_choke_on_is_refused_with_its_place(text: str, place: tuple[str | int, ...]) -> None:
    with pytest.raises(RefusedJson) as refused:
        loads(text.encode())
    assert refused.value.path == place


@pytest.mark.parametrize("raw", [b'{"v":"\xff"}', b'{"v":"\xed\xa0\x80"}', '{"v":1}'.encode("utf-16")])
def test_bytes_that_are_not_utf8_are_refused(raw: bytes) -> None:
    with pytest.raises(RefusedJson):
        loads(raw)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcé☃"), inner),
)  # fmt: skip


@given(TREES)
def test_every_tree_survives_the_round_trip(tree: object) -> None:
    text = dumps(tree) if not _has_big_integer(tree) else _plain(tree)
    assert dumps(loads(text.encode())) == text


def _has_big_integer(tree: object) -> bool:
    if isinstance(tree, dict):
        return any(map(_has_big_integer, tree.values()))
    if isinstance(tree, list):
        return any(map(_has_big_integer, tree))
    return isinstance(tree, int) and not -(2**63) <= tree < 2**64


def _plain(tree: object) -> str:
    import json

    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
