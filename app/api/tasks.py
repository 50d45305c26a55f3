"""Tasks as those see them who order, watch and repair work: create, look, list, cancel, redrive."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

import orjson
from fastapi import APIRouter, Body, Query
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.door import Call, DoorRoute
from app.api.fields import (
    LARGEST_INTEGER,
    LONGEST_DELAY_MS,
    MOST_ENQUEUED,
    MOST_TASKS,
    Counted,
    DelayMs,
    ErrorText,
    Id,
    LeaseMs,
    Name,
    Payload,
    Strict,
    TaskType,
    Time,
)
from app.api.leases import announce_types_of
from app.api.pages import SortedQuery, page_of
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.rights import demand, demand_types
from app.api.sight import seen
from db.call import Json
from db.errors import Refused
from db.listing import task_page

router = APIRouter(prefix="/v1/tasks", tags=["tasks"], route_class=DoorRoute)

_WRITE_REFUSALS: Final = BODY_REFUSALS | documented(404, 409)
_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)

State = Literal["READY", "SCHEDULED", "LOCKED", "BLOCKED", "WAITING", "COMPLETED", "FAILED", "CANCELED"]


class Policy(Strict):
    """How this one task is held and retried, where it differs from its type."""

    lease_ms: LeaseMs | None = None
    backoff_first_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] | None = None
    backoff_factor: Annotated[float, Field(ge=1, le=100)] | None = None
    backoff_cap_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] | None = None
    backoff_jitter: Annotated[float, Field(ge=0, le=1)] | None = None
    expirations: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None


class AskedTask(Strict):
    """What a task is asked for with, whenever it is made."""

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
        """As the authority takes it: what was sent, the payload as its own text."""
        item = {name: getattr(self, name) for name in self.model_fields_set}
        if "variables" in item:
            item["variables"] = orjson.Fragment(self.variables)
        if self.policy is not None:
            item["policy"] = {name: getattr(self.policy, name) for name in self.policy.model_fields_set}
        return {name: value for name, value in item.items() if value is not None}


class TaskItem(AskedTask):
    """A task to be made."""

    idempotency_key: Name | None = None
    delay_ms: DelayMs | None = None
    run_at: Time | None = None
    token_id: Id | None = None
    instance_id: Id | None = None

    @field_validator("run_at")
    @classmethod
    def _is_the_only_due_time(cls, run_at: str | None, sent: ValidationInfo) -> str | None:
        if run_at is not None and sent.data.get("delay_ms") is not None:
            raise PydanticCustomError("two_due_times", "delay_ms and run_at exclude each other")
        return run_at


class TaskItems(Strict):
    tasks: Annotated[list[TaskItem], Field(min_length=1, max_length=MOST_ENQUEUED)]


class CancelRequest(Strict):
    """With `compensate` what a durable task has done is undone, by its own compensations, before it ends."""

    reason: ErrorText | None = None
    compensate: bool = False


class RedriveRequest(Strict):
    retries: Counted | None = None


class RedriveManyRequest(Strict):
    """Which FAILED tasks start again: all filters must hold; `max_tasks` bounds one call."""

    task_type: TaskType | None = None
    failed_after: Time | None = None
    failed_before: Time | None = None
    max_tasks: Annotated[int, Field(ge=1, le=MOST_TASKS)] = MOST_TASKS


class ListQuery(SortedQuery):
    """Filters, order and page of a task list."""

    task_type: Name | None = None
    state: State | None = None
    business_key: Name | None = None
    idempotency_key: Name | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"


@router.post(
    "",
    status_code=201,
    response_model=answers_of.CreatedTask,
    responses={**_WRITE_REFUSALS, 200: {"model": answers_of.CreatedTask}},
)
async def create(call: Call, body: TaskItem) -> Response:
    """Make a task: 201; or 200 with the first task when its idempotency key is known with the same input."""
    try:
        created = (await _enqueue(call, [body], "task_type"))[0]
    except Refused as refused:
        # The authority knows batches only; whoever sent one task has no `tasks[0]` in their body.
        refused.message = refused.message.replace("tasks[0].", "")
        refused.field = refused.field and refused.field.removeprefix("tasks[0].")
        raise
    return answer(created, 201 if created["created"] else 200)


@router.post("/batch", status_code=201, response_model=answers_of.CreatedTasks, responses=_WRITE_REFUSALS)
async def create_many(call: Call, body: TaskItems) -> Response:
    """Make up to 5 000 tasks, all or none."""
    return answer({"tasks": await _enqueue(call, body.tasks, "tasks")}, 201)


async def _enqueue(call: Call, items: list[TaskItem], field_of_types: str) -> list[dict[str, Any]]:
    demand(call.principal, "enqueue")
    demand_types(call.principal, {item.task_type for item in items}, field_of_types)
    await _refuse_foreign_tokens(call, items)
    written = orjson.dumps([item.written() for item in items]).decode()
    rows = await call.parts.database.rows("enqueue_tasks", tasks=Json(written), **call.rights)
    call.parts.announcer.announce(row.task_type for row in rows if row.state == "READY" and row.created)
    return [
        {"task_id": row.task_id, "task_type": row.task_type, "state": row.state, "created": row.created} for row in rows
    ]


async def _refuse_foreign_tokens(call: Call, items: list[TaskItem]) -> None:
    """422 for a task that says it belongs to an instance: whoever completed it would move that instance."""
    tokens = [item.token_id for item in items if item.token_id is not None]
    instances = [item.instance_id for item in items if item.instance_id is not None]
    if not tokens and not instances:
        return
    found = await call.parts.database.view(
        "select 1 from celeriac.instance_tokens where token_id = any(cast(:tokens as uuid[]))"
        " union all select 1 from celeriac.instances where instance_id = any(cast(:instances as uuid[])) limit 1",
        tokens=tokens,
        instances=instances,
    )
    if found:
        raise Problem(422, "is of a process instance, which makes its tasks itself", field="instance_id")


@router.post("/redrive", response_model=answers_of.RedrivenTasks, responses=_WRITE_REFUSALS)
async def redrive_many(call: Call, body: Annotated[RedriveManyRequest, Body()] = RedriveManyRequest()) -> Response:
    """Start failed tasks again, oldest failure first, up to `max_tasks`; call again until none comes back."""
    demand(call.principal, "manage")
    rows = await call.parts.database.rows("redrive_tasks", **body.model_dump(), **call.rights)
    ids = [str(row.task_id) for row in rows]
    await announce_types_of(call, ids)
    return answer({"task_ids": ids})


@router.get("", response_model=answers_of.TaskPage, responses=_READ_REFUSALS)
async def list_tasks(call: Call, asked: Annotated[ListQuery, Query()]) -> Response:
    """A page of tasks in order of creation; `next_cursor` leads to the next one, with the same filters."""
    demand(call.principal, "read")
    rows, next_cursor = await page_of(call, task_page, asked)
    return answer({"tasks": rows, "next_cursor": next_cursor})


@router.get("/{task_id}", response_model=answers_of.TaskDetail, responses=_READ_REFUSALS)
async def get(call: Call, task_id: Id) -> Response:
    """One task with its payloads, its attempts and its timeline, what it waits for and what it could undo."""
    demand(call.principal, "read")
    found = await seen(call, "task_detail", "task", task_id=UUID(task_id))
    database = call.parts.database
    attempts = await database.view(
        "select attempt, worker_id, principal, fencing_token, outcome, error, started_at, ended_at"
        " from celeriac.task_attempts where task_id = cast(:id as uuid) order by attempt, started_at limit 1000",
        id=task_id,
    )
    timeline = await database.view(
        "select at, kind, attempt, fencing_token, worker_id, principal, detail"
        " from celeriac.task_timeline where task_id = cast(:id as uuid) order by at desc limit 1000",
        id=task_id,
    )
    waits = await database.view(
        "select branch, ordinal, kind, name, topic, key, until, child_id, incident_id, since from celeriac.waits"
        " where task_id = cast(:id as uuid) and armed order by branch, ordinal limit 1000",
        id=task_id,
    )
    compensations = await database.view(
        "select number, branch, ordinal, name, state, error, registered_at, ended_at from celeriac.compensations"
        " where task_id = cast(:id as uuid) order by number desc limit 1000",
        id=task_id,
    )
    task = splice(found, ("variables", "result", "policy"))
    task["attempts"] = [dict(row._mapping) for row in attempts]
    task["waits"] = [dict(row._mapping) for row in waits]
    task["compensations"] = [dict(row._mapping) for row in compensations]
    task["timeline"] = [splice(dict(row._mapping), ("detail",)) for row in reversed(timeline)]
    return answer(task)


@router.post("/{task_id}/cancel", response_model=answers_of.TaskState, responses=_WRITE_REFUSALS)
async def cancel(call: Call, task_id: Id, body: Annotated[CancelRequest, Body()] = CancelRequest()) -> Response:
    """Cancel an open task and its open children; whoever holds one is told at its next call. Twice is the same as once.

    With `compensate` and something to undo it is answered as UNDOING: the task is READY again until that is done.
    """
    demand(call.principal, "manage")
    row = await call.parts.database.one(
        "cancel_task", task_id=task_id, reason=body.reason, compensate=body.compensate, **call.rights
    )
    if row.state == "UNDOING":
        await announce_types_of(call, [task_id])
    elif row.instance_id is not None:
        await call.parts.advancer.advance([row.instance_id])
    return answer({"task_id": row.task_id, "state": row.state})


@router.post("/{task_id}/redrive", response_model=answers_of.TaskState, responses=_WRITE_REFUSALS)
async def redrive(call: Call, task_id: Id, body: Annotated[RedriveRequest, Body()] = RedriveRequest()) -> Response:
    """Start a FAILED task again, with `retries` new attempts."""
    demand(call.principal, "manage")
    row = await call.parts.database.one("redrive_task", task_id=task_id, retries=body.retries, **call.rights)
    await announce_types_of(call, [task_id])
    return answer(dict(row._mapping))
