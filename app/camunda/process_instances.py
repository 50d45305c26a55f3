"""/process-instance: those that run. One that has ended is found in the history alone."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from app.api.problems import Problem
from app.api.process_instances import until_stopped
from app.api.rights import demand
from app.camunda.activity_tree import activity_tree
from app.camunda.answers import answer, done
from app.camunda.errors import CamundaError, invalid
from app.camunda.instance_shape import instance_of, shown_instance
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    AS_TEXT,
    TENANTS,
    Filter,
    Kind,
    Listing,
    equal,
    flag,
    like,
    nothing,
    one_of,
)
from app.camunda.lists import serve_list
from app.camunda.related import either, having
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.variable_filters import variables
from db.errors import AlreadyEnded, NotFound

router = APIRouter(prefix="/engine-rest/process-instance", route_class=CamundaRoute)


def incident(name: str, at: str, kind: Kind = AS_TEXT, *, patterns: bool = False) -> Filter:
    """Instances with an open incident like this."""
    narrow = like(name, at) if patterns else equal(name, at, kind)
    return having("camunda_incidents", "instance_id", narrow, at, "resolved_at is null")


FILTERS: Final[tuple[Filter, ...]] = (
    one_of("processInstanceIds", "instance_id", AS_ID),
    equal("businessKey", "business_key"),
    like("businessKeyLike", "business_key"),
    equal("processDefinitionId", "definition_id", AS_DEFINITION),
    equal("processDefinitionKey", "process_key"),
    one_of("processDefinitionKeyIn", "process_key"),
    one_of("processDefinitionKeyNotIn", "process_key", others=True),
    equal("deploymentId", "deployment_id", AS_ID),
    flag("active", "not suspended"),
    flag("suspended", "suspended"),
    having("camunda_incidents", "instance_id", flag("withIncident", "true"), "node", "resolved_at is null"),
    incident("incidentId", "incident_id", AS_ID),
    incident("incidentType", "type"),
    incident("incidentMessage", "message"),
    incident("incidentMessageLike", "message", patterns=True),
    having("instance_tokens", "instance_id", one_of("activityIdIn", "node"), "node"),
    variables("variables"),
    nothing("caseInstanceId", "superProcessInstance", "subProcessInstance", "superCaseInstance", "subCaseInstance"),
    TENANTS,
)

INSTANCES: Final = Listing(
    view="open_instances",
    key="instance_id",
    columns=(
        "instance_id", "definition_id", "process_key", "process_version", "business_key", "suspended", "ended_at",
    ),
    hidden=("deployment_id", "topics"),
    filters=(*FILTERS, either(FILTERS)),
    sorts={
        "instanceId": "instance_id", "definitionKey": "process_key", "definitionId": "definition_id",
        "tenantId": "instance_id", "businessKey": "business_key",
    },
)  # fmt: skip


serve_list(router, INSTANCES, shown_instance)


@router.get("/{instance_id}")
async def get(call: CamundaCall, instance_id: str) -> Response:
    demand(call.principal, "read")
    return answer(shown_instance(await _open(call, instance_id)))


@router.get("/{instance_id}/activity-instances")
async def activity_instances(call: CamundaCall, instance_id: str) -> Response:
    """Where the instance stands, subprocess by subprocess."""
    demand(call.principal, "read")
    return answer(await activity_tree(call.parts.database, await _open(call, instance_id)))


@router.delete("/{instance_id}")
async def delete(call: CamundaCall, instance_id: str) -> Response:
    """Stop an instance and its open tasks; nothing that it has done is undone."""
    demand(call.principal, "manage")
    may_be_missing = "failIfNotExists" in call.asked and not call.asked.boolean("failIfNotExists")
    if not await _stopped(call, instance_id) and not may_be_missing:
        raise invalid(f"No process instance found for id '{instance_id[:64]}'", 404)
    return done()


@router.put("/{instance_id}/suspended")
async def suspend(call: CamundaCall, instance_id: str) -> Response:
    """Let an instance stand still, or go on: what happens to it meanwhile is kept."""
    demand(call.principal, "manage")
    instance = await _open(call, instance_id)
    suspended = call.sent.boolean("suspended")
    try:
        await call.parts.database.one(
            "suspend_instance",
            instance_id=instance["instance_id"],
            suspended=suspended,
            principal=call.principal.name,
        )
    except NotFound:
        raise _missing(instance_id) from None
    if not suspended:
        await call.parts.advancer.advance([instance["instance_id"]])
    return done()


async def _open(call: CamundaCall, instance_id: str) -> dict[str, Any]:
    instance = await instance_of(call, instance_id, is_open=True)
    if instance is None:
        raise _missing(instance_id)
    return instance


async def _stopped(call: CamundaCall, instance_id: str) -> bool:
    """Whether there was one to stop: not one that has ended by itself in this moment."""
    instance = await instance_of(call, instance_id, is_open=True)
    if instance is None:
        return False
    try:
        await call.parts.database.one(
            "stop_instance", instance_id=instance["instance_id"], principal=call.principal.name
        )
        await until_stopped(call, str(instance["instance_id"]))
    except (AlreadyEnded, NotFound, Problem):
        return False
    return True


def _missing(instance_id: str) -> CamundaError:
    return invalid(f"Process instance with id {instance_id[:64]} does not exist", 404)
