"""The external-task protocol: workers fetch under a lease, and complete, fail, extend or unlock what they hold."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.door import Call, DoorRoute
from app.api.fields import (
    LARGEST_INTEGER,
    MOST_TASK_TYPES,
    MOST_TASKS,
    Counted,
    DelayMs,
    ErrorText,
    FencingToken,
    Id,
    LeaseMs,
    Name,
    Payload,
    Strict,
    TaskType,
)
from app.api.leases import as_owner, as_owner_of_all
from app.api.polls import NativeWanted, fetch_patiently
from app.api.problems import BODY_REFUSALS, documented
from app.api.rights import demand, demand_types

router = APIRouter(prefix="/v1/external-tasks", tags=["external tasks"], route_class=DoorRoute)

LONGEST_WAIT_MS: Final = 60_000
_REFUSALS: Final = BODY_REFUSALS | documented(404, 409)

Versions = Annotated[list[Counted], Field(min_length=1, max_length=1000)]


_MORE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "headers": {
            "Celeriac-More": {"description": "`true`: cut by size, more is ready", "schema": {"type": "string"}},
        }
    }
}


class FetchRequest(Strict):
    """Which tasks a worker takes, how many, for how long, and how long it is ready to wait for the first."""

    worker_id: Name
    task_types: Annotated[list[TaskType], Field(min_length=1, max_length=MOST_TASK_TYPES)]
    max_tasks: Annotated[int, Field(ge=1, le=MOST_TASKS)] = 1
    lock_duration_ms: LeaseMs | None = None
    wait_ms: Annotated[int, Field(ge=0, le=LONGEST_WAIT_MS)] = 0
    versions: Annotated[dict[TaskType, Versions], Field(max_length=MOST_TASK_TYPES)] | None = None

    @field_validator("versions")
    @classmethod
    def _are_of_fetched_types(cls, versions: dict[str, list[int]] | None, sent: ValidationInfo) -> Any:
        if versions and "task_types" in sent.data and not versions.keys() <= set(sent.data["task_types"]):
            raise PydanticCustomError("foreign_version", "names a task type that is not in task_types")
        return versions


class Held(Strict):
    """What every write of a worker says: who it is and, by the token, which lease it means."""

    worker_id: Name
    fencing_token: FencingToken | None = None


class CompleteRequest(Held):
    variables: Payload | None = None


class FailRequest(Held):
    error: ErrorText
    retry_after_ms: DelayMs | None = None
    retries: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None


class BpmnErrorRequest(Held):
    """`code` is what the model's error events are compared with; the variables go where the error is caught."""

    code: Name
    message: ErrorText | None = None
    variables: Payload = "{}"


class ExtendRequest(Held):
    lock_duration_ms: LeaseMs


class UnlockRequest(Held):
    pass


class Completion(Strict):
    task_id: Id
    fencing_token: FencingToken | None = None
    variables: Payload | None = None


class Failure(Strict):
    task_id: Id
    fencing_token: FencingToken | None = None
    error: ErrorText
    retry_after_ms: DelayMs | None = None
    retries: Annotated[int, Field(ge=0, le=LARGEST_INTEGER)] | None = None


class CompleteManyRequest(Strict):
    worker_id: Name
    tasks: Annotated[list[Completion], Field(min_length=1, max_length=MOST_TASKS)]


class FailManyRequest(Strict):
    worker_id: Name
    tasks: Annotated[list[Failure], Field(min_length=1, max_length=MOST_TASKS)]


@router.post(
    "/fetch-and-lock", response_model=list[answers_of.LeasedTask], responses=BODY_REFUSALS | documented(429) | _MORE
)
async def fetch_and_lock(call: Call, body: FetchRequest) -> Response:
    """Take up to `max_tasks` ready tasks under a lease, best priority first, then oldest.

    Without ready work the call waits up to `wait_ms` for the first task. The header `Celeriac-More: true` says that the
    answer was cut by its size and more is ready. `Celeriac-Waited-Ms` says how long the call had waited when it took
    the tasks: a lease that is counted from the sending of the call plus this wait is never counted too long.
    """
    demand(call.principal, "work")
    demand_types(call.principal, body.task_types, "task_types")
    wanted = NativeWanted(
        worker_id=body.worker_id,
        task_types=tuple(dict.fromkeys(body.task_types)),
        max_tasks=body.max_tasks,
        lock_duration_ms=body.lock_duration_ms,
        versions=orjson.dumps(body.versions).decode() if body.versions else None,
    )
    taken = await fetch_patiently(call, wanted, body.wait_ms / 1000)
    headers = {"Celeriac-Waited-Ms": str(taken.waited_ms)}
    if taken.tasks and taken.tasks[0].more:
        headers["Celeriac-More"] = "true"
    return answer([_leased(task) for task in taken.tasks], headers=headers)


@router.post("/complete", response_model=answers_of.CompletedMany, responses=_REFUSALS)
async def complete_many(call: Call, body: CompleteManyRequest) -> Response:
    """Complete many tasks in one call; each has its own result, and one refused does not touch the others."""
    demand(call.principal, "work")
    rows = await as_owner_of_all(call, "complete_tasks", body.worker_id, body.tasks)
    return answer({"results": [_shown(row) for row in rows]})


@router.post("/fail", response_model=answers_of.FailedMany, responses=_REFUSALS)
async def fail_many(call: Call, body: FailManyRequest) -> Response:
    """Fail many tasks in one call; each has its own result."""
    demand(call.principal, "work")
    rows = await as_owner_of_all(call, "fail_tasks", body.worker_id, body.tasks)
    return answer({"results": [_shown(row) for row in rows]})


@router.post("/{task_id}/complete", response_model=answers_of.TaskState, responses=_REFUSALS)
async def complete(call: Call, task_id: Id, body: CompleteRequest) -> Response:
    """End a held task well, with its result. The same call again has the same answer."""
    demand(call.principal, "work")
    row = await as_owner(call, "complete_task", task_id, body, variables=body.variables)
    return answer(_shown(row))


@router.post("/{task_id}/fail", response_model=answers_of.FailedTask, responses=_REFUSALS)
async def fail(call: Call, task_id: Id, body: FailRequest) -> Response:
    """Report a failed attempt.

    The engine owns the retries: they go down by one unless `retries` is given; at 0 the task is FAILED.
    """
    demand(call.principal, "work")
    row = await as_owner(
        call, "fail_task", task_id, body, error=body.error, retry_after_ms=body.retry_after_ms, retries=body.retries
    )
    return answer(_shown(row))


@router.post("/{task_id}/bpmn-error", response_model=answers_of.TaskState, responses=_REFUSALS)
async def bpmn_error(call: Call, task_id: Id, body: BpmnErrorRequest) -> Response:
    """End a held task of a process with a business error, which the model may catch. The task itself is COMPLETED."""
    demand(call.principal, "work")
    row = await as_owner(
        call,
        "throw_task",
        task_id,
        body,
        error_code=body.code,
        error_message=body.message,
        variables=body.variables,
    )
    return answer(_shown(row))


@router.post("/{task_id}/extend-lock", response_model=answers_of.ExtendedLease, responses=_REFUSALS)
async def extend_lock(call: Call, task_id: Id, body: ExtendRequest) -> Response:
    """Hold a task for `lock_duration_ms` more, counted from now by the database's clock."""
    demand(call.principal, "work")
    row = await as_owner(call, "extend_lease", task_id, body, lock_duration_ms=body.lock_duration_ms)
    return answer(dict(row._mapping))


@router.post("/{task_id}/unlock", response_model=answers_of.TaskState, responses=_REFUSALS)
async def unlock(call: Call, task_id: Id, body: UnlockRequest) -> Response:
    """Give a held task back; the attempt does not count."""
    demand(call.principal, "work")
    row = await as_owner(call, "release_task", task_id, body)
    return answer(dict(row._mapping))


_LEASED: Final = (
    "task_id", "token_id", "instance_id", "task_type", "version", "business_key", "variables", "fencing_token",
    "lock_expires_at", "lock_duration_ms", "retries", "attempt", "priority", "created_at",
)  # fmt: skip


def _leased(row: Any) -> dict[str, Any]:
    leased = {name: getattr(row, name) for name in _LEASED}
    leased["process_instance"] = row.instance_id
    return splice(leased, ("variables",))


def _shown(row: Any) -> dict[str, Any]:
    """What an outcome is answered with: not its place in the batch, nor the instance that has been advanced."""
    return {name: value for name, value in row._mapping.items() if name not in ("ordinal", "instance_id")}
