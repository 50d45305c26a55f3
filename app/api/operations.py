"""Operations: steps with an effect outside, and the decision of a person about one whose outcome nobody knows."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.door import Call, DoorRoute
from app.api.fields import ErrorText, Id, JsonText, Name, Strict
from app.api.pages import SortedQuery, page_of
from app.api.problems import BODY_REFUSALS, documented
from app.api.rights import demand
from app.api.sight import seen
from db.call import Json
from db.listing import operation_page

router = APIRouter(prefix="/v1/operations", tags=["operations"], route_class=DoorRoute)

_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)


class OperationQuery(SortedQuery):
    """Filters, order and page of a list of operations."""

    state: Literal["STARTED", "DONE", "NOT_DONE", "UNKNOWN", "FAILED"] | None = None
    task_id: Id | None = None
    task_type: Name | None = None
    sort: Literal["started_at", "-started_at"] = "-started_at"


class ResolveOperationRequest(Strict):
    """What became of it: DONE with its `result`, NOT_DONE (it is done again), or FAILED (`note` is its error)."""

    outcome: Literal["DONE", "NOT_DONE", "FAILED"]
    result: JsonText = None
    note: ErrorText | None = None


@router.get("", response_model=answers_of.OperationPage, responses=documented(401, 403, 422, 503))
async def list_operations(call: Call, asked: Annotated[OperationQuery, Query()]) -> Response:
    """A page of operations; `state=UNKNOWN` are those that somebody must decide about."""
    demand(call.principal, "read")
    rows, next_cursor = await page_of(call, operation_page, asked)
    return answer({"operations": rows, "next_cursor": next_cursor})


@router.get("/{operation_id}", response_model=answers_of.OperationAnswer, responses=_READ_REFUSALS)
async def get(call: Call, operation_id: Id) -> Response:
    """One operation with its plan and what came of it."""
    demand(call.principal, "read")
    found = await seen(call, "operations", "operation", operation_id=UUID(operation_id))
    return answer(splice(found, ("plan", "result")))


@router.post(
    "/{operation_id}/resolve",
    response_model=answers_of.ResolvedOperation,
    responses=BODY_REFUSALS | documented(404, 409),
)
async def resolve(call: Call, operation_id: Id, body: ResolveOperationRequest) -> Response:
    """Say what became of an operation that is UNKNOWN; its task goes on at once."""
    demand(call.principal, "manage")
    row = await call.parts.database.one(
        "resolve_operation",
        operation_id=operation_id,
        outcome=body.outcome,
        result=None if body.result is None else Json(body.result),
        note=body.note,
        **call.rights,
    )
    call.parts.announcer.announce([row.task_type])
    return answer({"operation_id": row.operation_id, "task_id": row.task_id, "state": row.state})
