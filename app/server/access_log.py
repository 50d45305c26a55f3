"""One line a request, and its duration to the instruments. Names and ids only: no query string, no header, no body.

A plain ASGI middleware, since it must not touch the body nor hold the response.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("celeriac.access")


class AccessLog:
    """Measures everything below it. A response that never started counts as 499: the client had left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 499

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            _note(scope, status, time.perf_counter() - started)


def _note(scope: Scope, status: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", "(none)")
    scope["app"].state.parts.instruments.requests.labels(scope["method"], route, status).observe(seconds)
    if log.isEnabledFor(logging.INFO):
        log.info("%s %s %d %.1f ms%s", scope["method"], route, status, seconds * 1000, _asker(scope.get("state", {})))


def _asker(state: dict[str, Any]) -> str:
    principal = state.get("principal")
    if principal is None:
        return ""
    shown = principal.key_id or ("none" if principal.expires_at is None else "jwt")
    return f" principal={principal.name!r} key={shown}"
