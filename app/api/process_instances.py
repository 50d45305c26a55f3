"""Process instances: start, look at, change, stop; and complete what stands in them for a person."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Query
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from app.api import answers_of
from app.api.answers import answer, splice
from app.api.cursors import read_cursor, write_cursor
from app.api.door import Call, DoorRoute
from app.api.fields import LARGEST_INTEGER, Counted, Digits, ErrorText, Id, Name, Payload, Strict, Time
from app.api.pages import PageQuery, SortedQuery, page_of
from app.api.problems import BODY_REFUSALS, Problem, documented
from app.api.process_definitions import definition_row, draw
from app.api.process_rights import demand_instance, demand_topics, instance_of
from app.api.rights import demand
from app.diagram.svg import Marks
from db.call import Json
from db.instance_parts import COUNTS, PARTS
from db.listing import instance_page

router = APIRouter(prefix="/v1/process-instances", tags=["processes"], route_class=DoorRoute)

MOST_SHOWN: Final = 1000
"""Tokens, waits, variables … of one instance that a single answer shows."""
STOP_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.02
_READ_REFUSALS: Final = documented(401, 403, 404, 422, 503)
_WRITE_REFUSALS: Final = BODY_REFUSALS | documented(404, 409)
_SVG: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}}


class StartRequest(Strict):
    """Which process (its key and, unless the latest, its version; or a definition's id), and what it begins with."""

    process_key: Name | None = None
    process_version: Counted | None = None
    definition_id: Annotated[Id | None, Field(validate_default=True)] = None
    business_key: Name | None = None
    idempotency_key: Name | None = None
    variables: Payload = "{}"

    @field_validator("definition_id")
    @classmethod
    def _is_named_once(cls, definition_id: str | None, sent: ValidationInfo) -> str | None:
        key, version = sent.data.get("process_key"), sent.data.get("process_version")
        if (key is None) == (definition_id is None) or (version is not None and key is None):
            raise PydanticCustomError(
                "two_names", "name the process by process_key (and process_version), or by definition_id"
            )
        return definition_id


class InstanceQuery(SortedQuery):
    """Filters, order and page of a list of instances. `status=OPEN`: every one that has not ended."""

    process_key: Name | None = None
    process_version: Annotated[Digits, Field(ge=1, le=LARGEST_INTEGER)] | None = None
    definition_id: Id | None = None
    status: Literal["OPEN", "ACTIVE", "COMPENSATING", "COMPLETED", "FAILED_COMPENSATED", "CANCELED"] | None = None
    suspended: Literal["true", "false"] | None = None
    business_key: Name | None = None
    has_incident: Literal["true", "false"] | None = None
    started_after: Time | None = None
    started_before: Time | None = None
    sort: Literal["started_at", "-started_at"] = "-started_at"

    @property
    def filters(self) -> dict[str, Any]:
        found = super().filters
        for name in ("suspended", "has_incident"):
            found[name] = None if found[name] is None else found[name] == "true"
        for name in ("started_after", "started_before"):
            found[name] = None if found[name] is None else datetime.fromisoformat(found[name].upper())
        return found


class StopRequest(Strict):
    """With `compensate` what the instance has done is undone first, newest first."""

    reason: ErrorText | None = None
    compensate: bool = False


class MigrateRequest(Strict):
    """The version to go on in: its number, or a definition's id."""

    process_version: Counted | None = None
    definition_id: Annotated[Id | None, Field(validate_default=True)] = None

    @field_validator("definition_id")
    @classmethod
    def _is_named_once(cls, definition_id: str | None, sent: ValidationInfo) -> str | None:
        if (sent.data.get("process_version") is None) == (definition_id is None):
            raise PydanticCustomError("two_names", "name the version by process_version or by definition_id")
        return definition_id


class VariablesRequest(Strict):
    """Variables to set at the root of the instance, and names to remove there."""

    variables: Payload = "{}"
    remove: Annotated[list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=1000)] = Field([])


class CompleteTokenRequest(Strict):
    variables: Payload = "{}"


@router.post(
    "",
    status_code=201,
    response_model=answers_of.StartedInstance,
    responses={**_WRITE_REFUSALS, 200: {"model": answers_of.StartedInstance}},
)
async def start(call: Call, body: StartRequest) -> Response:
    """Start an instance: 201; or 200 with the first one when its idempotency key is known."""
    demand(call.principal, "enqueue")
    definition = await _named(call, body.process_key, body)
    demand_topics(call, definition["topics"])
    row = await call.parts.database.one(
        "start_instance",
        definition_id=definition["definition_id"],
        variables=Json(body.variables),
        business_key=body.business_key,
        idempotency_key=body.idempotency_key,
        principal=call.principal.name,
    )
    await call.parts.advancer.advance([row.instance_id])
    started = {
        "instance_id": row.instance_id,
        "definition_id": definition["definition_id"],
        "process_key": definition["key"],
        "process_version": definition["version"],
        "created": row.created,
    }
    if not row.created:
        first = await instance_of(call, str(row.instance_id))
        started |= {name: first[name] for name in ("definition_id", "process_key", "process_version")}
    return answer(started, 201 if row.created else 200)


@router.get("", response_model=answers_of.InstancePage, responses=documented(401, 403, 422, 503))
async def list_instances(call: Call, asked: Annotated[InstanceQuery, Query()]) -> Response:
    """A page of instances in order of their start, with the number of their open incidents."""
    demand(call.principal, "read")
    rows, next_cursor = await page_of(call, instance_page, asked)
    shown = [{name: value for name, value in row.items() if name != "topics"} for row in rows]
    return answer({"instances": shown, "next_cursor": next_cursor})


@router.get("/{instance_id}", response_model=answers_of.InstanceAnswer, responses=_READ_REFUSALS)
async def get(call: Call, instance_id: Id) -> Response:
    """One instance: where its tokens stand, what they wait for, its variables, and what can be undone."""
    demand(call.principal, "read")
    instance = await instance_of(call, instance_id)
    for part, statement in PARTS.items():
        rows = await call.parts.database.view(statement, id=instance_id, most=MOST_SHOWN)
        instance[part] = [dict(row._mapping) for row in rows]
    variables = instance["variables"]
    instance["variables"] = {row["name"]: splice(row, ("value",))["value"] for row in variables if row["root"]}
    instance["local_variables"] = [
        splice({name: value for name, value in row.items() if name != "root"}, ("value",))
        for row in variables
        if not row["root"]
    ]
    return answer(instance)


@router.get("/{instance_id}/history", response_model=answers_of.HistoryPage, responses=_READ_REFUSALS)
async def history(call: Call, instance_id: Id, asked: Annotated[PageQuery, Query()]) -> Response:
    """A page of what has happened in the instance, oldest first: which element, when, its task, and who did it."""
    demand(call.principal, "read")
    await instance_of(call, instance_id)
    question = ("instance history", instance_id)
    after = 0 if asked.cursor is None else int.from_bytes(read_cursor(asked.cursor, question), "big")
    rows = await call.parts.database.view(
        "select number, at, token, what, node, task_id, worker_id from celeriac.instance_timeline"
        " where instance_id = cast(:id as uuid) and number > :after order by number limit :most",
        id=instance_id,
        after=after,
        most=asked.limit + 1,
    )
    shown = rows[: asked.limit]
    more = len(rows) > len(shown)
    next_cursor = write_cursor(shown[-1].number.to_bytes(8, "big"), question) if more else None
    return answer({"history": [dict(row._mapping) for row in shown], "next_cursor": next_cursor})


@router.get("/{instance_id}/diagram.svg", responses=_READ_REFUSALS | _SVG, response_class=Response)
async def diagram(call: Call, instance_id: Id) -> Response:
    """The model as a picture, with the tokens of the instance, how often each element was left, and open incidents."""
    demand(call.principal, "read")
    instance = await instance_of(call, instance_id)
    definition = await definition_row(call, "definition_id = :id", id=instance["definition_id"])
    counts = {
        name: {row.node: row.number for row in await call.parts.database.view(statement, id=instance_id)}
        for name, statement in COUNTS.items()
    }
    return await draw(call, definition, Marks(**counts))


@router.post("/{instance_id}/cancel", response_model=answers_of.InstanceStatus, responses=_WRITE_REFUSALS)
async def cancel(call: Call, instance_id: Id, body: Annotated[StopRequest, Body()] = StopRequest()) -> Response:
    """Stop an instance and its open tasks; with `compensate` what it has done is undone first. Twice is as once."""
    demand(call.principal, "manage")
    await demand_instance(call, instance_id)
    await call.parts.database.one(
        "stop_instance",
        instance_id=instance_id,
        reason=body.reason,
        compensate=body.compensate,
        principal=call.principal.name,
    )
    await until_stopped(call, instance_id)
    return await _status(call, instance_id)


@router.post("/{instance_id}/suspend", response_model=answers_of.InstanceStatus, responses=_WRITE_REFUSALS)
async def suspend(call: Call, instance_id: Id) -> Response:
    """Let an instance stand still: what happens to it is kept, and worked in when it is resumed."""
    return await _suspend(call, instance_id, suspended=True)


@router.post("/{instance_id}/resume", response_model=answers_of.InstanceStatus, responses=_WRITE_REFUSALS)
async def resume(call: Call, instance_id: Id) -> Response:
    """Let a suspended instance go on."""
    return await _suspend(call, instance_id, suspended=False)


@router.post("/{instance_id}/migrate", response_model=answers_of.InstanceStatus, responses=_WRITE_REFUSALS)
async def migrate(call: Call, instance_id: Id, body: MigrateRequest) -> Response:
    """Let an open instance go on in another version of its process, from where it stands."""
    demand(call.principal, "manage")
    await demand_instance(call, instance_id)
    key = (await instance_of(call, instance_id))["process_key"]
    definition = await _named(call, key if body.definition_id is None else None, body)
    demand_topics(call, definition["topics"])
    await call.parts.database.one(
        "migrate_instance",
        instance_id=instance_id,
        definition_id=definition["definition_id"],
        principal=call.principal.name,
    )
    await call.parts.advancer.advance([instance_id])
    return await _status(call, instance_id)


@router.patch("/{instance_id}/variables", response_model=answers_of.ChangedVariables, responses=_WRITE_REFUSALS)
async def change_variables(call: Call, instance_id: Id, body: VariablesRequest) -> Response:
    """Set and remove variables at the root of an open instance. Nothing moves by that alone."""
    demand(call.principal, "manage")
    await demand_instance(call, instance_id)
    row = await call.parts.database.one(
        "set_variables",
        instance_id=instance_id,
        variables=Json(body.variables),
        drop_names=list(body.remove),
        principal=call.principal.name,
    )
    return answer({"instance_id": instance_id, "changed": row[0]})


@router.post(
    "/{instance_id}/tokens/{token_id}/complete", response_model=answers_of.InstanceStatus, responses=_WRITE_REFUSALS
)
async def complete_token(
    call: Call, instance_id: Id, token_id: Id, body: Annotated[CompleteTokenRequest, Body()] = CompleteTokenRequest()
) -> Response:
    """Complete what a token stands on for a person or another program: a user task, a receive task."""
    demand(call.principal, "work")
    await demand_instance(call, instance_id)
    found = await call.parts.database.view(
        "select 1 from celeriac.instance_tokens"
        " where instance_id = cast(:instance as uuid) and token_id = cast(:token as uuid)",
        instance=instance_id,
        token=token_id,
    )
    if not found:
        raise Problem(404, "there is no such token")
    await call.parts.database.one(
        "complete_token", token_uid=token_id, variables=Json(body.variables), principal=call.principal.name
    )
    await call.parts.advancer.advance([instance_id])
    return await _status(call, instance_id)


async def _named(call: Call, key: str | None, body: StartRequest | MigrateRequest) -> dict[str, Any]:
    """The definition that is meant, whatever its topics are: those are judged after it is known to be there."""
    values: dict[str, Any]
    if body.definition_id is not None:
        where, values = "definition_id = cast(:id as uuid)", {"id": body.definition_id}
    elif body.process_version is not None:
        where, values = "key = :key and version = :version", {"key": key, "version": body.process_version}
    else:
        where, values = "key = :key", {"key": key}
    rows = await call.parts.database.view(
        f"select * from celeriac.definitions where {where} order by version desc limit 1",  # noqa: S608 - one of three
        **values,
    )
    if not rows:
        raise Problem(404, "there is no such process definition")
    return dict(rows[0]._mapping)


async def until_stopped(call: Call, instance_id: str) -> None:
    """Work in a stop before it is answered: another request may be at the instance. 409 when it ended otherwise first.

    What takes longer than STOP_SECONDS is for the chore; the answer then shows the status so far.
    """
    stop_at = asyncio.get_running_loop().time() + STOP_SECONDS
    while True:
        await call.parts.advancer.advance([instance_id])
        status = (await instance_of(call, instance_id))["status"]
        if status in ("COMPLETED", "FAILED_COMPENSATED"):
            raise Problem(409, f"the instance has ended as {status}", code="already_ended")
        if status != "ACTIVE" or asyncio.get_running_loop().time() > stop_at:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _suspend(call: Call, instance_id: str, *, suspended: bool) -> Response:
    demand(call.principal, "manage")
    await demand_instance(call, instance_id)
    await call.parts.database.one(
        "suspend_instance", instance_id=instance_id, suspended=suspended, principal=call.principal.name
    )
    if not suspended:
        await call.parts.advancer.advance([instance_id])
    return await _status(call, instance_id)


async def _status(call: Call, instance_id: str) -> Response:
    instance = await instance_of(call, instance_id)
    return answer({name: instance[name] for name in ("instance_id", "status", "suspended")})
