"""PUT /process-definition/…/suspended: no instance is started any more, or they may be again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from app.api.process_rights import WITHIN
from app.api.rights import demand
from app.camunda.answers import done
from app.camunda.errors import invalid
from app.camunda.identifiers import definition_id
from app.camunda.many_instances import of_process, suspend_all
from app.camunda.process_definitions import by_id, unknown_key
from app.camunda.route import CamundaCall, CamundaRoute
from db.errors import NotFound

router = APIRouter(prefix="/engine-rest/process-definition", route_class=CamundaRoute)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request wants of definitions; `instances`: also of those that run."""

    suspended: bool
    instances: bool


@router.put("/suspended")
async def suspend(call: CamundaCall) -> Response:
    """By processDefinitionId, or every version by processDefinitionKey."""
    demand(call.principal, "manage")
    wanted = await _wanted(call)
    given, key = call.sent.text("processDefinitionId"), call.sent.text("processDefinitionKey")
    if (given is None) == (key is None):
        what = "Either processDefinitionId or processDefinitionKey should be set to update the suspension state."
        raise invalid(what)
    return await _suspend(call, await _versions(call, key) if given is None else [await by_id(call, given)], wanted)


@router.put("/key/{key}/suspended")
async def suspend_by_key(call: CamundaCall, key: str) -> Response:
    """Every version."""
    demand(call.principal, "manage")
    wanted = await _wanted(call)
    return await _suspend(call, await _versions(call, key), wanted)


@router.put("/{given}/suspended")
async def suspend_by_id(call: CamundaCall, given: str) -> Response:
    demand(call.principal, "manage")
    wanted = await _wanted(call)
    return await _suspend(call, [await by_id(call, given)], wanted)


async def _wanted(call: CamundaCall) -> Wanted:
    sent = call.sent
    wanted, at = (
        Wanted(sent.boolean("suspended"), sent.boolean("includeProcessInstances")),
        sent.moment("executionDate"),
    )
    if at is not None and at > (await call.parts.database.one("now"))[0]:
        raise invalid("executionDate: it is done now or not at all")
    return wanted


async def _versions(call: CamundaCall, key: str | None) -> Sequence[Mapping[str, Any]]:
    rows = await call.parts.database.view(
        f"select * from celeriac.camunda_definitions where key = :key and {WITHIN} order by definition_id",  # noqa: S608 - ours
        key=key,
        only=call.principal.only_types,
    )
    if not rows:
        raise unknown_key(f"{(key or '')[:255]} and no tenant-id")
    return [dict(row._mapping) for row in rows]


async def _suspend(call: CamundaCall, definitions: Sequence[Mapping[str, Any]], wanted: Wanted) -> Response:
    for row in definitions:
        try:
            told = {"definition_id": row["definition_id"], "suspended": wanted.suspended}
            await call.parts.database.one("suspend_definition", **told, principal=call.principal.name)
        except NotFound:
            raise unknown_key(row["key"]) from None
        if wanted.instances:
            named = definition_id(row["key"], row["version"], row["definition_id"])
            await suspend_all(call, await of_process(call, processDefinitionId=named), wanted.suspended)
    return done()
