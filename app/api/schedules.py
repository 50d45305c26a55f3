"""Schedules: what is enqueued again and again, and when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.cursors import read_cursor, write_cursor
from app.api.door import Call, DoorRoute
from app.api.fields import Name, Strict, Time
from app.api.pages import PageQuery
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.rights import demand, demand_types
from app.api.sight import MINE, seen
from app.api.tasks import AskedTask
from app.cron import CatchUp, InvalidTiming, Timing, first_slot, timing
from db.call import Json

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=DoorRoute)

LONGEST_NAME: Final = 200
TRIES: Final = 5
"""How often a resume looks again when the schedule is put anew at the same time."""

_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)
_LIST: Final = (
    f"select * from celeriac.schedules where name > cast(:after as text) and {MINE}"  # noqa: S608 (constants)
    " and (cast(:task_type as text) is null or task_type = :task_type) order by name limit :limit"
)

ScheduleName = Annotated[Name, Field(max_length=LONGEST_NAME)]


class ScheduledTask(AskedTask):
    """The task that each slot becomes."""


class ScheduleSettings(Strict):
    """When, and what. Either `cron` or `every`; `anchor_at` goes with `every`."""

    task: ScheduledTask
    cron: Annotated[str, Field(max_length=200, examples=["30 2 * * MON-FRI"])] | None = None
    every: Annotated[str, Field(max_length=100, examples=["PT15M", "P1M"])] | None = None
    time_zone: Annotated[str, Field(max_length=100, examples=["Europe/Berlin"])] = "UTC"
    anchor_at: Time | None = None
    catch_up: CatchUp = "one"
    slot_variable: Name | None = None

    @field_validator("time_zone")
    @classmethod
    def _is_given(cls, time_zone: str) -> str:
        if not time_zone:
            raise PydanticCustomError("no_zone", "must be the name of a time zone, such as Europe/Berlin")
        return time_zone

    def timing(self) -> Timing:
        """InvalidTiming names what is wrong."""
        return timing(cron=self.cron, every=self.every, time_zone=self.time_zone, anchor_at=read_moment(self.anchor_at))


class ListQuery(PageQuery):
    """Filter and page of the list of schedules."""

    task_type: Name | None = None
    # It holds a name.
    cursor: Annotated[str, Field(max_length=1200)] | None = None


@router.get("", response_model=answers_of.SchedulePage, responses=_READ_REFUSALS)
async def list_schedules(call: Call, asked: Annotated[ListQuery, Query()]) -> Response:
    """A page of schedules in the order of their names; `next_cursor` leads to the next one."""
    demand(call.principal, "read")
    only_types = call.principal.only_types
    question = ("schedules", asked.task_type, only_types and tuple(only_types))
    rows = await call.parts.database.view(
        _LIST,
        after="" if asked.cursor is None else read_cursor(asked.cursor, question).decode(),
        task_type=asked.task_type,
        only=only_types,
        limit=asked.limit + 1,
    )
    shown = rows[: asked.limit]
    next_cursor = write_cursor(shown[-1].name.encode(), question) if len(rows) > len(shown) else None
    return answer({"schedules": [written(row._mapping) for row in shown], "next_cursor": next_cursor})


@router.get("/{name}", response_model=answers_of.ScheduleAnswer, responses=_READ_REFUSALS)
async def get(call: Call, name: ScheduleName) -> Response:
    """One schedule."""
    demand(call.principal, "read")
    return answer(written(await seen(call, "schedules", "schedule", name=name)))


@router.put("/{name}", response_model=answers_of.ScheduleAnswer, responses=BODY_REFUSALS)
async def put(call: Call, name: ScheduleName, body: ScheduleSettings) -> Response:
    """Make a schedule or change it; the same timing again leaves its next slot as it is."""
    demand(call.principal, "manage")
    demand(call.principal, "enqueue")
    demand_types(call.principal, [body.task.task_type], "task.task_type")
    try:
        when = body.timing()
        next_at = first_slot(when, await _now(call))
    except InvalidTiming as wrong:
        raise Problem(422, str(wrong), field=wrong.field) from None
    row = await call.parts.database.one(
        "put_schedule",
        name=name,
        task=Json(orjson.dumps(body.task.written()).decode()),
        next_at=next_at,
        catch_up=body.catch_up,
        slot_variable=body.slot_variable,
        **when.columns(),
        **call.rights,
    )
    return answer(written(row._mapping))


@router.delete("/{name}", response_model=answers_of.DeletedSchedule, responses=_READ_REFUSALS)
async def delete(call: Call, name: ScheduleName) -> Response:
    """Delete a schedule; tasks that it has enqueued go on."""
    demand(call.principal, "manage")
    row = await call.parts.database.one("delete_schedule", name=name, **call.rights)
    return answer({"name": row.name})


@router.post("/{name}/pause", response_model=answers_of.ScheduleAnswer, responses=_READ_REFUSALS)
async def pause(call: Call, name: ScheduleName) -> Response:
    """Fire no more until resumed; what comes due meanwhile is neither fired nor missed."""
    demand(call.principal, "manage")
    row = await call.parts.database.one("pause_schedule", name=name, paused=True, **call.rights)
    return answer(written(row._mapping))


@router.post("/{name}/resume", response_model=answers_of.ScheduleAnswer, responses=_READ_REFUSALS)
async def resume(call: Call, name: ScheduleName) -> Response:
    """Fire again, from the next slot on. Also for a schedule that stands still because it could not be read."""
    demand(call.principal, "manage")
    for _ in range(TRIES):
        schedule = await seen(call, "schedules", "schedule", name=name)
        try:
            when = timing(
                cron=schedule["cron"],
                every=schedule["every"],
                time_zone=schedule["time_zone"],
                anchor_at=schedule["anchor_at"],
            )
            next_at = first_slot(when, await _now(call))
        except InvalidTiming as wrong:
            raise Problem(422, str(wrong), field=wrong.field) from None
        rows = await call.parts.database.rows(
            "pause_schedule", name=name, paused=False, next_at=next_at, seen_at=schedule["updated_at"], **call.rights
        )
        if rows:
            return answer(written(rows[0]._mapping))
    raise Problem(503, "the schedule is being changed by somebody else", headers={"Retry-After": "1"})


async def _now(call: Call) -> datetime:
    rows = await call.parts.database.view("select celeriac.now() as now")
    now: datetime = rows[0].now
    return now


def written(row: Mapping[Any, Any]) -> Mapping[str, Any]:
    """The answer for a row of the table or the view."""
    return splice({name: row[name] for name in answers_of.ScheduleAnswer.model_fields}, ["task"])


def read_moment(text: str | None) -> datetime | None:
    """A time that app.api.fields has let through."""
    if text is None:
        return None
    return datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text.upper().replace("Z", "+00:00")))
