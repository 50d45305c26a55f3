"""Many process instances at once: suspended, resumed, deleted, and what is known of ended ones forgotten.

They are named by their ids, by queries about open ones or about the history, or by their process. What a request names
is changed in one transaction, at once: each that is named by its id, or nothing; of what a query finds, what is still
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda import instance_history, process_instances
from app.camunda.answers import answer, done
from app.camunda.batches import finished_batch
from app.camunda.errors import invalid, refused
from app.camunda.listing import MOST_CHANGED, Listing, keys
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent
from db.call import aone, arows
from db.errors import AlreadyEnded, Invalid, NotFound

router = APIRouter(prefix="/engine-rest", route_class=CamundaRoute)

AT_ONCE: Final = 100
"""Instances that go on, or end, before the answer; the chore sees to the rest."""
HISTORY: Final = "historicProcessInstanceQuery"
OF_PROCESS: Final = ("processDefinitionId", "processDefinitionKey")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Instances that a request is about; those that it did not `name` by their ids may have ended meanwhile."""

    ids: Sequence[UUID]
    named: frozenset[UUID] = frozenset()


@router.put("/process-instance/suspended")
async def suspend(call: CamundaCall) -> Response:
    """Let instances stand still, or go on: all of them, or none."""
    demand(call.principal, "manage")
    await _suspend(call)
    return done()


@router.post("/process-instance/suspended-async")
async def suspend_async(call: CamundaCall) -> Response:
    demand(call.principal, "manage")
    return answer(await finished_batch(call, "instance-update-suspension-state", await _suspend(call)))


@router.post("/process-instance/delete")
async def delete(call: CamundaCall) -> Response:
    """Stop instances and their open tasks; nothing that they have done is undone."""
    demand(call.principal, "manage")
    reason = call.sent.text("deleteReason")
    chosen = await _chosen(call, process_instances.INSTANCES, "processInstanceIds", "processInstanceQuery")
    await _change(call, chosen, "stop_instance", reason=reason)
    await call.parts.advancer.advance(chosen.ids[:AT_ONCE])
    return answer(await finished_batch(call, "instance-deletion", len(chosen.ids)))


@router.post("/history/process-instance/delete")
async def forget(call: CamundaCall) -> Response:
    """Forget ended instances."""
    demand(call.principal, "manage")
    chosen = await _chosen(call, instance_history.INSTANCES, "historicProcessInstanceIds", HISTORY)
    await _forget(call, chosen)
    return answer(await finished_batch(call, "historic-instance-deletion", len(chosen.ids)))


@router.delete("/history/process-instance/{instance_id}")
async def forget_one(call: CamundaCall, instance_id: str) -> Response:
    """Forget an ended instance with its variables, activities, incidents and files."""
    demand(call.principal, "manage")
    may_be_missing = "failIfNotExists" in call.asked and not call.asked.boolean("failIfNotExists")
    ids = await keys(call, instance_history.INSTANCES, Sent({"processInstanceId": instance_id}))
    if not ids and not may_be_missing:
        raise invalid(f"Historic process instance with id {instance_id[:64]} does not exist", 404)
    await _forget(call, Chosen(ids, frozenset() if may_be_missing else frozenset(ids)))
    return done()


async def suspend_all(call: CamundaCall, chosen: Chosen, suspended: bool) -> None:
    """Instances that run stand still, or go on."""
    await _change(call, chosen, "suspend_instance", suspended=suspended)
    if not suspended:
        await call.parts.advancer.advance(chosen.ids[:AT_ONCE])


async def of_process(call: CamundaCall, **asked: str) -> Chosen:
    """The instances that run of a process: `processDefinitionId` or `processDefinitionKey`."""
    return Chosen(_few(await keys(call, process_instances.INSTANCES, Sent(asked))))


async def _suspend(call: CamundaCall) -> int:
    sent = call.sent
    suspended = sent.boolean("suspended")
    by_process = {name: text for name in OF_PROCESS if (text := sent.text(name)) is not None}
    if by_process:
        chosen = await of_process(call, **by_process)
    else:
        chosen = await _chosen(call, process_instances.INSTANCES, "processInstanceIds", "processInstanceQuery")
    await suspend_all(call, chosen, suspended)
    return len(chosen.ids)


async def _change(call: CamundaCall, chosen: Chosen, function: str, **told: Any) -> None:
    try:
        async with call.parts.database.transaction() as connection:
            for one in chosen.ids:
                must = {"if_open": one not in chosen.named, "principal": call.principal.name}
                await arows(connection, function, instance_id=one, **must, **told)
    except (AlreadyEnded, NotFound):
        raise invalid("one of the process instances has ended meanwhile") from None


async def _chosen(call: CamundaCall, listing: Listing, names: str, query: str) -> Chosen:
    """Those that are named in some way, once; 400 for an id that is nobody's, and for none at all."""
    sent = call.sent
    given = list(dict.fromkeys(sent.names(names) or ()))
    ids = await keys(call, listing, Sent({"processInstanceIds": given})) if given else []
    if len(ids) < len(given):
        missing = next(one for one in given if one.lower() not in map(str, ids))
        raise invalid(f"Cannot find process instance with id {missing[:64]}", 404)
    named = frozenset(ids)
    if query in sent:
        ids += await keys(call, listing, sent.sent(query))
    if HISTORY in sent and query != HISTORY:
        past = _few(await keys(call, instance_history.INSTANCES, sent.sent(HISTORY)))
        # Those that have ended are not meant.
        ids += await keys(call, listing, Sent({"processInstanceIds": [str(one) for one in past]})) if past else []
    ids = _few(sorted(set(ids)))
    if not ids:
        raise invalid(f"{names} is empty")
    return Chosen(ids, named)


def _few(ids: list[UUID]) -> list[UUID]:
    if len(ids) > MOST_CHANGED:
        raise invalid(f"no more than {MOST_CHANGED} process instances can be changed by one call")
    return ids


async def _forget(call: CamundaCall, chosen: Chosen) -> None:
    try:
        async with call.parts.database.transaction() as connection:
            for one in chosen.ids:
                told = {"principal": call.principal.name, "if_there": one not in chosen.named}
                await aone(connection, "delete_instance", instance_id=one, **told)
    except Invalid:
        raise refused("Process instance is still running, cannot delete historic process instance") from None
    except NotFound:
        raise invalid("one of the process instances is gone already", 404) from None
