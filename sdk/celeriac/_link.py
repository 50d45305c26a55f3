"""What both clients share: where the server is, how to read its answers, and when to ask again. No I/O here."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import httpx

from celeriac import _clock, _json
from celeriac._backoff import Backoff
from celeriac._requests import Answer, Request
from celeriac.errors import (
    CeleriacError,
    ConnectionFailed,
    ServerUnavailable,
    TooLarge,
    UnexpectedAnswer,
    from_problem,
)

T = TypeVar("T")

VERSION: Final = "0.1.0"
ANSWER_SECONDS: Final = 10.0
"""How long the server may take to answer, on top of the time a poll may wait."""
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Link:
    """The settings of a client; see Client for what they mean."""

    url: str
    key: str | None = field(default=None, repr=False)
    patience_seconds: float = 30.0
    backoff: Backoff = field(default_factory=Backoff)
    connect_seconds: float = 5.0
    decoder: json.JSONDecoder = field(default_factory=_json.decoder)
    verify: ssl.SSLContext | bool = True
    transport: Any = None

    def __post_init__(self) -> None:
        if httpx.URL(self.url).scheme not in ("http", "https"):
            raise ValueError(f"the server's address must begin with http:// or https://, not {self.url!r}")

    def options(self) -> dict[str, Any]:
        """The arguments of an httpx client, blocking or not."""
        headers = {"User-Agent": f"celeriac/{VERSION}", "Accept": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key.strip()}"
        # Idle connections go before a server that keeps them for 5 s (uvicorn's default) closes them under a request.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0)
        return {
            "base_url": self.url,
            "headers": headers,
            "limits": limits,
            "transport": self.transport,
            "verify": self.verify,
        }

    def arguments(self, request: Request[Any], answer_seconds: float | None = None) -> dict[str, Any]:
        """The arguments of httpx's `request`."""
        seconds = request.wait_ms / 1000 + (answer_seconds or ANSWER_SECONDS)
        return {
            "method": request.method,
            "url": request.path,
            "content": request.body,
            "params": request.query or None,
            "headers": {"Content-Type": request.content_type} if request.body is not None else None,
            "timeout": httpx.Timeout(seconds, connect=min(self.connect_seconds, seconds)),
        }

    def conclude(self, request: Request[T], response: httpx.Response) -> T:
        """The result of an answered request; raises what the answer stands for."""
        if not response.is_success:
            raise self._error_of(response)
        if request.is_text:
            body: Any = response.text
        else:
            body = _json.decode(response.content, self.decoder) if response.content else None
        try:
            return request.read(Answer(response.status_code, body, _lower(response.headers)))
        except (KeyError, TypeError, ValueError) as error:
            what = f"the answer to {request.method} {request.path} lacks something: {error!r}"
            raise UnexpectedAnswer(what) from error

    def _error_of(self, response: httpx.Response) -> CeleriacError:
        status = response.status_code
        problem = _problem_in(response)
        if status >= 500 or status in (408, 429):
            text = problem.get("detail") or response.reason_phrase
            return ServerUnavailable(
                f"the server answered {status}: {text}", status=status, retry_after_seconds=_retry_after(response)
            )
        if problem:
            return from_problem(status, problem)
        # Refusals of whatever stands in front of the server. A 404 of an ingress says nothing about a task.
        if status == 413:
            return TooLarge("a proxy in front of the server refuses a body of this size", status=status)
        return UnexpectedAnswer(f"the answer of status {status} is not Celeriac's (is {self.url} the right address?)")


class Patience:
    """Decides after each failed try of one call whether and when to try again."""

    def __init__(self, request: Request[Any], backoff: Backoff, seconds: float) -> None:
        self._request = request
        self._backoff = backoff
        self._deadline = _clock.now() + seconds
        self._failures = 0

    def pause_after(self, error: CeleriacError) -> float:
        """Seconds to wait before the next try; raises `error` when there is to be none."""
        self._failures += 1
        pause = max(self._backoff.pause(self._failures), _asked_for(error))
        if not may_repeat(self._request, error) or _clock.now() + pause >= self._deadline:
            raise error
        return pause


def may_repeat(request: Request[Any], error: CeleriacError) -> bool:
    """Whether sending the request again cannot do its work twice."""
    if isinstance(error, ConnectionFailed):
        return request.repeatable or not error.sent
    if isinstance(error, ServerUnavailable):
        turned_away = error.status == 429 or (error.status == 503 and error.retry_after_seconds is not None)
        return request.repeatable or turned_away
    return False


def lost(error: httpx.RequestError) -> ConnectionFailed:
    """What a failure of the transport means to the caller."""
    sent = not isinstance(error, _NOT_SENT)
    what = "no answer came" if sent else "the server cannot be reached"
    return ConnectionFailed(f"{what}: {type(error).__name__}: {error}".rstrip(": "), sent=sent)


def _problem_in(response: httpx.Response) -> Mapping[str, Any]:
    if "json" not in response.headers.get("content-type", ""):
        return {}
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) and "code" in problem else {}


def _retry_after(response: httpx.Response) -> float | None:
    # The other form of the header, a date, would compare our clock with the server's.
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _asked_for(error: CeleriacError) -> float:
    return (error.retry_after_seconds or 0.0) if isinstance(error, ServerUnavailable) else 0.0


def _lower(headers: httpx.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
