"""What people who start a process are shown of it first, and starting by a form: /process-definition/{id}/startForm.

Forms are drawn and checked by whoever shows them; here they have a key, which the model says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import Verb, demand
from app.bpmn.markup import parse
from app.bpmn.names import bpmn, extension
from app.camunda.answers import answer, done
from app.camunda.process_definitions import by_id, by_key, start_one, unknown_key
from app.camunda.route import CamundaCall, CamundaRoute

router = APIRouter(prefix="/engine-rest/process-definition", route_class=CamundaRoute)


@router.get("/key/{key}/startForm")
async def form_by_key(call: CamundaCall, key: str) -> Response:
    demand(call.principal, "read")
    return await _form(call, await by_key(call, key))


@router.get("/{given}/startForm")
async def form(call: CamundaCall, given: str) -> Response:
    """The form key of the start event."""
    demand(call.principal, "read")
    return await _form(call, await by_id(call, given))


@router.post("/key/{key}/submit-form")
async def submit_by_key(call: CamundaCall, key: str) -> Response:
    demand(call.principal, "enqueue")
    return await start_one(call, await by_key(call, key, bounded=False))


@router.post("/{given}/submit-form")
async def submit(call: CamundaCall, given: str) -> Response:
    """A start: forms are not checked here."""
    demand(call.principal, "enqueue")
    return await start_one(call, await by_id(call, given, bounded=False))


@router.get("/key/{key}/diagram")
async def diagram_by_key(call: CamundaCall, key: str) -> Response:
    demand(call.principal, "read")
    await by_key(call, key)
    return done()


@router.get("/{given}/diagram")
async def diagram(call: CamundaCall, given: str) -> Response:
    """204: no picture is deployed with a model."""
    demand(call.principal, "read")
    await by_id(call, given)
    return done()


@router.get("/key/{key}/tenant-id/{tenant}/{what}")
@router.post("/key/{key}/tenant-id/{tenant}/{what}")
@router.put("/key/{key}/tenant-id/{tenant}/{what}")
async def of_a_tenant(call: CamundaCall, key: str, tenant: str, what: str) -> Response:
    """There are no tenants here: 404."""
    verbs: Mapping[str, Verb] = {"POST": "enqueue", "PUT": "manage"}
    demand(call.principal, verbs.get(call.method, "read"))
    raise unknown_key(f"{key[:255]} and tenant-id: {tenant[:255]}")


async def _form(call: CamundaCall, definition: Mapping[str, Any]) -> Response:
    rows = await call.parts.database.view(
        "select content from celeriac.resources where deployment_id = :id and name = :name",
        id=definition["deployment_id"],
        name=definition["resource"],
    )
    key = await asyncio.to_thread(_form_key, bytes(rows[0].content), definition["key"])
    return answer({"key": key, "camundaFormRef": None, "contextPath": None})


def _form_key(content: bytes, process: str) -> str | None:
    """The form key of the start event without an event of a process."""
    for child in parse(content).children:
        if child.name == bpmn("process") and child.get("id") == process:
            for node in child.children:
                if node.name == bpmn("startEvent") and not any(
                    inner.name[1].endswith("EventDefinition") for inner in node.children
                ):
                    return extension(node, "formKey")
    return None
