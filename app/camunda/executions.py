"""/execution: instances and the tokens in them; and a receive task that waits for no message is told to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import done
from app.camunda.errors import CamundaError, invalid, refused
from app.camunda.graphs import graph_of
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    TENANTS,
    Filter,
    Listing,
    equal,
    flag,
    like,
    one,
)
from app.camunda.lists import serve_list, serve_one
from app.camunda.related import having, unknown, waiting
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.values import plain, read_variables, save_files, types
from app.camunda.variable_filters import variables
from app.process.graph import Kind
from db.call import aone
from db.errors import Invalid, NotFound

router = APIRouter(prefix="/engine-rest/execution", route_class=CamundaRoute)


def incident(narrow: Filter, at: str) -> Filter:
    """Executions with an open incident like this."""
    return having("camunda_incidents", ("token_id", "execution_id"), narrow, at, "resolved_at is null")


EXECUTIONS: Final = Listing(
    view="camunda_executions",
    key="execution_id",
    columns=("execution_id", "instance_id", "node", "definition_id"),
    hidden=("process_key", "business_key", "suspended", "topics"),
    filters=(
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
        equal("businessKey", "business_key"),
        equal("processInstanceId", "instance_id", AS_ID),
        equal("executionId", "execution_id", AS_ID),
        equal("activityId", "node"),
        waiting("messageEventSubscriptionName", "message"),
        waiting("signalEventSubscriptionName", "signal"),
        flag("active", "not suspended"),
        flag("suspended", "suspended"),
        incident(equal("incidentId", "incident_id", AS_ID), "incident_id"),
        incident(equal("incidentType", "type"), "type"),
        incident(equal("incidentMessage", "message"), "message"),
        incident(like("incidentMessageLike", "message"), "message"),
        variables("processVariables"),
        unknown("variables"),
        TENANTS,
    ),
    sorts={
        "instanceId": "execution_id", "definitionKey": "process_key", "definitionId": "definition_id",
        "tenantId": "execution_id",
    },
)  # fmt: skip


@router.post("/{execution_id}/signal")
async def signal(call: CamundaCall, execution_id: str) -> Response:
    """Let an execution go on that stands on a receive task."""
    demand(call.principal, "work")
    row = await one(call, EXECUTIONS, execution_id)
    if row is None:
        raise invalid(f"Cannot signal execution {execution_id[:64]}: there is none", 404)
    stands = (
        None if row["node"] is None else (await graph_of(call.parts.database, row["definition_id"])).nodes[row["node"]]
    )
    if stands is None or stands.kind is not Kind.RECEIVE:
        raise _cannot_signal(execution_id, "it stands on no receive task")
    try:
        sent = read_variables(call.sent.mapping("variables"))
        async with call.parts.database.transaction() as connection:
            saved = await save_files(connection, str(row["instance_id"]), sent)
            await aone(
                connection,
                "complete_token",
                token_uid=row["execution_id"],
                variables=plain(saved),
                types=types(saved),
                principal=call.principal.name,
            )
    except (Invalid, NotFound) as refusal:
        raise _cannot_signal(execution_id, refusal.message) from None
    await call.parts.advancer.advance([row["instance_id"]])
    return done()


def _cannot_signal(execution_id: str, why: str) -> CamundaError:
    return refused(f"Cannot signal execution {execution_id[:64]}: {why}")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["execution_id"],
        "processInstanceId": row["instance_id"],
        "ended": False,
        "tenantId": None,
    }


serve_list(router, EXECUTIONS, _shown)
serve_one(router, EXECUTIONS, _shown, "execution_id", "Execution with id {} does not exist")
