"""Typed values: what is read, what is stored, what is shown, and what is refused; without a server."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson
import pytest

from app import exact_json
from app.api import strict_json
from app.camunda.errors import CamundaError
from app.camunda.values import Typed, read_typed, read_variables, show, types


def sent(text: str) -> Any:
    return strict_json.loads(text.encode())


def stored(value: Any) -> str:
    """JSON as the database writes it: sorted keys, numbers without exponents."""

    def sort(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: sort(one[key]) for key in sorted(one, key=lambda key: (len(key.encode()), key.encode()))}
        if isinstance(one, list):
            return [sort(inner) for inner in one]
        return one

    text = exact_json.dumps(sort(exact_json.loads(strict_json.dumps(value))))
    number = json.loads(text, parse_float=Decimal)
    return f"{number:f}" if isinstance(number, Decimal) else text


def shown(typed: Typed, *, deserialize: bool = True) -> str:
    said = types({"x": typed}).get("x", {})
    info = said.get("info")
    told = show(stored(typed.value), said.get("type"), None if info is None else json.dumps(info), deserialize)
    assert list(told) == ["value", "type", "valueInfo"]
    return orjson.dumps(told).decode()


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ('"text"', "String"), ('""', "String"), ('"\\u00fc\\ud83d\\ude00\\u2028"', "String"),
        ("0", "Integer"), ("-2147483648", "Integer"), ("2147483647", "Integer"), ("-32768", "Short"), ("7", "Long"),
        ("9223372036854775807", "Long"), ("-9223372036854775808", "Long"), ("9007199254740993", "Long"),
        ("0.1", "Double"), ("100000.10", "Double"), ("-0.0", "Double"), ("0.30000000000000004", "Double"),
        ("true", "Boolean"), ("false", "Boolean"), ("null", "Null"),
        ('"2024-01-02T03:04:05.678+0000"', "Date"), ('"9999-12-31T23:59:59.999+0000"', "Date"),
        ('"0001-01-01T00:00:00.000+0000"', "Date"), ('"aGVsbG8="', "Bytes"), ('""', "Bytes"),
        ('"<a>\\n</a>"', "Xml"), ('"{\\"b\\": 1.50, \\"a\\":[1e2,null]}"', "Json"), ('" [ ] "', "Json"),
        ('"{\\"a\\":1}"', "Json"), ('"\\"text\\""', "Json"), ('"12345678901234567890123"', "Json"), ('"null"', "Json"),
    ],
)  # fmt: skip
def test_a_value_comes_back_as_it_came(value: str, type_: str) -> None:
    for name in (type_, type_[0].lower() + type_[1:]):
        typed = read_typed("x", {"value": sent(value), "type": name})
        back = shown(typed)
        assert back.startswith('{"value":'), back
        assert json.loads(back) == {"value": json.loads(value), "type": type_, "valueInfo": {}}
        if type_ in ("Double", "Long"):
            assert back == f'{{"value":{value},"type":"{type_}","valueInfo":{{}}}}'


@pytest.mark.parametrize(
    "number", ["1e300", "5e-324", "1.7976931348623157e308", "2.2250738585072014E-308", "1E2", "123456789012345678"]
)
def test_doubles_are_the_same_doubles(number: str) -> None:
    (value, type_, _) = json.loads(shown(read_typed("x", {"value": sent(number), "type": "Double"}))).values()
    assert (value, type(value), type_) == (float(number), float, "Double")


@pytest.mark.parametrize("type_", ["String", "Integer", "Short", "Long", "Double", "Boolean", "Date", "Bytes", "Xml"])
def test_null_keeps_its_type(type_: str) -> None:
    assert json.loads(shown(read_typed("x", {"value": None, "type": type_}))) == {
        "value": None, "type": type_, "valueInfo": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("1", "Integer"), ("2147483648", "Long"), ("-2147483649", "Long"), ("1.0", "Double"), ("1e2", "Double"),
        ("true", "Boolean"), ('"x"', "String"), ("null", "Null"),
    ],
)  # fmt: skip
def test_the_type_of_an_untyped_value_is_inferred(value: str, type_: str) -> None:
    for body in ({"value": sent(value)}, {"value": sent(value), "type": None, "valueInfo": None}):
        typed = read_typed("x", body)
        assert json.loads(shown(typed)) == {"value": json.loads(value), "type": type_, "valueInfo": {}}


def test_untyped_objects_and_lists_are_those_of_java() -> None:
    typed = read_typed("x", {"value": {"a": [1]}})
    info = {"objectTypeName": "java.util.LinkedHashMap", "serializationDataFormat": "application/json"}
    assert json.loads(shown(typed)) == {"value": {"a": [1]}, "type": "Object", "valueInfo": info}
    assert json.loads(shown(typed, deserialize=False)) == {"value": '{"a":[1]}', "type": "Object", "valueInfo": info}
    listed = json.loads(shown(read_typed("x", {"value": []})))
    assert (listed["value"], listed["valueInfo"]["objectTypeName"]) == ([], "java.util.ArrayList")
    big = json.loads(shown(read_typed("x", {"value": sent("12345678901234567890123")})))
    assert (big["value"], big["valueInfo"]["objectTypeName"]) == (12345678901234567890123, "java.math.BigInteger")


def test_a_typed_object_keeps_its_text_and_its_class() -> None:
    info = {"objectTypeName": "com.example.Order", "serializationDataFormat": "application/json"}
    typed = read_typed("x", {"value": '{"b": 2, "a": 1}', "type": "Object", "valueInfo": info})
    assert typed.value == {"b": 2, "a": 1}
    assert json.loads(shown(typed, deserialize=False)) == {
        "value": '{"b": 2, "a": 1}', "type": "Object", "valueInfo": info,
    }  # fmt: skip
    assert json.loads(shown(typed))["value"] == {"b": 2, "a": 1}
    nothing = read_typed("x", {"value": None, "type": "Object", "valueInfo": info})
    assert json.loads(shown(nothing)) == {"value": None, "type": "Object", "valueInfo": info}


def test_a_file_shows_everything_but_its_content() -> None:
    info = {"filename": "a ü.txt", "mimetype": "text/plain", "encoding": "utf-8"}
    typed = read_typed("x", {"value": "aGVsbG8", "type": "File", "valueInfo": info})
    assert typed.content == b"hello"
    assert json.loads(shown(typed)) == {"value": None, "type": "File", "valueInfo": info}


@pytest.mark.parametrize(
    ("body", "value", "type_"),
    [
        ({"value": "5", "type": "Integer"}, 5, "Integer"), ({"value": " -7 ", "type": "Long"}, -7, "Long"),
        ({"value": 5, "type": "String"}, "5", "String"), ({"value": True, "type": "String"}, "true", "String"),
        ({"value": "True", "type": "Boolean"}, True, "Boolean"), ({"value": "1.5", "type": "Double"}, 1.5, "Double"),
        ({"value": "2024-01-02T03:04:05Z", "type": "Date"}, "2024-01-02T03:04:05.000+0000", "Date"),
        ({"value": "2024-01-02T03:04:05.678901+02:00", "type": "Date"}, "2024-01-02T01:04:05.678+0000", "Date"),
        ({"value": "aGV\nsbG8", "type": "Bytes"}, "aGVsbG8=", "Bytes"), (None, None, "Null"), ({}, None, "Null"),
        ({"value": 1, "more": "unknown"}, 1, "Integer"),
    ],
)  # fmt: skip
def test_reading_is_lenient_where_camunda_is(body: Any, value: Any, type_: str) -> None:
    told = json.loads(shown(read_typed("x", body)))
    assert (told["value"], told["type"]) == (value, type_)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"value": 1, "type": "Number"}, "Unsupported value type 'Number'"),
        ({"value": "{}", "type": "JSON"}, "Unsupported value type 'JSON'"),
        ({"value": 1, "type": ""}, "Unsupported value type ''"),
        ({"value": 1, "type": 5}, "Unsupported value type '5'"),
        ({"value": "x", "type": "Integer"},
         "Cannot convert value 'x' of type 'Integer' to java type java.lang.Integer"),
        ({"value": 2147483648, "type": "Integer"}, "Cannot convert value '2147483648'"),
        ({"value": -32769, "type": "Short"}, "Cannot convert"), ({"value": 2**63, "type": "Long"}, "Cannot convert"),
        ({"value": 1.5, "type": "Long"}, "Cannot convert"), ({"value": True, "type": "Integer"}, "Cannot convert"),
        ({"value": [], "type": "Integer"}, "Cannot convert"), ({"value": {}, "type": "String"}, "Cannot convert"),
        ({"value": "yes", "type": "Boolean"}, "Cannot convert"), ({"value": 1, "type": "Boolean"}, "Cannot convert"),
        ({"value": "NaN", "type": "Double"}, "Cannot convert"),
        ({"value": "1e999", "type": "Double"}, "Cannot convert"),
        ({"value": "tomorrow", "type": "Date"}, "Cannot convert"), ({"value": 1, "type": "Date"}, "Cannot convert"),
        ({"value": "0001-01-01T00:00:00+14:00", "type": "Date"}, "Cannot convert"),
        ({"value": "not base64!", "type": "Bytes"}, "Cannot convert"),
        ({"value": "A", "type": "Bytes"}, "Cannot convert"),
        ({"value": "ü", "type": "Bytes"}, "Cannot convert"), ({"value": 1, "type": "Null"}, "non-null"),
        ({"value": {"a": 1}, "type": "Object"}, "Must provide 'null' or String value"),
        ({"value": {"a": 1}, "type": "Json"}, "Must provide 'null' or String value"),
        ({"value": "{", "type": "Json"}, "not valid JSON"), ({"value": "[NaN]", "type": "Json"}, "NaN"),
        ({"value": '"\\u0000"', "type": "Json"}, "NUL"), ({"value": "[" * 200 + "]" * 200, "type": "Json"}, "nested"),
        ({"value": "rO0AB", "type": "Object",
          "valueInfo": {"serializationDataFormat": "application/x-java-serialized-object"}}, "application/json"),
        ({"value": "{}", "type": "Object", "valueInfo": {"objectTypeName": 5}}, "objectTypeName"),
        ({"value": "aGk=", "type": "File"}, "Cannot create file without filename"),
        ({"value": "aGk=", "type": "File", "valueInfo": {"filename": "x", "mimetype": 5}}, "must be texts"),
        ({"value": "%", "type": "File", "valueInfo": {"filename": "x"}}, "Base64"),
        ({"value": 1, "valueInfo": "x"}, "valueInfo"), (5, "must be an object"), ([], "must be an object"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(body: Any, part: str) -> None:
    with pytest.raises(CamundaError) as caught:
        read_typed("x", body)
    assert caught.value.status == 400
    assert part in caught.value.message


def test_names_are_bounded_and_a_long_json_is_too_large() -> None:
    for name in ("", "x" * 256, "a\x00b"):
        with pytest.raises(CamundaError, match="name"):
            read_variables({name: {"value": 1}})
    with pytest.raises(CamundaError, match="characters") as caught:
        read_typed("x", {"value": "[" + " " * (1 << 20) + "]", "type": "Json"})
    assert caught.value.status == 413


def test_only_what_the_json_does_not_say_is_kept_beside_it() -> None:
    variables = read_variables(
        {
            "plain": {"value": "a", "type": "String"}, "same": {"value": 5, "type": "Integer"},
            "long": {"value": 5, "type": "Long"}, "json": {"value": '{"a":[1.5,"x"]}', "type": "Json"},
            "passing": {"value": 1, "type": "Integer", "valueInfo": {"transient": True}},
        }
    )  # fmt: skip
    assert types(variables) == {
        "long": {"type": "Long"}, "json": {"type": "Json"}, "passing": {"transient": True},
    }  # fmt: skip
