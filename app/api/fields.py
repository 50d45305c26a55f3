"""The kinds of fields that requests share: names, durations, counts, ids, times, payloads. "1" is no number here."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.api import strict_json

LARGEST_PAYLOAD_BYTES: Final = 1 << 20
LONGEST_LEASE_MS: Final = 2_592_000_000
LONGEST_DELAY_MS: Final = 3_155_760_000_000
LARGEST_INTEGER: Final = 2**31 - 1
LARGEST_BIGINT: Final = 2**63 - 1
MOST_TASKS: Final = 1000
MOST_TASK_TYPES: Final = 200
MOST_ENQUEUED: Final = 5000
LONGEST_ERROR: Final = 1 << 16
"""Longer error texts are refused; what is over 8 KiB is cut by the authority."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Years that Python reads back whatever the zone (not 9999-12-31 in the west), and offsets that Postgres takes.
_TIME: Final = re.compile(
    r"(19[7-9][0-9]|2[0-9]{3})-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-](0[0-9]|1[0-5]):[0-5][0-9])"
)


class Strict(BaseModel):
    """A request body: unknown fields are refused, nothing is coerced, errors do not hold the input."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def _name(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("not_printable", "must hold printable characters only")
    if text[0] == " " or text[-1] == " ":
        raise PydanticCustomError("not_trimmed", "must not start or end with a space")
    return text


def _type_name(text: str) -> str:
    if "*" in text:
        raise PydanticCustomError("wildcard", "must be the name of one task type, without *")
    return text


def _uuid(value: Any) -> Any:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value.lower()
    raise PydanticCustomError("not_uuid", "must be a UUID")


def _time(value: Any) -> Any:
    """RFC 3339 with a zone; kept as text, since the database reads it as exactly as it was written."""
    if isinstance(value, str) and _TIME.fullmatch(value):
        try:
            datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", value.upper().replace("Z", "+00:00")))
        except ValueError:
            pass
        else:
            return value
    raise PydanticCustomError("not_time", "must be a time from 1970 to 2999 with a zone, such as 2031-05-01T12:00:00Z")


def _digits(value: Any) -> Any:
    """A number in an address is text: digits, and not all that Python's int takes (`1_0`, `+5`, ` 5`)."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]{1,9}", value):
        raise PydanticCustomError("not_digits", "must be a whole number in digits")
    return value


def _payload(value: Any) -> Any:
    """The JSON text of an object. Turned into text at once, so that no tree outlives the parsing of its request."""
    if not isinstance(value, dict):
        raise PydanticCustomError("not_object", "must be a JSON object")
    return _json_text(value)


def _json_text(value: Any) -> Any:
    """Any JSON as its text; null stays None."""
    if value is None:
        return None
    text = strict_json.dumps(value)
    if len(text) > LARGEST_PAYLOAD_BYTES or (not text.isascii() and len(text.encode()) > LARGEST_PAYLOAD_BYTES):
        raise PydanticCustomError("too_large", f"must not be larger than {LARGEST_PAYLOAD_BYTES} bytes of JSON")
    return text


Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_name)]
"""A worker, a business key, an idempotency key: 1 to 255 printable characters without surrounding space."""

TaskType = Annotated[Name, AfterValidator(_type_name)]

TypePattern = Name
"""A task type, or a pattern with `*` for any run of characters."""

Id = Annotated[str, BeforeValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"})]

Time = Annotated[
    str,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2031-05-01T12:00:00Z"]}),
]

Payload = Annotated[
    str,
    BeforeValidator(_payload),
    WithJsonSchema({"type": "object", "additionalProperties": True, "examples": [{"order": 17}]}),
]
"""A JSON object of at most 1 MiB; the model holds its JSON text."""

JsonText = Annotated[
    str | None, BeforeValidator(_json_text), WithJsonSchema({"description": "Any JSON of at most 1 MiB"})
]
"""Any JSON of at most 1 MiB; the model holds its JSON text, and None for null."""

Digits = Annotated[int, BeforeValidator(_digits)]
"""A whole number in an address."""

FencingToken = Annotated[int, Field(ge=1, le=LARGEST_BIGINT)]
LeaseMs = Annotated[int, Field(ge=1, le=LONGEST_LEASE_MS)]
DelayMs = Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)]
Counted = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
ErrorText = Annotated[str, Field(max_length=LONGEST_ERROR)]
