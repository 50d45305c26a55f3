"""Retries of many external tasks at once, named by their ids, by queries, or by their instances."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda import instance_history, process_instances
from app.camunda.answers import answer, done
from app.camunda.batches import finished_batch
from app.camunda.errors import CamundaError, invalid
from app.camunda.external_task_queries import TASKS
from app.camunda.external_tasks import follow, read_retries
from app.camunda.listing import MOST_CHANGED, keys
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of
from db.errors import NotFound

router = APIRouter(prefix="/engine-rest/external-task", route_class=CamundaRoute)


@router.put("/retries")
async def set_retries(call: CamundaCall) -> Response:
    """All that are named by their ids, or none; of what a query finds, what is still there."""
    demand(call.principal, "manage")
    await _set(call)
    return done()


@router.post("/retries-async")
async def set_retries_async(call: CamundaCall) -> Response:
    """The same, at once; what is answered is a batch that has nothing left to do."""
    demand(call.principal, "manage")
    changed = await _set(call)
    return answer(await finished_batch(call, "set-external-task-retries", changed))


async def _set(call: CamundaCall) -> int:
    """How many tasks there were."""
    try:
        retries = read_retries(call.sent)
    except CamundaError as wrong:
        raise invalid(wrong.message) from None
    named, found = _named(call.sent), await _found(call)
    changed = len({*named, *found})
    if not changed:
        raise invalid("externalTaskIds is empty")
    if changed > MOST_CHANGED:
        raise invalid(f"no more than {MOST_CHANGED} tasks can be changed by one call")
    try:
        rows = await call.parts.database.rows(
            "set_external_task_retries", task_ids=named, found_ids=found, retries=retries, **call.rights
        )
    except NotFound:
        raise invalid("Cannot find one of the external tasks", 404) from None
    await follow(call, rows)
    return changed


def _named(sent: Sent) -> list[UUID]:
    """Tasks that are named by their ids."""
    given = sent.values.get("externalTaskIds") or []
    if isinstance(given, list) and None in given:
        raise invalid("External task id cannot be null: externalTaskIds contains null value")
    return [_known(one) for one in sent.names("externalTaskIds") or []]


async def _found(call: CamundaCall) -> list[UUID]:
    """Tasks that a query finds, or that are of instances that are named or found."""
    sent = call.sent
    ids: list[UUID] = []
    if "externalTaskQuery" in sent:
        ids += await keys(call, TASKS, sent.sent("externalTaskQuery"))
    instances = [one for one in map(uuid_of, sent.names("processInstanceIds") or []) if one is not None]
    for name, listing in (
        ("processInstanceQuery", process_instances.INSTANCES),
        ("historicProcessInstanceQuery", instance_history.INSTANCES),
    ):
        if name in sent:
            instances += map(str, await keys(call, listing, sent.sent(name)))
    if instances:
        ids += await keys(call, TASKS, Sent({"processInstanceIdIn": instances}))
    return ids


def _known(task_id: str) -> UUID:
    known = uuid_of(task_id)
    if known is None:
        raise invalid(f"Cannot find external task with id {task_id}: externalTask is null", 404)
    return UUID(known)
