"""Typed values of Camunda 7: `{"value", "type", "valueInfo"}` in, what the engine computes with, and out again.

    request ──read_variables──► Typed ──save_files──► plain(), types() ──► SQL ──► rows ──show──► answer

A value is stored as the JSON that expressions can use. Its type is stored beside it where the JSON does not say it, and
the text of a Json or Object where writing the JSON again would give another one. What does not fit is refused with 400.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api import strict_json
from app.api.strict_json import ExactFloat
from app.camunda.errors import CamundaError, invalid, refused
from app.camunda.moments import read_moment, shown
from db import call

LONGEST_NAME: Final = 255
"""Characters that a variable's name may have, as in Camunda 7."""
LONGEST_CLASS: Final = 1000
LONGEST_TEXT: Final = 1 << 20
"""Characters that a Json or Object may have whose text is kept."""
BITS: Final = {"Short": 16, "Integer": 32, "Long": 64}
JAVA: Final = {
    "String": "java.lang.String", "Integer": "java.lang.Integer", "Short": "java.lang.Short", "Long": "java.lang.Long",
    "Double": "java.lang.Double", "Boolean": "java.lang.Boolean", "Date": "java.util.Date", "Bytes": "[B",
}  # fmt: skip
TYPES: Final = frozenset({*JAVA, "Null", "File", "Object", "Json", "Xml"})
MAP: Final = "java.util.LinkedHashMap"
LIST: Final = "java.util.ArrayList"
BIG: Final = "java.math.BigInteger"
JSON_FORMAT: Final = "application/json"

_WHOLE: Final = re.compile(r"\s*([+-]?\d{1,30})\s*", re.ASCII)
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d{0,308})(\.\d{1,400})?([eE][+-]?\d{1,3})?", re.ASCII)
_PLAIN_FRACTION: Final = re.compile(r"-?\d+\.\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Typed:
    """One value. `type` None: the JSON of `value` says it. `content`: the bytes of a File that is not stored yet."""

    value: Any
    type: str | None = None
    info: Mapping[str, str] | None = None
    transient: bool = False
    content: bytes | None = None


def read_variables(sent: Mapping[str, Any]) -> dict[str, Typed]:
    """Named typed values of a request."""
    return {read_name(name): _read_named(name, one) for name, one in sent.items()}


def _read_named(name: str, sent: Any) -> Typed:
    """As read_typed. Camunda's messages do not say which variable is wrong, and programs read them: it is beside."""
    try:
        return read_typed(name, sent)
    except CamundaError as wrong:
        raise CamundaError(wrong.status, wrong.type, wrong.message, code=wrong.code, variable=name) from None


def read_name(name: str) -> str:
    """A variable's name, as it is; 400 for one that cannot be stored."""
    if not name or len(name) > LONGEST_NAME or "\x00" in name:
        raise invalid(f"a variable's name must have 1 to {LONGEST_NAME} characters, and no NUL")
    return name


def read_typed(name: str, sent: Any) -> Typed:
    """One `{value, type, valueInfo}`; nothing (null) is the value null."""
    if sent is None:
        return Typed(None)
    if not isinstance(sent, dict):
        raise invalid(f"variable {name} must be an object with value, type and valueInfo")
    type_, info = sent.get("type"), sent.get("valueInfo")
    if info is None:
        info = {}
    elif not isinstance(info, dict):
        raise invalid(f"valueInfo of variable {name} must be an object")
    typed = _untyped(sent.get("value")) if type_ is None else _read(_type_named(type_), sent.get("value"), info)
    return replace(typed, transient=True) if info.get("transient") in (True, "true") else typed


def file_of(filename: str, content: bytes, mimetype: str | None = None, encoding: str | None = None) -> Typed:
    """A File with these bytes."""
    if not filename:
        raise invalid("Cannot create file without filename! Please set a name into ValueInfo with key filename")
    if any(one is not None and (len(one) > LONGEST_NAME or "\x00" in one) for one in (filename, mimetype, encoding)):
        raise invalid(f"filename, mimetype and encoding have at most {LONGEST_NAME} characters, and no NUL")
    value = {"filename": filename, "mimetype": mimetype, "encoding": encoding}
    return Typed(value, "File", content=content)


def read_object(text: str | None, name: str | None) -> Typed:
    """An Object from its JSON, with the name of its class."""
    if name is not None and (len(name) > LONGEST_CLASS or "\x00" in name):
        raise invalid(f"objectTypeName has at most {LONGEST_CLASS} characters, and no NUL")
    kept = {"objectTypeName": name} if name else {}
    return Typed(None, "Object", kept) if text is None else _read_json(text, "Object", kept)


def plain(variables: Mapping[str, Typed]) -> call.Json:
    """The values alone, as SQL functions take them."""
    return call.Json(strict_json.dumps({name: one.value for name, one in variables.items()}))


def types(variables: Mapping[str, Typed]) -> dict[str, dict[str, Any]]:
    """What the values alone do not say: `{name: {"type", "info", "transient"}}` of those where there is something."""
    return {
        name: {
            key: said
            for key, said in (("type", one.type), ("info", one.info), ("transient", one.transient))
            if said
        }
        for name, one in variables.items()
        if one.type or one.info or one.transient
    }  # fmt: skip


async def save_files(
    connection: AsyncConnection, instance_id: str | None, variables: Mapping[str, Typed]
) -> dict[str, Typed]:
    """The same variables, the contents of Files stored, in the caller's transaction.

    `instance_id` None: it is not known yet; the instance that such a value comes to keeps the file.
    """
    saved = dict(variables)
    for name, one in variables.items():
        if one.content is not None:
            row = await call.aone(connection, "store_file", content=one.content, instance_id=instance_id)
            saved[name] = replace(one, value={"file": str(row[0]), **one.value}, content=None)
    return saved


def show(json_text: str, type_: str | None, info: Mapping[str, Any] | str | None, deserialize: bool) -> dict[str, Any]:
    """A stored value as answers have it: always value, type, valueInfo.

    `json_text` is the jsonb as the database writes it. `deserialize`: an Object's value as JSON, else as text of it.
    """
    known: Mapping[str, Any] = orjson.loads(info) if isinstance(info, str) else (info or {})
    type_ = type_ or _type_said_by(json_text)
    if type_ == "File":
        return _typed(None, "File", _file_info(json_text))
    if type_ == "Object":
        return _typed(_object_shown(json_text, known, deserialize), "Object", _object_info(json_text, known))
    if type_ == "Json" and "text" in known:
        return _typed(known["text"], type_, {})
    if json_text == "null":
        return _typed(None, type_, {})
    if type_ == "Json":
        return _typed(_rewritten(json_text), type_, {})
    if type_ == "Double":
        return _typed(orjson.Fragment(known.get("text") or _double_shown(json_text)), type_, {})
    return _typed(orjson.Fragment(json_text), type_, {})


# Reading


def _type_named(given: Any) -> str:
    if isinstance(given, str) and (type_ := given[:1].upper() + given[1:]) in TYPES:
        return type_
    raise refused(f"Unsupported value type '{str(given)[:64]}'")


def _untyped(value: Any) -> Typed:
    """What Camunda 7 infers: what `show` infers from the JSON, but for fractions that are stored as whole numbers."""
    return _double(value) if isinstance(value, float) else Typed(value)


def _read(type_: str, value: Any, info: Mapping[str, Any]) -> Typed:
    if type_ == "Null":
        if value is not None:
            raise invalid("Cannot set non-null value for type null")
        return Typed(None)
    if type_ == "File":
        return _read_file(value, info)
    if type_ == "Object":
        return _read_object(value, info)
    if value is None:
        return Typed(None, type_)
    if type_ in ("Json", "Xml"):
        if not isinstance(value, str):
            raise invalid(f"Must provide 'null' or String value for value of SerializableValue type '{type_}'.")
        return Typed(value, "Xml") if type_ == "Xml" else _read_json(value, "Json", {})
    try:
        return READ[type_](type_, value)
    except ValueError:
        raise _unfit(type_, value) from None


def _read_text(type_: str, value: Any) -> Typed:
    if isinstance(value, bool):
        return Typed(str(value).lower())
    if isinstance(value, str | int | float):
        return Typed(str(getattr(value, "text", value)))
    raise ValueError


def _read_whole(type_: str, value: Any) -> Typed:
    found = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    number = int(found[1]) if found else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError
    half = 1 << (BITS[type_] - 1)
    if not -half <= number < half:
        raise ValueError
    said = "Integer" if -(1 << 31) <= number < 1 << 31 else "Long"
    return Typed(number, None if said == type_ else type_)


def _read_double(type_: str, value: Any) -> Typed:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = ExactFloat(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise ValueError
    return _double(value)


def _read_boolean(type_: str, value: Any) -> Typed:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        value = value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError
    return Typed(value)


def _read_date(type_: str, value: Any) -> Typed:
    if not isinstance(value, str):
        raise ValueError
    try:
        return Typed(shown(read_moment(value, "value")), "Date")
    except CamundaError:
        raise ValueError from None


def _read_bytes(type_: str, value: Any) -> Typed:
    return Typed(base64.b64encode(_decoded(value)).decode(), "Bytes")


def _read_file(value: Any, info: Mapping[str, Any]) -> Typed:
    told = {name: info.get(name) for name in ("filename", "mimetype", "encoding")}
    if any(not (one is None or isinstance(one, str)) for one in told.values()):
        raise invalid("filename, mimetype and encoding must be texts")
    try:
        content = b"" if value is None else _decoded(value)
    except ValueError:
        raise invalid("the value of a File must be Base64 text") from None
    return file_of(told["filename"] or "", content, told["mimetype"], told["encoding"])


def _read_object(value: Any, info: Mapping[str, Any]) -> Typed:
    """Objects are kept as JSON: nobody but Java could read Java's own format."""
    format_ = info.get("serializationDataFormat") or JSON_FORMAT
    if format_ != JSON_FORMAT:
        raise invalid(f"Objects are kept as {JSON_FORMAT} here, not as {str(format_)[:64]}")
    if not (value is None or isinstance(value, str)):
        raise invalid("Must provide 'null' or String value for value of SerializableValue type 'Object'.")
    name = info.get("objectTypeName")
    if not (name is None or isinstance(name, str)):
        raise invalid("objectTypeName must be a text")
    return read_object(value, name)


def _read_json(text: str, type_: str, info: Mapping[str, str]) -> Typed:
    if len(text) > LONGEST_TEXT:
        raise CamundaError(413, "RestException", f"a value of type {type_} has at most {LONGEST_TEXT} characters")
    try:
        value = strict_json.loads(text.encode())
    except strict_json.RefusedJson as wrong:
        raise invalid(f"the value of type {type_} is no JSON that can be kept: {wrong.reason}") from None
    if _comes_back(text, value):
        return Typed(value, type_, info or None)
    return Typed(value, type_, {**info, "text": text})


def _double(value: float) -> Typed:
    text = strict_json.dumps(value)
    if _PLAIN_FRACTION.fullmatch(text):
        # The database has no zero below zero.
        return Typed(value, "Double", {"text": text}) if not value and text[0] == "-" else Typed(value)
    return Typed(value, "Double")


def _decoded(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError
    text = "".join(value.split()).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError from None


def _unfit(type_: str, value: Any) -> CamundaError:
    text = str(getattr(value, "text", value))[:100]
    return invalid(f"Cannot convert value '{text}' of type '{type_}' to java type {JAVA[type_]}")


READ: Final = {
    "String": _read_text, "Short": _read_whole, "Integer": _read_whole, "Long": _read_whole, "Double": _read_double,
    "Boolean": _read_boolean, "Date": _read_date, "Bytes": _read_bytes,
}  # fmt: skip


# Showing


def _typed(value: Any, type_: str, info: Mapping[str, Any]) -> dict[str, Any]:
    return {"value": value, "type": type_, "valueInfo": info}


def _type_said_by(json_text: str) -> str:
    match json_text[0]:
        case '"':
            return "String"
        case "{" | "[":
            return "Object"
        case "t" | "f":
            return "Boolean"
        case "n":
            return "Null"
    if not json_text.lstrip("-").isdecimal():
        return "Double"
    if len(json_text) > 20:
        return "Object"
    number = int(json_text)
    if -(1 << 31) <= number < 1 << 31:
        return "Integer"
    return "Long" if -(1 << 63) <= number < 1 << 63 else "Object"


def _object_shown(json_text: str, info: Mapping[str, Any], deserialize: bool) -> Any:
    if deserialize:
        return orjson.Fragment(json_text)
    if "text" in info:
        return info["text"]
    return None if json_text == "null" else _rewritten(json_text)


def _object_info(json_text: str, info: Mapping[str, Any]) -> dict[str, Any]:
    said = {"{": MAP, "[": LIST, '"': JAVA["String"], "t": JAVA["Boolean"], "f": JAVA["Boolean"]}
    inferred = said.get(json_text[0], BIG if json_text.lstrip("-").isdecimal() else JAVA["Double"])
    name = info.get("objectTypeName") or (None if json_text == "null" else inferred)
    return {"objectTypeName": name, "serializationDataFormat": JSON_FORMAT}


def _file_info(json_text: str) -> dict[str, Any]:
    value = orjson.loads(json_text)
    return {name: value[name] for name in ("filename", "mimetype", "encoding") if value.get(name) is not None}


def _double_shown(json_text: str) -> str:
    """A whole number as a fraction; the digits of one that has a point are left as they are."""
    if not json_text.lstrip("-").isdecimal() or len(json_text) > 309:
        return json_text
    return f"{json_text}.0" if len(json_text) < 16 else repr(float(json_text))


def _rewritten(json_text: str) -> str:
    """The text of a Json that has no text of its own: that of the database, without its spaces."""
    try:
        return strict_json.dumps(strict_json.loads(json_text.encode()))
    except strict_json.RefusedJson:
        return json_text  # SQL takes larger numbers than any face of ours


def _comes_back(text: str, value: Any) -> bool:
    """Whether `_rewritten` would give this very text after the database has sorted the keys and read the numbers.

    Without a text of its own, null is no value at all.
    """
    return value is not None and text == strict_json.dumps(_as_stored(value)) and _keeps_numbers(value)


def _as_stored(value: Any) -> Any:
    if isinstance(value, dict):
        pairs = sorted(((key.encode(), key) for key in value), key=lambda pair: (len(pair[0]), pair[0]))
        return {key: _as_stored(value[key]) for _, key in pairs}
    return [_as_stored(one) for one in value] if isinstance(value, list) else value


def _keeps_numbers(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(_keeps_numbers(one) for one in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or (value != 0 and bool(_PLAIN_FRACTION.fullmatch(strict_json.dumps(value))))
