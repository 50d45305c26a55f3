"""Statistics of process definitions: how many instances of each run, and at which elements they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from app.api.process_rights import WITHIN
from app.api.rights import demand
from app.camunda.answers import answer
from app.camunda.errors import invalid
from app.camunda.process_definitions import by_id, by_key, shown_definition
from app.camunda.route import CamundaCall, CamundaRoute

router = APIRouter(prefix="/engine-rest/process-definition", route_class=CamundaRoute)

_INCIDENTS: Final = ("incidents", "rootIncidents", "incidentsForType")

_DEFINITIONS: Final = f"select d.* from celeriac.camunda_definitions d where {WITHIN} order by d.definition_id"  # noqa: S608 - ours
_OF_DEFINITIONS: Final = """
    select 'instances' as what, i.definition_id as place, count(*) as number from celeriac.open_instances i group by 2
     union all
    select 'failedJobs', j.definition_id, count(*) from celeriac.camunda_jobs j where :jobs and j.stuck group by 2
     union all
    select n.type, n.definition_id, count(*) from celeriac.camunda_incidents n
     where :incidents and n.open and (cast(:type as text) is null or n.type = :type) group by 1, 2"""
_OF_ACTIVITIES: Final = """
    select 'instances' as what, t.node as place, count(*) as number
      from celeriac.open_instances i join celeriac.instance_tokens t on t.instance_id = i.instance_id
     where i.definition_id = :id group by 2
     union all
    select 'failedJobs', j.node, count(*) from celeriac.camunda_jobs j
     where :jobs and j.stuck and j.definition_id = :id group by 2
     union all
    select n.type, n.node, count(*) from celeriac.camunda_incidents n
     where :incidents and n.open and n.definition_id = :id and (cast(:type as text) is null or n.type = :type)
     group by 1, 2"""


@router.get("/statistics")
async def of_definitions(call: CamundaCall) -> Response:
    """Every definition with its open instances, failed jobs and incidents; the last two only if they are asked for."""
    demand(call.principal, "read")
    numbers = await _numbers(call, _OF_DEFINITIONS)
    rows = await call.parts.database.view(_DEFINITIONS, only=call.principal.only_types)
    shown = [(row.definition_id, shown_definition(dict(row._mapping))) for row in rows]
    return answer([_shown(one["id"], numbers[key]) | {"definition": one} for key, one in shown])


@router.get("/key/{key}/statistics")
async def of_activities_by_key(call: CamundaCall, key: str) -> Response:
    demand(call.principal, "read")
    return await _of_activities(call, await by_key(call, key))


@router.get("/{given}/statistics")
async def of_activities(call: CamundaCall, given: str) -> Response:
    """The elements of a definition at which instances stand."""
    demand(call.principal, "read")
    return await _of_activities(call, await by_id(call, given))


async def _of_activities(call: CamundaCall, definition: Mapping[str, Any]) -> Response:
    numbers = await _numbers(call, _OF_ACTIVITIES, id=definition["definition_id"])
    return answer([_shown(node, numbers[node]) for node in sorted(numbers)])


async def _numbers(call: CamundaCall, statement: str, **values: UUID) -> dict[Any, dict[str, int]]:
    """By definition or element: how many instances, failed jobs, and incidents of each type."""
    asked = call.asked
    if sum(asked.boolean(name) if name != _INCIDENTS[-1] else name in asked for name in _INCIDENTS) > 1:
        raise invalid("Only one of the query parameter incidents, rootIncidents or incidentsForType can be set.")
    numbers: dict[Any, dict[str, int]] = defaultdict(dict)
    for row in await call.parts.database.view(
        statement,
        jobs=asked.boolean("failedJobs"),
        incidents=any(asked.boolean(name) for name in _INCIDENTS[:2]) or _INCIDENTS[-1] in asked,
        type=asked.text(_INCIDENTS[-1]),
        **values,
    ):
        numbers[row.place][row.what] = row.number
    return numbers


def _shown(identity: str, numbers: Mapping[str, int]) -> dict[str, Any]:
    incidents = sorted(numbers.keys() - {"instances", "failedJobs"})
    return {
        "id": identity,
        "instances": numbers.get("instances", 0),
        "failedJobs": numbers.get("failedJobs", 0),
        "incidents": [{"incidentType": type_, "incidentCount": numbers[type_]} for type_ in incidents],
    }
