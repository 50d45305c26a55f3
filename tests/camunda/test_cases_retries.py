"""Case B19 and its kind: what is left to be tried, whatever clients send for it or leave out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from app.camunda import external_task_retries
from app.camunda.listing import keys
from app.settings import Settings
from tests.app.engine.conftest import Desk, flow, model, task
from tests.camunda.runtime import at, deploy, error, start
from tests.camunda.work import act, done, fetch, fetched, shown
from tests.clock import Clock


async def incidents(camunda: httpx.AsyncClient) -> list[str]:
    return [one["incidentMessage"] for one in await at(camunda, "/incident")]


@pytest.mark.parametrize(
    ("told", "left"),
    [({}, 0), ({"retries": None}, 0), ({"retries": 0}, 0), ({"retries": 2}, 2), ({"retries": 2**31 - 1}, 2**31 - 1)],
)
async def test_what_is_told_is_what_is_left(camunda: httpx.AsyncClient, told: dict[str, Any], left: int) -> None:
    await deploy(camunda)
    await start(camunda)
    found = await fetch(camunda)
    assert (found["retries"], (await shown(camunda, found))["retries"]) == (None, None)
    await done(camunda, found, "failure", errorMessage="x", **told)
    assert (await shown(camunda, found))["retries"] == left
    assert await incidents(camunda) == ([] if left else ["x"])
    assert [one["retries"] for one in await fetched(camunda)] == ([left] if left else [])


async def test_the_same_number_may_be_sent_again_and_again(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    await start(camunda)
    for retries in (2, 2, 2, 7, 1, 1):
        await done(camunda, await fetch(camunda), "failure", retries=retries)
    assert (await fetch(camunda))["retries"] == 1
    assert await incidents(camunda) == []


async def test_none_left_is_an_incident_whatever_time_is_told(camunda: httpx.AsyncClient, clock: Clock) -> None:
    await deploy(camunda)
    await start(camunda)
    found = await fetch(camunda)
    await done(camunda, found, "failure", retries=0, retryTimeout=60_000, errorMessage="broken")
    assert await incidents(camunda) == ["broken"]
    clock.advance(3_600_000)
    assert await fetched(camunda) == await fetched(camunda, worker="other") == []
    # Given more, it is fetched at once.
    assert (await camunda.put(f"/external-task/{found['id']}/retries", json={"retries": 1})).status_code == 204
    assert await incidents(camunda) == []
    again = await fetch(camunda, worker="other")
    assert (again["id"], again["retries"]) == (found["id"], 1)
    await done(camunda, again, "failure", "other", errorMessage="once more")
    assert await incidents(camunda) == ["once more"]
    await done(camunda, again, worker="other")
    assert await incidents(camunda) == []


async def test_retries_set_while_it_is_held_or_rests(camunda: httpx.AsyncClient, clock: Clock) -> None:
    await deploy(camunda)
    await start(camunda)
    found = await fetch(camunda)
    address = f"/external-task/{found['id']}/retries"
    for retries in (5, 1):
        assert (await camunda.put(address, json={"retries": retries})).status_code == 204
        held = await shown(camunda, found)
        assert (held["retries"], held["workerId"]) == (retries, "w")
    await done(camunda, found, "failure", retries=4, retryTimeout=60_000)
    assert (await camunda.put(address, json={"retries": 9})).status_code == 204
    # It rests on: the time that a worker asked for is not what is changed.
    assert await fetched(camunda, worker="other") == []
    clock.advance(61_000)
    assert (await fetch(camunda, worker="other"))["retries"] == 9
    # None left, while somebody works on it: an incident, and who works may still end it.
    assert (await camunda.put(address, json={"retries": 0})).status_code == 204
    assert len(await incidents(camunda)) == 1
    await done(camunda, found, worker="other")
    assert await incidents(camunda) == []


async def test_failures_that_are_told_twice_of_a_failed_task(camunda: httpx.AsyncClient) -> None:
    """The worker may change its mind; the incident is one, and says the first or the last of it."""
    await deploy(camunda)
    await start(camunda)
    found = await fetch(camunda)
    for message in ("first", "second"):
        await done(camunda, found, "failure", errorMessage=message)
        assert len(await incidents(camunda)) == 1
    assert (await shown(camunda, found))["errorMessage"] == "second"
    await done(camunda, found, "failure", retries=3, errorMessage="third")
    assert await incidents(camunda) == []
    assert (await fetch(camunda))["retries"] == 3


class TestAModelWithRetries:
    """The setting camunda_retries=engine: the model says how many there are at first."""

    @pytest.fixture
    def camunda_settings(self, camunda_settings: Settings) -> Settings:
        return replace(camunda_settings, camunda_retries="engine", camunda_lost_leases="retry")

    @staticmethod
    def model(cycle: str) -> bytes:
        cycle = f"<camunda:failedJobRetryTimeCycle>{cycle}</camunda:failedJobRetryTimeCycle>"
        said = f"<extensionElements>{cycle}</extensionElements>"
        return model('<startEvent id="s"/>' + task("a", inside=said) + '<endEvent id="e"/>' + flow("s", "a", "e"))

    async def test_one_that_has_one_is_lost_once(
        self, camunda: httpx.AsyncClient, conn: Connection, clock: Clock
    ) -> None:
        """Its worker dies: one incident, visible and resolvable, and not a task that nobody sees."""
        await deploy(camunda, self.model("R1/PT5M"))
        await start(camunda)
        found = await fetch(camunda, lockDuration=1000)
        assert found["retries"] == 1
        clock.advance(2000)
        assert await fetched(camunda) == []
        Desk(conn).settle()
        assert len(await incidents(camunda)) == 1
        assert await at(camunda, "/external-task/count", noRetriesLeft="true") == {"count": 1}
        assert (await camunda.put(f"/external-task/{found['id']}/retries", json={"retries": 1})).status_code == 204
        await done(camunda, await fetch(camunda))
        assert await incidents(camunda) == []

    async def test_what_is_left_out_is_counted_by_the_engine(self, camunda: httpx.AsyncClient, clock: Clock) -> None:
        await deploy(camunda, self.model("R3/PT5M"))
        await start(camunda)
        for left in (3, 2, 1):
            found = await fetch(camunda)
            assert found["retries"] == left
            await done(camunda, found, "failure", errorMessage="x")
            clock.advance(301_000)
        assert await incidents(camunda) == ["x"]


async def test_one_without_retries_is_not_locked_until_it_has_some(camunda: httpx.AsyncClient) -> None:
    """Unlike in Camunda, where a lock can be taken and leads nowhere: it stays its last worker's to end."""
    await deploy(camunda)
    await start(camunda)
    found = await fetch(camunda)
    await done(camunda, found, "failure", errorMessage="x")
    for worker in ("w", "other"):
        assert (await act(camunda, found, "lock", worker, lockDuration=60_000)).status_code == 400
    assert (await act(camunda, found, "extendLock", newDuration=60_000)).status_code == 400
    await done(camunda, found, "unlock")
    assert await incidents(camunda) == ["x"]
    assert (await camunda.put(f"/external-task/{found['id']}/retries", json={"retries": 1})).status_code == 204
    await done(camunda, found, "lock", "other", lockDuration=60_000)
    await done(camunda, found, worker="other")


@pytest.mark.parametrize("path", ["PUT /external-task/retries", "POST /external-task/retries-async"])
@pytest.mark.parametrize("by", ["externalTaskQuery", "processInstanceIds", "processInstanceQuery", "externalTaskIds"])
async def test_a_task_that_ends_when_it_was_just_found_is_passed_over_unless_it_is_named(
    camunda: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, by: str
) -> None:
    await deploy(camunda)
    started = [await start(camunda) for _ in range(2)]
    ends, stays = await fetched(camunda, most=2)

    async def found(*asked: Any) -> Any:
        ids = await keys(*asked)
        await act(camunda, ends, "complete")
        return ids

    monkeypatch.setattr(external_task_retries, "keys", found)
    every = {
        "externalTaskQuery": {"topicName": "a"}, "processInstanceIds": [one["id"] for one in started],
        "processInstanceQuery": {}, "externalTaskIds": [ends["id"]],
    }  # fmt: skip
    body = {"retries": 7, by: every[by]} | ({"externalTaskQuery": {}} if by == "externalTaskIds" else {})
    method, address = path.split()
    answered = await camunda.request(method, address, json=body)
    if by == "externalTaskIds":
        assert error(answered) == (404, "InvalidRequestException", "Cannot find one of the external tasks")
        assert (await shown(camunda, stays))["retries"] is None
    else:
        assert answered.is_success, answered.text
        assert (await shown(camunda, stays))["retries"] == 7
