"""Process definitions: deploy models, and look at what is deployed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from app import exact_json
from app.api import answers_of
from app.api.answers import answer, splice
from app.api.body import read_body
from app.api.door import Call, DoorRoute
from app.api.fields import LARGEST_INTEGER, Digits, Id, Name
from app.api.form import read_form
from app.api.pages import SortedQuery, page_of
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.process_rights import WITHIN, demand_topics
from app.api.rights import demand
from app.bpmn.options import Options
from app.bpmn.problems import Finding
from app.deployment import NotDeployable, Resource, prepared
from app.diagram.drawing import drawing
from app.diagram.svg import Marks
from db.listing import definition_page

router = APIRouter(prefix="/v1/process-definitions", tags=["processes"], route_class=DoorRoute)

XML_TYPES: Final = frozenset({"application/xml", "text/xml", "application/bpmn+xml", "application/octet-stream"})
MOST_FINDINGS: Final = 1000
_HARMLESS: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'"}
"""A picture opened in a browser runs nothing and loads nothing."""
_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)
_BINARY: Final = {"type": "string", "format": "binary"}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/xml": {"schema": _BINARY},
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"files": {"type": "array", "items": _BINARY}}}
            },
        },
    }
}
_SVG: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}}
_XML: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"application/xml": {"schema": {"type": "string"}}}}}


class DeployQuery(BaseModel):
    """`delegates=topics`: Java classes and delegate expressions become topics of their names; `unrunnable=ignore`:
    listeners and scripts in other languages are left out with a warning. `name`: of the deployment."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Name | None = None
    delegates: Literal["error", "topics"] = "error"
    unrunnable: Literal["error", "ignore"] = "error"


class DefinitionQuery(SortedQuery):
    """Filters, order and page of a list of definitions."""

    key: Name | None = None
    version: Annotated[Digits, Field(ge=1, le=LARGEST_INTEGER)] | None = None
    deployment_id: Id | None = None
    sort: Literal["deployed_at", "-deployed_at"] = "-deployed_at"


@router.post(
    "",
    status_code=201,
    response_model=answers_of.Deployed,
    responses={**BODY_REFUSALS, 200: {"model": answers_of.Deployed}},
    openapi_extra=_BODY,
)
async def deploy(call: Call, asked: Annotated[DeployQuery, Query()]) -> Response:
    """Deploy a BPMN file (the body as it is), or several files as a form; all of them or none.

    201 with the new versions, or 200 when the newest ones came from the same bytes and options. 422 has in `findings`
    everything that is wrong, with the element and the line; warnings come with the answer.
    """
    demand(call.principal, "manage")
    resources = await _files(call, asked.name)
    options = Options(delegates=asked.delegates, unrunnable=asked.unrunnable)
    name = asked.name or resources[0].name
    now: datetime = (await call.parts.database.one("now"))[0]
    try:
        # Large models take a second of reading; others are served meanwhile.
        arguments = await asyncio.to_thread(prepared, name, resources, options, now)
    except NotDeployable as refused:
        raise Problem(422, str(refused), findings=_shown(refused.findings)) from None
    if call.principal.only_types is not None:
        models = exact_json.loads(arguments["definitions"])
        demand_topics(call, {topic for model in models for topic in model["topics"]})
    rows = await call.parts.database.rows("deploy_models", **arguments, principal=call.principal.name)
    deployed = {
        "deployment_id": rows[0].deployment_id,
        "created": rows[0].created,
        "definitions": [{"definition_id": row.definition_id, "key": row.key, "version": row.version} for row in rows],
        "findings": exact_json.loads(arguments["report"])[:MOST_FINDINGS],
    }
    return answer(deployed, 201 if rows[0].created else 200)


@router.get("", response_model=answers_of.DefinitionPage, responses=documented(401, 403, 422, 503))
async def list_definitions(call: Call, asked: Annotated[DefinitionQuery, Query()]) -> Response:
    """A page of process definitions, every version of them, the latest deployed first."""
    demand(call.principal, "read")
    rows, next_cursor = await page_of(call, definition_page, asked)
    return answer({"definitions": rows, "next_cursor": next_cursor})


@router.get("/{definition_id}", response_model=answers_of.DefinitionAnswer, responses=_READ_REFUSALS)
async def get(call: Call, definition_id: Id) -> Response:
    """One process definition, and what was said of its files when they were deployed."""
    demand(call.principal, "read")
    row = await _definition(call, definition_id)
    report = await call.parts.database.view(
        "select report from celeriac.deployments where deployment_id = :id", id=row["deployment_id"]
    )
    return answer(splice(row | {"findings": report[0].report}, ("findings",)))


@router.get("/{definition_id}/xml", responses=_READ_REFUSALS | _XML, response_class=Response)
async def xml(call: Call, definition_id: Id) -> Response:
    """The file that the definition came from, byte for byte."""
    demand(call.principal, "read")
    row = await _definition(call, definition_id)
    # Never to be looked at as a page: it is somebody's file.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    return Response(await _content(call, row), media_type="application/xml", headers=headers)


@router.get("/{definition_id}/diagram.svg", responses=_READ_REFUSALS | _SVG, response_class=Response)
async def diagram(call: Call, definition_id: Id) -> Response:
    """The model as a picture: as its modeler placed it, or laid out here."""
    demand(call.principal, "read")
    return await draw(call, await _definition(call, definition_id), Marks())


async def draw(call: Call, definition: dict[str, Any], marks: Marks) -> Response:
    """The picture of a definition with marks on it."""
    graphs = await call.parts.database.view(
        "select graph from celeriac.definition_graphs where definition_id = :id", id=definition["definition_id"]
    )
    content = await _content(call, definition)
    svg = await asyncio.to_thread(drawing, graphs[0].graph, content, marks)
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(svg, media_type="image/svg+xml", headers=headers)


async def definition_row(call: Call, where: str, **values: Any) -> dict[str, Any]:
    """A row of the view of definitions; 404 when there is none that the caller may see."""
    rows = await call.parts.database.view(
        f"select * from celeriac.definitions where {where} and {WITHIN} order by version desc limit 1",  # noqa: S608
        only=call.principal.only_types,
        **values,
    )
    if not rows:
        raise Problem(404, "there is no such process definition")
    return dict(rows[0]._mapping)


async def _definition(call: Call, definition_id: str) -> dict[str, Any]:
    return await definition_row(call, "definition_id = cast(:id as uuid)", id=definition_id)


async def _content(call: Call, definition: dict[str, Any]) -> bytes:
    rows = await call.parts.database.view(
        "select content from celeriac.resources where deployment_id = :id and name = :name",
        id=definition["deployment_id"],
        name=definition["resource"],
    )
    return bytes(rows[0].content)


async def _files(call: Call, name: str | None) -> Sequence[Resource]:
    content_type = call.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in XML_TYPES and media_type != "multipart/form-data":
        raise Problem(415, "the Content-Type must be application/xml or multipart/form-data")
    if call.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "no Content-Encoding is accepted")
    body = await read_body(call.receive)
    if media_type in XML_TYPES:
        file_name = name or "model.bpmn"
        resource = Resource(file_name, body)
        return [resource if resource.is_model else Resource(f"{file_name}.bpmn", body)]
    files = [Resource(file.name, file.content) for file in read_form(content_type, body)]
    names = [file.name for file in files]
    if not files or len(set(names)) < len(names):
        raise Problem(422, "a deployment needs files, each with a name of its own")
    return files


def _shown(findings: Sequence[tuple[str, Finding]]) -> list[dict[str, Any]]:
    return [{"resource": resource, **asdict(finding)} for resource, finding in findings[:MOST_FINDINGS]]
