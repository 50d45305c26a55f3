"""One row, two faces: what is begun, fetched or failed at /engine-rest is seen and ended at /v1, and the reverse.

Each row of "Two faces, one task" in docs/camunda7.md is held here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from app.server.application import create
from app.settings import Settings
from db import call
from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error
from tests.camunda.work import act, done, fetch, fetched, shown
from tests.clock import Clock

MINUTE = 60_000
UNDOABLE = model(
    '<startEvent id="s"/>' + task("a") + '<boundaryEvent id="no" attachedToRef="a"><compensateEventDefinition/>'
    "</boundaryEvent>" + task("undo", more='isForCompensation="true"')
    + '<association sourceRef="no" targetRef="undo"/>' + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e")
)  # fmt: skip


@dataclass(frozen=True)
class Faces:
    """One caller at both. A worker id that is not said is `w`."""

    camunda: httpx.AsyncClient
    native: httpx.AsyncClient

    async def fetch(self, topic: str = "a", worker: str = "w", lock_ms: int = MINUTE) -> dict[str, Any]:
        body = {"worker_id": worker, "task_types": [topic], "lock_duration_ms": lock_ms}
        (task_,) = (await self.native.post("/v1/external-tasks/fetch-and-lock", json=body)).json()
        return dict(task_)

    async def act(self, task_id: str, verb: str, worker: str = "w", **body: Any) -> httpx.Response:
        return await self.native.post(f"/v1/external-tasks/{task_id}/{verb}", json={"worker_id": worker, **body})

    async def refused(self, task_id: str, verb: str, **body: Any) -> str:
        answered = await self.act(task_id, verb, **body)
        assert answered.status_code >= 400, answered.text
        return str(answered.json()["code"])

    async def start(self, content: bytes = TWO) -> str:
        await deploy(self.camunda, content)
        started = await self.camunda.post("/process-definition/key/p/start", json={})
        return str(started.json()["id"])


@pytest.fixture
async def faces(camunda_app: FastAPI, keys: Keys) -> AsyncIterator[Faces]:
    async with AsyncExitStack() as stack:
        yield await both(stack, camunda_app, keys.make())


async def both(stack: AsyncExitStack, app: FastAPI, key: str) -> Faces:
    camunda, native = [await stack.enter_async_context(client_of(app, key)) for _ in range(2)]
    camunda.base_url = httpx.URL("http://api/engine-rest")
    return Faces(camunda, native)


async def test_a_process_that_was_deployed_and_started_at_one_face_is_served_at_the_other(faces: Faces) -> None:
    form = {"model.bpmn": ("model.bpmn", TWO)}
    deployed = await faces.native.post("/v1/process-definitions", params={"name": "n"}, files=form)
    assert deployed.status_code == 201, deployed.text
    body = {"process_key": "p", "business_key": "B-1", "variables": {"x": 1, "deep": {"y": [1.5]}}}
    begun = (await faces.native.post("/v1/process-instances", json=body)).json()["instance_id"]
    (seen,) = await at(faces.camunda, "/process-instance", businessKey="B-1", variables="x_eq_1")
    assert seen["id"] == begun
    taken = await fetch(faces.camunda)
    assert (taken["processInstanceId"], taken["businessKey"]) == (begun, "B-1")
    assert taken["variables"]["x"] == {"value": 1, "type": "Integer", "valueInfo": {}}
    assert taken["variables"]["deep"]["type"] == "Object"
    day, number = "2024-01-02T03:04:05.678+0000", 2**53 + 1
    sent = {"day": {"value": day, "type": "Date"}, "n": {"value": number, "type": "Long"}}
    await done(faces.camunda, taken, variables=sent)
    looked = (await faces.native.get(f"/v1/process-instances/{begun}")).json()
    assert [token["node"] for token in looked["tokens"]] == ["b"]
    assert (looked["variables"]["day"], looked["variables"]["n"]) == (day, number)
    last = await faces.fetch("b")
    ended = await faces.act(last["task_id"], "complete", fencing_token=last["fencing_token"])
    assert ended.status_code == 200
    past = await at(faces.camunda, f"/history/process-instance/{begun}")
    assert (past["state"], past["startUserId"]) == ("COMPLETED", "tester")


async def test_what_was_started_here_is_seen_suspended_and_canceled_natively(faces: Faces) -> None:
    instance = await faces.start()
    address = f"/v1/process-instances/{instance}"
    assert (await faces.native.get(address)).json()["status"] == "ACTIVE"
    assert (await faces.native.post(f"{address}/suspend")).status_code == 200
    assert (await at(faces.camunda, f"/process-instance/{instance}"))["suspended"] is True
    assert await fetched(faces.camunda) == []
    assert (await faces.native.post(f"{address}/resume")).status_code == 200
    assert (await faces.native.post(f"{address}/cancel", json={"reason": "enough"})).status_code == 200
    past = await at(faces.camunda, f"/history/process-instance/{instance}")
    assert (past["state"], past["deleteReason"]) == ("EXTERNALLY_TERMINATED", "enough")


async def test_messages_and_people_are_of_both_faces(faces: Faces) -> None:
    wait = '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    body = '<startEvent id="s"/>' + wait + '<userTask id="u"/><endEvent id="e"/>' + flow("s", "c", "u", "e")
    instance = await faces.start(model(body, '<message id="M" name="m"/>'))
    reached = await faces.native.post("/v1/messages", json={"name": "m", "variables": {"x": 1}})
    assert reached.json()["reached"][0]["instance_id"] == instance
    (person,) = await at(faces.camunda, "/task", processInstanceId=instance)
    token = f"/v1/process-instances/{instance}/tokens/{person['id']}/complete"
    assert (await faces.native.post(token)).status_code == 200
    assert error(await faces.camunda.post(f"/task/{person['id']}/complete"))[0] == 404


async def test_fetched_here_it_is_completed_natively_by_the_same_worker_without_a_token(
    faces: Faces, camunda_app: FastAPI, keys: Keys
) -> None:
    await faces.start()
    taken = await fetch(faces.camunda)
    assert await faces.refused(taken["id"], "complete", worker="other") == "lease_lost"
    async with client_of(camunda_app, keys.make(name="stranger")) as stranger:
        refused = await stranger.post(f"/v1/external-tasks/{taken['id']}/complete", json={"worker_id": "w"})
        assert refused.json()["code"] == "lease_lost"
    assert (await faces.act(taken["id"], "extend-lock", lock_duration_ms=MINUTE)).status_code == 200
    assert (await faces.act(taken["id"], "complete", variables={"x": 1})).status_code == 200
    assert error(await act(faces.camunda, taken, "complete"))[:2] == (404, "RestException")
    assert (await fetch(faces.camunda, "b"))["variables"]["x"]["value"] == 1


async def test_fetched_natively_it_is_completed_here_by_the_same_worker(faces: Faces) -> None:
    await faces.start()
    held = await faces.fetch()
    listed = await shown(faces.camunda, {"id": held["task_id"]})
    assert (listed["workerId"], listed["retries"]) == ("w", None)
    assert error(await act(faces.camunda, held["task_id"], "complete", "other"))[0] == 400
    assert await fetched(faces.camunda, worker="other") == []
    await done(faces.camunda, held["task_id"], "extendLock", newDuration=2 * MINUTE)
    await done(faces.camunda, held["task_id"], variables={"x": {"value": 1}})
    # The same call again has its answer natively, and is gone here.
    token = held["fencing_token"]
    again = [
        await faces.act(held["task_id"], "complete", fencing_token=token, variables=sent)
        for sent in ({"x": 1}, {"x": 2})
    ]
    assert [answered.status_code for answered in again] == [200, 409]
    assert error(await act(faces.camunda, held["task_id"], "complete"))[0] == 404


async def test_where_a_token_is_required_a_task_that_was_fetched_here_is_not_completed_natively(
    camunda_settings: Settings, keys: Keys
) -> None:
    app = create(replace(camunda_settings, require_fencing_token=True))
    async with app.router.lifespan_context(app), AsyncExitStack() as stack:
        faces = await both(stack, app, keys.make())
        await faces.start()
        taken = await fetch(faces.camunda)
        assert (await faces.act(taken["id"], "complete")).status_code == 422
        await done(faces.camunda, taken)


@pytest.mark.parametrize("verb", ["complete", "failure", "bpmnError"])
@pytest.mark.parametrize("swept", [False, True])
async def test_a_lock_that_ran_out_is_good_here_and_lost_natively(
    faces: Faces, clock: Clock, conn: Connection, verb: str, swept: bool
) -> None:
    await faces.start()
    held = await faces.fetch()
    clock.advance(2 * MINUTE)
    if swept:
        call.rows(conn, "expire_leases")
    token = held["fencing_token"]
    assert await faces.refused(held["task_id"], "complete", fencing_token=token) in ("lease_expired", "lease_lost")
    bodies: dict[str, dict[str, Any]] = {
        "failure": {"retries": 1, "errorMessage": "x"},
        "bpmnError": {"errorCode": "NO"},
    }
    await done(faces.camunda, held["task_id"], verb, **bodies.get(verb, {}))
    # What the native worker sends late is of an old hand-over.
    assert (await faces.act(held["task_id"], "fail", fencing_token=token, error="late")).status_code == 409


@pytest.mark.parametrize("first", ["here", "natively"])
async def test_what_another_took_meanwhile_is_lost_at_both(faces: Faces, clock: Clock, first: str) -> None:
    await faces.start()
    task_id = (await fetch(faces.camunda))["id"] if first == "here" else (await faces.fetch())["task_id"]
    clock.advance(2 * MINUTE)
    if first == "here":
        other = await faces.fetch(worker="other")
        assert other["task_id"] == task_id
    else:
        assert (await fetch(faces.camunda, worker="other"))["id"] == task_id
    status, type_, message = error(await act(faces.camunda, task_id, "complete"))
    assert (status, type_) == (400, "RestException")
    assert message == (
        f"External Task {task_id} cannot be completed by worker 'w'. It is locked by worker 'other'."
    )  # fmt: skip
    assert await faces.refused(task_id, "complete") == "lease_lost"


async def test_a_failure_tells_the_number_here_and_takes_one_off_natively(faces: Faces) -> None:
    await faces.start()
    taken = await fetch(faces.camunda)
    assert taken["retries"] is None
    await done(faces.camunda, taken, "failure", errorMessage="one", retries=5)
    held = await faces.fetch()
    assert held["retries"] == 5
    failed = await faces.act(
        held["task_id"], "fail", fencing_token=held["fencing_token"], error="two", retry_after_ms=0
    )
    assert (failed.json()["state"], failed.json()["retries"]) == ("READY", 4)
    again = await fetch(faces.camunda)
    assert (again["retries"], again["errorMessage"]) == (4, "two")


async def test_a_native_failure_is_seen_before_anybody_told_a_number_here(faces: Faces) -> None:
    """What one face leaves the other sees: a number that was counted is a number."""
    await faces.start()
    held = await faces.fetch()
    failed = await faces.act(held["task_id"], "fail", fencing_token=held["fencing_token"], error="x", retry_after_ms=0)
    left = failed.json()["retries"]
    assert (await fetch(faces.camunda))["retries"] == left


async def test_failed_for_good_is_an_incident_here(faces: Faces) -> None:
    instance = await faces.start(UNDOABLE)
    await done(faces.camunda, await fetch(faces.camunda))
    taken = await fetch(faces.camunda, "b")
    await done(faces.camunda, taken, "failure", errorMessage="broken")
    looked = (await faces.native.get(f"/v1/process-instances/{instance}")).json()
    assert (looked["status"], [one["kind"] for one in looked["open_incidents"]]) == ("ACTIVE", ["failed"])
    (incident,) = await at(faces.camunda, "/incident")
    decided = await faces.native.post(f"/v1/incidents/{incident['id']}/resolve", json={"resolution": "retry"})
    assert decided.status_code == 200, decided.text
    assert await at(faces.camunda, "/incident") == []
    # The same id, and its last worker may end it as before.
    again = await fetch(faces.camunda, "b")
    assert again["id"] == taken["id"]
    await done(faces.camunda, again, "failure", errorMessage="broken", retries=0)
    await done(faces.camunda, taken)
    assert (await at(faces.camunda, f"/history/process-instance/{instance}"))["state"] == "COMPLETED"


async def test_failed_for_good_is_an_undo_natively(faces: Faces) -> None:
    instance = await faces.start(UNDOABLE)
    await done(faces.camunda, await fetch(faces.camunda))
    held = await faces.fetch("b")
    await faces.act(held["task_id"], "fail", fencing_token=held["fencing_token"], error="broken", retries=0)
    await done(faces.camunda, await fetch(faces.camunda, "undo"))
    past = await at(faces.camunda, f"/history/process-instance/{instance}")
    assert past["state"] == "INTERNALLY_TERMINATED"
    assert error(await act(faces.camunda, held["task_id"], "complete"))[0] == 404


async def test_a_lost_lock_costs_nothing_here_and_a_loss_natively(faces: Faces, clock: Clock, conn: Connection) -> None:
    assert (await faces.native.put("/v1/task-types/a", json={"expirations": 0})).status_code == 200
    await faces.start()
    for _ in range(3):
        taken = await fetch(faces.camunda)
        assert taken["retries"] is None
        clock.advance(2 * MINUTE)
        call.rows(conn, "expire_leases")
    assert await at(faces.camunda, "/incident") == []
    await faces.fetch(lock_ms=1000)
    clock.advance(2 * MINUTE)
    call.rows(conn, "expire_leases")
    assert (await faces.native.get(f"/v1/tasks/{taken['id']}")).json()["state"] == "FAILED"


async def test_a_task_of_a_fleet_that_a_model_names_is_shown_with_its_holder(faces: Faces, conn: Connection) -> None:
    await faces.start()
    (row,) = call.rows(conn, "fetch_tasks", worker_id="celery@host", task_types=["a"], max_tasks=1)
    listed = await shown(faces.camunda, {"id": row.task_id})
    assert listed["workerId"] == "celery@host"
    assert [one["id"] for one in await at(faces.camunda, "/external-task", locked="true")] == [str(row.task_id)]
    call.one(
        conn, "complete_task", task_id=row.task_id, worker_id="celery@host", fencing_token=row.fencing_token,
        variables=call.Json("{}"),
    )  # fmt: skip
    assert error(await faces.camunda.get(f"/external-task/{row.task_id}"))[0] == 404
