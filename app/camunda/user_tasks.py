"""/task: user tasks, which people claim and complete. The id of one is that of its token."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from app.api.fields import LARGEST_INTEGER
from app.api.rights import Verb, demand
from app.camunda.answers import answer, done
from app.camunda.errors import CamundaError, refused
from app.camunda.instance_shape import shown_variables
from app.camunda.listing import one
from app.camunda.lists import serve_list, serve_one
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import LONGEST_NAME, Sent
from app.camunda.user_task_rows import USER_TASKS, candidates, shown_user_task
from app.camunda.values import plain, read_variables, save_files, show, types
from app.camunda.variables import place_of, seen
from db import call as authority
from db.errors import AlreadyEnded, NotFound

router = APIRouter(prefix="/engine-rest/task", route_class=CamundaRoute)

LONGEST_DESCRIPTION: Final = 4000


serve_list(router, USER_TASKS, shown_user_task)
serve_one(router, USER_TASKS, shown_user_task, "task_id", "No matching task with id {}")


@router.put("/{task_id}")
async def update(call: CamundaCall, task_id: str) -> Response:
    """What people are shown of it, all at once: what is not sent is empty afterwards."""
    row = await _task(call, task_id, "manage")
    sent = call.sent
    due, follow_up = sent.moment("due"), sent.moment("followUp")
    assignee = _user(sent, "assignee")
    duty = {
        "name": sent.text("name", LONGEST_NAME),
        "description": sent.text("description", LONGEST_DESCRIPTION),
        "priority": sent.integer("priority", 0, LARGEST_INTEGER) or 0,
        "owner": sent.text("owner", LONGEST_NAME),
        "due": None if due is None else due.isoformat(),
        "follow_up": None if follow_up is None else follow_up.isoformat(),
    }
    try:
        async with call.parts.database.transaction() as connection:
            told = {"token_uid": row["token_id"], "principal": call.principal.name}
            await authority.aone(connection, "assign_token", assignee=assignee, **told)
            await authority.aone(connection, "describe_token", duty=duty, **told)
    except NotFound:
        raise missing(task_id) from None
    return done()


@router.post("/{task_id}/claim")
async def claim(call: CamundaCall, task_id: str) -> Response:
    """It is this user's from now on, if it is nobody's."""
    return await _assign(call, task_id, _user(call.sent, "userId"), claim=True)


@router.post("/{task_id}/unclaim")
async def unclaim(call: CamundaCall, task_id: str) -> Response:
    """It is nobody's from now on."""
    return await _assign(call, task_id, None)


@router.post("/{task_id}/assignee")
async def assign(call: CamundaCall, task_id: str) -> Response:
    """It is this user's from now on, whoever had it."""
    return await _assign(call, task_id, _user(call.sent, "userId"))


@router.post("/{task_id}/complete")
async def complete(call: CamundaCall, task_id: str) -> Response:
    """It is done; its variables go on."""
    return await _complete(call, task_id, f"Cannot complete task {task_id[:64]}")


@router.post("/{task_id}/submit-form")
async def submit_form(call: CamundaCall, task_id: str) -> Response:
    """The same: forms are not checked here."""
    return await _complete(call, task_id, f"Cannot submit task form {task_id[:64]}")


@router.post("/{task_id}/bpmnError")
async def bpmn_error(call: CamundaCall, task_id: str) -> Response:
    """It ends with a business error, which the model may catch; what it does not catch ends that path."""
    demand(call.principal, "work")
    if not call.sent.text("errorCode"):
        raise refused("errorCode is null" if "errorCode" not in call.sent else "errorCode is empty")
    code = call.sent.name("errorCode")
    variables = read_variables(call.sent.mapping("variables"))
    row = await _task(call, task_id, "work")
    _demand_running(row, task_id, "")
    try:
        async with call.parts.database.transaction() as connection:
            saved = await save_files(connection, str(row["instance_id"]), variables)
            await authority.aone(
                connection,
                "throw_token",
                token_uid=row["token_id"],
                error_code=code,
                error_message=call.sent.text("errorMessage"),
                variables=plain(saved),
                types=types(saved),
                principal=call.principal.name,
            )
    except NotFound:
        raise missing(task_id) from None
    await call.parts.advancer.advance([row["instance_id"]])
    return done()


@router.get("/{task_id}/identity-links")
async def identity_links(call: CamundaCall, task_id: str) -> Response:
    """Who has it, owns it, or may claim it; `type` narrows."""
    row = await _task(call, task_id, "read")
    links = [
        *(("assignee", name, None) for name in (row["assignee"],) if name),
        *(("owner", name, None) for name in (row["owner"],) if name),
        *(("candidate", user, group) for user, group in candidates(row)),
    ]
    wanted = call.asked.text("type")
    return answer(
        [{"userId": user, "groupId": group, "type": type_} for type_, user, group in links if wanted in (None, type_)]
    )


@router.get("/{task_id}/form")
async def form(call: CamundaCall, task_id: str) -> Response:
    row = await _task(call, task_id, "read")
    return answer({"key": row["form_key"], "camundaFormRef": None, "contextPath": None})


@router.get("/{task_id}/form-variables")
async def form_variables(call: CamundaCall, task_id: str) -> Response:
    """What is seen from the task, or those of it that `variableNames` names."""
    row = await _task(call, task_id, "read")
    place = await place_of(call, str(row["token_id"]), "task")
    deserialize = call.asked.boolean("deserializeValues") if "deserializeValues" in call.asked else True
    rows = await seen(call, place, call.asked.names("variableNames"))
    return answer({row.name: show(row.value, row.type, row.info, deserialize) for row in rows})


def missing(task_id: str) -> CamundaError:
    return refused(f"Cannot find task with id {task_id[:64]}: task is null", 404)


async def _task(call: CamundaCall, task_id: str, verb: Verb) -> dict[str, Any]:
    demand(call.principal, verb)
    row = await one(call, USER_TASKS, task_id)
    if row is None:
        raise missing(task_id)
    return row


async def _assign(call: CamundaCall, task_id: str, user: str | None, *, claim: bool = False) -> Response:
    row = await _task(call, task_id, "work")
    try:
        await call.parts.database.one(
            "assign_token",
            token_uid=row["token_id"],
            assignee=user,
            claim=claim and user is not None,
            principal=call.principal.name,
        )
    except NotFound:
        raise missing(task_id) from None
    except AlreadyEnded:
        message = f"Task '{task_id}' is already claimed by someone else."
        raise CamundaError(400, "TaskAlreadyClaimedException", message, code=0) from None
    return done()


async def _complete(call: CamundaCall, task_id: str, cannot: str) -> Response:
    demand(call.principal, "work")
    try:
        variables = read_variables(call.sent.mapping("variables"))
    except CamundaError as error:
        raise error.within(cannot, "InvalidRequestException") from None
    with_variables = call.sent.boolean("withVariablesInReturn")
    row = await _task(call, task_id, "work")
    _demand_running(row, task_id, f"{cannot}: ")
    instance_id = str(row["instance_id"])
    try:
        async with call.parts.database.transaction() as connection:
            saved = await save_files(connection, instance_id, variables)
            await authority.aone(
                connection,
                "complete_token",
                token_uid=row["token_id"],
                variables=plain(saved),
                types=types(saved),
                principal=call.principal.name,
            )
    except NotFound:
        raise missing(task_id) from None
    await call.parts.advancer.advance([instance_id])
    if with_variables:
        return answer(await shown_variables(call, instance_id))
    return done()


def _demand_running(row: dict[str, Any], task_id: str, cannot: str) -> None:
    if row["suspended"]:
        raise refused(f"{cannot}ENGINE-03043 task with id '{task_id}' is suspended.")


def _user(sent: Sent, name: str) -> str | None:
    """A name that can be kept; an empty one is nobody's."""
    return sent.name(name) if sent.text(name) else None
