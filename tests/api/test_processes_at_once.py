"""Processes over HTTP when two things happen at the same moment, at one node or at two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.engine import advance
from app.server.application import create
from app.settings import Settings
from db import call
from tests.api.conftest import client_of
from tests.api.test_processes import at, complete, deploy, fetch, look, start
from tests.app.engine.conftest import Desk, desk, flow, model, task
from tests.db.overlap import overlap

__all__ = ["desk"]

BEGIN = '<startEvent id="s"/>'
REPLY = '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
ROOTS = '<message id="M" name="reply"/><error id="E" errorCode="E"/>'


@pytest.fixture
async def other(settings: Settings, app: FastAPI, key: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a second node."""
    second = create(settings)
    async with second.router.lifespan_context(second), client_of(second, key) as client:
        yield client


async def act(api: httpx.AsyncClient, held: dict[str, Any], verb: str = "complete", **fields: Any) -> httpx.Response:
    body = {"worker_id": "w", "fencing_token": held["fencing_token"], **fields}
    return await api.post(f"/v1/external-tasks/{held['task_id']}/{verb}", json=body)


@pytest.mark.parametrize("ttl_ms", [0, 60_000])
async def test_a_reply_that_comes_as_its_wait_is_set_up(
    api: httpx.AsyncClient, other: httpx.AsyncClient, ttl_ms: int
) -> None:
    """Case B21: it is heard once, kept, or told that nobody waits."""
    await deploy(api, model(BEGIN + task("a") + REPLY + '<userTask id="u"/>' + flow("s", "a", "c", "u"), ROOTS))
    for number in range(30):
        instance = await start(api, business_key=f"k{number}")
        held = await fetch(api, "a")

        async def reply(ms: int, key: str) -> httpx.Response:
            await asyncio.sleep(ms / 1000)
            message = {"name": "reply", "business_key": key, "ttl_ms": ttl_ms, "variables": {"told": key}}
            return await other.post("/v1/messages", json=message)

        done, told = await asyncio.gather(act(api, held), reply(number, f"k{number}"))
        assert done.status_code == 200
        seen = await look(api, instance)
        if told.status_code == 404:
            assert (ttl_ms, at(seen)) == (0, ["c"])
        else:
            assert (at(seen), seen["variables"]) == (["u"], {"told": f"k{number}"})


async def test_two_branches_that_throw_at_once_are_caught_once(
    api: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    """Case B39, fourth part."""
    fork = (
        '<startEvent id="i"/><parallelGateway id="f"/>' + task("a") + task("b") + flow("i", "f", "a") + flow("f", "b")
    )
    caught = '<boundaryEvent id="x" attachedToRef="sub"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    sub = f'<subProcess id="sub">{fork}</subProcess>{caught}' + task("handler") + task("normal")
    await deploy(api, model(BEGIN + sub + flow("s", "sub", "normal") + flow("x", "handler"), ROOTS))
    for _ in range(10):
        instance = await start(api)
        first, second = await fetch(api, "a"), await fetch(api, "b")
        await asyncio.gather(act(api, first, "bpmn-error", code="E"), act(other, second, "bpmn-error", code="E"))
        await act(api, first, "bpmn-error", code="E")
        assert at(await look(api, instance)) == ["handler"]
        await complete(api, "handler")
        assert (await look(api, instance))["status"] == "COMPLETED"


async def test_an_incident_that_two_resolve_at_once_is_tried_again_once(
    api: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    """Case B20: nothing is mended yet, so there is a new incident each time, and never two."""
    script = '<scriptTask id="x" scriptFormat="juel"><script>${missing}</script></scriptTask><userTask id="u"/>'
    await deploy(api, model(BEGIN + script + flow("s", "x", "u")))
    instance = await start(api)
    before: set[str] = set()
    for _ in range(5):
        (incident,) = (await look(api, instance))["open_incidents"]
        assert incident["incident_id"] not in before
        before.add(incident["incident_id"])
        address = f"/v1/incidents/{incident['incident_id']}/resolve"
        answers = await asyncio.gather(*(one.post(address, json={"resolution": "retry"}) for one in (api, other)))
        assert [answered.status_code for answered in answers] == [200, 200]
    ever = (await api.get("/v1/incidents", params={"state": "ALL", "instance_id": instance})).json()["incidents"]
    assert len(ever) == 6


async def test_all_who_cancel_are_answered_alike_and_it_is_undone_once(
    api: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    """Case B38, fourth part."""
    undo = task("undo", 'isForCompensation="true"') + '<association id="n" sourceRef="o" targetRef="undo"/>'
    undo += '<boundaryEvent id="o" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
    await deploy(api, model(BEGIN + task("a") + undo + task("b") + flow("s", "a", "b")))
    instance = await start(api)
    await complete(api, "a")
    address = f"/v1/process-instances/{instance}/cancel"
    for compensate in (True, False):
        answers = await asyncio.gather(
            *(one.post(address, json={"compensate": compensate}) for one in (api, other) for _ in range(2))
        )
        assert {(one.status_code, one.json()["status"]) for one in answers} == {(200, "COMPENSATING")}
        assert at(await look(api, instance)) == ["undo"]
    await complete(api, "undo")
    assert (await look(api, instance))["status"] == "CANCELED"


def test_a_cancel_while_a_thousand_branches_are_made_leaves_none(desk: Desk, database_url: str) -> None:
    """Case B38, third part."""
    names = [f"t{number}" for number in range(1000)]
    tasks = "".join(task(name).replace(f'topic="{name}"', 'topic="t"') for name in names)
    ways = flow("s", "x", "f") + "".join(flow("f", name) for name in names)
    desk.deploy(model(BEGIN + task("x") + '<parallelGateway id="f"/>' + tasks + ways))
    instance = desk.start()
    row = desk.fetch("x")
    call.one(desk.conn, "complete_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token)
    made, _ = overlap(
        database_url,
        lambda clerk: advance(clerk.conn, instance),
        lambda clerk: clerk.one("stop_instance", instance_id=instance),
    )
    assert made.task_types == {"t"}
    desk.advance(instance)
    assert (desk.status(instance), desk.ready()) == ("CANCELED", [])
