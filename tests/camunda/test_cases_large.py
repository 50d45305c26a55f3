"""Case B16 and its kind: payloads at the limits; what is too large is refused where it comes in, and blocks nobody."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from app.camunda import variable_instances
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.work import act, done, fetch, fetched, shown

LIMIT = 1 << 20


def text(size: int) -> dict[str, Any]:
    return {"value": "x" * size, "type": "String"}


async def test_one_task_at_the_limit_holds_up_nobody(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    big = (await start(camunda, variables={"blob": text(LIMIT - 100)}))["id"]
    small = [(await start(camunda))["id"] for _ in range(20)]
    found: list[str] = []
    for _ in range(5):
        tasks = await fetched(camunda, most=10)
        held = await at(camunda, "/external-task/count", locked="true")
        assert held == {"count": len(tasks)}, "what is locked is what was returned"
        found += [one["processInstanceId"] for one in tasks]
        for one in tasks:
            await done(camunda, one)
    assert sorted(found) == sorted([big, *small])


@pytest.mark.parametrize("asked", [{}, {"variables": ["blob"]}, {"variables": []}, {"businessKey": "big"}])
async def test_many_large_ones_come_in_answers_that_fit(camunda: httpx.AsyncClient, asked: dict[str, Any]) -> None:
    """Each answer has as many as fit, at least one, and what it does not have is not locked."""
    await deploy(camunda)
    instances = {
        (await start(camunda, businessKey="big", variables={"blob": text(1_000_000)}))["id"] for _ in range(12)
    }
    found: set[str] = set()
    while len(found) < len(instances):
        body = {"workerId": "w", "maxTasks": 200, "topics": [{"topicName": "a", "lockDuration": 60_000, **asked}]}
        answered = await camunda.post("/external-task/fetchAndLock", json=body)
        tasks = answered.json()
        assert tasks
        assert len(answered.content) < 16 << 20
        found |= {one["processInstanceId"] for one in tasks}
        assert await at(camunda, "/external-task/count", locked="true") == {"count": len(found)}
    assert found == instances


async def test_what_crosses_the_limit_is_refused_and_the_task_is_still_held(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    refused = await camunda.post("/process-definition/key/p/start", json={"variables": {"blob": text(LIMIT)}})
    assert refused.status_code in (400, 413)
    instance = (await start(camunda, variables={"first": text(400_000)}))["id"]
    found = await fetch(camunda)
    for verb, body in (("complete", {}), ("failure", {"retries": 1}), ("bpmnError", {"errorCode": "X"})):
        too_much = await act(camunda, found, verb, variables={"blob": text(LIMIT)}, **body)
        assert too_much.status_code in (400, 413), verb
        assert error(too_much)[0] < 500
    assert (await shown(camunda, found))["workerId"] == "w"
    path = f"/process-instance/{instance}/variables"
    assert (await camunda.put(f"{path}/blob", json=text(LIMIT))).status_code == 413
    assert (await camunda.put(f"{path}/second", json=text(700_000))).status_code == 413
    await done(camunda, found, variables={"second": text(400_000)})
    assert len((await fetch(camunda, "b"))["variables"]) == 2


async def test_a_variable_that_grows_step_by_step_stops_the_instance_where_a_person_sees_it(
    camunda: httpx.AsyncClient,
) -> None:
    """Each write is within the limit, and together they are not."""
    await deploy(camunda)
    instance = (await start(camunda, variables={"first": text(600_000)}))["id"]
    found = await fetch(camunda)
    answered = await act(camunda, found, "complete", variables={"second": text(600_000)})
    if answered.status_code != 204:
        assert answered.status_code in (400, 413)
        assert (await shown(camunda, found))["workerId"] == "w"
        return
    (incident,) = await at(camunda, "/incident", processInstanceId=instance)
    assert "1 MiB" in incident["incidentMessage"]
    assert await fetched(camunda, "b") == []


async def test_a_file_may_be_larger_than_all_variables(camunda: httpx.AsyncClient) -> None:
    content = bytes(range(256)) * 20_000
    await deploy(camunda, TWO)
    instance = (await start(camunda))["id"]
    info = {"filename": "big.bin", "mimetype": "application/octet-stream"}
    sent = {"doc": {"value": base64.b64encode(content).decode(), "type": "File", "valueInfo": info}}
    await done(camunda, await fetch(camunda), variables=sent)
    second = await fetch(camunda, "b")
    assert second["variables"]["doc"] == {"value": None, "type": "File", "valueInfo": info}
    assert (await camunda.get(f"/execution/{instance}/localVariables/doc/data")).content == content


async def test_a_list_of_everything_is_bounded(camunda: httpx.AsyncClient) -> None:
    """Lists show no variables, so many large instances are a short answer."""
    await deploy(camunda)
    for _ in range(5):
        await start(camunda, variables={"blob": text(900_000)})
    for path in ("/external-task", "/process-instance", "/history/process-instance"):
        assert len((await camunda.get(path)).content) < 100_000


async def test_what_has_grown_since_its_task_was_made_is_counted_as_it_is(camunda: httpx.AsyncClient) -> None:
    """Variables that were set later, and what failures said: an answer has no more of them than of others."""
    await deploy(camunda)
    instances = {(await start(camunda))["id"] for _ in range(12)}
    for number, instance in enumerate(sorted(instances)):
        if number % 2:
            put = await camunda.put(f"/process-instance/{instance}/variables/blob", json=text(1_000_000))
            assert put.status_code == 204
            continue
        (listed,) = await at(camunda, "/external-task", processInstanceId=instance)
        await done(camunda, listed, "lock", lockDuration=60_000)
        await done(camunda, listed, "failure", retries=1, errorDetails="x" * 1_000_000)
    found: list[str] = []
    while len(found) < 12:
        body = {"workerId": "w", "maxTasks": 100, "topics": [{"topicName": "a", "lockDuration": 60_000}]}
        answered = await camunda.post("/external-task/fetchAndLock", json=body)
        assert 0 < len(answered.content) < 5 << 20
        assert answered.json()
        found += [one["processInstanceId"] for one in answered.json()]
        assert await at(camunda, "/external-task/count", locked="true") == {"count": len(found)}
    assert sorted(found) == sorted(instances)


async def test_a_page_of_too_many_large_values_is_refused(
    camunda: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its size, not by its number; smaller pages have all of them."""
    monkeypatch.setattr(variable_instances, "LARGEST_PAGE", 2 << 20)
    await deploy(camunda)
    instances = [(await start(camunda, variables={"blob": text(900_000), "n": {"value": 1}}))["id"] for _ in range(3)]
    for path in ("/variable-instance", "/history/variable-instance"):
        status, type_, message = error(await camunda.get(path))
        assert (status, type_) == (400, "InvalidRequestException")
        assert "maxResults" in message
        assert error(await camunda.post(path, json={"variableName": "blob"}))[0] == 400
        assert len(await at(camunda, path, variableName="n")) == 3
        assert len(await at(camunda, path, processInstanceId=instances[0])) == 2
        pages = [await at(camunda, path, firstResult=first, maxResults=2) for first in (0, 2, 4)]
        assert len({one["id"] for page in pages for one in page}) == 6
