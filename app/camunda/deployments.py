"""/deployment: models and other files come as a form; looked at, and deleted with all that came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from app import exact_json
from app.api.form import Part
from app.api.process_rights import demand_topics
from app.api.rights import demand
from app.bpmn.options import Options
from app.bpmn.problems import Finding
from app.camunda.answers import answer, done
from app.camunda.errors import ENGINE, CamundaError, invalid, refused
from app.camunda.file_answers import saved_as
from app.camunda.links import links
from app.camunda.listing import AS_ID, TENANTS, Listing, equal, flag, like, moment, one
from app.camunda.lists import serve_list
from app.camunda.process_definitions import shown_definition
from app.camunda.route import CamundaCall, CamundaRoute, takes_form
from app.camunda.sent import Sent
from app.deployment import CAMUNDA_ENDINGS, NotDeployable, Resource, prepared, starts_of
from db.call import Json

router = APIRouter(prefix="/engine-rest/deployment", route_class=CamundaRoute)

FIELDS: Final = frozenset({
    "deployment-name", "deployment-source", "deployment-activation-time", "enable-duplicate-filtering",
    "deploy-changed-only", "tenant-id",
})  # fmt: skip
"""Parts that say something; every other one is a file."""
MOST_FINDINGS: Final = 1000
DELETE_SECONDS: Final = 60.0
"""How long a request deletes instances for."""
FOREIGN_KEY: Final = 10001
"""The code of what others still refer to."""

DEPLOYMENTS: Final = Listing(
    view="deployments",
    key="deployment_id",
    columns=("deployment_id", "name", "source", "deployed_at"),
    hidden=("topics",),
    filters=(
        equal("id", "deployment_id", AS_ID),
        equal("name", "name"),
        like("nameLike", "name"),
        equal("source", "source"),
        flag("withoutSource", "source is null"),
        moment("after", "deployed_at", lambda at, given: at > given),
        moment("before", "deployed_at", lambda at, given: at < given),
        TENANTS,
    ),
    sorts={"id": "deployment_id", "name": "name", "deploymentTime": "deployed_at", "tenantId": "deployment_id"},
)


@router.post("/create")
@takes_form
async def create(call: CamundaCall) -> Response:
    """Deploy the files of a form: all of them or none; a process is one that says that it is executable."""
    demand(call.principal, "manage")
    said, resources = _read(await call.form_parts())
    name, source, active_from = (
        said.name("deployment-name"), said.name("deployment-source"), said.moment("deployment-activation-time"),
    )  # fmt: skip
    options = Options(
        delegates="topics" if call.parts.settings.camunda_delegates == "topics" else "error",
        unrunnable="ignore" if call.parts.settings.camunda_unrunnable == "ignore" else "error",
        executable="stated",
    )
    now: datetime = (await call.parts.database.one("now"))[0]
    try:
        # Large models take a second of reading; others are served meanwhile.
        arguments = await asyncio.to_thread(prepared, name, resources, options, now)
    except NotDeployable as refusal:
        raise _parse_error(refusal.findings) from None
    if call.principal.only_types is not None:
        models = exact_json.loads(arguments["definitions"])
        demand_topics(call, {topic for model in models for topic in model["topics"]})
    rows = await call.parts.database.rows(
        "deploy_models",
        **arguments,
        principal=call.principal.name,
        source=source,
        duplicates=_duplicates(said),
        active_from=active_from,
    )
    deployed = await _deployment(call, str(rows[0].deployment_id))
    definitions = None
    if rows[0].created:
        definitions = {shown["id"]: shown for shown in await _definitions(call, rows[0].deployment_id)}
    return answer(
        shown_deployment(deployed)
        | {
            "links": links(call, "deployment", deployed["deployment_id"]),
            "deployedProcessDefinitions": definitions or None,
            "deployedCaseDefinitions": None,
            "deployedDecisionDefinitions": None,
            "deployedDecisionRequirementsDefinitions": None,
        }
    )


def shown_deployment(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "links": [],
        "id": row["deployment_id"],
        "name": row["name"],
        "source": row["source"],
        "deploymentTime": row["deployed_at"],
        "tenantId": None,
    }


serve_list(router, DEPLOYMENTS, shown_deployment, ["GET"])


@router.get("/{deployment_id}")
async def get(call: CamundaCall, deployment_id: str) -> Response:
    demand(call.principal, "read")
    return answer(shown_deployment(await _deployment(call, deployment_id)))


@router.get("/{deployment_id}/resources")
async def resources(call: CamundaCall, deployment_id: str) -> Response:
    """The files, without what is in them."""
    demand(call.principal, "read")
    rows = await _resources(call, deployment_id)
    if not rows:
        raise invalid(f"Deployment resources for deployment id '{deployment_id[:64]}' do not exist.", 404)
    return answer([_shown_resource(row) for row in rows])


@router.get("/{deployment_id}/resources/{resource_id}")
async def resource(call: CamundaCall, deployment_id: str, resource_id: str) -> Response:
    demand(call.principal, "read")
    return answer(_shown_resource(await _resource(call, deployment_id, resource_id)))


@router.get("/{deployment_id}/resources/{resource_id}/data")
async def data(call: CamundaCall, deployment_id: str, resource_id: str) -> Response:
    """A file, byte for byte; never as a page that a browser would show."""
    demand(call.principal, "read")
    row = await _resource(call, deployment_id, resource_id)
    rows = await call.parts.database.view(
        "select content from celeriac.resources where deployment_id = :id and name = :name",
        id=row["deployment_id"],
        name=row["name"],
    )
    return Response(bytes(rows[0].content), media_type="application/octet-stream", headers=saved_as(row["name"]))


@router.delete("/{deployment_id}")
async def delete(call: CamundaCall, deployment_id: str) -> Response:
    """Delete a deployment with its definitions; with `cascade` their instances as well, else there must be none."""
    demand(call.principal, "manage")
    row = await one(call, DEPLOYMENTS, deployment_id)
    if row is None:
        raise invalid(f"Deployment with id '{deployment_id[:64]}' do not exist", 404)
    cascade = call.asked.boolean("cascade")
    stop_at = asyncio.get_running_loop().time() + DELETE_SECONDS
    while True:
        gone = await call.parts.database.one(
            "delete_deployment",
            deployment_id=row["deployment_id"],
            cascade=cascade,
            heirs=Json(exact_json.dumps(await _heirs(call, row["deployment_id"]))),
            principal=call.principal.name,
        )
        if gone.deleted:
            return done()
        if not cascade:
            raise CamundaError(
                400, "RestException", "there are instances of the deployment's processes: cascade=true deletes them as"
                " well", code=FOREIGN_KEY,
            )  # fmt: skip
        if asyncio.get_running_loop().time() > stop_at:
            raise refused("the deployment has more instances than can be deleted at once: delete it again")
        await call.parts.advancer.advance(gone.stopped or ())


def _read(parts: Sequence[Part]) -> tuple[Sent, list[Resource]]:
    """What the form says, and its files."""
    said = Sent({part.field: part.text.strip() or None for part in parts if part.field in FIELDS})
    files = []
    for part in parts:
        if part.field in FIELDS:
            continue
        if part.file_name is None:
            raise invalid(f"No file name found in the deployment resource described by form parameter '{part.field}'.")
        files.append(Resource(part.file_name, part.content, CAMUNDA_ENDINGS))
    if not files:
        raise invalid("No deployment resources contained in the form upload.")
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise invalid("two files of the deployment have one name")
    if "tenant-id" in said:
        raise invalid("there are no tenants here: deploy without a tenant-id")
    return said, files


def _duplicates(said: Sent) -> str:
    if said.boolean("deploy-changed-only"):
        return "changed"
    return "files" if said.boolean("enable-duplicate-filtering") else "keep"


async def _deployment(call: CamundaCall, deployment_id: str) -> Mapping[str, Any]:
    row = await one(call, DEPLOYMENTS, deployment_id)
    if row is None:
        raise invalid(f"Deployment with id '{deployment_id[:64]}' does not exist", 404)
    return row


async def _definitions(call: CamundaCall, deployment_id: UUID) -> list[dict[str, Any]]:
    rows = await call.parts.database.view(
        "select * from celeriac.camunda_definitions where deployment_id = :id order by definition_id", id=deployment_id
    )
    return [shown_definition(dict(row._mapping)) for row in rows]


async def _resources(call: CamundaCall, deployment_id: str) -> list[dict[str, Any]]:
    if (deployment := await one(call, DEPLOYMENTS, deployment_id)) is None:
        return []
    rows = await call.parts.database.view(
        "select deployment_id, resource_id, name from celeriac.resources where deployment_id = :id order by name",
        id=deployment["deployment_id"],
    )
    return [dict(row._mapping) for row in rows]


async def _resource(call: CamundaCall, deployment_id: str, resource_id: str) -> dict[str, Any]:
    for row in await _resources(call, deployment_id):
        if str(row["resource_id"]) == resource_id.lower():
            return row
    what = f"Deployment resource with resource id '{resource_id[:64]}' for deployment id '{deployment_id[:64]}'"
    raise invalid(f"{what} does not exist.", 404)


def _shown_resource(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": row["resource_id"], "name": row["name"], "deploymentId": row["deployment_id"]}


async def _heirs(call: CamundaCall, deployment_id: UUID) -> dict[str, Any]:
    """The versions that become the newest ones without this deployment, and what begins instances of them."""
    now: datetime = (await call.parts.database.one("now"))[0]
    rows = await call.parts.database.view(
        "select n.definition_id, g.graph from celeriac.definitions d"
        " cross join lateral (select o.definition_id, o.version from celeriac.definitions o where o.key = d.key"
        " and o.deployment_id <> d.deployment_id order by o.version desc limit 1) n"
        " join celeriac.definition_graphs g on g.definition_id = n.definition_id"
        " where d.deployment_id = :id and n.version < d.version",
        id=deployment_id,
    )
    return {str(row.definition_id): await asyncio.to_thread(starts_of, row.graph, now) for row in rows}


def _parse_error(findings: Sequence[tuple[str, Finding]]) -> CamundaError:
    """Every finding of every file, as Camunda 7 lists them."""
    details: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for resource_name, finding in findings[:MOST_FINDINGS]:
        of_file = details.setdefault(resource_name, {"errors": [], "warnings": []})
        of_file["errors" if finding.severity == "error" else "warnings"].append(_problem(finding))
    errors = [
        f"* {finding.message} | {resource_name} | line {finding.line}"
        for resource_name, finding in findings
        if finding.severity == "error"
    ]
    message = "\n".join(["ENGINE-09005 Could not parse BPMN process. Errors:", *errors[:20]])
    return CamundaError(400, "ParseException", message, code=ENGINE, details=details)


def _problem(finding: Finding) -> dict[str, Any]:
    elements = [] if finding.element is None else [finding.element]
    return {
        "message": finding.message,
        "line": finding.line,
        "column": 0,  # known to nobody here
        "mainElementId": finding.element,
        # Camunda 7 spells this one with a Cyrillic е in front; both are for whoever reads either.
        "\u0435lementIds": elements,
        "elementIds": elements,
    }
