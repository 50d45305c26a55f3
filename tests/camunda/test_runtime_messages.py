"""/message and /signal: whom they reach, what they bring, and what is answered when nobody or too many wait."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.app.engine.conftest import flow, model
from tests.camunda.runtime import at, deploy, error, start

ROOTS = '<message id="M" name="m"/><signal id="S" name="sig"/>'
MISMATCH = "org.camunda.bpm.engine.MismatchingMessageCorrelationException: Cannot correlate message 'm': "
NOBODY = "00000000-0000-7000-8000-000000000000"


def catching(inside: str = "", event: str = '<messageEventDefinition messageRef="M"/>') -> bytes:
    """A process that waits for the message, then for a person."""
    return model(
        f'<startEvent id="s"/><intermediateCatchEvent id="wait">{inside}{event}</intermediateCatchEvent>'
        '<userTask id="u"/><endEvent id="e"/>' + flow("s", "wait", "u", "e"),
        ROOTS,
    )


def begun(process: str = "q", event: str = '<messageEventDefinition messageRef="M"/>') -> bytes:
    """A process that the message begins."""
    return model(
        f'<startEvent id="s">{event}</startEvent><userTask id="u"/>' + flow("s", "u"),
        ROOTS,
        f'id="{process}" isExecutable="true"',
    )


def signalled(content: bytes) -> bytes:
    return content.replace(b'<messageEventDefinition messageRef="M"/>', b'<signalEventDefinition signalRef="S"/>')


async def send(camunda: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    answered = await camunda.post("/message", json={"messageName": "m", "resultEnabled": True, **body})
    assert answered.status_code == 200, answered.text
    return list(answered.json())


async def refused(camunda: httpx.AsyncClient, **body: Any) -> tuple[int, str, str]:
    return error(await camunda.post("/message", json={"messageName": "m", **body}))


async def places(camunda: httpx.AsyncClient, instance: str) -> list[str]:
    tree = await at(camunda, f"/process-instance/{instance}/activity-instances")
    return [one["activityId"] for one in tree["childActivityInstances"]]


async def values(camunda: httpx.AsyncClient, instance: str) -> dict[str, Any]:
    variables = await at(camunda, f"/process-instance/{instance}/variables")
    return {name: one["value"] for name, one in variables.items()}


async def test_a_message_lets_the_execution_go_on_that_waits(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, catching())
    started = await start(camunda)
    (execution,) = await at(camunda, "/execution", messageEventSubscriptionName="m")
    answered = await camunda.post(
        "/message",
        json={"messageName": "m", "processVariables": {"x": {"value": "2020-01-01T00:00:00.000+0000", "type": "Date"}}},
    )
    assert (answered.status_code, answered.content) == (204, b"")
    assert await places(camunda, started["id"]) == ["u"]
    x = await at(camunda, f"/process-instance/{started['id']}/variables/x")
    assert x == {"value": "2020-01-01T00:00:00.000+0000", "type": "Date", "valueInfo": {}}
    again = await start(camunda)
    (result,) = await send(camunda, variablesInResultEnabled=True, processVariables={"y": {"value": 1}})
    assert result.keys() == {"resultType", "execution", "processInstance", "variables"}
    assert (result["resultType"], result["processInstance"]) == ("Execution", None)
    assert result["execution"]["id"] != execution["id"]
    assert result["execution"]["processInstanceId"] == again["id"]
    assert result["execution"].keys() == {"id", "processInstanceId", "ended", "tenantId"}
    assert result["variables"] == {"y": {"value": 1, "type": "Integer", "valueInfo": {}}}


async def test_a_message_that_nobody_waits_for_is_refused_and_not_kept(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, catching())
    nobody = (400, "RestException", f"{MISMATCH}No process definition or execution matches the parameters")
    assert await refused(camunda) == nobody
    started = await start(camunda, businessKey="B-1", variables={"x": {"value": 1}})
    for body in (
        {"businessKey": "B-2"}, {"processInstanceId": NOBODY}, {"processInstanceId": "x"}, {"tenantId": "t"},
        {"correlationKeys": {"x": {"value": 2}}}, {"correlationKeys": {"y": {"value": None}}},
        {"correlationKeys": {"x": {"value": "1"}}}, {"localCorrelationKeys": {"x": {"value": 1}}},
    ):  # fmt: skip
        assert await refused(camunda, **body) == nobody, body
    assert await places(camunda, started["id"]) == ["wait"]
    assert await send(camunda, all=True, businessKey="B-2") == []
    assert (await camunda.post("/message", json={"messageName": "none", "all": True})).status_code == 204
    await camunda.put(f"/process-instance/{started['id']}/suspended", json={"suspended": True})
    assert await refused(camunda) == nobody
    await camunda.put(f"/process-instance/{started['id']}/suspended", json={"suspended": False})
    fits = {"businessKey": "B-1", "correlationKeys": {"x": {"value": 1, "type": "Integer"}}, "withoutTenantId": True}
    (result,) = await send(camunda, processInstanceId=started["id"], **fits)
    assert result["execution"]["processInstanceId"] == started["id"]


async def test_several_executions_are_too_many_unless_all_are_meant(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, catching())
    first, second = await start(camunda, businessKey="1"), await start(camunda, businessKey="2")
    status, type_, message = await refused(camunda)
    assert (status, type_) == (400, "RestException")
    assert message.startswith(MISMATCH)
    assert (await send(camunda, businessKey="2"))[0]["execution"]["processInstanceId"] == second["id"]
    third = await start(camunda)
    await deploy(camunda, begun())
    results = await send(camunda, all=True)
    reached = [one["execution"]["processInstanceId"] for one in results if one["resultType"] == "Execution"]
    assert sorted(reached) == sorted([first["id"], third["id"]])
    (made,) = [one["processInstance"] for one in results if one["resultType"] == "ProcessDefinition"]
    assert made["definitionKey"] == "q"


async def test_two_tokens_of_one_instance_are_two_executions(camunda: httpx.AsyncClient) -> None:
    wait = '<intermediateCatchEvent id="{0}"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    gate = '<startEvent id="s"/><parallelGateway id="g"/>' + wait.format("w1") + wait.format("w2")
    await deploy(camunda, model(gate + flow("s", "g", "w1") + flow("g", "w2"), ROOTS))
    started = await start(camunda)
    assert (await refused(camunda))[0] == 400
    executions = {one["execution"]["id"] for one in await send(camunda, all=True)}
    assert len(executions) == 2
    assert error(await camunda.get(f"/process-instance/{started['id']}"))[0] == 404


async def test_a_message_begins_an_instance_when_no_execution_waits(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, begun())
    newest = await deploy(camunda, begun())
    variables = {"processVariables": {"x": {"value": 1}}, "processVariablesLocal": {"y": {"value": 2}}}
    (result,) = await send(camunda, businessKey="B-1", correlationKeys={"z": {"value": 0}}, **variables)
    made = result["processInstance"]
    assert (result["resultType"], result["execution"]) == ("ProcessDefinition", None)
    assert (made["definitionId"], made["businessKey"], made["ended"]) == (newest["id"], "B-1", False)
    assert made.keys() == {
        "links", "id", "definitionId", "definitionKey", "businessKey", "caseInstanceId", "ended", "suspended",
        "tenantId",
    }  # fmt: skip
    assert await values(camunda, made["id"]) == {"x": 1, "y": 2}
    await deploy(camunda, begun("r"))
    status, _, message = await refused(camunda)
    assert (status, message.startswith(MISMATCH)) == (400, True)
    assert await at(camunda, "/process-instance/count") == {"count": 1}
    assert len(await send(camunda, all=True)) == 2


async def test_a_message_for_an_instance_begins_no_other(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, begun())
    assert (await refused(camunda, processInstanceId=NOBODY))[0] == 400


async def test_correlation_looks_at_the_instance_and_local_correlation_at_the_activity(
    camunda: httpx.AsyncClient,
) -> None:
    inputs = (
        "<extensionElements><camunda:inputOutput><camunda:inputParameter name='key'>here</camunda:inputParameter>"
        "<camunda:outputParameter name='got'>${given}</camunda:outputParameter></camunda:inputOutput>"
        "</extensionElements>"
    )
    await deploy(camunda, catching(inputs))
    started = await start(camunda)
    assert (await refused(camunda, correlationKeys={"key": {"value": "here"}}))[0] == 400
    assert (await refused(camunda, localCorrelationKeys={"key": {"value": "there"}}))[0] == 400
    local = {"localCorrelationKeys": {"key": {"value": "here"}}, "processVariablesLocal": {"given": {"value": 5}}}
    assert len(await send(camunda, **local)) == 1
    # What is local to the event is seen by its outputs, and gone with it.
    assert await values(camunda, started["id"]) == {"got": 5}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "No message name supplied"),
        ({"messageName": None}, "No message name supplied"),
        ({"messageName": "m", "variablesInResultEnabled": True}, "variablesInResultEnabled"),
        ({"messageName": "m", "tenantId": "t", "withoutTenantId": True}, "tenantId"),
        ({"messageName": "m", "processVariables": {"x": {"type": "Money"}}}, "Cannot deliver message: Unsupported"),
        ({"messageName": "m", "correlationKeys": []}, "correlationKeys"),
        ({"messageName": "m", "processVariables": {"x": {"value": "a", "type": "Long"}}}, "Cannot deliver message: "),
    ],
)
async def test_a_message_that_says_too_little_or_too_much_is_refused(
    camunda: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    answered = error(await camunda.post("/message", json=body))
    assert answered[:2] == (400, "InvalidRequestException")
    assert message in answered[2]


async def test_a_message_with_a_name_that_cannot_be_reaches_nobody(camunda: httpx.AsyncClient) -> None:
    for name in ("", " m", "x" * 256, "\x00", 5):
        answered = await camunda.post("/message", json={"messageName": name, "businessKey": "\x00"})
        assert error(answered)[0] == 400, name


async def test_a_signal_reaches_all_that_wait_and_begins_what_it_begins(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, signalled(catching()))
    await deploy(camunda, signalled(begun()))
    instances = [await start(camunda) for _ in range(2)]
    body = {"name": "sig", "variables": {"x": {"value": 1}}}
    answered = await camunda.post("/signal", json=body)
    assert (answered.status_code, answered.content) == (204, b"")
    for one in instances:
        assert await places(camunda, one["id"]) == ["u"]
        assert await values(camunda, one["id"]) == {"x": 1}
    (made,) = await at(camunda, "/process-instance", processDefinitionKey="q")
    assert await values(camunda, made["id"]) == {"x": 1}


async def test_a_signal_that_nobody_waits_for_is_no_error(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, signalled(catching()))
    started = await start(camunda)
    for body in ({"name": "other"}, {"name": "sig", "tenantId": "t"}):
        assert (await camunda.post("/signal", json=body)).status_code == 204
    assert await places(camunda, started["id"]) == ["wait"]


async def test_what_stands_still_hears_no_signal_and_goes_on_waiting(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, signalled(catching()))
    started = await start(camunda)
    (execution,) = await at(camunda, "/execution", activityId="wait")
    path = f"/process-instance/{started['id']}/suspended"
    assert (await camunda.put(path, json={"suspended": True})).status_code == 204
    assert (await camunda.post("/signal", json={"name": "sig"})).status_code == 204
    alone = await camunda.post("/signal", json={"name": "sig", "executionId": execution["id"]})
    assert error(alone)[:2] == (400, "RestException")
    assert (await camunda.put(path, json={"suspended": False})).status_code == 204
    assert await places(camunda, started["id"]) == ["wait"]
    assert (await camunda.post("/signal", json={"name": "sig"})).status_code == 204
    assert await places(camunda, started["id"]) == ["u"]


async def test_a_signal_for_one_execution_reaches_it_alone(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, signalled(catching()))
    await deploy(camunda, signalled(begun()))
    first, second = [await start(camunda) for _ in range(2)]
    (execution,) = await at(camunda, "/execution", processInstanceId=first["id"], activityId="wait")
    assert (await camunda.post("/signal", json={"name": "sig", "executionId": execution["id"]})).status_code == 204
    assert await places(camunda, first["id"]) == ["u"]
    assert await places(camunda, second["id"]) == ["wait"]
    assert await at(camunda, "/process-instance/count", processDefinitionKey="q") == {"count": 0}
    for gone in (execution["id"], NOBODY, "x"):
        answered = await camunda.post("/signal", json={"name": "sig", "executionId": gone})
        assert error(answered)[:2] == (400, "RestException"), gone
    for body in ({}, {"name": "sig", "executionId": execution["id"], "tenantId": "t"}, {"name": "sig", "variables": 5}):
        assert error(await camunda.post("/signal", json=body))[:2] == (400, "InvalidRequestException"), body
    assert error(await camunda.post("/signal", json={}))[2] == "No signal name given"
