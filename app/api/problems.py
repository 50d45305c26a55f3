"""Every refusal over HTTP, as application/problem+json (RFC 9457).

A problem names the field and says what is wrong with it; it never repeats what was sent (it may be a secret) and never
shows SQL. `code` is the word that programs branch on: those of db/errors.py plus the ones of the door below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from db.errors import Refused, Unavailable

MEDIA_TYPE: Final = "application/problem+json"
CODES: Final[Mapping[int, str]] = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "too_many_polls",
    500: "internal",
    503: "unavailable",
}
MOST_ERRORS: Final = 20
"""A batch of 5 000 wrong items is told about the first of them."""


class FieldError(BaseModel):
    """One thing that is wrong, and where: `tasks.3.retries`."""

    field: str
    message: str


class ModelFinding(BaseModel):
    """One thing about one element of a model: an error keeps it from being deployed, a warning does not."""

    resource: str
    severity: str
    element: str | None
    line: int
    message: str


class ProblemBody(BaseModel):
    """What a refused request is answered with."""

    type: str = Field(examples=["urn:celeriac:problem:stale_token"])
    title: str = Field(examples=["Conflict"])
    status: int = Field(examples=[409])
    code: str = Field(examples=["stale_token"])
    detail: str
    field: str | None = None
    task_id: str | None = Field(None, description="idempotency_conflict: the task that has the key")
    errors: list[FieldError] | None = None
    findings: list[ModelFinding] | None = Field(None, description="a deployment: everything that is wrong with it")


class Problem(Exception):
    """Raised anywhere below a route to answer with `status` and a problem body."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        field: str | None = None,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        task_id: str | None = None,
        findings: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or CODES.get(status, "invalid")
        self.field = field
        self.errors = errors
        self.headers = headers
        self.task_id = task_id
        self.findings = findings

    def response(self) -> Response:
        body: dict[str, Any] = {
            "type": f"urn:celeriac:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.field is not None:
            body["field"] = self.field
        if self.task_id is not None:
            body["task_id"] = self.task_id
        if self.errors:
            body["errors"] = [{"field": field, "message": message} for field, message in self.errors]
        if self.findings:
            body["findings"] = list(self.findings)
        return Response(orjson.dumps(body), status_code=self.status, headers=self.headers, media_type=MEDIA_TYPE)


def unauthorized() -> Problem:
    """The one answer to every failed authentication, whatever was wrong with it."""
    return Problem(401, "a valid API key or token is needed", headers={"WWW-Authenticate": 'Bearer realm="celeriac"'})


def invalid_fields(found: Sequence[Mapping[str, Any]]) -> Problem:
    """pydantic's errors as a problem: 413 when a payload is too large, else 422."""
    errors = [(field_name(error["loc"]), _sentence(error)) for error in found[:MOST_ERRORS]]
    too_large = all(error["type"] == "too_large" for error in found)
    detail = f"{errors[0][0]}: {errors[0][1]}" if errors[0][0] else errors[0][1]
    named = [(field, message) for field, message in errors if field]
    return Problem(413 if too_large else 422, detail, field=errors[0][0] or None, errors=named)


def field_name(location: Sequence[str | int]) -> str:
    """("tasks", 3, "retries") as `tasks.3.retries`; long or unprintable names are shortened and escaped."""
    return ".".join(_shown(part) for part in location)


def _shown(part: str | int) -> str:
    text = str(part)[:64]
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _sentence(error: Mapping[str, Any]) -> str:
    """pydantic's message; only ours and its fixed ones, none of which holds the input."""
    if error["type"] in ("model_type", "dict_type"):
        return "must be a JSON object"  # pydantic's names our class
    message: str = error["msg"]
    return message.removeprefix("Value error, ")


def from_refusal(refused: Refused) -> Problem:
    """What the authority refused, under its own code."""
    return Problem(
        refused.status,
        refused.message,
        code=refused.code,
        field=refused.field and re.sub(r"\[(\d+)\]", r".\1", refused.field),
        task_id=refused.detail.get("task_id"),
    )


def unavailable() -> Problem:
    return Problem(503, "the database cannot be reached or takes no writes", headers={"Retry-After": "1"})


def install(app: FastAPI) -> None:
    """Make every error that leaves a route a problem."""

    async def on_problem(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return error.response()

    async def on_refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return from_refusal(error).response()

    async def on_unavailable(_: Request, error: Exception) -> Response:
        return unavailable().response()

    async def on_invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # FastAPI puts "query" or "path" in front of the name.
        return invalid_fields([found | {"loc": found["loc"][1:]} for found in error.errors()]).response()

    async def on_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = {404: "there is nothing at this address", 405: "this address does not know that method"}
        return Problem(error.status_code, detail.get(error.status_code, error.detail), headers=error.headers).response()

    async def on_fault(_: Request, error: Exception) -> Response:
        return Problem(500, "something went wrong on our side; the log says what").response()

    app.add_exception_handler(Problem, on_problem)
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(Unavailable, on_unavailable)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_fault)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI entries for problem answers of these statuses."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
        }
        for status in statuses
    }


BODY_REFUSALS: Final = documented(400, 401, 403, 408, 413, 415, 422, 503)
"""What any route with a body may answer."""
