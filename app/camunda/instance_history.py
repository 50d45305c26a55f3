"""/history/process-instance: every instance there was, open ones too."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from sqlalchemy import ColumnElement, TableClause, literal

from app.camunda.errors import invalid
from app.camunda.identifiers import definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Filter,
    Listing,
    equal,
    flag,
    like,
    moment,
    nothing,
    one_of,
)
from app.camunda.lists import serve_list, serve_one
from app.camunda.related import either, having, unknown
from app.camunda.route import CamundaRoute
from app.camunda.sent import Sent
from app.camunda.variable_filters import variables

router = APIRouter(prefix="/engine-rest/history/process-instance", route_class=CamundaRoute)


def incident(narrow: Filter, at: str) -> Filter:
    """Instances with an incident like this, open or not."""
    return having("camunda_incidents", "instance_id", narrow, at)


def line(narrow: Filter, at: str) -> Filter:
    """Instances in whose history there is such a line."""
    return having("instance_timeline", "instance_id", narrow, at)


def token(narrow: Filter) -> Filter:
    """Instances that stand at such an element."""
    return having("instance_tokens", "instance_id", narrow, "node")


def _incident_status(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    status = asked.text("incidentStatus")
    if status not in (None, "open", "resolved"):
        raise invalid("incidentStatus must be open or resolved")
    return None if status is None else view.c.open == literal(status == "open")


FILTERS: Final[tuple[Filter, ...]] = (
    equal("processInstanceId", "instance_id", AS_ID),
    one_of("processInstanceIds", "instance_id", AS_ID),
    one_of("processInstanceIdNotIn", "instance_id", AS_ID, others=True),
    equal("rootProcessInstanceId", "instance_id", AS_ID),
    equal("processDefinitionId", "definition_id", AS_DEFINITION),
    equal("processDefinitionKey", "process_key"),
    one_of("processDefinitionKeyIn", "process_key"),
    one_of("processDefinitionKeyNotIn", "process_key", others=True),
    equal("processDefinitionName", "process_name"),
    like("processDefinitionNameLike", "process_name"),
    equal("processInstanceBusinessKey", "business_key"),
    one_of("processInstanceBusinessKeyIn", "business_key"),
    like("processInstanceBusinessKeyLike", "business_key"),
    flag("finished", "ended_at is not null"),
    flag("unfinished", "ended_at is null"),
    moment("startedBefore", "started_at", operator.le),
    moment("startedAfter", "started_at", operator.ge),
    moment("finishedBefore", "ended_at", operator.le),
    moment("finishedAfter", "ended_at", operator.ge),
    equal("startedBy", "principal"),
    *(
        flag(name, f"state = '{state}'")
        for name, state in (
            ("active", "ACTIVE"),
            ("suspended", "SUSPENDED"),
            ("completed", "COMPLETED"),
            ("externallyTerminated", "EXTERNALLY_TERMINATED"),
            ("internallyTerminated", "INTERNALLY_TERMINATED"),
        )
    ),
    incident(flag("withIncidents", "true"), "type"),
    incident(flag("withRootIncidents", "true"), "type"),
    incident(equal("incidentType", "type"), "type"),
    incident(equal("incidentMessage", "message"), "message"),
    incident(like("incidentMessageLike", "message"), "message"),
    incident(one_of("incidentIdIn", "incident_id", AS_ID), "incident_id"),
    incident(_incident_status, "open"),
    line(moment("executedActivityAfter", "at", operator.ge), "at"),
    line(moment("executedActivityBefore", "at", operator.le), "at"),
    line(one_of("executedActivityIdIn", "node"), "node"),
    token(one_of("activeActivityIdIn", "node")),
    token(one_of("activityIdIn", "node")),
    variables("variables"),
    # Every instance is a root: nothing calls another.
    nothing("superProcessInstanceId", "subProcessInstanceId", "superCaseInstanceId", "subCaseInstanceId"),
    nothing("caseInstanceId", "executedJobAfter", "executedJobBefore", "withJobsRetrying"),
    unknown("startDateBy", "startDateOn", "finishDateBy", "finishDateOn"),
    TENANTS,
)

INSTANCES: Final = Listing(
    view="camunda_instance_history",
    key="instance_id",
    columns=(
        "instance_id", "business_key", "definition_id", "process_key", "process_name", "process_version", "started_at",
        "ended_at", "duration_ms", "principal", "reason", "state", "start_node",
    ),
    hidden=("topics",),
    filters=(*FILTERS, either(FILTERS)),
    sorts={
        "instanceId": "instance_id", "definitionId": "definition_id", "definitionKey": "process_key",
        "definitionName": "process_name", "definitionVersion": "process_version", "businessKey": "business_key",
        "startTime": "started_at", "endTime": "ended_at", "duration": "duration_ms", "tenantId": "instance_id",
    },
)  # fmt: skip


def shown_history(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["instance_id"],
        "businessKey": row["business_key"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processDefinitionKey": row["process_key"],
        "processDefinitionName": row["process_name"],
        "processDefinitionVersion": row["process_version"],
        "startTime": row["started_at"],
        "endTime": row["ended_at"],
        "removalTime": None,
        "durationInMillis": row["duration_ms"],
        "startUserId": row["principal"],
        "startActivityId": row["start_node"],
        "deleteReason": row["reason"],
        "rootProcessInstanceId": row["instance_id"],
        "superProcessInstanceId": None,
        "superCaseInstanceId": None,
        "caseInstanceId": None,
        "tenantId": None,
        "state": row["state"],
        "restartedProcessInstanceId": None,
    }


serve_list(router, INSTANCES, shown_history)
serve_one(router, INSTANCES, shown_history, "instance_id", "Historic process instance with id {} does not exist")
