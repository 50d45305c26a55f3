"""/process-definition: what is deployed, and starting instances of it. A definition goes by its id, or by its key."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from app.api.process_rights import WITHIN, demand_topics
from app.api.rights import demand
from app.camunda.answers import answer
from app.camunda.errors import CamundaError, invalid, refused
from app.camunda.identifiers import definition_id, definition_uuid
from app.camunda.instance_shape import instance_of, shown_instance, shown_variables
from app.camunda.links import links
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
    number,
    one_of,
)
from app.camunda.lists import serve_list
from app.camunda.related import having
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.values import Typed, plain, read_variables, save_files, types
from db.call import aone
from db.errors import Invalid

router = APIRouter(prefix="/engine-rest/process-definition", route_class=CamundaRoute)


def incident(narrow: Filter, at: str) -> Filter:
    """Definitions of which an instance has an open incident like this."""
    return having("camunda_incidents", "definition_id", narrow, at, "resolved_at is null")


DEFINITIONS: Final = Listing(
    view="camunda_definitions",
    key="definition_id",
    columns=(
        "definition_id", "key", "category", "description", "name", "version", "resource", "deployment_id", "suspended",
        "version_tag", "topics",
    ),
    hidden=("latest", "deployed_at", "startable"),
    filters=(
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        one_of("processDefinitionIdIn", "definition_id", AS_DEFINITION),
        equal("name", "name"),
        like("nameLike", "name"),
        equal("deploymentId", "deployment_id", AS_ID),
        equal("key", "key"),
        one_of("keysIn", "key"),
        like("keyLike", "key"),
        equal("category", "category"),
        like("categoryLike", "category"),
        number("version", "version"),
        flag("latestVersion", "latest"),
        equal("resourceName", "resource"),
        like("resourceNameLike", "resource"),
        equal("versionTag", "version_tag"),
        like("versionTagLike", "version_tag"),
        flag("withoutVersionTag", "version_tag is null"),
        flag("active", "not suspended"),
        flag("suspended", "suspended"),
        flag("notStartableInTasklist", "false"),
        moment("deployedAfter", "deployed_at", operator.gt),
        moment("deployedAt", "deployed_at", operator.eq),
        incident(equal("incidentId", "incident_id", AS_ID), "incident_id"),
        incident(equal("incidentType", "type"), "type"),
        incident(equal("incidentMessage", "message"), "message"),
        incident(like("incidentMessageLike", "message"), "message"),
        nothing("startableBy"),
        TENANTS,
    ),
    sorts={
        "category": "category", "key": "key", "id": "definition_id", "name": "name", "version": "version",
        "deploymentId": "deployment_id", "deployTime": "deployed_at", "tenantId": "definition_id",
        "versionTag": "version_tag",
    },
)  # fmt: skip


def shown_definition(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": definition_id(row["key"], row["version"], row["definition_id"]),
        "key": row["key"],
        "category": row["category"],
        "description": row["description"],
        "name": row["name"],
        "version": row["version"],
        "resource": row["resource"],
        "deploymentId": row["deployment_id"],
        "diagram": None,
        "suspended": row["suspended"],
        "tenantId": None,
        "versionTag": row["version_tag"],
        "historyTimeToLive": None,  # what has ended is kept as long as the server is told to keep it
        "startableInTasklist": True,
    }


serve_list(router, DEFINITIONS, shown_definition, ["GET"])


@router.get("/key/{key}")
async def get_by_key(call: CamundaCall, key: str) -> Response:
    """The latest version."""
    demand(call.principal, "read")
    return answer(shown_definition(await by_key(call, key)))


@router.get("/key/{key}/xml")
async def xml_by_key(call: CamundaCall, key: str) -> Response:
    demand(call.principal, "read")
    return await _xml(call, await by_key(call, key))


@router.post("/key/{key}/start")
async def start_by_key(call: CamundaCall, key: str) -> Response:
    """Start an instance of the latest version."""
    demand(call.principal, "enqueue")
    return await start_one(call, await by_key(call, key, bounded=False))


@router.api_route("/key/{key}/tenant-id/{tenant}", methods=["GET"])
@router.api_route("/key/{key}/tenant-id/{tenant}/xml", methods=["GET"])
@router.api_route("/key/{key}/tenant-id/{tenant}/start", methods=["POST"])
async def of_a_tenant(call: CamundaCall, key: str, tenant: str) -> Response:
    """There are no tenants here: 404."""
    demand(call.principal, "read" if call.method == "GET" else "enqueue")
    raise unknown_key(f"{key[:255]} and tenant-id: {tenant[:255]}")


@router.get("/{given}")
async def get(call: CamundaCall, given: str) -> Response:
    demand(call.principal, "read")
    return answer(shown_definition(await by_id(call, given)))


@router.get("/{given}/xml")
async def xml(call: CamundaCall, given: str) -> Response:
    """The file that the definition came from, as text."""
    demand(call.principal, "read")
    return await _xml(call, await by_id(call, given))


@router.post("/{given}/start")
async def start(call: CamundaCall, given: str) -> Response:
    """Start an instance of this version."""
    demand(call.principal, "enqueue")
    return await start_one(call, await by_id(call, given, bounded=False))


async def by_id(call: CamundaCall, given: str, *, bounded: bool = True) -> dict[str, Any]:
    row = None
    if (uuid := definition_uuid(given)) is not None:
        row = await _row(call, "definition_id = cast(:id as uuid)", bounded, id=uuid)
    if row is None:
        raise refused(f"No matching definition with id {given[:255]}", 404)
    return row


async def by_key(call: CamundaCall, key: str, *, bounded: bool = True) -> dict[str, Any]:
    """The latest version; `bounded`: a key that may not see it finds nothing."""
    row = await _row(call, "key = :key", bounded, key=key)
    if row is None:
        raise unknown_key(f"{key[:255]} and no tenant-id")
    return row


async def _row(call: CamundaCall, where: str, bounded: bool, **values: Any) -> dict[str, Any] | None:
    rows = await call.parts.database.view(
        f"select * from celeriac.camunda_definitions where {where} and {WITHIN} order by version desc limit 1",  # noqa: S608 - one of two
        only=call.principal.only_types if bounded else None,
        **values,
    )
    return dict(rows[0]._mapping) if rows else None


def unknown_key(key: str) -> CamundaError:
    return refused(f"No matching process definition with key: {key}", 404)


async def _xml(call: CamundaCall, row: Mapping[str, Any]) -> Response:
    rows = await call.parts.database.view(
        "select content from celeriac.resources where deployment_id = :id and name = :name",
        id=row["deployment_id"],
        name=row["resource"],
    )
    text = bytes(rows[0].content).decode("utf-8-sig", "replace")
    return answer({"id": shown_definition(row)["id"], "bpmn20Xml": text})


async def start_one(call: CamundaCall, definition: Mapping[str, Any]) -> Response:
    demand_topics(call, definition["topics"])
    sent = call.sent
    if sent.list_of_sent("startInstructions"):
        raise invalid("startInstructions are not known here: an instance begins at its start event")
    with_variables = sent.boolean("withVariablesInReturn")
    business_key = sent.name("businessKey") if sent.text("businessKey") else None
    instance_id = await start_instance(call, definition, read_variables(sent.mapping("variables")), business_key)
    await call.parts.advancer.advance([instance_id])
    instance = await instance_of(call, instance_id)
    assert instance is not None
    shown = shown_instance(instance) | {"links": links(call, "process-instance", instance_id)}
    if with_variables:
        shown["variables"] = await shown_variables(call, instance_id)
    return answer(shown)


async def start_instance(
    call: CamundaCall, definition: Mapping[str, Any], variables: Mapping[str, Typed], business_key: str | None
) -> str:
    """A new instance, which nobody has advanced yet."""
    async with call.parts.database.transaction() as connection:
        saved = await save_files(connection, None, variables)
        try:
            row = await aone(
                connection,
                "start_instance",
                definition_id=definition["definition_id"],
                variables=plain(saved),
                types=types(saved),
                business_key=business_key,
                principal=call.principal.name,
            )
        except Invalid as refusal:
            shown = definition_id(definition["key"], definition["version"], definition["definition_id"])
            raise refused(f"Cannot instantiate process definition {shown}: {refusal.message}") from None
    return str(row.instance_id)
