"""Variables of one place: of a process instance and what is seen in it, or those of one execution alone.

`/process-instance/{id}/variables` and `/execution/{id}/localVariables` take either kind of id: that of an instance, for
its root, or that of an execution, which is a token's. From a token all that it sees is shown, and what is set is set
where it is already, looking outwards, else at the root; local ones belong to what the token stands on.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter
from sqlalchemy import Row
from starlette.responses import Response

from app.api.form import Part
from app.api.process_rights import WITHIN
from app.api.rights import Verb, demand
from app.camunda.answers import answer, done
from app.camunda.errors import CamundaError, invalid
from app.camunda.file_answers import content_of
from app.camunda.route import CamundaCall, CamundaRoute, takes_form
from app.camunda.sent import uuid_of
from app.camunda.values import (
    Typed,
    file_of,
    plain,
    read_name,
    read_object,
    read_typed,
    read_variables,
    save_files,
    show,
    types,
)
from db import call as authority

router = APIRouter(prefix="/engine-rest", route_class=CamundaRoute)


@dataclass(frozen=True, slots=True)
class Place:
    """Where variables are looked for: a token of an instance, or (None) its root. `kind` is what clients call it."""

    kind: str
    instance_id: str
    token_id: str | None
    local_only: bool

    @property
    def id(self) -> str:
        return self.token_id or self.instance_id


_PLACE: Final = f"""
    select i.instance_id, null::uuid as token_id from celeriac.instances i
     where i.instance_id = cast(:id as uuid) and i.ended_at is null and {WITHIN}
     union all
    select i.instance_id, t.token_id
      from celeriac.instance_tokens t join celeriac.instances i on i.instance_id = t.instance_id
     where t.token_id = cast(:id as uuid) and {WITHIN}"""  # noqa: S608 - WITHIN is ours


async def place_of(call: CamundaCall, given: str, kind: str, *, local_only: bool = False) -> Place:
    """The place with this id; 404 when there is none that is open, or none that the caller may see."""
    known = uuid_of(given)
    rows = [] if known is None else await call.parts.database.view(_PLACE, id=known, only=call.principal.only_types)
    if not rows:
        raise _missing(f"{kind.capitalize()} with id {given[:64]} does not exist")
    token = rows[0].token_id
    return Place(kind, str(rows[0].instance_id), None if token is None else str(token), local_only)


async def seen(call: CamundaCall, place: Place, names: Sequence[str] | None = None) -> Sequence[Row[Any]]:
    """Rows of name, type, info and value: the variables of a place, or those of them that are named."""
    return await call.parts.database.rows(
        "visible_variables",
        token_uids=[place.id],
        names=None if names is None else list(names),
        local_only=place.local_only,
    )


async def shown(call: CamundaCall, place: Place, *, deserialize: bool) -> dict[str, Any]:
    """All variables of a place, by name, as answers have them."""
    return {row.name: show(row.value, row.type, row.info, deserialize) for row in await seen(call, place)}


async def change(
    call: CamundaCall, place: Place, variables: Mapping[str, Typed], drop_names: Sequence[str] = ()
) -> None:
    """Set and drop variables of a place."""
    async with call.parts.database.transaction() as connection:
        saved = await save_files(connection, place.instance_id, variables)
        await authority.aone(
            connection,
            "set_variables",
            instance_id=place.instance_id,
            variables=plain(saved),
            drop_names=list(drop_names),
            types=types(saved),
            principal=call.principal.name,
            token_uid=place.token_id,
            local_only=place.local_only,
        )


# Requests about one place, whatever it is called in the address


async def get_all(call: CamundaCall, place: Place) -> Response:
    return answer(await shown(call, place, deserialize=_deserialize(call, "deserializeValues")))


async def modify(call: CamundaCall, place: Place) -> Response:
    """Set some and drop others, in one transaction."""
    try:
        variables = read_variables(call.sent.mapping("modifications"))
    except CamundaError as error:
        raise error.within(f"Cannot modify variables for {place.kind}") from None
    await change(call, place, variables, call.sent.names("deletions") or ())
    return done()


async def get_one(call: CamundaCall, place: Place, name: str) -> Response:
    row = await _one(call, place, name)
    return answer(show(row.value, row.type, row.info, _deserialize(call, "deserializeValue")))


async def put_one(call: CamundaCall, place: Place, name: str) -> Response:
    try:
        variables = {read_name(name): read_typed(name, dict(call.sent.values))}
    except CamundaError as error:
        raise error.within(f"Cannot put {place.kind} variable {name[:64]}") from None
    await change(call, place, variables)
    return done()


async def delete_one(call: CamundaCall, place: Place, name: str) -> Response:
    """One that is not there is not there afterwards, too."""
    await change(call, place, {}, [name])
    return done()


async def get_data(call: CamundaCall, place: Place, name: str) -> Response:
    row = await _one(call, place, name)
    return await content_of(call, name, row.value, row.type)


async def post_data(call: CamundaCall, place: Place, name: str) -> Response:
    """A form: `data`, and `valueType` (Bytes or File) or, of an object as JSON, `type` (the name of its class)."""
    read_name(name)
    parts = {part.field: part for part in await call.form_parts()}
    await change(call, place, {name: _uploaded(parts)})
    return done()


def _uploaded(parts: Mapping[str, Part]) -> Typed:
    if "data" not in parts:
        raise invalid("No 'data' part in the form")
    data = parts["data"]
    if "type" in parts:
        if "application/json" not in (data.media_type or "").lower():
            raise invalid(f"Unrecognized content type for serialized java type: {(data.media_type or '')[:64]}")
        return read_object(data.text, parts["type"].text.strip())
    value_type = parts["valueType"].text.strip() if "valueType" in parts else "Bytes"
    match value_type[:1].lower() + value_type[1:]:
        case "bytes":
            return read_typed("data", {"type": "Bytes", "value": base64.b64encode(data.content).decode()})
        case "file":
            media_type, _, parameters = (data.media_type or "").partition(";")
            _, _, encoding = parameters.lower().partition("charset=")
            return file_of(data.file_name or "", data.content, media_type.strip() or None, encoding.strip('" ') or None)
    raise invalid(f"Unsupported value type '{value_type[:64]}' of data; there are Bytes and File")


async def _one(call: CamundaCall, place: Place, name: str) -> Row[Any]:
    rows = await seen(call, place, [name])
    if not rows:
        raise _missing(f"{place.kind} variable with name {name[:64]} does not exist")
    return rows[0]


def _deserialize(call: CamundaCall, name: str) -> bool:
    return call.asked.boolean(name) if name in call.asked else True


def _missing(message: str) -> CamundaError:
    return CamundaError(404, "InvalidRequestException", message)


# The addresses


def _serve(base: str, kind: str, *, local_only: bool) -> None:
    """The same requests below each of the addresses."""

    async def place(call: CamundaCall, given: str, verb: Verb) -> Place:
        demand(call.principal, verb)
        return await place_of(call, given, kind, local_only=local_only)

    @router.get(base)
    async def all_of(call: CamundaCall, place_id: str) -> Response:
        return await get_all(call, await place(call, place_id, "read"))

    @router.api_route(base, methods=["POST", "PATCH"])
    async def modify_all(call: CamundaCall, place_id: str) -> Response:
        return await modify(call, await place(call, place_id, "manage"))

    @router.get(f"{base}/{{name}}")
    async def one_of(call: CamundaCall, place_id: str, name: str) -> Response:
        return await get_one(call, await place(call, place_id, "read"), name)

    @router.put(f"{base}/{{name}}")
    async def put(call: CamundaCall, place_id: str, name: str) -> Response:
        return await put_one(call, await place(call, place_id, "manage"), name)

    @router.delete(f"{base}/{{name}}")
    async def delete(call: CamundaCall, place_id: str, name: str) -> Response:
        return await delete_one(call, await place(call, place_id, "manage"), name)

    @router.get(f"{base}/{{name}}/data")
    async def data_of(call: CamundaCall, place_id: str, name: str) -> Response:
        return await get_data(call, await place(call, place_id, "read"), name)

    @router.post(f"{base}/{{name}}/data")
    @takes_form
    async def put_data(call: CamundaCall, place_id: str, name: str) -> Response:
        return await post_data(call, await place(call, place_id, "manage"), name)


_serve("/process-instance/{place_id}/variables", "process instance", local_only=False)
_serve("/execution/{place_id}/localVariables", "execution", local_only=True)
_serve("/task/{place_id}/variables", "task", local_only=False)
_serve("/task/{place_id}/localVariables", "task", local_only=True)
