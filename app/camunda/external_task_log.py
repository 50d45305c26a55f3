"""/history/external-task-log: when external tasks were created, failed, completed and deleted."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from sqlalchemy import ColumnElement, TableClause, and_, column, false, or_, select, table
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import answer, done
from app.camunda.errors import invalid
from app.camunda.identifiers import activity_instance_id, definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    equal,
    found,
    number,
    one_of,
)
from app.camunda.lists import serve_list
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of

router = APIRouter(prefix="/engine-rest/history/external-task-log", route_class=CamundaRoute)

_KINDS: Final = {"creationLog": "created", "failureLog": "failed", "successLog": "completed", "deletionLog": "deleted"}


def _this_line(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    given = asked.text("logId")
    return None if given is None else _named(given, view)


def _named(given: str, view: TableClause) -> ColumnElement[bool]:
    """By `task:kind:time`, found by its task."""
    task = uuid_of(given.partition(":")[0])
    if task is None:
        return false()
    return and_(view.c.task_id == UUID(task), view.c.log_id == given)


def _kind(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    """One kind can be asked for; of several the last in Camunda's order counts, as there."""
    wanted = [kind for name, kind in _KINDS.items() if asked.boolean(name)]
    return view.c.kind == wanted[-1] if wanted else None


def _activity_instances(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    given = asked.names("activityInstanceIdIn")
    if not given:
        return None
    fits: list[ColumnElement[bool]] = [false()]
    for node, _, uuid in (one.rpartition(":") for one in given):
        known = uuid_of(uuid)
        if known is not None:
            of_token = view.c.token_id == UUID(known)
            fits.append(and_(of_token, view.c.node == node) if node else of_token)
    return or_(*fits)


def _of_instance(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    """By the tokens of the instance, by which tasks are found."""
    theirs = _INSTANCE(asked, _TOKENS)
    return None if theirs is None else view.c.token_id.in_(select(_TOKENS.c.token_id).where(theirs))


_INSTANCE: Final = equal("processInstanceId", "instance_id", AS_ID)
_TOKENS: Final = table("instance_timeline", column("instance_id"), column("token_id"), schema="celeriac")

LOG: Final = Listing(
    view="camunda_external_task_log",
    key="log_id",
    columns=(
        "log_id", "task_id", "kind", "at", "worker_id", "retries", "message", "priority", "topic", "node",
        "token_id", "instance_id", "definition_id", "process_key", "process_version",
    ),
    hidden=("details", "topics"),
    filters=(
        _this_line,
        equal("externalTaskId", "task_id", AS_ID),
        equal("topicName", "topic"),
        equal("workerId", "worker_id"),
        equal("errorMessage", "message"),
        one_of("activityIdIn", "node"),
        _activity_instances,
        one_of("executionIdIn", "token_id", AS_ID),
        _of_instance,
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
        number("priorityHigherThanOrEquals", "priority", operator.ge),
        number("priorityLowerThanOrEquals", "priority", operator.le),
        _kind,
        TENANTS,
    ),
    sorts={
        "timestamp": "at", "externalTaskId": "task_id", "topicName": "topic",
        "workerId": "worker_id", "retries": "retries", "priority": "priority", "activityId": "node",
        "activityInstanceId": "token_id", "executionId": "token_id", "processInstanceId": "instance_id",
        "processDefinitionId": "definition_id", "processDefinitionKey": "process_key", "tenantId": "log_id",
    },
    order=("task_id",),
)  # fmt: skip


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    definition = row["process_key"] and definition_id(row["process_key"], row["process_version"], row["definition_id"])
    return {
        "id": row["log_id"],
        "timestamp": row["at"],
        "removalTime": None,
        "externalTaskId": row["task_id"],
        "topicName": row["topic"],
        "workerId": row["worker_id"],
        "priority": row["priority"],
        "retries": row["retries"],
        "errorMessage": row["message"],
        "activityId": row["node"],
        "activityInstanceId": row["node"] and activity_instance_id(row["node"], row["token_id"]),
        "executionId": row["token_id"],
        "processInstanceId": row["instance_id"],
        "processDefinitionId": definition,
        "processDefinitionKey": row["process_key"],
        "tenantId": None,
        "rootProcessInstanceId": row["instance_id"],
        **{name: row["kind"] == kind for name, kind in _KINDS.items()},
    }


serve_list(router, LOG, _shown)


@router.get("/{log_id}")
async def get(call: CamundaCall, log_id: str) -> Response:
    demand(call.principal, "read")
    rows = await found(call, LOG, _named(log_id, LOG.table))
    if not rows:
        raise invalid(f"Historic external task log with id {log_id[:255]} does not exist", 404)
    return answer(_shown(rows[0]))


@router.get("/{log_id}/error-details")
async def error_details(call: CamundaCall, log_id: str) -> Response:
    """What the worker said beside the message of this failure, as text; 204 when it said nothing."""
    demand(call.principal, "read")
    conditions = [_named(log_id, LOG.table), *LOG.conditions(Sent({}), call.principal.only_types)]
    rows = await call.parts.database.view(select(LOG.table.c.details).where(*conditions))
    if not rows:
        raise invalid(f"No historic external task log found with id {log_id[:255]}", 404)
    return Response(rows[0].details, media_type="text/plain") if rows[0].details else done()
