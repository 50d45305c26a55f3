"""A worker's writes on tasks that it holds: one call of the authority each; refusals are counted, logged and kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import orjson
from sqlalchemy import Row

from app.api.door import Call
from app.api.problems import Problem
from db.call import Json
from db.errors import Refused, Unavailable

LEASE_CODES: Final = frozenset({"lease_lost", "lease_expired", "stale_token", "already_ended", "canceled"})
VERB_OF: Final = {
    "complete_task": "complete",
    "complete_tasks": "complete",
    "fail_task": "fail",
    "fail_tasks": "fail",
    "extend_lease": "extend",
    "release_task": "release",
    "throw_task": "throw",
}

MOST_NOTED: Final = 20
"""Of one batch: all refusals are counted, the first ones also logged and kept."""

log = logging.getLogger("celeriac.refusals")


class _Held(Protocol):
    worker_id: str
    fencing_token: int | None


class _Item(Protocol):
    task_id: str
    fencing_token: int | None

    @property
    def model_fields_set(self) -> set[str]: ...


async def as_owner(call: Call, function: str, task_id: str, held: _Held, **arguments: Any) -> Row[Any]:
    """Call `function` on one held task and say who may now find work."""
    if held.fencing_token is None and call.parts.settings.require_fencing_token:
        raise _token_missing("fencing_token")
    if isinstance(arguments.get("variables"), str):
        arguments["variables"] = Json(arguments["variables"])
    try:
        row = await call.parts.database.one(
            function,
            task_id=task_id,
            worker_id=held.worker_id,
            fencing_token=held.fencing_token,
            **arguments,
            **call.rights,
        )
    except Refused as refused:
        await note_refusal(call, VERB_OF[function], task_id, held.worker_id, held.fencing_token, refused.code)
        raise
    if getattr(row, "state", None) == "READY":
        await announce_types_of(call, [task_id])
    if getattr(row, "instance_id", None) is not None:
        await call.parts.advancer.advance([row.instance_id])
    return row


async def as_owner_of_all(call: Call, function: str, worker_id: str, items: Sequence[_Item]) -> Sequence[Row[Any]]:
    """The same for many tasks in one call of the authority; each row says how its item went."""
    if call.parts.settings.require_fencing_token:
        for index, item in enumerate(items):
            if item.fencing_token is None:
                raise _token_missing(f"tasks.{index}.fencing_token")
    written = orjson.dumps([_write_item(item) for item in items]).decode()
    rows = await call.parts.database.rows(function, items=Json(written), worker_id=worker_id, **call.rights)
    refused = [(item, row.code) for item, row in zip(items, rows, strict=True) if row.code is not None]
    for item, code in refused[:MOST_NOTED]:
        await note_refusal(call, VERB_OF[function], item.task_id, worker_id, item.fencing_token, code)
    for _, code in refused[MOST_NOTED:]:
        call.parts.instruments.refusals.labels(VERB_OF[function], code).inc()
    await announce_types_of(call, [str(row.task_id) for row in rows if row.code is None and row.state == "READY"])
    await call.parts.advancer.advance(row.instance_id for row in rows if row.instance_id is not None)
    return rows


async def announce_types_of(call: Call, task_ids: Iterable[str]) -> None:
    """Ring for the types of tasks that are ready again. They are committed: a failure here costs latency only."""
    ids = list(task_ids)
    if not ids:
        return
    try:
        rows = await call.parts.database.view(
            "select distinct task_type from celeriac.task_list where task_id = any(cast(:ids as uuid[]))", ids=ids
        )
    except Unavailable:
        return
    call.parts.announcer.announce(row.task_type for row in rows)


async def note_refusal(call: Call, verb: str, task_id: str, worker_id: str, token: int | None, code: str) -> None:
    """Count, log (ids only) and keep a refused write on the task's timeline; none of it may hide the refusal itself."""
    if code not in LEASE_CODES:
        return
    call.parts.instruments.refusals.labels(verb, code).inc()
    asker = call.principal.name
    log.warning("refused %s: %s task=%s worker=%r token=%s principal=%r", verb, code, task_id, worker_id, token, asker)
    try:
        await call.parts.database.rows(
            "record_refusal",
            task_id=task_id,
            verb=verb,
            code=code,
            worker_id=worker_id,
            fencing_token=token,
            **call.rights,
        )
    except (Refused, Unavailable) as failure:
        log.warning("refusal of task=%s not kept: %s", task_id, failure)


def _write_item(item: _Item) -> dict[str, Any]:
    written = {name: getattr(item, name) for name in item.model_fields_set}
    if isinstance(written.get("variables"), str):
        written["variables"] = orjson.Fragment(written["variables"])
    return written


def _token_missing(field: str) -> Problem:
    return Problem(422, "this server demands the fencing token", field=field)
