"""Task types: the names workers subscribe to, and what their tasks get unless they say otherwise."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer
from app.api.door import Call, DoorRoute
from app.api.fields import LARGEST_INTEGER, LONGEST_DELAY_MS, LONGEST_LEASE_MS, Counted, LeaseMs, Name, Strict, TaskType
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.rights import demand, demand_types

router = APIRouter(prefix="/v1/task-types", tags=["task types"], route_class=DoorRoute)

_MINE: Final = "(cast(:only as text[]) is null or name like any(cast(:only as text[])))"


class TaskTypeSettings(Strict):
    """What is left out stays as it is, or gets the default.

    `concurrency`: how many tasks of one concurrency key may be held at once; `rate_tasks`: how many of the type are
    handed out in any `rate_ms` at most. 0 takes a limit away.
    """

    lease_ms: LeaseMs | None = None
    retries: Counted | None = None
    backoff_first_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] | None = None
    backoff_factor: Annotated[float, Field(ge=1, le=100)] | None = None
    backoff_cap_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] | None = None
    backoff_jitter: Annotated[float, Field(ge=0, le=1)] | None = None
    expirations: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None
    delivery: Literal["pull", "celery"] | None = None
    queue: Name | None = None
    concurrency: Annotated[int, Field(ge=0, le=10_000)] | None = None
    rate_tasks: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    rate_ms: Annotated[int, Field(ge=0, le=LONGEST_LEASE_MS)] | None = None


@router.get("", response_model=answers_of.TaskTypes, responses=documented(401, 403, 503))
async def list_types(call: Call) -> Response:
    """All registered task types that the caller may touch."""
    demand(call.principal, "read")
    rows = await call.parts.database.view(
        f"select * from celeriac.task_types where {_MINE} order by name",  # noqa: S608 (a constant)
        only=call.principal.only_types,
    )
    return answer({"task_types": [dict(row._mapping) for row in rows]})


@router.get("/{name}", response_model=answers_of.TaskTypeAnswer, responses=documented(401, 403, 404, 422, 503))
async def get(call: Call, name: TaskType) -> Response:
    """One registered task type."""
    demand(call.principal, "read")
    rows = await call.parts.database.view(
        f"select * from celeriac.task_types where name = :name and {_MINE}",  # noqa: S608 (a constant)
        name=name,
        only=call.principal.only_types,
    )
    if not rows:
        raise Problem(404, "there is no such task type")
    return answer(dict(rows[0]._mapping))


@router.put("/{name}", response_model=answers_of.TaskTypeAnswer, responses=BODY_REFUSALS)
async def register(call: Call, name: TaskType, body: TaskTypeSettings) -> Response:
    """Register a task type or change what its new tasks get."""
    demand(call.principal, "manage")
    demand_types(call.principal, [name], "name")
    row = await call.parts.database.one(
        "register_task_type", name=name, **body.model_dump(exclude_none=True), **call.rights
    )
    return answer(dict(row._mapping))
