"""Answers of /engine-rest: JSON with the very Content-Type that its clients compare, dates in Camunda's pattern."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from starlette.responses import Response

from app.camunda.moments import shown

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


class CamundaJson(Response):
    """Content that is JSON bytes already; no charset, or the JavaScript client reads nothing."""

    media_type = "application/json"


def answer(value: Any, status: int = 200) -> Response:
    """`value` as JSON. Raw JSON text of the database goes in as `orjson.Fragment`."""
    return CamundaJson(orjson.dumps(value, _written, _OPTIONS), status)


def done() -> Response:
    """204, exactly: what else says success is a failure to some clients."""
    return Response(status_code=204)


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return shown(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(type(value).__name__)
