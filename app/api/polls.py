"""Fetching with patience: claim, and if there is nothing wait at the hub, with no database connection in the hand.

Before a lease is handed out after a wait, two things are asked again: is the client still there, and is its key still
good. A client that left while the claim ran has its tasks released at once, with the attempt given back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.types import Receive

from app.api.door import Call
from app.api.hub import Place
from app.api.problems import Problem
from app.api.rights import demand, demand_types
from db import call as authority
from db.call import Json
from db.errors import Refused, Unavailable

log = logging.getLogger(__name__)


class Leased(Protocol):
    """A task under a lease, with whatever else its worker gets."""

    @property
    def task_id(self) -> UUID: ...

    @property
    def task_type(self) -> str: ...

    @property
    def fencing_token(self) -> int: ...


T_co = TypeVar("T_co", bound=Leased, covariant=True)


class Wanted(Protocol[T_co]):
    """What a poll asks for, whichever face it came to: see Place for what its members mean."""

    @property
    def worker_id(self) -> str: ...

    @property
    def task_types(self) -> tuple[str, ...]: ...

    @property
    def max_tasks(self) -> int: ...

    @property
    def place(self) -> Place: ...

    async def claim(self, call: Call, connection: AsyncConnection) -> Sequence[T_co]:
        """Tasks under a lease, committed; as many as there are now."""


@dataclass(frozen=True)
class NativeWanted:
    """What a poll at /v1 asks for; `versions` is JSON text."""

    worker_id: str
    task_types: tuple[str, ...]
    max_tasks: int
    lock_duration_ms: int | None
    versions: str | None

    @property
    def place(self) -> Place:
        kind: Hashable = (self.task_types, self.versions)
        return Place(self.task_types, self.max_tasks, kind, picky=self.versions is not None)

    async def claim(self, call: Call, connection: AsyncConnection) -> Sequence[Row[Any]]:
        return await authority.arows(
            connection,
            "fetch_tasks",
            worker_id=self.worker_id,
            task_types=list(self.task_types),
            max_tasks=self.max_tasks,
            lock_duration_ms=self.lock_duration_ms,
            versions=None if self.versions is None else Json(self.versions),
            **call.rights,
        )


@dataclass(frozen=True)
class Taken(Generic[T_co]):
    """Tasks under a lease, and how long the poll had waited when it began to take them.

    A worker counts a lease from when it sent the poll plus this wait: by its own clock, and never too long.
    """

    tasks: Sequence[T_co]
    waited_ms: int


class TooManyPolls(Problem):
    """There is no place left to wait at."""

    def __init__(self) -> None:
        super().__init__(429, "too many polls wait here already", headers={"Retry-After": "1"})


async def fetch_patiently(call: Call, wanted: Wanted[T_co], wait_seconds: float) -> Taken[T_co]:
    """Tasks under a lease; none when there was no work until `wait_seconds` were over. May raise TooManyPolls."""
    began_at = time.monotonic()
    if wait_seconds <= 0:
        tasks, claimed_at = await _claim(call, wanted, place=None)
    else:
        place = wanted.place
        async with _waiting(call, place):
            tasks, claimed_at = await _claim_or_wait(call, wanted, place, began_at + wait_seconds)
    return Taken(tasks, waited_ms=int((claimed_at - began_at) * 1000))


async def _claim_or_wait(
    call: Call, wanted: Wanted[T_co], place: Place, deadline: float
) -> tuple[Sequence[T_co], float]:
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


async def _claim(call: Call, wanted: Wanted[T_co], place: Place | None) -> tuple[Sequence[T_co], float]:
    """Tasks, and when (monotonic seconds) there was a connection to ask for them: no lease began before."""
    async with call.parts.database.connection() as connection:
        claimed_at = time.monotonic()
        if place is not None and place.client_gone:  # it may have left while we waited for the connection
            return (), claimed_at
        return await wanted.claim(call, connection), claimed_at


async def _ask_again(call: Call, wanted: Wanted[Any]) -> None:
    """401 or 403 when the key was revoked, or its rights were taken away, while the poll waited."""
    await call.identify_again()
    demand(call.principal, "work")
    demand_types(call.principal, wanted.task_types, "task_types")


async def _give_back(call: Call, worker_id: str, tasks: Sequence[Leased]) -> None:
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
        raise TooManyPolls
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
