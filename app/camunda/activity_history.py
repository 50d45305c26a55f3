"""/history/activity-instance: which elements tokens came to, and when they left them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from sqlalchemy import ColumnElement, TableClause, and_, false, func, literal, or_
from starlette.responses import Response

from app.api.process_rights import WITHIN
from app.api.rights import demand
from app.camunda.answers import answer
from app.camunda.elements import activity_type
from app.camunda.errors import invalid
from app.camunda.graphs import graph_of
from app.camunda.identifiers import activity_instance_id, definition_id, definition_uuid
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Listing,
    counted,
    equal,
    flag,
    found,
    moment,
    one_of,
)
from app.camunda.related import unknown
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of
from app.process.graph import Graph, Kind, Node

router = APIRouter(prefix="/engine-rest/history/activity-instance", route_class=CamundaRoute)

USER_TASK: Final = "userTask"


def _this_one(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    given = asked.text("activityInstanceId")
    return None if given is None else _named(given, view)


def _named(given: str, view: TableClause) -> ColumnElement[bool]:
    """By `element:uuid`, or the UUID alone where the whole would be too long."""
    node, _, uuid = given.rpartition(":")
    if (known := uuid_of(uuid)) is None:
        return false()
    of_visit = view.c.visit_id == UUID(known)
    return and_(of_visit, view.c.node == node) if node else of_visit


def _execution(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    """Of a token; what no token of the database was at was done by the instance itself."""
    given = asked.text("executionId")
    if given is None:
        return None
    if (known := uuid_of(given)) is None:
        return false()
    return func.coalesce(view.c.token_id, view.c.instance_id) == UUID(known)


ACTIVITIES: Final = Listing(
    view="camunda_activities",
    key="number",
    columns=(
        "number", "visit_id", "instance_id", "token", "token_id", "node", "host", "started_at", "ended_at",
        "duration_ms", "canceled", "assignee", "definition_id", "process_key", "process_version",
    ),
    hidden=("topics",),
    filters=(
        _this_one,
        _execution,
        equal("processInstanceId", "instance_id", AS_ID),
        one_of("processInstanceIdIn", "instance_id", AS_ID),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("activityId", "node"),
        equal("taskAssignee", "assignee"),
        flag("finished", "ended_at is not null"),
        flag("unfinished", "ended_at is null"),
        flag("canceled", "canceled"),
        moment("startedBefore", "started_at", operator.le),
        moment("startedAfter", "started_at", operator.ge),
        moment("finishedBefore", "ended_at", operator.le),
        moment("finishedAfter", "ended_at", operator.ge),
        TENANTS,
        unknown("activityNameLike", "activityIdIn", "activityInstanceIdIn"),
    ),
    sorts={
        "activityInstanceId": "visit_id", "instanceId": "instance_id", "executionId": "token_id",
        "activityId": "node", "activityName": "node", "activityType": "node", "startTime": "started_at",
        "endTime": "ended_at", "duration": "duration_ms", "definitionId": "definition_id", "occurrence": "number",
        "tenantId": "number",
    },
    order=("instance_id",),
)  # fmt: skip


@router.api_route("", methods=["GET", "POST"])
async def list_activities(call: CamundaCall) -> Response:
    demand(call.principal, "read")
    return answer(await _shown_all(call, await found(call, ACTIVITIES, *await _of_model(call))))


@router.api_route("/count", methods=["GET", "POST"])
async def count(call: CamundaCall) -> Response:
    demand(call.principal, "read")
    return answer({"count": await counted(call, ACTIVITIES, *await _of_model(call))})


@router.get("/{activity_instance_id}")
async def get(call: CamundaCall, activity_instance_id: str) -> Response:
    demand(call.principal, "read")
    rows = await found(call, ACTIVITIES, _named(activity_instance_id, ACTIVITIES.table))
    if not rows:
        raise invalid(f"Historic activity instance with id '{activity_instance_id[:255]}' does not exist", 404)
    return answer((await _shown_all(call, rows[:1]))[0])


async def _of_model(call: CamundaCall) -> list[ColumnElement[bool]]:
    """What is asked for by what only models say: names, types, and whether a path ends there."""
    asked = call.asked_anyhow
    name, type_, ends = asked.text("activityName"), asked.text("activityType"), asked.boolean("completeScope")
    if name is None and type_ is None and not ends:
        return []

    def wanted(node: Node) -> bool:
        return (
            name in (None, node.name)
            and type_ in (None, activity_type(node))
            and (not ends or node.kind is Kind.END)
        )  # fmt: skip

    return [await places(call, ACTIVITIES, wanted)]


async def places(call: CamundaCall, listing: Listing, wanted: Callable[[Node], bool]) -> ColumnElement[bool]:
    """Visits, in a list, to the elements that `wanted` lets through, of the definitions that are asked about."""
    found_: list[ColumnElement[bool]] = []
    for definition in await _definitions(call, call.asked_anyhow):
        graph = await graph_of(call.parts.database, definition)
        nodes = [node.id for node in graph.nodes.values() if wanted(node)]
        if nodes:
            at = listing.table.c
            found_.append(and_(at.definition_id == definition, at.node == func.any(literal(nodes))))
    return or_(*found_) if found_ else false()


async def _definitions(call: CamundaCall, asked: Sent) -> list[UUID]:
    """The definitions that what is asked for can be of."""
    rows = await call.parts.database.view(
        "select definition_id from celeriac.definitions"  # noqa: S608 - WITHIN is ours
        " where (cast(:definition as uuid) is null or definition_id = cast(:definition as uuid))"
        " and (cast(:instance as uuid) is null or definition_id in (select i.definition_id from celeriac.instances i"
        f" where i.instance_id = cast(:instance as uuid))) and {WITHIN}",
        definition=definition_uuid(asked.text("processDefinitionId")),
        instance=uuid_of(asked.text("processInstanceId")),
        only=call.principal.only_types,
    )
    return [row.definition_id for row in rows]


async def _shown_all(call: CamundaCall, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    hosts = await _hosts(call, rows)
    graphs = {row["definition_id"]: await graph_of(call.parts.database, row["definition_id"]) for row in rows}
    return [_shown(row, graphs[row["definition_id"]], hosts) for row in rows]


async def _hosts(call: CamundaCall, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[UUID, int], str]:
    """The activity instances of the subprocesses around, by instance and the number of their token."""
    inside = [row for row in rows if row["host"] is not None]
    if not inside:
        return {}
    around = await call.parts.database.view(
        "select instance_id, token, node, visit_id from celeriac.camunda_activities"
        " where instance_id = any(:instances) and token = any(:tokens)",
        instances=list({row["instance_id"] for row in inside}),
        tokens=list({row["host"] for row in inside}),
    )
    return {(row.instance_id, row.token): activity_instance_id(row.node, row.visit_id) for row in around}


def _shown(row: Mapping[str, Any], graph: Graph, hosts: Mapping[tuple[UUID, int], str]) -> dict[str, Any]:
    # An instance that has moved to another version may have been at elements that this one does not have.
    node: Node | None = graph.nodes.get(row["node"])
    type_ = None if node is None else activity_type(node)
    instance = row["instance_id"]
    return {
        "id": activity_instance_id(row["node"], row["visit_id"]),
        "parentActivityInstanceId": instance if row["host"] is None else hosts.get((instance, row["host"]), instance),
        "activityId": row["node"],
        "activityName": None if node is None else node.name,
        "activityType": type_,
        "processDefinitionKey": row["process_key"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processInstanceId": instance,
        "executionId": row["token_id"] or instance,
        "taskId": row["visit_id"] if type_ == USER_TASK else None,
        "calledProcessInstanceId": None,
        "calledCaseInstanceId": None,
        "assignee": row["assignee"],
        "startTime": row["started_at"],
        "endTime": row["ended_at"],
        "durationInMillis": row["duration_ms"],
        "canceled": row["canceled"],
        "completeScope": node is not None and node.kind is Kind.END,
        "tenantId": None,
        "removalTime": None,
        "rootProcessInstanceId": instance,
    }
