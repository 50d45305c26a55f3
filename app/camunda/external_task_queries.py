"""Looking at external tasks: one, lists and counts of them, the topics that there are, and what went wrong with one."""

from __future__ import annotations

import operator
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from sqlalchemy import Row, select, text
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import answer, done
from app.camunda.errors import CamundaError
from app.camunda.external_task_rows import missing, rows_of, shown
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    counted,
    equal,
    flag,
    like,
    moment,
    number,
    one_of,
    page_of,
    sortings,
)
from app.camunda.related import having
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of
from app.camunda.variable_filters import variables

router = APIRouter(prefix="/engine-rest/external-task", route_class=CamundaRoute)

_LOCKED: Final = "coalesce(lock_expires_at > celeriac.now(), false)"
_OF_WORK: Final = ("notLocked", "withRetriesLeft", "topicName")
MOST_AHEAD: Final = 20_000
"""How far into the queue a page may be that is read from its head."""
_FREE: Final = text(
    "select id from celeriac.free_external_tasks(:most, :failed, :topic, :only_types) with ordinality f (id, place)"
    " where place > :first order by place"
)
_TOPICS_OF: Final = {
    "withLockedTasks": "locked", "withUnlockedTasks": "notLocked", "withRetriesLeft": "withRetriesLeft",
}  # fmt: skip


TASKS: Final = Listing(
    view="external_tasks",
    key="id",
    columns=("id",),
    hidden=(
        "task_type", "topic", "worker_id", "lock_expires_at", "retries", "state", "priority", "created_at", "suspended",
        "token_id", "instance_id", "definition_id", "process_key", "node",
    ),
    filters=(
        equal("externalTaskId", "id", AS_ID),
        one_of("externalTaskIdIn", "id", AS_ID),
        equal("topicName", "topic"),
        equal("workerId", "worker_id"),
        flag("locked", _LOCKED),
        flag("notLocked", f"not {_LOCKED}"),
        flag("withRetriesLeft", "state <> 'FAILED'"),
        flag("noRetriesLeft", "state = 'FAILED'"),
        moment("lockExpirationAfter", "lock_expires_at", operator.gt),
        moment("lockExpirationBefore", "lock_expires_at", operator.lt),
        equal("activityId", "node"),
        one_of("activityIdIn", "node"),
        equal("executionId", "token_id", AS_ID),
        equal("processInstanceId", "instance_id", AS_ID),
        one_of("processInstanceIdIn", "instance_id", AS_ID),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
        one_of("processDefinitionKeyIn", "process_key"),
        having("definitions", "definition_id", equal("processDefinitionName", "name"), "name"),
        having("definitions", "definition_id", like("processDefinitionNameLike", "name"), "name"),
        flag("active", "not suspended"),
        flag("suspended", "suspended"),
        number("priorityHigherThanOrEquals", "priority", operator.ge),
        number("priorityLowerThanOrEquals", "priority", operator.le),
        variables("processVariables"),
        TENANTS,
    ),
    sorts={
        "id": "id", "lockExpirationTime": "lock_expires_at", "processInstanceId": "instance_id",
        "processDefinitionId": "definition_id", "processDefinitionKey": "process_key", "tenantId": "id",
        "taskPriority": "priority", "createTime": "created_at",
    },
)  # fmt: skip


@router.get("")
@router.post("")
async def list_tasks(call: CamundaCall) -> Response:
    """A page of external tasks: those that are open, and those that need a person."""
    demand(call.principal, "read")
    rows = await rows_of(call.parts.database, await _ids(call))
    return answer([shown(row, call.parts.settings) for row in rows])


@router.get("/count")
@router.post("/count")
async def count(call: CamundaCall) -> Response:
    """How many there are."""
    demand(call.principal, "read")
    return answer({"count": await counted(call, TASKS)})


@router.get("/topic-names")
async def topic_names(call: CamundaCall) -> Response:
    """The topics of external tasks that there are now."""
    demand(call.principal, "read")
    filters = Sent({_TOPICS_OF[name]: value for name, value in call.asked.values.items() if name in _TOPICS_OF})
    conditions = TASKS.conditions(filters, call.principal.only_types)
    topic = TASKS.table.c.topic
    rows = await call.parts.database.view(select(topic).where(*conditions).distinct().order_by(topic))
    return answer([row.topic for row in rows])


@router.get("/{task_id}")
async def get(call: CamundaCall, task_id: str) -> Response:
    """One external task."""
    demand(call.principal, "read")
    row = await _row(call, task_id)
    if row is None:
        # Of Camunda's REST layer, not its engine: no code.
        raise CamundaError(404, "RestException", str(missing(task_id)))
    return answer(shown(row, call.parts.settings))


@router.get("/{task_id}/errorDetails")
async def error_details(call: CamundaCall, task_id: str) -> Response:
    """What the worker said beside the message when it failed last, as text; 204 when it said nothing."""
    demand(call.principal, "read")
    row = await _row(call, task_id)
    if row is None:
        raise missing(task_id)
    if not row.error_details:
        return done()
    return Response(row.error_details, media_type="text/plain")


async def _ids(call: CamundaCall) -> list[UUID]:
    """The page that was asked for, in its order."""
    asked, (first, most) = call.asked_anyhow, page_of(call)
    statement: Any = TASKS.ordered(TASKS.select(asked, call.principal.only_types), asked).limit(most).offset(first)
    if _asks_for_work(asked) and first + most <= MOST_AHEAD:
        statement = _FREE.bindparams(
            most=first + most,
            first=first,
            failed=not asked.boolean("withRetriesLeft"),
            topic=asked.text("topicName"),
            only_types=call.principal.only_types,
        )
    return [row.id for row in await call.parts.database.view(statement)]


def _asks_for_work(asked: Sent) -> bool:
    """Whether somebody only looks for what could be locked: then it is found at the head of the queue.

    Clients do that twice a second, however long the queue is.
    """
    others = Sent({name: value for name, value in asked.values.items() if name not in _OF_WORK})
    orders = [(one.text("sortBy"), one.text("sortOrder")) for one in sortings(asked)]
    return (
        asked.boolean("notLocked") and orders in ([], [("taskPriority", "desc")]) and not TASKS.conditions(others, None)
    )


async def _row(call: CamundaCall, task_id: str) -> Row[Any] | None:
    """Of a task that is there and that the caller may see."""
    known = uuid_of(task_id)
    rows = [] if known is None else await rows_of(call.parts.database, [UUID(known)], with_details=True)
    return rows[0] if rows and call.principal.may_touch(rows[0].task_type) else None
