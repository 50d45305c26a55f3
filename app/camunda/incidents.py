"""/incident: what somebody must look at: external tasks without retries, and tokens that cannot go on."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.errors import invalid, refused
from app.camunda.identifiers import definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    equal,
    like,
    moment,
    nothing,
    one,
    one_of,
)
from app.camunda.lists import serve_list, serve_one
from app.camunda.related import always
from app.camunda.route import CamundaCall, CamundaRoute

router = APIRouter(prefix="/engine-rest/incident", route_class=CamundaRoute)

INCIDENTS: Final = Listing(
    view="camunda_incidents",
    key="incident_id",
    columns=(
        "incident_id", "definition_id", "process_key", "process_version", "instance_id", "token_id", "created_at",
        "type", "node", "configuration", "message",
    ),
    hidden=("topics",),
    filters=(
        always("resolved_at is null"),
        equal("incidentId", "incident_id", AS_ID),
        equal("incidentType", "type"),
        equal("incidentMessage", "message"),
        like("incidentMessageLike", "message"),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        one_of("processDefinitionKeyIn", "process_key"),
        equal("processInstanceId", "instance_id", AS_ID),
        equal("executionId", "token_id", AS_ID),
        moment("incidentTimestampBefore", "created_at", operator.lt),
        moment("incidentTimestampAfter", "created_at", operator.gt),
        equal("activityId", "node"),
        equal("failedActivityId", "node"),
        equal("causeIncidentId", "incident_id", AS_ID),
        equal("rootCauseIncidentId", "incident_id", AS_ID),
        equal("configuration", "configuration", AS_ID),
        nothing("jobDefinitionIdIn"),
        TENANTS,
    ),
    sorts={
        "incidentId": "incident_id", "incidentTimestamp": "created_at", "incidentType": "type",
        "executionId": "token_id", "activityId": "node", "processInstanceId": "instance_id",
        "processDefinitionId": "definition_id", "causeIncidentId": "incident_id", "rootCauseIncidentId": "incident_id",
        "configuration": "configuration", "tenantId": "incident_id", "incidentMessage": "message",
    },
)  # fmt: skip


@router.delete("/{incident_id}")
async def resolve(call: CamundaCall, incident_id: str) -> Response:
    """400: retries resolve incidents here; there are none that somebody has made by hand."""
    demand(call.principal, "manage")
    row = await one(call, INCIDENTS, incident_id)
    if row is None:
        raise invalid(f"Cannot find an incident with id '{incident_id[:64]}'", 404)
    raise refused(f"Cannot resolve an incident of type {row['type']}")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["incident_id"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processInstanceId": row["instance_id"],
        "executionId": row["token_id"],
        "incidentTimestamp": row["created_at"],
        "incidentType": row["type"],
        "activityId": row["node"],
        "failedActivityId": row["node"],
        "causeIncidentId": row["incident_id"],
        "rootCauseIncidentId": row["incident_id"],
        "configuration": row["configuration"],
        "incidentMessage": row["message"],
        "tenantId": None,
        "jobDefinitionId": None,
        "annotation": None,
    }


serve_list(router, INCIDENTS, _shown, ["GET"])
serve_one(router, INCIDENTS, _shown, "incident_id", "No matching incident with id {}")
