"""Schedules: what is enqueued again and again, and when."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError
from sqlalchemy import Row
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.door import Call, DoorRoute
from app.api.fields import LARGEST_INTEGER, Counted, Digits, Name, Payload, Strict, TaskType, Time
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.rights import demand, demand_types
from app.api.tasks import Policy
from app.cron import CatchUp, InvalidTiming, Timing, first_slot, timing
from db.call import Json

router = APIRouter(prefix="/v1/schedules", tags=["schedules"], route_class=DoorRoute)

LONGEST_NAME: Final = 200
MOST_LISTED: Final = 200
TRIES: Final = 5
"""How often a resume looks again when the schedule is put anew at the same time."""

_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)
_MINE: Final = "(cast(:only as text[]) is null or task_type like any(cast(:only as text[])))"
_GET: Final = f"select * from celeriac.schedules where name = :name and {_MINE}"  # noqa: S608 (constants)
_LIST: Final = (
    f"select * from celeriac.schedules where name > cast(:after as text) and {_MINE}"  # noqa: S608 (constants)
    " and (cast(:task_type as text) is null or task_type = :task_type) order by name limit :limit"
)

ScheduleName = Annotated[Name, Field(max_length=LONGEST_NAME)]


class ScheduledTask(Strict):
    """The task that each slot becomes."""

    task_type: TaskType
    variables: Payload = "{}"
    version: Counted = 1
    priority: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] = 0
    retries: Counted | None = None
    business_key: Name | None = None
    fairness_key: Name | None = None
    concurrency_key: Name | None = None
    policy: Policy | None = None

    def written(self) -> dict[str, Any]:
        """The task as the authority takes it: what was sent, the payload as its own text."""
        item = {name: getattr(self, name) for name in self.model_fields_set}
        if "variables" in item:
            item["variables"] = orjson.Fragment(self.variables)
        if self.policy is not None:
            item["policy"] = {name: getattr(self.policy, name) for name in self.policy.model_fields_set}
        return {name: value for name, value in item.items() if value is not None}


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


class ListQuery(BaseModel):
    """Filter and page of the list of schedules."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    task_type: Name | None = None
    limit: Annotated[Digits, Field(ge=1, le=MOST_LISTED)] = 50
    cursor: Annotated[str, Field(max_length=1200)] | None = None


@router.get("", response_model=answers_of.SchedulePage, responses=_READ_REFUSALS)
async def list_schedules(call: Call, asked: Annotated[ListQuery, Query()]) -> Response:
    """A page of schedules in the order of their names; `next_cursor` leads to the next one."""
    demand(call.principal, "read")
    rows = await call.parts.database.view(
        _LIST,
        after="" if asked.cursor is None else read_cursor(asked.cursor),
        task_type=asked.task_type,
        only=call.principal.only_types,
        limit=asked.limit + 1,
    )
    shown = rows[: asked.limit]
    next_cursor = write_cursor(shown[-1].name) if len(rows) > len(shown) else None
    return answer({"schedules": [written(row) for row in shown], "next_cursor": next_cursor})


@router.get("/{name}", response_model=answers_of.ScheduleAnswer, responses=_READ_REFUSALS)
async def get(call: Call, name: ScheduleName) -> Response:
    """One schedule."""
    demand(call.principal, "read")
    return answer(written(await _find(call, name)))


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
    return answer(written(row))


@router.delete("/{name}", response_model=answers_of.DroppedSchedule, responses=_READ_REFUSALS)
async def delete(call: Call, name: ScheduleName) -> Response:
    """Drop a schedule; tasks that it has enqueued go on."""
    demand(call.principal, "manage")
    row = await call.parts.database.one("drop_schedule", name=name, **call.rights)
    return answer({"name": row.name})


@router.post("/{name}/pause", response_model=answers_of.ScheduleAnswer, responses=_READ_REFUSALS)
async def pause(call: Call, name: ScheduleName) -> Response:
    """Fire no more until resumed; what comes due meanwhile is neither fired nor missed."""
    demand(call.principal, "manage")
    row = await call.parts.database.one("pause_schedule", name=name, paused=True, **call.rights)
    return answer(written(row))


@router.post("/{name}/resume", response_model=answers_of.ScheduleAnswer, responses=_READ_REFUSALS)
async def resume(call: Call, name: ScheduleName) -> Response:
    """Fire again, from the next slot on. Also for a schedule that stands still because it could not be read."""
    demand(call.principal, "manage")
    for _ in range(TRIES):
        seen = await _find(call, name)
        try:
            when = timing(cron=seen.cron, every=seen.every, time_zone=seen.time_zone, anchor_at=seen.anchor_at)
            next_at = first_slot(when, await _now(call))
        except InvalidTiming as wrong:
            raise Problem(422, str(wrong), field=wrong.field) from None
        rows = await call.parts.database.rows(
            "pause_schedule", name=name, paused=False, next_at=next_at, seen_at=seen.updated_at, **call.rights
        )
        if rows:
            return answer(written(rows[0]))
    raise Problem(503, "the schedule is being changed by somebody else", headers={"Retry-After": "1"})


async def _find(call: Call, name: str) -> Row[Any]:
    rows = await call.parts.database.view(_GET, name=name, only=call.principal.only_types)
    if not rows:
        raise Problem(404, "there is no such schedule")
    return rows[0]


async def _now(call: Call) -> datetime:
    rows = await call.parts.database.view("select celeriac.now() as now")
    now: datetime = rows[0].now
    return now


def written(row: Row[Any]) -> Mapping[str, Any]:
    """The answer for a row of the table or the view."""
    return splice({name: getattr(row, name) for name in answers_of.ScheduleAnswer.model_fields}, ["task"])


def read_moment(text: str | None) -> datetime | None:
    """A time that app.api.fields has let through."""
    if text is None:
        return None
    return datetime.fromisoformat(re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text.upper().replace("Z", "+00:00")))


def write_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def read_cursor(text: str) -> str:
    """The name that the page before ended with; 422 for what is none of our cursors."""
    try:
        name = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        name = ""
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise Problem(422, "this cursor does not belong to this list", field="cursor")
    return name
