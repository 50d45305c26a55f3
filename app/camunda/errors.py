"""Refusals as Camunda 7 words them: `{"type", "message", "code"}`, for programs that look at nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.responses import Response

from app.api.problems import Problem, from_refusal
from db.errors import Refused

ENGINE: Final = 0
"""The code of every exception of Camunda's engine that has none of its own; exceptions of its REST layer have null."""

_SNAKE: Final = re.compile(r"(?<=[a-z])_([a-z])")


class CamundaError(Exception):
    """Raised anywhere below a route of this face. `more`: fields that some types have beside the three."""

    def __init__(
        self,
        status: int,
        type_: str,
        message: str,
        *,
        code: int | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type_
        self.message = message
        self.code = code
        self.headers = headers
        self.more = more

    def within(self, cannot: str, type_: str | None = None) -> CamundaError:
        """The same, as a route says it that could not do something because of it; `type_`: as an error of its own."""
        code = self.code if type_ is None else None
        return CamundaError(self.status, type_ or self.type, f"{cannot}: {self.message}", code=code, **self.more)

    def response(self) -> Response:
        if self.status == 401:
            return Response(status_code=401, headers=self.headers)
        body = {"type": self.type, "message": self.message, "code": self.code, **self.more}
        return Response(orjson.dumps(body), self.status, self.headers, media_type="application/json")


def invalid(message: str, status: int = 400) -> CamundaError:
    """400: the request itself is wrong. Or 404: it is about what is not there."""
    return CamundaError(status, "InvalidRequestException", message)


def refused(message: str, status: int = 400) -> CamundaError:
    """400, or another status, with which Camunda's REST layer passes on what its engine refused."""
    return CamundaError(status, "RestException", message, code=ENGINE)


def from_problem(problem: Problem) -> CamundaError:
    """A refusal of what both faces share."""
    types = {403: "AuthorizationException", 429: "InvalidRequestException", 500: "ProcessEngineException"}
    status = 400 if problem.status == 422 else problem.status
    basic = {"WWW-Authenticate": 'Basic realm="celeriac"'} if status == 401 else problem.headers
    type_ = types.get(status, "InvalidRequestException" if status == 400 else "RestException")
    return CamundaError(status, type_, problem.detail, code=ENGINE if status == 403 else None, headers=basic)


def from_refused(refusal: Refused, names: Mapping[str, str] | None = None) -> CamundaError:
    """What the authority refused and no route has worded: 404 as it is, everything else 400.

    `names`: what fields of the authority's are called in the request, where that is more than another spelling.
    """
    problem = from_refusal(refusal)
    if problem.status in (403, 404, 413):
        return from_problem(problem)
    detail, field = problem.detail, refusal.field or ""
    for ours, theirs in (names or {}).items():
        detail, field = (re.sub(rf"\b{ours}\b", theirs, text) for text in (detail, field))
    detail, field = (_SNAKE.sub(lambda found: found[1].upper(), text) for text in (detail, field))
    return refused(detail if field in detail else f"{field}: {detail}")


def unavailable() -> CamundaError:
    """503: clients try again later."""
    message = "the database cannot be reached or takes no writes"
    return CamundaError(503, "ProcessEngineException", message, code=ENGINE, headers={"Retry-After": "1"})
