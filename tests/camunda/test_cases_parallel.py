"""What users of Camunda complain of: many tasks of one instance end at once, and clients get errors. Here never."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, start
from tests.camunda.test_external_tasks import parallel
from tests.camunda.work import act, done, fetch, fetched

WIDTH = 20


async def all_of(camunda: httpx.AsyncClient) -> list[dict[str, Any]]:
    topics = [{"topicName": f"t{number}", "lockDuration": 60_000} for number in range(WIDTH)]
    body = {"workerId": "w", "maxTasks": 100, "topics": topics}
    return list((await camunda.post("/external-task/fetchAndLock", json=body)).json())


async def test_all_branches_complete_at_once(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, parallel(WIDTH))
    instances = [(await start(camunda))["id"] for _ in range(3)]
    tasks = await all_of(camunda)
    assert len(tasks) == WIDTH * 3

    async def complete(one: dict[str, Any]) -> int:
        variables = {"shared": {"value": one["topicName"]}, one["topicName"]: {"value": one["topicName"]}}
        return (await act(camunda, one, "complete", variables=variables)).status_code

    assert set(await asyncio.gather(*map(complete, tasks))) == {204}
    for instance in instances:
        assert (await at(camunda, f"/history/process-instance/{instance}"))["state"] == "COMPLETED"
        ended = await at(camunda, "/history/variable-instance", processInstanceId=instance)
        assert {one["name"] for one in ended} == {"shared", *(f"t{number}" for number in range(WIDTH))}
    assert await at(camunda, "/incident") == await at(camunda, "/external-task") == []


@pytest.mark.parametrize("verb", ["failure", "bpmnError", "extendLock", "unlock"])
async def test_all_branches_do_anything_at_once(camunda: httpx.AsyncClient, verb: str) -> None:
    await deploy(camunda, parallel(WIDTH))
    instance = (await start(camunda))["id"]
    bodies: dict[str, dict[str, Any]] = {
        "failure": {"errorMessage": "x", "variables": {"v": {"value": 1}}}, "extendLock": {"newDuration": 90_000},
        "bpmnError": {"errorCode": "NOBODY"}, "unlock": {},
    }  # fmt: skip
    answers = await asyncio.gather(*(act(camunda, one, verb, **bodies[verb]) for one in await all_of(camunda)))
    assert {one.status_code for one in answers} == {204}
    left = await at(camunda, "/external-task", processInstanceId=instance)
    incidents = await at(camunda, "/incident/count", processInstanceId=instance)
    assert (len(left), incidents["count"]) == {
        "failure": (WIDTH, WIDTH), "bpmnError": (0, 0), "extendLock": (WIDTH, 0), "unlock": (WIDTH, 0),
    }[verb]  # fmt: skip


async def test_one_branch_ends_what_the_others_do(camunda: httpx.AsyncClient) -> None:
    """A terminate end event while the others complete: each of them was in time or is told that its task is gone."""
    body = '<startEvent id="s"/><parallelGateway id="g"/>' + flow("s", "g") + task("last")
    body += '<endEvent id="stop"><terminateEventDefinition/></endEvent>' + flow("g", "last", "stop")
    for number in range(WIDTH):
        body += task(f"t{number}") + f'<endEvent id="e{number}"/>' + flow("g", f"t{number}", f"e{number}")
    await deploy(camunda, model(body))
    instance = (await start(camunda))["id"]
    tasks = [*(await all_of(camunda)), await fetch(camunda, "last")]
    answers = await asyncio.gather(*(act(camunda, one, "complete") for one in tasks))
    assert answers[-1].status_code == 204
    assert {one.status_code for one in answers} <= {204, 404}
    assert (await at(camunda, f"/history/process-instance/{instance}"))["state"] == "COMPLETED"
    assert await at(camunda, "/external-task") == []


async def test_a_task_may_be_changed_while_its_variables_are(camunda: httpx.AsyncClient) -> None:
    """Variables of the instance, its suspension and its task from all sides; nothing is a 500, nothing is lost."""
    await deploy(camunda)
    instance = (await start(camunda, variables={"x": {"value": 0}}))["id"]
    found = await fetch(camunda)
    path = f"/process-instance/{instance}"
    answers = await asyncio.gather(
        *(camunda.put(f"{path}/variables/v{number}", json={"value": number}) for number in range(8)),
        *(act(camunda, found, "extendLock", newDuration=60_000) for _ in range(3)),
        *(camunda.put(f"{path}/suspended", json={"suspended": number % 2 == 0}) for number in range(4)),
        act(camunda, found, "complete", variables={"x": {"value": 1}}),
        *(camunda.put(f"/external-task/{found['id']}/priority", json={"priority": number}) for number in range(3)),
    )
    assert {one.status_code for one in answers} <= {200, 204, 400, 404}, [one.text for one in answers]
    assert (await camunda.put(f"{path}/suspended", json={"suspended": False})).status_code == 204
    for one in await fetched(camunda) or [found]:
        await act(camunda, one, "complete", variables={"x": {"value": 1}})
    following = await fetch(camunda, "b")
    values = {name: one["value"] for name, one in following["variables"].items()}
    assert values == {"x": 1, **{f"v{number}": number for number in range(8)}}
    await done(camunda, following)
