"""/history/task: user tasks that there are and were. Of those that are done, what people were shown is not kept."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.activity_history import ACTIVITIES, places
from app.camunda.answers import answer
from app.camunda.graphs import graph_of
from app.camunda.identifiers import activity_instance_id, definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    counted,
    equal,
    flag,
    found,
    like,
    moment,
    nothing,
    one_of,
)
from app.camunda.related import having, unknown
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.user_task_rows import AS_ACTIVITY
from app.camunda.variable_filters import variables
from app.process.graph import Graph, Kind

router = APIRouter(prefix="/engine-rest/history/task", route_class=CamundaRoute)

TASKS: Final = Listing(
    view=ACTIVITIES.view,
    key=ACTIVITIES.key,
    columns=ACTIVITIES.columns,
    hidden=ACTIVITIES.hidden,
    filters=(
        equal("taskId", "token_id", AS_ID),
        one_of("taskIdIn", "token_id", AS_ID),
        equal("processInstanceId", "instance_id", AS_ID),
        equal("rootProcessInstanceId", "instance_id", AS_ID),
        having("instances", "instance_id", equal("processInstanceBusinessKey", "business_key"), "business_key"),
        having("instances", "instance_id", one_of("processInstanceBusinessKeyIn", "business_key"), "business_key"),
        having("instances", "instance_id", like("processInstanceBusinessKeyLike", "business_key"), "business_key"),
        having("instances", "instance_id", flag("processFinished", "ended_at is not null"), "ended_at"),
        having("instances", "instance_id", flag("processUnfinished", "ended_at is null"), "ended_at"),
        equal("executionId", "token_id", AS_ID),
        one_of("activityInstanceIdIn", "visit_id", AS_ACTIVITY),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
        equal("taskDefinitionKey", "node"),
        one_of("taskDefinitionKeyIn", "node"),
        equal("taskAssignee", "assignee"),
        like("taskAssigneeLike", "assignee"),
        flag("assigned", "assignee is not null"),
        flag("unassigned", "assignee is null"),
        flag("finished", "ended_at is not null"),
        flag("unfinished", "ended_at is null"),
        moment("startedBefore", "started_at", operator.le),
        moment("startedAfter", "started_at", operator.ge),
        moment("finishedBefore", "ended_at", operator.le),
        moment("finishedAfter", "ended_at", operator.ge),
        variables("processVariables"),
        nothing("taskParentTaskId", "caseDefinitionId", "caseDefinitionKey", "caseInstanceId", "caseExecutionId"),
        TENANTS,
        unknown("orQueries", "taskVariables", "taskOwner", "taskOwnerLike", "taskPriority", "taskDeleteReason"),
        unknown("taskDescription", "taskDescriptionLike", "taskDueDate", "taskDueDateBefore", "taskDueDateAfter"),
        unknown("taskFollowUpDate", "taskFollowUpDateBefore", "taskFollowUpDateAfter", "withoutTaskDueDate"),
        unknown("taskInvolvedUser", "taskInvolvedGroup", "taskHadCandidateUser", "taskHadCandidateGroup"),
    ),
    sorts={
        "taskId": "token_id", "activityInstanceId": "visit_id", "processDefinitionId": "definition_id",
        "processInstanceId": "instance_id", "executionId": "token_id", "duration": "duration_ms",
        "endTime": "ended_at", "startTime": "started_at", "taskName": "node", "assignee": "assignee",
        "taskDefinitionKey": "node", "deleteReason": "canceled", "tenantId": "number",
    },
)  # fmt: skip

_OPEN: Final = (
    "select token_id, name, description, owner, priority, due_at, follow_up_at, changed_at"
    " from celeriac.camunda_user_tasks where token_id = any(:tokens)"
)


@router.api_route("", methods=["GET", "POST"])
async def list_tasks(call: CamundaCall) -> Response:
    """User tasks, open ones too, in the order in which they came to be."""
    demand(call.principal, "read")
    rows = await found(call, TASKS, await _of_people(call))
    graphs = {row["definition_id"]: await graph_of(call.parts.database, row["definition_id"]) for row in rows}
    duties = await _duties(call, rows)
    return answer([_shown(row, graphs[row["definition_id"]], duties.get(row["token_id"], {})) for row in rows])


@router.api_route("/count", methods=["GET", "POST"])
async def count(call: CamundaCall) -> Response:
    demand(call.principal, "read")
    return answer({"count": await counted(call, TASKS, await _of_people(call))})


async def _of_people(call: CamundaCall) -> Any:
    name = call.asked_anyhow.text("taskName")
    return await places(call, TASKS, lambda node: node.kind is Kind.USER and name in (None, node.name))


async def _duties(call: CamundaCall, rows: Sequence[Mapping[str, Any]]) -> dict[UUID, Mapping[str, Any]]:
    """What people are shown of those that are open."""
    tokens = [row["token_id"] for row in rows if row["ended_at"] is None]
    if not tokens:
        return {}
    return {row.token_id: dict(row._mapping) for row in await call.parts.database.view(_OPEN, tokens=tokens)}


def _shown(row: Mapping[str, Any], graph: Graph, duty: Mapping[str, Any]) -> dict[str, Any]:
    node = graph.nodes.get(row["node"])
    state = "Completed" if row["ended_at"] else "Updated" if duty.get("changed_at") else "Created"
    return {
        "id": row["visit_id"],
        "processDefinitionKey": row["process_key"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processInstanceId": row["instance_id"],
        "executionId": row["token_id"] or row["instance_id"],
        "caseDefinitionKey": None,
        "caseDefinitionId": None,
        "caseInstanceId": None,
        "caseExecutionId": None,
        "activityInstanceId": activity_instance_id(row["node"], row["visit_id"]),
        "name": duty.get("name") or (None if node is None else node.name),
        "description": duty.get("description"),
        "deleteReason": None if row["ended_at"] is None else "deleted" if row["canceled"] else "completed",
        "owner": duty.get("owner"),
        "assignee": row["assignee"],
        "startTime": row["started_at"],
        "endTime": row["ended_at"],
        "duration": row["duration_ms"],
        "taskDefinitionKey": row["node"],
        "priority": duty.get("priority"),
        "due": duty.get("due_at"),
        "parentTaskId": None,
        "followUp": duty.get("follow_up_at"),
        "tenantId": None,
        "removalTime": None,
        "rootProcessInstanceId": row["instance_id"],
        "taskState": "Deleted" if row["canceled"] else state,
    }
