"""Workers that have told their name: who is there, and for which task types."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.door import Call, DoorRoute
from app.api.fields import MOST_TASK_TYPES, Counted, Name, Payload, Strict, TaskType
from app.api.problems import BODY_REFUSALS, documented
from app.api.rights import demand, demand_types
from db.call import Json

router = APIRouter(prefix="/v1/workers", tags=["workers"], route_class=DoorRoute)

_MINE: Final = (
    "(cast(:only as text[]) is null or exists"
    " (select from unnest(task_types) as t(name) where t.name like any(cast(:only as text[]))))"
)


class WorkerRegistration(Strict):
    """A sign of life: registering again is the heartbeat."""

    kind: Literal["external", "fleet"]
    task_types: Annotated[list[TaskType], Field(max_length=MOST_TASK_TYPES)]
    versions: dict[TaskType, Annotated[list[Counted], Field(min_length=1, max_length=1000)]] | None = None
    details: Payload | None = None


@router.get("", response_model=answers_of.Workers, responses=documented(401, 403, 503))
async def list_workers(call: Call) -> Response:
    """All known workers of task types that the caller may touch, latest sign of life first."""
    demand(call.principal, "read")
    rows = await call.parts.database.view(
        f"select * from celeriac.worker_list where {_MINE} order by heartbeat_at desc limit 1000",  # noqa: S608 (a constant)
        only=call.principal.only_types,
    )
    return answer({"workers": [splice(dict(row._mapping), ("versions", "details")) for row in rows]})


@router.put("/{worker_id}", response_model=answers_of.WorkerAnswer, responses=BODY_REFUSALS)
async def register(call: Call, worker_id: Name, body: WorkerRegistration) -> Response:
    """Register a worker, or renew its sign of life."""
    demand(call.principal, "work")
    demand_types(call.principal, body.task_types, "task_types")
    row = await call.parts.database.one(
        "register_worker",
        worker_id=worker_id,
        kind=body.kind,
        task_types=body.task_types,
        versions=_json(body.versions),
        details=None if body.details is None else Json(body.details),
        **call.rights,
    )
    return answer(dict(row._mapping))


def _json(value: Any) -> Json | None:
    return None if value is None else Json(orjson.dumps(value).decode())
