"""API keys: made, listed and revoked by those with the verb `admin`. A key's text is shown once and stored nowhere."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer
from app.api.door import Call, DoorRoute
from app.api.fields import Id, Name, Strict, Time, TypePattern
from app.api.keys_auth import key_hash, make_key
from app.api.problems import BODY_REFUSALS, documented
from app.api.rights import Verb, demand

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=DoorRoute)


class NewKeyRequest(Strict):
    """`principal` is who holds leases by this key (default: `name`); several keys may share one."""

    name: Name
    principal: Name | None = None
    verbs: Annotated[list[Verb], Field(min_length=1, max_length=5)]
    task_types: Annotated[list[TypePattern], Field(max_length=1000)]
    expires_at: Time | None = None


@router.get("", response_model=answers_of.Keys, responses=documented(401, 403, 503))
async def list_keys(call: Call) -> Response:
    """All keys, also revoked ones, without their texts."""
    demand(call.principal, "admin")
    rows = await call.parts.database.view("select * from celeriac.api_keys order by created_at desc limit 1000")
    return answer({"keys": [dict(row._mapping) for row in rows]})


@router.post("", status_code=201, response_model=answers_of.NewKey, responses=BODY_REFUSALS)
async def create(call: Call, body: NewKeyRequest) -> Response:
    """Make a key. Its text is in this answer and nowhere else."""
    demand(call.principal, "admin")
    key = make_key()
    verbs, principal = list(dict.fromkeys(body.verbs)), body.principal or body.name
    row = await call.parts.database.one(
        "create_api_key",
        name=body.name,
        key_hash=key_hash(key),
        principal_name=principal,
        verbs=verbs,
        task_types=body.task_types,
        expires_at=_moment(body.expires_at),
    )
    made = {
        "key_id": row.key_id,
        "key": key,
        "name": body.name,
        "principal": principal,
        "verbs": verbs,
        "task_types": body.task_types,
        "created_at": row.created_at,
        "expires_at": _moment(body.expires_at),
        "revoked_at": None,
    }
    return answer(made, 201, {"Cache-Control": "no-store"})


@router.delete("/{key_id}", response_model=answers_of.RevokedKey, responses=documented(401, 403, 404, 422, 503))
async def revoke(call: Call, key_id: Id) -> Response:
    """Revoke a key: it stops working within seconds, also for polls that wait."""
    demand(call.principal, "admin")
    row = await call.parts.database.one("revoke_api_key", key_id=key_id)
    return answer(dict(row._mapping))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.upper().replace("Z", "+00:00"))
