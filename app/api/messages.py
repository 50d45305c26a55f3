"""BPMN messages and signals: what events of processes wait for, and what begins instances."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter
from pydantic import Field
from sqlalchemy import Row
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer
from app.api.door import Call, DoorRoute
from app.api.fields import LONGEST_DELAY_MS, Id, Name, Payload, Strict
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.rights import demand
from db.call import Json
from db.errors import NotFound

router = APIRouter(prefix="/v1", tags=["processes"], route_class=DoorRoute)

_REFUSALS: Final = BODY_REFUSALS | documented(404)


class MessageRequest(Strict):
    """A message for one instance, found by its business key, by variables that it has or by its id; or it begins one.

    `everyone`: for all that fit. `ttl_ms`: how long it is kept when nobody waits for it yet; without, that is a 404.
    """

    name: Name
    business_key: Name | None = None
    correlation: Payload = "{}"
    instance_id: Id | None = None
    variables: Payload = "{}"
    everyone: bool = False
    ttl_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] = 0


class ProcessSignalRequest(Strict):
    """A signal for every instance that waits for its name, and for every process that it begins."""

    name: Name
    variables: Payload = "{}"
    ttl_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] = 0


@router.post("/messages", response_model=answers_of.ThrownEvent, responses=_REFUSALS)
async def send_message(call: Call, body: MessageRequest) -> Response:
    """Deliver a message to the instance that waits for it. 404 `no_waiter` when none does and it is not to be kept."""
    demand(call.principal, "enqueue")
    return await _throw(
        call,
        kind="message",
        name=body.name,
        variables=Json(body.variables),
        business_key=body.business_key,
        correlation=Json(body.correlation),
        everyone=body.everyone,
        instance_id=body.instance_id,
        ttl_ms=body.ttl_ms,
    )


@router.post("/process-signals", response_model=answers_of.ThrownEvent, responses=BODY_REFUSALS)
async def send_process_signal(call: Call, body: ProcessSignalRequest) -> Response:
    """Send a BPMN signal to all that wait for it. Nobody need wait. (Signals of durable tasks: /v1/signals.)"""
    demand(call.principal, "enqueue")
    return await _throw(call, kind="signal", name=body.name, variables=Json(body.variables), ttl_ms=body.ttl_ms)


async def _throw(call: Call, **event: Any) -> Response:
    try:
        rows = await call.parts.database.rows("throw_event", **event, **call.rights)
    except NotFound as nobody:
        raise Problem(404, nobody.message, code="no_waiter", field="name") from None
    await call.parts.advancer.advance(row.instance_id for row in rows)
    return answer({"reached": [_shown(row) for row in rows], "kept": not rows and event["ttl_ms"] > 0})


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {"instance_id": row.instance_id, "definition_id": row.definition_id, "started": row.started}
