"""JSON answers, written by orjson straight to bytes. Payloads are spliced in as the text the database gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from starlette.responses import Response

_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


class JsonAnswer(Response):
    """Content that is JSON bytes already."""

    media_type = "application/json"


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JsonAnswer(orjson.dumps(value, option=_OPTIONS), status, headers)


def splice(value: dict[str, Any], payloads: Iterable[str]) -> dict[str, Any]:
    """The same row, its jsonb columns (text) put in untouched: numbers keep their digits."""
    for name in payloads:
        text = value.get(name)
        if text is not None:
            value[name] = orjson.Fragment(text)
    return value
