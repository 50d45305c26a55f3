"""Signals: durable, named facts that tasks wait for."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer
from app.api.door import Call, DoorRoute
from app.api.fields import LONGEST_DELAY_MS, JsonText, Name, Strict
from app.api.problems import BODY_REFUSALS, documented
from app.api.rights import demand
from db.call import Json

router = APIRouter(prefix="/v1/signals", tags=["signals"], route_class=DoorRoute)

WEEK_MS: Final = 604_800_000


class SignalRequest(Strict):
    """What is told to whoever waits for this topic and key; kept for `ttl_ms` when nobody does yet."""

    topic: Name
    key: Name | None = None
    payload: JsonText = None
    ttl_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] = WEEK_MS
    dedupe_id: Name | None = None
    broadcast: bool = False


@router.post(
    "",
    status_code=201,
    response_model=answers_of.SentSignal,
    responses={**BODY_REFUSALS, **documented(409), 200: {"model": answers_of.SentSignal}},
)
async def send(call: Call, body: SignalRequest) -> Response:
    """Send a signal: 201; or 200 with the first one's answer when its `dedupe_id` is known with the same payload.

    The task that has waited longest gets it; with `broadcast` every one that waits. When none does, it is kept.
    """
    demand(call.principal, "enqueue")
    row = await call.parts.database.one(
        "send_signal",
        topic=body.topic,
        key=body.key,
        payload=None if body.payload is None else Json(body.payload),
        ttl_ms=body.ttl_ms,
        dedupe_id=body.dedupe_id,
        broadcast=body.broadcast,
        **call.rights,
    )
    call.parts.announcer.announce(row.task_types or ())
    sent = {"signal_id": row.signal_id, "created": row.created, "delivered": row.delivered}
    return answer(sent, 201 if row.created else 200)
