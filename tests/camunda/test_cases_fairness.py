"""Case B09 and its kind: who is served first, and that nobody is sent away while there is work."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, start
from tests.camunda.work import done, fetched

CHOOSY: list[dict[str, Any]] = [
    {}, {"processDefinitionKeyIn": ["p", "q"]}, {"processVariables": {"k": 1, "q": 1}}, {"businessKey": "B"},
]  # fmt: skip


def prioritised(topic: str, process: str) -> bytes:
    work = task(topic, 'camunda:taskPriority="${p}"')
    body = '<startEvent id="s"/>' + work + '<endEvent id="e"/>' + flow("s", topic, "e")
    return model(body, process=f'id="{process}" isExecutable="true"')


async def many(camunda: httpx.AsyncClient, count: int, key: str = "p", priority: int = 0) -> list[str]:
    """The ids of new instances in the order in which they were started."""
    variables = {"p": {"value": priority}, "k": {"value": 1}}
    return [(await start(camunda, key, businessKey="B", variables=variables))["id"] for _ in range(count)]


@pytest.mark.parametrize("filters", CHOOSY)
async def test_a_topic_with_one_task_is_served_beside_one_with_many(
    camunda: httpx.AsyncClient, filters: dict[str, Any]
) -> None:
    """Topics of one poll take turns at equal priority, whatever else is asked for."""
    await deploy(camunda, prioritised("x", "p"))
    await deploy(camunda, prioritised("y", "q"))
    await many(camunda, 40)
    (lonely,) = await many(camunda, 1, "q")
    topics = [{"topicName": name, "lockDuration": 60_000, **filters} for name in ("x", "y")]
    body = {"workerId": "w", "maxTasks": 5, "topics": topics}
    found = (await camunda.post("/external-task/fetchAndLock", json=body)).json()
    assert len(found) == 5
    assert lonely in {one["processInstanceId"] for one in found}


@pytest.mark.parametrize("filters", CHOOSY)
@pytest.mark.parametrize("use", [True, False, None])
async def test_what_is_urgent_goes_first_and_among_equals_what_is_old(
    camunda: httpx.AsyncClient, filters: dict[str, Any], use: bool | None
) -> None:
    """Without usePriority Camunda has no order at all; here it is the same one, so that nothing starves."""
    await deploy(camunda, prioritised("a", "p"))
    low = await many(camunda, 20)
    (high,) = await many(camunda, 1, priority=5)
    more = {} if use is None else {"usePriority": use}
    found: list[str] = []
    for _ in range(7):
        tasks = await fetched(camunda, most=3, more=more, **filters)
        found += [one["processInstanceId"] for one in tasks]
        for one in tasks:
            await done(camunda, one)
    assert found == [high, *low]


async def test_a_priority_that_is_raised_later_counts(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, prioritised("a", "p"))
    instances = await many(camunda, 5)
    (last,) = await at(camunda, "/external-task", processInstanceId=instances[-1])
    assert (await camunda.put(f"/external-task/{last['id']}/priority", json={"priority": 2**31 - 1})).status_code == 204
    assert [one["id"] for one in await fetched(camunda)] == [last["id"]]


@pytest.mark.parametrize("filters", CHOOSY)
async def test_no_poll_is_empty_while_there_is_work(camunda: httpx.AsyncClient, filters: dict[str, Any]) -> None:
    """Twenty workers that take one at a time, until nothing is left; each task is done once."""
    await deploy(camunda, prioritised("a", "p"))
    instances = await many(camunda, 60)

    async def work(worker: int) -> list[str]:
        mine: list[str] = []
        while True:
            left = await at(camunda, "/external-task/count", notLocked="true")
            found = await fetched(camunda, worker=f"w{worker}", **filters)
            if not found:
                # Others may have taken the rest since it was counted: one each at most.
                assert left["count"] <= 20
                return mine
            mine.append(found[0]["processInstanceId"])
            await done(camunda, found[0], worker=f"w{worker}")

    everybodys = await asyncio.gather(*(work(worker) for worker in range(20)))
    assert sorted(id_ for ids in everybodys for id_ in ids) == sorted(instances)


async def test_a_backlog_of_tasks_that_do_not_fit_hides_none_that_does(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, prioritised("a", "p"))
    await many(camunda, 100, priority=9)
    wanted = await start(camunda, businessKey="wanted", variables={"p": {"value": 0}})
    found = await fetched(camunda, most=10, businessKey="wanted")
    assert [one["processInstanceId"] for one in found] == [wanted["id"]]
