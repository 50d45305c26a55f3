"""/history/incident: incidents of process instances, open and resolved."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter

from app.camunda.identifiers import definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    equal,
    flag,
    like,
    moment,
    nothing,
    one_of,
)
from app.camunda.lists import serve_list, serve_one
from app.camunda.route import CamundaRoute

router = APIRouter(prefix="/engine-rest/history/incident", route_class=CamundaRoute)

INCIDENTS: Final = Listing(
    view="camunda_incidents",
    key="incident_id",
    columns=(
        "incident_id", "instance_id", "token_id", "node", "message", "created_at", "resolved_at", "open", "deleted",
        "type", "configuration", "definition_id", "process_key", "process_version",
    ),
    hidden=("topics",),
    filters=(
        equal("incidentId", "incident_id", AS_ID),
        equal("incidentType", "type"),
        equal("incidentMessage", "message"),
        like("incidentMessageLike", "message"),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
        one_of("processDefinitionKeyIn", "process_key"),
        equal("processInstanceId", "instance_id", AS_ID),
        equal("executionId", "token_id", AS_ID),
        equal("activityId", "node"),
        equal("failedActivityId", "node"),
        equal("causeIncidentId", "incident_id", AS_ID),
        equal("rootCauseIncidentId", "incident_id", AS_ID),
        equal("configuration", "configuration", AS_ID),
        moment("createTimeBefore", "created_at", operator.lt),
        moment("createTimeAfter", "created_at", operator.gt),
        moment("endTimeBefore", "resolved_at", operator.lt),
        moment("endTimeAfter", "resolved_at", operator.gt),
        flag("open", "open"),
        flag("resolved", "not open and not deleted"),
        flag("deleted", "deleted"),
        nothing("jobDefinitionIdIn", "historyConfiguration"),
        TENANTS,
    ),
    sorts={
        "incidentId": "incident_id", "incidentMessage": "message", "createTime": "created_at",
        "endTime": "resolved_at", "incidentType": "type", "executionId": "token_id", "activityId": "node",
        "processInstanceId": "instance_id", "processDefinitionId": "definition_id",
        "processDefinitionKey": "process_key", "causeIncidentId": "incident_id", "rootCauseIncidentId": "incident_id",
        "configuration": "configuration", "incidentState": "open", "tenantId": "incident_id",
    },
)  # fmt: skip


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["incident_id"],
        "processDefinitionKey": row["process_key"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processInstanceId": row["instance_id"],
        "executionId": row["token_id"],
        "rootProcessInstanceId": row["instance_id"],
        "createTime": row["created_at"],
        "endTime": row["resolved_at"],
        "removalTime": None,
        "incidentType": row["type"],
        "activityId": row["node"],
        "failedActivityId": row["node"],
        "causeIncidentId": row["incident_id"],
        "rootCauseIncidentId": row["incident_id"],
        "configuration": row["configuration"],
        "historyConfiguration": None,
        "incidentMessage": row["message"],
        "tenantId": None,
        "jobDefinitionId": None,
        "open": row["open"],
        "deleted": row["deleted"],
        "resolved": not row["open"] and not row["deleted"],
    }


serve_list(router, INCIDENTS, _shown)
serve_one(router, INCIDENTS, _shown, "incident_id", "Historic incident with id {} does not exist")
