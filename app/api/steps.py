"""What a durable task has done so far, step by step."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field, WithJsonSchema
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.cursors import read_cursor, write_cursor
from app.api.door import Call, DoorRoute
from app.api.fields import Id
from app.api.pages import PageQuery
from app.api.problems import documented
from app.api.rights import demand
from app.api.sight import seen
from db.listing import step_page

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=DoorRoute)

MOST_RESULT_BYTES: Final = 4 << 20
"""Of one page; a single step is shown however large it is."""


class StepQuery(PageQuery):
    # It holds the path of a branch, of up to 1 000 characters.
    cursor: Annotated[str, Field(max_length=1500), WithJsonSchema({"type": "string"})] | None = None


@router.get("/{task_id}/steps", response_model=answers_of.StepPage, responses=documented(401, 403, 404, 422, 503))
async def list_steps(call: Call, task_id: Id, asked: Annotated[StepQuery, Query()]) -> Response:
    """A page of the task's steps in the order of its code, with their results (of at most 4 MiB a page)."""
    demand(call.principal, "read")
    await seen(call, "task_list", "task", task_id=UUID(task_id))
    after = None if asked.cursor is None else _place(read_cursor(asked.cursor, task_id))
    rows = await call.parts.database.view(
        step_page(task_id, limit=asked.limit, max_bytes=MOST_RESULT_BYTES, after=after)
    )
    steps = [{name: value for name, value in row._mapping.items() if name != "more"} for row in rows]
    next_cursor = None
    if rows and rows[-1].more:
        next_cursor = write_cursor(f"{rows[-1].ordinal} {rows[-1].branch}".encode(), task_id)
    return answer({"steps": [splice(step, ("result",)) for step in steps], "next_cursor": next_cursor})


def _place(last: bytes) -> tuple[str, int]:
    ordinal, _, branch = last.decode().partition(" ")
    return branch, int(ordinal)
