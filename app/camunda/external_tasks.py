"""External tasks at /engine-rest: workers fetch and lock, and complete, fail, throw, extend or unlock what they hold.

    is it well formed (400, 500) -> is there such a task (404) -> is it this worker's (400) -> done (204)

Whose a task is, the authority decides; here its refusals get the words that clients know. "Not yours" is a 400 and
nothing else: clients take that for "somebody else has it", and go on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.responses import Response

from app.api.fields import LARGEST_INTEGER, LONGEST_DELAY_MS
from app.api.leases import announce_types_of, note_refusal
from app.api.polls import TooManyPolls, fetch_patiently
from app.api.rights import demand, demand_types
from app.camunda.answers import answer, done
from app.camunda.errors import ENGINE, CamundaError, invalid, refused
from app.camunda.external_task_fetch import read_wanted, required, worker_of
from app.camunda.external_task_rows import LONGEST_MESSAGE, missing
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of
from app.camunda.values import Typed, plain, read_variables, save_files, types
from db import call as authority
from db.errors import NotFound, Refused

router = APIRouter(prefix="/engine-rest/external-task", route_class=CamundaRoute)

_FIELD_OF: Final = {"variables": "variables", "local_variables": "localVariables"}

_NOT_YOURS: Final = {
    "complete": "External Task {task} cannot be completed by worker '{worker}'",
    "fail": "Failure of External Task {task} cannot be reported by worker '{worker}'",
    "throw": "Bpmn error of External Task {task} cannot be reported by worker '{worker}'",
    "extend": "The lock of the External Task {task} cannot be extended by worker '{worker}'",
    "lock": "External Task {task} cannot be locked by worker '{worker}'",
}
_TOO_MANY: Final = "At the moment the server has to handle too many requests at the same time. Please try again later."


@router.post("/fetchAndLock")
async def fetch_and_lock(call: CamundaCall) -> Response:
    """Up to maxTasks tasks of the topics, locked; without any it waits asyncResponseTimeout ms for the first."""
    demand(call.principal, "work")
    wanted = read_wanted(call.sent)
    demand_types(call.principal, wanted.topics, "topics")
    try:
        taken = await fetch_patiently(call, wanted, wanted.wait_seconds)
    except TooManyPolls:
        # As long as there is work nobody needs to wait.
        taken = await fetch_patiently(call, wanted, 0)
        if not taken.tasks:
            raise CamundaError(500, "InvalidRequestException", _TOO_MANY) from None
    if not taken.tasks and call.parts.hub.closed and wanted.wait_seconds > 0:
        raise CamundaError(500, "RestException", "Request rejected due to shutdown of application server.")
    return answer([task.shown for task in taken.tasks])


@router.post("/{task_id}/complete")
async def complete(call: CamundaCall, task_id: str) -> Response:
    """End a task well; its variables go on."""
    demand(call.principal, "work")
    variables = _variables(call.sent, "variables", "local_variables")
    return await _as_worker(call, "complete", task_id, worker_of(call.sent), "complete_external_task", variables)


@router.post("/{task_id}/failure")
async def fail(call: CamundaCall, task_id: str) -> Response:
    """An attempt has failed. `retries` is how many are left, and none sent means none: then it needs a person."""
    demand(call.principal, "work")
    sent = call.sent
    variables = _variables(sent, "variables", "local_variables")
    counts = call.parts.settings.camunda_retries == "engine"
    retries = sent.integer("retries", None if counts else 0, LARGEST_INTEGER)
    wait_ms = sent.integer("retryTimeout", most=LONGEST_DELAY_MS)
    worker_id = worker_of(sent)
    _demand_no_less("retries", retries)
    _demand_no_less("retryDuration", wait_ms)
    message = sent.text("errorMessage")
    return await _as_worker(
        call,
        "fail",
        task_id,
        worker_id,
        "fail_external_task",
        variables,
        error_message=None if message is None else message[:LONGEST_MESSAGE],
        error_details=sent.text("errorDetails"),
        retries=retries,
        # Whoever leaves the counting to the engine leaves the pace to it as well.
        retry_after_ms=0 if wait_ms is None and retries is not None else wait_ms,
    )


@router.post("/{task_id}/bpmnError")
async def bpmn_error(call: CamundaCall, task_id: str) -> Response:
    """End a task with a business error, which the model may catch; what it does not catch ends that path."""
    demand(call.principal, "work")
    variables = _variables(call.sent, "variables")
    worker_id = worker_of(call.sent)
    return await _as_worker(
        call,
        "throw",
        task_id,
        worker_id,
        "throw_external_task",
        variables,
        error_code=required(call.sent, "errorCode"),
        error_message=call.sent.text("errorMessage"),
    )


@router.post("/{task_id}/lock")
async def lock(call: CamundaCall, task_id: str) -> Response:
    """Take this very task, if it is free or one's own."""
    demand(call.principal, "work")
    worker_id, lock_ms = worker_of(call.sent), call.sent.integer("lockDuration", 0, LONGEST_DELAY_MS) or 0
    _demand_positive("lockDuration", lock_ms)
    on_loss = call.parts.settings.camunda_lost_leases
    return await _as_worker(call, "lock", task_id, worker_id, "lock_external_task", lock_ms=lock_ms, on_loss=on_loss)


@router.post("/{task_id}/extendLock")
async def extend_lock(call: CamundaCall, task_id: str) -> Response:
    """Hold a task for newDuration ms more, counted from now."""
    demand(call.principal, "work")
    worker_id, lock_ms = worker_of(call.sent), call.sent.integer("newDuration", 0, LONGEST_DELAY_MS) or 0
    _demand_positive("lockTime", lock_ms)
    return await _as_worker(call, "extend", task_id, worker_id, "extend_external_task", lock_ms=lock_ms)


@router.post("/{task_id}/unlock")
async def unlock(call: CamundaCall, task_id: str) -> Response:
    """Let anybody have the task, whoever holds it."""
    demand(call.principal, "work")
    return await _unchecked(call, task_id, "unlock_external_task", task_id=_known(task_id))


@router.put("/{task_id}/retries")
async def set_retries(call: CamundaCall, task_id: str) -> Response:
    """How many retries are left: 0 makes an incident, more end it."""
    demand(call.principal, "manage")
    retries, known = read_retries(call.sent), _known(task_id)
    return await _unchecked(call, task_id, "set_external_task_retries", task_ids=[UUID(known)], retries=retries)


@router.put("/{task_id}/priority")
async def set_priority(call: CamundaCall, task_id: str) -> Response:
    """Which tasks are handed out first: those of the highest priority."""
    demand(call.principal, "manage")
    priority = call.sent.integer("priority", most=LARGEST_INTEGER)
    if priority is None:
        raise invalid("The priority cannot be null.")
    known = _known(task_id)
    return await _unchecked(call, task_id, "set_external_task_priority", task_id=known, priority=priority)


def read_retries(sent: Sent) -> int:
    """400 when there are none, or too few or many."""
    retries = sent.integer("retries", most=LARGEST_INTEGER)
    if retries is None:
        raise invalid("The number of retries cannot be null.")
    if retries < 0:
        message = "The number of retries cannot be negative: retries is not greater than or equal to 0"
        raise CamundaError(400, "BadUserRequestException", message, code=ENGINE)
    return retries


async def _as_worker(
    call: CamundaCall,
    verb: str,
    task_id: str,
    worker_id: str,
    function: str,
    variables: Mapping[str, Mapping[str, Typed]] | None = None,
    **arguments: Any,
) -> Response:
    """Call `function` for the worker on its task. `variables`: the arguments that are variables."""
    known, groups = _known(task_id), variables or {}
    try:
        row = await _written(call, function, known, groups, worker_id=worker_id, **arguments)
    except Refused as refusal:
        await note_refusal(call, verb, known, worker_id, None, refusal.code)
        raise await _worded(call, verb, task_id, worker_id, refusal) from None
    await follow(call, [row])
    return done()


async def _written(
    call: CamundaCall, function: str, task_id: str, groups: Mapping[str, Mapping[str, Typed]], **arguments: Any
) -> Row[Any]:
    """One call; with the contents of files before it, in its transaction."""
    arguments |= {"task_id": task_id, **call.rights}
    if not any(one.content is not None for group in groups.values() for one in group.values()):
        return await call.parts.database.one(function, **arguments, **_as_arguments(groups))
    async with call.parts.database.transaction() as connection:
        instance_id = await _instance_of(connection, task_id)
        saved = {name: await save_files(connection, instance_id, group) for name, group in groups.items()}
        return await authority.aone(connection, function, **arguments, **_as_arguments(saved))


def _as_arguments(groups: Mapping[str, Mapping[str, Typed]]) -> dict[str, Any]:
    return {name: plain(group) for name, group in groups.items()} | {
        name.replace("variables", "types"): types(group) for name, group in groups.items()
    }


async def _instance_of(connection: AsyncConnection, task_id: str) -> str | None:
    statement = text("select instance_id from celeriac.external_tasks where id = cast(:id as uuid)")
    found = (await connection.execute(statement, {"id": task_id})).scalar()
    return None if found is None else str(found)


async def _unchecked(call: CamundaCall, named: str, /, function: str, **arguments: Any) -> Response:
    """Call `function` on the task that is named so, whoever holds it."""
    try:
        rows = await call.parts.database.rows(function, **arguments, **call.rights)
    except NotFound:
        raise missing(named) from None
    await follow(call, rows)
    return done()


async def follow(call: CamundaCall, rows: Sequence[Row[Any]]) -> None:
    """After the commit: wake those who wait for such tasks, and let the instances go on."""
    await announce_types_of(call, [str(row.task_id) for row in rows if getattr(row, "state", None) == "READY"])
    await call.parts.advancer.advance(getattr(row, "instance_id", None) for row in rows)


async def _worded(call: CamundaCall, verb: str, task_id: str, worker_id: str, refusal: Refused) -> Exception:
    """A refusal as this face says it."""
    match refusal.code:
        case "not_found" | "already_ended" | "canceled" | "stale_token":
            return missing(task_id)
        case "lease_expired":
            now_ms = int(time.time() * 1000)
            message = "Cannot extend a lock that expired: lockExpirationTime is not greater than or equal to"
            return refused(f"{message} {now_ms}")
        case "suspended":
            return refused(f"ENGINE-03043 ExternalTask with id '{task_id}' is suspended.")
        case "lease_lost":
            rows = await call.parts.database.view(
                "select worker_id from celeriac.external_tasks where id = cast(:id as uuid)", id=uuid_of(task_id)
            )
            other = rows[0].worker_id if rows and rows[0].worker_id is not None else "null"
            not_yours = _NOT_YOURS[verb].format(task=task_id, worker=worker_id)
            whose = ", who came with a key of another principal" if other == worker_id else ""
            return refused(f"{not_yours}. It is locked by worker '{other}'{whose}.")
    return refusal


def _variables(sent: Sent, *names: str) -> dict[str, dict[str, Typed]]:
    """Those arguments of the SQL functions that are variables."""
    return {name: read_variables(sent.mapping(_FIELD_OF[name])) for name in names}


def _known(task_id: str) -> str:
    known = uuid_of(task_id)
    if known is None:
        raise missing(task_id)
    return known


def _demand_positive(name: str, number: int) -> None:
    if number <= 0:
        raise CamundaError(400, "RestException", f"{name} is not greater than 0", code=ENGINE)


def _demand_no_less(name: str, number: int | None) -> None:
    """Camunda's engine refuses what is below 0 with a 500."""
    if number is not None and number < 0:
        message = f"{name} is not greater than or equal to 0"
        raise CamundaError(500, "ProcessEngineException", message, code=ENGINE)
