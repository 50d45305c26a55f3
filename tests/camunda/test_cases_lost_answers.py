"""Case B10 and its kind: what a worker does was done, its answer was lost, and it or somebody else tries once more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from app.settings import Settings
from db import call
from tests.api.conftest import Served
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.test_external_task_polls import client_at
from tests.camunda.work import act, done, fetch, fetched, shown
from tests.clock import Clock
from tests.faults.relay import Relay

ENDS: dict[str, dict[str, Any]] = {
    "complete": {}, "bpmnError": {"errorCode": "NONE"}, "failure": {"errorMessage": "late"},
    "extendLock": {"newDuration": 1000}, "lock": {"lockDuration": 1000}, "unlock": {},
}  # fmt: skip


def gone(answered: httpx.Response, found: dict[str, Any]) -> None:
    assert error(answered) == (404, "RestException", f"External task with id {found['id']} does not exist")


class TestOverAWire:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, camunda_open=True)

    @pytest.mark.parametrize("verb", ["complete", "bpmnError"])
    async def test_a_command_whose_answer_is_lost_is_not_done_twice(self, served: Served, verb: str) -> None:
        relay = Relay("127.0.0.1", int(served.url.rpartition(":")[2]))
        base = f"http://127.0.0.1:{relay.port}/engine-rest"
        async with client_at(served) as client, httpx.AsyncClient(base_url=base, timeout=20) as cut:
            await deploy(client, CAUGHT)
            instance = (await start(client))["id"]
            found = await fetch(client)
            sent = {"errorCode": "ANY", "variables": {"x": {"value": 1}}}
            relay.lose_the_next_answer()
            with pytest.raises(httpx.TransportError):
                await act(cut, found, verb, **sent)
            gone(await act(cut, found, verb, **sent), found)
            gone(await act(cut, found, verb, **sent | {"variables": {"x": {"value": 2}}}), found)
            gone(await act(cut, found, "failure", errorMessage="could not complete"), found)
            gone(await act(client, found, verb, "other", **sent), found)
            (following,) = await at(client, "/external-task", processInstanceId=instance)
            assert following["activityId"] == ("b" if verb == "complete" else "c")
            assert (await at(client, f"/process-instance/{instance}/variables"))["x"]["value"] == 1
            assert await at(client, "/incident") == []
            assert relay.lost == 1

    async def test_a_failure_that_is_told_twice_is_one(self, served: Served) -> None:
        """Its worker holds it still: the same number is stored again, and there is one incident."""
        relay = Relay("127.0.0.1", int(served.url.rpartition(":")[2]))
        base = f"http://127.0.0.1:{relay.port}/engine-rest"
        async with client_at(served) as client, httpx.AsyncClient(base_url=base, timeout=20) as cut:
            await deploy(client)
            await start(client)
            for retries in (3, 0):
                found = await fetch(client)
                relay.lose_the_next_answer()
                with pytest.raises(httpx.TransportError):
                    await act(cut, found, "failure", retries=retries, errorMessage="x")
                await done(cut, found, "failure", retries=retries, errorMessage="x")
                assert (await shown(client, found))["retries"] == retries
            assert len(await at(client, "/incident")) == 1

    async def test_a_fetch_whose_answer_is_lost_keeps_its_lock(self, served: Served) -> None:
        """The same worker may lock the task again at once, and who asks for any waits for the lock to end."""
        relay = Relay("127.0.0.1", int(served.url.rpartition(":")[2]))
        base = f"http://127.0.0.1:{relay.port}/engine-rest"
        async with client_at(served) as client, httpx.AsyncClient(base_url=base, timeout=20) as cut:
            await deploy(client)
            await start(client)
            relay.lose_the_next_answer()
            with pytest.raises(httpx.TransportError):
                await fetched(cut)
            assert await fetched(client, worker="other") == []
            (held,) = await at(client, "/external-task", workerId="w")
            await done(client, held, "lock", lockDuration=60_000)
            await done(client, held)


CAUGHT = model(
    '<startEvent id="s"/>' + task("a") + '<boundaryEvent id="no" attachedToRef="a"><errorEventDefinition/>'
    '</boundaryEvent>' + task("b") + task("c") + '<endEvent id="e"/>'
    + flow("s", "a", "b", "e") + flow("no", "c", "e"),
)  # fmt: skip


async def test_a_task_of_an_ended_instance_is_told_from_one_that_never_was(
    camunda: httpx.AsyncClient, conn: Connection, clock: Clock
) -> None:
    """The command says 404 either way, as in Camunda; the log knows, as long as history is kept."""
    await deploy(camunda, TWO)
    instance = (await start(camunda))["id"]
    first = await fetch(camunda)
    await done(camunda, first)
    await done(camunda, await fetch(camunda, "b"))
    assert (await at(camunda, f"/history/process-instance/{instance}"))["state"] == "COMPLETED"
    for verb, body in ENDS.items():
        gone(await act(camunda, first, verb, **body), first)
    path = "/history/external-task-log"
    (line,) = await at(camunda, path, externalTaskId=first["id"], successLog="true")
    assert (line["workerId"], line["processInstanceId"]) == ("w", instance)
    clock.advance(10_000)
    for function in ("purge_ended", "purge_instances"):
        call.rows(conn, function, older_than_ms=0)
    gone(await act(camunda, first, "complete"), first)
    assert await at(camunda, path, externalTaskId=first["id"]) == []


@pytest.mark.parametrize("verb", list(ENDS))
async def test_a_task_whose_instance_was_deleted_is_gone(camunda: httpx.AsyncClient, verb: str) -> None:
    await deploy(camunda)
    instance = (await start(camunda))["id"]
    found = await fetch(camunda)
    assert (await camunda.delete(f"/process-instance/{instance}")).status_code == 204
    gone(await act(camunda, found, verb, **ENDS[verb]), found)
    assert await at(camunda, "/external-task") == await at(camunda, "/incident") == []
    history = await at(camunda, f"/history/process-instance/{instance}")
    assert history["state"] == "EXTERNALLY_TERMINATED"


@pytest.mark.parametrize("verb", ["complete", "bpmnError", "failure"])
async def test_a_worker_that_comes_late_changes_nothing_for_the_one_that_has_it(
    camunda: httpx.AsyncClient, clock: Clock, verb: str
) -> None:
    await deploy(camunda)
    await start(camunda)
    late = await fetch(camunda, worker="late", lockDuration=1000)
    clock.advance(2000)
    held = await fetch(camunda, worker="new")
    assert held["id"] == late["id"]
    before = await shown(camunda, held)
    for _ in range(3):
        refused = await act(camunda, late, verb, "late", **ENDS[verb], variables={"x": {"value": "late"}})
        assert refused.status_code == 400
        assert error(refused)[2].endswith("by worker 'late'. It is locked by worker 'new'.")
    assert await shown(camunda, held) == before
    await done(camunda, held, worker="new", variables={"x": {"value": "new"}})
    assert (await fetch(camunda, "b"))["variables"]["x"]["value"] == "new"


async def test_of_many_that_lock_one_task_one_has_it(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    await start(camunda)
    (listed,) = await at(camunda, "/external-task")
    answers = await asyncio.gather(*(act(camunda, listed, "lock", f"w{n}", lockDuration=60_000) for n in range(10)))
    statuses = [one.status_code for one in answers]
    assert sorted(statuses) == [204] + [400] * 9
    holder = f"w{statuses.index(204)}"
    assert (await shown(camunda, listed))["workerId"] == holder
    answers = await asyncio.gather(*(act(camunda, listed, "extendLock", f"w{n}", newDuration=9000) for n in range(10)))
    assert [one.status_code for one in answers] == [204 if one == 204 else 400 for one in statuses]


@pytest.mark.parametrize("round_", range(5))
async def test_of_all_ends_at_once_one_is_taken(camunda: httpx.AsyncClient, round_: int) -> None:
    """Never a 500: each of the others is told that the task is gone, or not its own, or has failed already."""
    await deploy(camunda, CAUGHT)
    instance = (await start(camunda))["id"]
    found = await fetch(camunda)
    verbs = ["complete", "bpmnError", "failure", "extendLock", "unlock", "lock", "complete"]
    order = verbs[round_:] + verbs[:round_]
    answers = await asyncio.gather(
        *(act(camunda, found, verb, variables={"by": {"value": verb}}, **ENDS[verb]) for verb in order),
        camunda.delete(f"/process-instance/{instance}") if round_ == 4 else asyncio.sleep(0, httpx.Response(204)),
    )
    assert {one.status_code for one in answers} <= {204, 400, 404}, [one.text for one in answers]
    if round_ == 4:
        assert await at(camunda, "/external-task") == []
        return
    (left,) = await at(camunda, "/external-task", processInstanceId=instance)
    ended = [verb for verb, one in zip(order, answers, strict=False) if verb in ("complete", "bpmnError")
             and one.status_code == 204]  # fmt: skip
    assert len(ended) <= 1
    if ended:
        assert left["activityId"] == ("b" if ended == ["complete"] else "c")
        assert await at(camunda, "/incident") == []
    else:
        assert left["activityId"] == "a"
