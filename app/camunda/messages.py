"""/message and /signal: what waits for them goes on, and what they begin begins. Neither is kept when nobody waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from sqlalchemy import Row
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import answer, done
from app.camunda.errors import CamundaError, invalid, refused
from app.camunda.instance_shape import instance_of, shown_instance, shown_variables
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of
from app.camunda.values import Typed, plain, read_variables, save_files, types
from db.call import arows
from db.errors import Invalid, NotFound

router = APIRouter(prefix="/engine-rest", route_class=CamundaRoute)

MISMATCH = "org.camunda.bpm.engine.MismatchingMessageCorrelationException"


@router.post("/message")
async def correlate(call: CamundaCall) -> Response:
    """Deliver a message to the one execution that waits for it and fits, else to the one start event; or, `all`, to
    every one of both."""
    demand(call.principal, "enqueue")
    sent = call.sent
    name = sent.name("messageName")
    if name is None:
        raise invalid("No message name supplied")
    _check_tenants(sent)
    with_result, with_variables = sent.boolean("resultEnabled"), sent.boolean("variablesInResultEnabled")
    if with_variables and not with_result:
        raise invalid("Parameter 'variablesInResultEnabled' cannot be used without 'resultEnabled' set to 'true'.")
    everyone, instance_id = sent.boolean("all"), sent.text("processInstanceId")
    local = _variables(sent, "processVariablesLocal") | _variables(sent, "processVariablesToTriggeredScope")
    reached: Sequence[Row[Any]] = []
    # An id that is nobody's, and any tenant, match nothing.
    if (instance_id is None or uuid_of(instance_id) is not None) and "tenantId" not in sent:
        reached = await thrown(
            call,
            _variables(sent, "processVariables"),
            local,
            kind="message",
            name=name,
            business_key=sent.name("businessKey"),
            correlation=plain(_variables(sent, "correlationKeys")),
            local_correlation=plain(_variables(sent, "localCorrelationKeys")),
            instance_id=uuid_of(instance_id),
            everyone=everyone,
        )
    if not reached and not everyone:
        raise _mismatch(name, "No process definition or execution matches the parameters")
    if not with_result:
        return done()
    return answer([await _result(call, row, with_variables) for row in reached])


@router.post("/signal")
async def signal(call: CamundaCall) -> Response:
    """Throw a signal to all that wait for its name and all that it begins; or to one execution, which must wait."""
    demand(call.principal, "enqueue")
    sent = call.sent
    name, execution = sent.name("name"), sent.text("executionId")
    if name is None:
        raise invalid("No signal name given")
    _check_tenants(sent)
    if execution is None:
        if "tenantId" not in sent:
            await thrown(call, _variables(sent, "variables"), {}, kind="signal", name=name)
        return done()
    token = uuid_of(execution)
    if "tenantId" in sent or sent.boolean("withoutTenantId"):
        raise invalid("Cannot specify a tenant-id when deliver a signal to a single execution.")
    reached = None
    if token is not None:
        reached = await thrown(call, _variables(sent, "variables"), {}, kind="signal", name=name, token_id=token)
    if not reached:
        what = f"Execution '{execution[:64]}' has not subscribed to a signal event with name '{name[:255]}'."
        raise refused(f"Cannot throw signal: {what}")
    return done()


def _check_tenants(sent: Sent) -> None:
    if "tenantId" in sent and sent.boolean("withoutTenantId"):
        raise invalid("Parameter 'tenantId' cannot be used together with parameter 'withoutTenantId'.")


def _variables(sent: Sent, name: str) -> dict[str, Typed]:
    try:
        return read_variables(sent.mapping(name))
    except CamundaError as error:
        what = "signal" if name == "variables" else "message"
        raise error.within(f"Cannot deliver {what}", "InvalidRequestException") from None


async def thrown(
    call: CamundaCall, variables: Mapping[str, Typed], local: Mapping[str, Typed], **event: Any
) -> Sequence[Row[Any]]:
    """What the event has reached, and that advanced. Nobody is nobody, also of a message."""
    try:
        async with call.parts.database.transaction() as connection:
            saved = await save_files(connection, None, variables)
            saved_local = await save_files(connection, None, local)
            rows = await arows(
                connection,
                "throw_event",
                **event,
                variables=plain(saved),
                types=types(saved),
                local_variables=plain(saved_local),
                local_types=types(saved_local),
                strict=True,
                **call.rights,
            )
    except NotFound:
        return []
    except Invalid as refusal:
        if refusal.field == "correlation":
            raise _mismatch(event["name"], refusal.message) from None
        raise
    await call.parts.advancer.advance(row.instance_id for row in rows)
    return rows


def _mismatch(name: str, why: str) -> CamundaError:
    return refused(f"{MISMATCH}: Cannot correlate message '{name[:255]}': {why}")


async def _result(call: CamundaCall, row: Row[Any], with_variables: bool) -> dict[str, Any]:
    instance = await instance_of(call, str(row.instance_id))
    execution = started = None
    if row.started:
        started = None if instance is None else shown_instance(instance)
    else:
        execution = {
            "id": row.token_id, "processInstanceId": row.instance_id, "ended": False, "tenantId": None,
        }  # fmt: skip
    shown: dict[str, Any] = {
        "resultType": "ProcessDefinition" if row.started else "Execution",
        "execution": execution,
        "processInstance": started,
    }
    if with_variables:
        shown["variables"] = await shown_variables(call, str(row.instance_id))
    return shown
