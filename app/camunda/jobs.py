"""/job: timers, and tokens that go on by themselves, or could not.

Here they have no retries to count: a timer fires once, and what could not go on is stuck (`retries` 0) until somebody
says that it is to be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from sqlalchemy import ColumnElement, TableClause, and_, false
from starlette.responses import PlainTextResponse, Response

from app.api.rights import demand
from app.camunda.answers import done
from app.camunda.errors import CamundaError, invalid, refused
from app.camunda.identifiers import definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    equal,
    flag,
    moments,
    nothing,
    one,
    one_of,
)
from app.camunda.lists import serve_list, serve_one
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent
from app.engine import next_start
from db.errors import AlreadyEnded, NotFound

router = APIRouter(prefix="/engine-rest/job", route_class=CamundaRoute)

RETRIES: Final = 3
"""What Camunda shows of a job that nothing has happened to."""


def _failed_at(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    given = equal("failedActivityId", "node")(asked, view)
    return None if given is None else and_(view.c.stuck, given)


def _least_priority(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    """Every job has the priority 0."""
    given = asked.integer("priorityHigherThanOrEquals", 0) or 0
    return false() if given > 0 else None


def _greatest_priority(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    given = asked.integer("priorityLowerThanOrEquals", 0) or 0
    return false() if given < 0 else None


def _one_kind(asked: Sent, view: TableClause) -> None:
    if asked.boolean("timers") and asked.boolean("messages"):
        raise invalid("Parameter timers cannot be used together with parameter messages.")


JOBS: Final = Listing(
    view="camunda_jobs",
    key="job_id",
    columns=(
        "job_id", "kind", "instance_id", "token_id", "node", "definition_id", "process_key", "process_version",
        "due_at", "stuck", "message", "incident_id", "created_at", "suspended",
    ),
    hidden=("topics", "timing", "fired"),
    filters=(
        equal("jobId", "job_id", AS_ID),
        one_of("jobIds", "job_id", AS_ID),
        equal("processInstanceId", "instance_id", AS_ID),
        one_of("processInstanceIds", "instance_id", AS_ID),
        equal("executionId", "token_id", AS_ID),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
        equal("activityId", "node"),
        _failed_at,
        flag("withRetriesLeft", "not stuck"),
        flag("noRetriesLeft", "stuck"),
        flag("executable", "not stuck and not suspended and coalesce(due_at <= celeriac.now(), true)"),
        _one_kind,
        flag("timers", "kind = 'timer'"),
        flag("messages", "kind = 'message'"),
        moments("dueDates", "due_at"),
        moments("createTimes", "created_at"),
        _least_priority,
        _greatest_priority,
        flag("withException", "message is not null"),
        equal("exceptionMessage", "message"),
        flag("active", "not suspended"),
        flag("suspended", "suspended"),
        nothing("jobDefinitionId", "batchId"),
        TENANTS,
    ),
    sorts={
        "jobId": "job_id", "executionId": "token_id", "processInstanceId": "instance_id",
        "processDefinitionId": "definition_id", "processDefinitionKey": "process_key", "jobPriority": "job_id",
        "jobRetries": "stuck", "jobDueDate": "due_at", "tenantId": "job_id",
    },
)  # fmt: skip


@router.get("/{job_id}/stacktrace")
async def stacktrace(call: CamundaCall, job_id: str) -> Response:
    """Why it cannot go on, as text; 204 for one that can."""
    demand(call.principal, "read")
    row = await _job(call, job_id)
    return done() if row["message"] is None else PlainTextResponse(row["message"])


@router.put("/{job_id}/retries")
async def set_retries(call: CamundaCall, job_id: str) -> Response:
    """More than 0: what is stuck tries again. `dueDate` moves a timer."""
    demand(call.principal, "manage")
    retries, due_at = call.sent.integer("retries"), call.sent.moment("dueDate")
    if retries is None:
        raise invalid("The number of retries cannot be null.")
    if retries < 0:
        what = f"The number of job retries must be a non-negative Integer, but '{retries}' has been provided."
        raise invalid(what)
    row = await _job(call, job_id)
    if retries == 0 and not row["stuck"]:
        raise refused(f"Job with id '{job_id}' waits, and has no retries that could be taken away")
    if due_at is not None:
        await _move(call, row, due_at)
    if retries > 0 and row["stuck"]:
        await _retry(call, row)
    return done()


@router.put("/{job_id}/duedate")
async def set_due_date(call: CamundaCall, job_id: str) -> Response:
    """A timer is due at another time, or (null) now; later rounds of a cycle stay where they are."""
    demand(call.principal, "manage")
    due_at = call.sent.moment("duedate")
    if call.sent.boolean("cascade"):
        raise refused("the later rounds of a cycle cannot be moved: cascade must be false")
    await _move(call, await _job(call, job_id), due_at)
    return done()


@router.post("/{job_id}/execute")
async def execute(call: CamundaCall, job_id: str) -> Response:
    """Fire a timer before its time, or try again what is stuck; 500 when it could not go on again."""
    demand(call.principal, "manage")
    row = await _job(call, job_id)
    if row["instance_id"] is None:
        await _start(call, job_id)
    elif row["kind"] == "timer":
        try:
            fired = await call.parts.database.one(
                "fire_event_timer", wait_uid=row["job_id"], principal=call.principal.name
            )
        except NotFound:
            raise _unknown(job_id) from None  # it has fired meanwhile
        await call.parts.advancer.advance([fired.instance_id])
    elif row["stuck"] and row["suspended"]:
        # What is tried now would show only when the instance is resumed.
        raise refused(f"Job with id '{job_id}' cannot be executed: its process instance is suspended")
    elif row["stuck"]:
        await _retry(call, row)
        again = await one(call, JOBS, job_id)
        if again is not None and again["stuck"]:
            raise CamundaError(500, "RestException", again["message"] or "it could not go on", code=0)
    else:
        await call.parts.advancer.advance([row["instance_id"]])
    return done()


def shown_job(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["job_id"],
        "jobDefinitionId": None,
        "processInstanceId": row["instance_id"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processDefinitionKey": row["process_key"],
        "executionId": row["token_id"],
        "exceptionMessage": row["message"],
        "failedActivityId": row["node"] if row["stuck"] else None,
        "retries": 0 if row["stuck"] else RETRIES,
        "dueDate": row["due_at"],
        "suspended": row["suspended"],
        "priority": 0,
        "tenantId": None,
        "createTime": row["created_at"],
        "batchId": None,
    }


async def _job(call: CamundaCall, job_id: str) -> dict[str, Any]:
    row = await one(call, JOBS, job_id)
    if row is None:
        raise _unknown(job_id)
    return row


def _unknown(job_id: str) -> CamundaError:
    return invalid(f"No job found with id '{job_id[:64]}'", 404)


async def _move(call: CamundaCall, row: Mapping[str, Any], due_at: Any) -> None:
    if row["kind"] != "timer" or row["instance_id"] is None:
        raise refused(f"Job with id '{row['job_id']}' is no timer of a process instance")
    try:
        await call.parts.database.one(
            "move_event_timer", wait_uid=row["job_id"], due_at=due_at, principal=call.principal.name
        )
    except NotFound:
        raise _unknown(str(row["job_id"])) from None


async def _retry(call: CamundaCall, row: Mapping[str, Any]) -> None:
    if row["incident_id"] is not None:
        try:
            await call.parts.database.one(
                "resolve_incident", incident_id=row["incident_id"], resolution="retry", note=None, **call.rights
            )
        except AlreadyEnded:
            raise _unknown(str(row["job_id"])) from None  # the instance has ended meanwhile
    await call.parts.advancer.advance([row["instance_id"]])


async def _start(call: CamundaCall, job_id: str) -> None:
    """A timer that a process begins with fires now, and is due again when it would have been after that."""
    (row,) = await call.parts.database.view(
        "select *, celeriac.now() as now from celeriac.camunda_jobs where job_id = cast(:id as uuid)", id=job_id
    )
    started = await call.parts.database.rows(
        "fire_start",
        definition_id=row.definition_id,
        node=row.node,
        due_at=row.due_at,
        next_at=next_start(row.timing, row.created_at, row.fired, row.now),
    )
    await call.parts.advancer.advance(one_.instance_id for one_ in started)


serve_list(router, JOBS, shown_job)
serve_one(router, JOBS, shown_job, "job_id", "Job with id {} does not exist")
