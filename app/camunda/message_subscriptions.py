"""/execution/{id}/messageSubscriptions: the message that one execution waits for, delivered to it alone."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import answer, done
from app.camunda.errors import CamundaError, invalid
from app.camunda.event_subscriptions import SUBSCRIPTIONS, shown_subscription
from app.camunda.messages import thrown
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent
from app.camunda.values import read_variables

router = APIRouter(prefix="/engine-rest/execution", route_class=CamundaRoute)


@router.get("/{execution_id}/messageSubscriptions/{name}")
async def get(call: CamundaCall, execution_id: str, name: str) -> Response:
    demand(call.principal, "read")
    return answer(shown_subscription(await _waits(call, execution_id, name)))


@router.post("/{execution_id}/messageSubscriptions/{name}/trigger")
async def trigger(call: CamundaCall, execution_id: str, name: str) -> Response:
    """It goes on with this message, as if no other one waited."""
    demand(call.principal, "enqueue")
    variables = read_variables(call.sent.mapping("variables"))
    row = await _waits(call, execution_id, name)
    if not await thrown(call, variables, {}, kind="message", name=name, token_id=str(row["token_id"])):
        raise _missing(execution_id, name)
    return done()


async def _waits(call: CamundaCall, execution_id: str, name: str) -> dict[str, Any]:
    asked = Sent({"executionId": execution_id, "eventName": name, "eventType": "message"})
    rows = await call.parts.database.view(SUBSCRIPTIONS.select(asked, call.principal.only_types))
    if not rows:
        raise _missing(execution_id, name)
    return dict(rows[0]._mapping)


def _missing(execution_id: str, name: str) -> CamundaError:
    what = f"Message event subscription for execution {execution_id[:64]} named {name[:255]} does not exist"
    return invalid(what, 404)
