"""Incidents: what a person must look at. The task, or the token of a process, stays where it is until then."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.door import Call, DoorRoute
from app.api.fields import ErrorText, Id, Name, Strict
from app.api.pages import SortedQuery, page_of
from app.api.problems import BODY_REFUSALS, documented
from app.api.rights import demand
from app.api.sight import seen
from db.listing import incident_page

router = APIRouter(prefix="/v1/incidents", tags=["incidents"], route_class=DoorRoute)

_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)


Kind = Literal["operation_unknown", "other_code", "undo_failed", "expression", "model", "loop", "failed"]


class IncidentQuery(SortedQuery):
    """Filters, order and page of a list of incidents."""

    state: Literal["OPEN", "RESOLVED", "ALL"] = "OPEN"
    kind: Kind | None = None
    task_id: Id | None = None
    instance_id: Id | None = None
    task_type: Name | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"


class ResolveIncidentRequest(Strict):
    """`retry`: it goes on; `fail`: the task fails for good (other_code); `skip`: leave this undo out (undo_failed)."""

    resolution: Literal["retry", "fail", "skip"]
    note: ErrorText | None = None


@router.get("", response_model=answers_of.IncidentPage, responses=documented(401, 403, 422, 503))
async def list_incidents(call: Call, asked: Annotated[IncidentQuery, Query()]) -> Response:
    """A page of incidents, open ones unless `state` says otherwise."""
    demand(call.principal, "read")
    rows, next_cursor = await page_of(call, incident_page, asked)
    return answer({"incidents": rows, "next_cursor": next_cursor})


@router.get("/{incident_id}", response_model=answers_of.IncidentAnswer, responses=_READ_REFUSALS)
async def get(call: Call, incident_id: Id) -> Response:
    """One incident: what was expected and found, and what was decided."""
    demand(call.principal, "read")
    found = await seen(call, "incidents", "incident", incident_id=UUID(incident_id))
    return answer(splice(found, ("detail",)))


@router.post(
    "/{incident_id}/resolve",
    response_model=answers_of.ResolvedIncident,
    responses=BODY_REFUSALS | documented(404, 409),
)
async def resolve(call: Call, incident_id: Id, body: ResolveIncidentRequest) -> Response:
    """Decide: the task or the instance goes on at once. What can be decided depends on the kind of the incident."""
    demand(call.principal, "manage")
    row = await call.parts.database.one(
        "resolve_incident", incident_id=incident_id, resolution=body.resolution, note=body.note, **call.rights
    )
    if row.instance_id is not None:
        await call.parts.advancer.advance([row.instance_id])
    elif row.task_type is not None:
        call.parts.announcer.announce([row.task_type])
    shown = ("incident_id", "task_id", "instance_id", "resolution")
    return answer({name: getattr(row, name) for name in shown})
