"""GET /health/live and /health/ready. Ready means: Postgres is there, takes writes and is migrated.

A check runs every CHECK_SECONDS beside the requests, so asking costs nothing and a database that hangs cannot make the
answer hang. Redis only rings the bell: without it the process is still ready, and says that it is slower.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from sqlalchemy.exc import ProgrammingError
from starlette.requests import Request
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer
from app.api.database import Database
from db.errors import Unavailable

CHECK_SECONDS: Final = 4.0
CHECK_TIMEOUT_SECONDS: Final = 3.0
STALE_SECONDS: Final = 8.0

router = APIRouter(prefix="/health", tags=["running it"])


@dataclass(frozen=True)
class Findings:
    """What the last check found: "ok", or a word for what is wrong."""

    database: str
    redis: str
    at: float

    @property
    def is_ready(self) -> bool:
        return self.database in ("ok", "other_release") and time.monotonic() - self.at < STALE_SECONDS


class Readiness:
    """Checks again and again; `findings` is the last result."""

    def __init__(self, check_database: Callable[[], Awaitable[str]], check_redis: Callable[[], Awaitable[str]]) -> None:
        self._check_database = check_database
        self._check_redis = check_redis
        self.findings = Findings("starting", "starting", float("-inf"))

    async def check(self) -> None:
        database, redis = await asyncio.gather(_in_time(self._check_database), _in_time(self._check_redis))
        self.findings = Findings(database, redis, time.monotonic())

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)


async def check_database(database: Database, code_hash: str) -> str:
    """Whether Postgres can serve this release: there, migrated, primary and writable.

    "other_release" is still ready: while releases overlap, the old processes must go on with the functions of the new.
    """
    try:
        rows = await database.view("select in_recovery, read_only, code_hash from celeriac.health")
    except Unavailable:
        return "unavailable"
    except ProgrammingError:
        return "not_migrated"
    if not rows:
        return "not_migrated"
    if rows[0].in_recovery or rows[0].read_only:
        return "read_only"
    return "ok" if rows[0].code_hash == code_hash else "other_release"


async def _in_time(check: Callable[[], Awaitable[str]]) -> str:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
            return await check()
    except TimeoutError:
        return "timeout"


@router.get("/live", response_model=answers_of.Live)
async def live() -> Response:
    """The process runs."""
    return answer({"status": "live"})


@router.get("/ready", response_model=answers_of.Ready, responses={503: {"model": answers_of.Ready}})
async def ready(request: Request) -> Response:
    """503 when Postgres is gone, read-only or not migrated. `redis: degraded` costs latency only and is still ready."""
    findings: Findings = request.app.state.parts.readiness.findings
    body = {
        "status": "ready" if findings.is_ready else "unavailable",
        "database": findings.database,
        "redis": findings.redis,
    }
    return answer(body, 200 if findings.is_ready else 503)
