"""Case B66 and its kind: a key for one topic gets nothing of another, by whatever name, filter, token or moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, create, deploy, error, start
from tests.camunda.work import done, fetch, shown

BASE = "/engine-rest"
BOTH = model(
    '<startEvent id="s"/><parallelGateway id="g"/><endEvent id="e"/>' + flow("s", "g")
    + "".join(task(name) + flow("g", name, "e") for name in ("mail", "payroll"))
)  # fmt: skip


@pytest.fixture
async def mailer(camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    """A key for the topic mail; there is a task of it, and one of payroll."""
    await deploy(camunda, BOTH)
    await start(camunda, variables={"salary": {"value": "secret"}})
    async with client_of(camunda_app, keys.make(types=("mail",), name="mailer")) as client:
        yield client


def ask(*topics: Any, **more: Any) -> dict[str, Any]:
    named = [{"topicName": one, "lockDuration": 60_000, **more} for one in topics]
    return {"workerId": "w", "maxTasks": 10, "topics": named}


@pytest.mark.parametrize(
    "topics",
    [
        ("mail", "payroll"), ("payroll",), ("*",), ("",), ("MAIL",), ("mail\u200b",), ("mail ",), ("%",), ("m%",),
        ("mail", "payroll", "mail"), ("mai_",), ("mail,payroll",), ("mail\npayroll",), ("*mail",), ("pay*",),
        ("payroll", "payroll"),
    ],
)  # fmt: skip
async def test_a_fetch_with_any_foreign_topic_is_refused_as_a_whole(
    camunda: httpx.AsyncClient, mailer: httpx.AsyncClient, topics: tuple[str, ...]
) -> None:
    refused = await mailer.post(f"{BASE}/external-task/fetchAndLock", json=ask(*topics))
    # What is no name of a topic is nobody's: that is said first.
    assert error(refused)[:2] in ((403, "AuthorizationException"), (400, "InvalidRequestException"))
    assert await at(camunda, "/external-task/count", locked="true") == {"count": 0}


async def test_ones_own_topic_is_served_and_nothing_beside_it(mailer: httpx.AsyncClient) -> None:
    for filters in ({}, {"processDefinitionKey": "p"}, {"processDefinitionKeyIn": ["p", "q"]}, {"businessKey": None}):
        answered = await mailer.post(f"{BASE}/external-task/fetchAndLock", json=ask("mail", "mail", **filters))
        (found,) = answered.json()
        assert found["topicName"] == "mail"
        assert (await mailer.post(f"{BASE}/external-task/{found['id']}/unlock")).status_code == 204
    many = await mailer.post(f"{BASE}/external-task/fetchAndLock", json=ask(*(f"mail{n}" for n in range(10_000))))
    assert many.status_code in (400, 403)


async def test_a_foreign_task_looks_missing_whatever_is_known_of_it(
    camunda: httpx.AsyncClient, mailer: httpx.AsyncClient
) -> None:
    """Also for the very worker id that holds it."""
    held = await fetch(camunda, "payroll")
    for verb, body in (
        ("complete", {}), ("failure", {}), ("bpmnError", {"errorCode": "X"}), ("extendLock", {"newDuration": 1}),
        ("lock", {"lockDuration": 1}), ("unlock", {}),
    ):  # fmt: skip
        answered = await mailer.post(f"{BASE}/external-task/{held['id']}/{verb}", json={"workerId": "w", **body})
        assert error(answered) == (404, "RestException", f"External task with id {held['id']} does not exist"), verb
    for path in (f"/external-task/{held['id']}", f"/external-task/{held['id']}/errorDetails"):
        assert (await mailer.get(BASE + path)).status_code == 404
    for filters in ({}, {"topicName": "payroll"}, {"workerId": "w"}, {"processVariables": "salary_eq_secret"}):
        listed = (await mailer.get(f"{BASE}/external-task", params=filters)).json()
        assert {one["topicName"] for one in listed} <= {"mail"}, filters
    assert (await mailer.get(f"{BASE}/external-task/topic-names")).json() == ["mail"]
    for body in (
        {"retries": 5, "externalTaskIds": [held["id"]]},
        {"retries": 5, "externalTaskQuery": {"topicName": "payroll"}},
        {"retries": 5, "processInstanceIds": [held["processInstanceId"]]},
    ):
        answered = await mailer.put(f"{BASE}/external-task/retries", json=body)
        assert answered.status_code in (204, 400, 404)
    assert (await shown(camunda, held))["retries"] is None
    for path in ("/history/external-task-log", "/history/variable-instance", "/variable-instance", "/incident"):
        assert "payroll" not in (await mailer.get(BASE + path)).text
    # A process that also has work of others shows nothing of its variables.
    assert (await mailer.get(f"{BASE}/process-instance/{held['processInstanceId']}/variables")).status_code == 404
    await done(camunda, held)


async def test_who_may_not_have_a_topic_may_not_deploy_a_model_that_has_it(
    camunda: httpx.AsyncClient, mailer: httpx.AsyncClient
) -> None:
    form: Any = {"m.bpmn": ("m.bpmn", BOTH)}
    assert error(await mailer.post(f"{BASE}/deployment/create", files=form))[:2] == (403, "AuthorizationException")
    assert (await mailer.post(f"{BASE}/process-definition/key/p/start", json={})).status_code in (403, 404)
    own = model('<startEvent id="s"/>' + task("mail") + '<endEvent id="e"/>' + flow("s", "mail", "e"),
                process='id="own" isExecutable="true"')  # fmt: skip
    assert (await mailer.post(f"{BASE}/deployment/create", files={"m.bpmn": ("m.bpmn", own)})).status_code == 200
    assert (await mailer.post(f"{BASE}/process-definition/key/own/start", json={})).status_code == 200


async def test_a_topic_by_expression_is_no_way_around(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    """What a model may ask for is not known beforehand, so its author must have every topic."""
    work = '<serviceTask id="t" camunda:type="external" camunda:topic="${topic}"/>'
    content = model('<startEvent id="s"/>' + work + '<endEvent id="e"/>' + flow("s", "t", "e"))
    async with client_of(camunda_app, keys.make(types=("mail",))) as client:
        refused = await client.post(f"{BASE}/deployment/create", files={"m.bpmn": ("m.bpmn", content)})
        assert error(refused)[:2] == (403, "AuthorizationException")
    assert (await create(camunda, ("m.bpmn", content))).status_code == 200


async def test_a_right_that_is_taken_away_counts_while_a_task_is_held(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    """The task belongs to who fetched it, a principal; what they may do with it, the key says that they show now."""
    await deploy(camunda, BOTH)
    await start(camunda)
    rights: dict[str, Any] = {"types": ("mail",), "principal": "clerk"}
    async with client_of(camunda_app, keys.make(name="first", **rights)) as first:
        (held,) = (await first.post(f"{BASE}/external-task/fetchAndLock", json=ask("mail"))).json()
    address = f"{BASE}/external-task/{held['id']}"
    async with client_of(camunda_app, keys.make(types=("other",), name="narrow", principal="clerk")) as narrow:
        for verb, body in (("extendLock", {"newDuration": 60_000}), ("complete", {})):
            assert (await narrow.post(f"{address}/{verb}", json={"workerId": "w", **body})).status_code == 404
    async with client_of(camunda_app, keys.make("read", name="reader", **rights)) as reader:
        assert (await reader.post(f"{address}/complete", json={"workerId": "w"})).status_code == 403
    async with client_of(camunda_app, keys.make(types=("mail",), name="stranger")) as stranger:
        status, kind, message = error(await stranger.post(f"{address}/complete", json={"workerId": "w"}))
        assert (status, kind) == (400, "RestException")
        assert message.endswith("It is locked by worker 'w', who came with a key of another principal.")
    assert (await shown(camunda, held))["workerId"] == "w"
    async with client_of(camunda_app, keys.make(name="rotated", **rights)) as rotated:
        assert (await rotated.post(f"{address}/complete", json={"workerId": "w"})).status_code == 204


async def test_many_topics_are_served_or_refused_and_break_nothing(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, BOTH)
    await start(camunda)
    answered = await camunda.post(
        "/external-task/fetchAndLock", json=ask(*(f"t{number}" for number in range(10_000)), "mail")
    )
    if answered.status_code == 200:
        assert [one["topicName"] for one in answered.json()] == ["mail"]
    else:
        assert error(answered)[0] == 400
        assert await at(camunda, "/external-task/count", locked="true") == {"count": 0}
