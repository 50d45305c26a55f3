"""Fetching with patience: claim, and if there is nothing wait at the hub, with no database connection in the hand.

Before a lease is handed out after a wait, two things are asked again: is the client still there, and is its key still
good. A client that left while the claim ran has its tasks released at once, with the attempt given back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row
from starlette.types import Receive

from app.api.door import Call
from app.api.hub import Place
from app.api.problems import Problem
from app.api.rights import demand, demand_types
from db import call as authority
from db.call import Json
from db.errors import Refused, Unavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wanted:
    """What a poll asks for; `versions` is JSON text."""

    worker_id: str
    task_types: tuple[str, ...]
    max_tasks: int
    lock_duration_ms: int | None
    versions: str | None


@dataclass(frozen=True)
class Taken:
    """Tasks under a lease, and how long the poll had waited when it began to take them.

    A worker counts a lease from when it sent the poll plus this wait: by its own clock, and never too long.
    """

    tasks: Sequence[Row[Any]]
    waited_ms: int


async def fetch_patiently(call: Call, wanted: Wanted, wait_seconds: float) -> Taken:
    """Tasks under a lease; none when there was no work until `wait_seconds` were over."""
    began_at = time.monotonic()
    if wait_seconds == 0:
        tasks, claimed_at = await _claim(call, wanted, place=None)
    else:
        kind = (wanted.task_types, wanted.versions)
        place = Place(wanted.task_types, wanted.max_tasks, kind, picky=wanted.versions is not None)
        async with _waiting(call, place):
            tasks, claimed_at = await _claim_or_wait(call, wanted, place, began_at + wait_seconds)
    return Taken(tasks, waited_ms=int((claimed_at - began_at) * 1000))


async def _claim_or_wait(call: Call, wanted: Wanted, place: Place, deadline: float) -> tuple[Sequence[Row[Any]], float]:
    """The tasks, and when (monotonic seconds) the claim that found them began."""
    hub = call.parts.hub
    claimed_at = time.monotonic()
    while not hub.closed and not place.client_gone:
        tasks, claimed_at = await _claim(call, wanted, place)
        hub.settle(place, len(tasks))
        if tasks and place.client_gone:
            await _give_back(call, wanted.worker_id, tasks)
            break
        if tasks or not await place.woken(deadline - time.monotonic()):
            return tasks, claimed_at
        await _ask_again(call, wanted)
    return (), claimed_at


async def _claim(call: Call, wanted: Wanted, place: Place | None) -> tuple[Sequence[Row[Any]], float]:
    """Tasks, and when (monotonic seconds) there was a connection to ask for them: no lease began before."""
    async with call.parts.database.connection() as connection:
        claimed_at = time.monotonic()
        if place is not None and place.client_gone:  # it may have left while we waited for the connection
            return (), claimed_at
        tasks = await authority.arows(
            connection,
            "fetch_tasks",
            worker_id=wanted.worker_id,
            task_types=list(wanted.task_types),
            max_tasks=wanted.max_tasks,
            lock_duration_ms=wanted.lock_duration_ms,
            versions=None if wanted.versions is None else Json(wanted.versions),
            **call.rights,
        )
        return tasks, claimed_at


async def _ask_again(call: Call, wanted: Wanted) -> None:
    """401 or 403 when the key was revoked, or its rights were taken away, while the poll waited."""
    call.principal = await call.parts.authenticator.principal(call.credential)
    demand(call.principal, "work")
    demand_types(call.principal, wanted.task_types, "task_types")


async def _give_back(call: Call, worker_id: str, tasks: Sequence[Row[Any]]) -> None:
    """Release what nobody will hear of. If that fails too, the leases end by themselves."""
    for task in tasks:
        try:
            await call.parts.database.one(
                "release_task",
                task_id=task.task_id,
                worker_id=worker_id,
                fencing_token=task.fencing_token,
                **call.rights,
            )
        except (Refused, Unavailable) as failure:
            log.warning("task=%s of a client that left is not released: %s", task.task_id, failure)
    call.parts.announcer.announce(task.task_type for task in tasks)


@asynccontextmanager
async def _waiting(call: Call, place: Place) -> AsyncIterator[None]:
    """A place at the hub for as long as the client stays."""
    if not call.parts.hub.enter(place):
        raise Problem(429, "too many polls wait here already", headers={"Retry-After": "1"})
    watch = asyncio.create_task(_watch_client(call.receive, place))
    try:
        yield
    finally:
        watch.cancel()
        call.parts.hub.leave(place)


async def _watch_client(receive: Receive, place: Place) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    place.leave()
