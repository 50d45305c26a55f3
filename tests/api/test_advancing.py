"""Who ends a task advances its instance at once; and when they cannot, somebody else does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.dev.ports import free_port
from app.settings import Settings
from tests.api.conftest import Served, wait_until
from tests.api.test_processes import at, complete, deploy, fetch, look, start
from tests.api.test_serve import COMMAND, _is_ready
from tests.app.engine.conftest import flow, model, task
from workers.advance import advance
from workers.celery_app import make_app
from workers.maintenance import close_tools, open_tools

TWO = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))


def wide(branches: int) -> bytes:
    """A fork into so many tasks of one type, and the join."""
    names = [f"t{number}" for number in range(branches)]
    tasks = "".join(task(name).replace(f'topic="{name}"', 'topic="t"') for name in names)
    nodes = '<startEvent id="s"/><parallelGateway id="f"/><parallelGateway id="j"/><endEvent id="e"/>'
    return model(nodes + tasks + flow("s", "f") + "".join(flow("f", name, "j") for name in names) + flow("j", "e"))


async def test_branches_that_end_at_once_are_all_worked_in_without_the_chore(api: httpx.AsyncClient) -> None:
    await deploy(api, wide(20))
    instance = await start(api)
    asked = {"worker_id": "w", "task_types": ["t"], "max_tasks": 20}
    fetched = (await api.post("/v1/external-tasks/fetch-and-lock", json=asked)).json()
    held = [(one["task_id"], {"worker_id": "w", "fencing_token": one["fencing_token"]}) for one in fetched]
    await asyncio.gather(*(api.post(f"/v1/external-tasks/{one}/complete", json=body) for one, body in held))

    async def status() -> str:
        return str((await look(api, instance))["status"])

    # The one that was at it looks again for the others, who have their answers already.
    for _ in range(3000):
        if await status() == "COMPLETED":
            break
        await asyncio.sleep(0.01)
    assert await status() == "COMPLETED"


async def test_an_instance_that_was_deleted_meanwhile_is_no_error(
    app: FastAPI, api: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await app.state.parts.advancer.advance(["00000000-0000-4000-8000-000000000000"])
    assert [line.message for line in caplog.records if line.name == "celeriac.instances"] == []


async def test_whoever_polls_for_the_next_task_is_told(
    api: httpx.AsyncClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    announce = app.state.parts.announcer.announce

    def listen(task_types: Any) -> None:
        named = list(task_types)
        told.extend(named)
        announce(named)

    monkeypatch.setattr(app.state.parts.announcer, "announce", listen)
    await deploy(api)
    await start(api)
    assert told == ["a"]
    await complete(api, "a")
    assert told == ["a", "b"]


async def test_a_task_without_an_instance_asks_for_no_advance(
    api: httpx.AsyncClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    connection = app.state.parts.database.connection

    def count() -> Any:
        connections.append(1)
        return connection()

    await api.post("/v1/tasks", json={"task_type": "a"})
    fetched = await fetch(api, "a")
    monkeypatch.setattr(app.state.parts.database, "connection", count)
    body = {"worker_id": "w", "fencing_token": fetched["fencing_token"]}
    await api.post(f"/v1/external-tasks/{fetched['task_id']}/complete", json=body)
    assert len(connections) == 1


async def test_an_instance_goes_on_over_its_commit_points_without_the_chore(api: httpx.AsyncClient) -> None:
    nodes = '<startEvent id="s"/>' + task("a", 'camunda:asyncAfter="true"') + task("b", 'camunda:asyncBefore="true"')
    await deploy(api, model(nodes + '<endEvent id="e"/>' + flow("s", "a", "b", "e")))
    instance = await start(api)
    await complete(api, "a")
    assert at(await look(api, instance)) == ["b"]
    await complete(api, "b")
    assert (await look(api, instance))["status"] == "COMPLETED"


async def test_a_model_that_goes_round_for_ever_does_not_hold_a_request(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.advancing.ADVANCE_SECONDS", 0.2)
    nodes = '<startEvent id="s"/><exclusiveGateway id="g"/>'
    nodes += '<scriptTask id="x" scriptFormat="cel" camunda:asyncBefore="true"><script>1</script></scriptTask>'
    deployed = await api.post(
        "/v1/process-definitions",
        content=model(nodes + flow("s", "g", "x", "g")),
        headers={"Content-Type": "application/xml"},
    )
    if deployed.status_code == 422:
        pytest.skip("the deploy check refuses the circle already")
    instance = await start(api)
    assert (await api.post(f"/v1/process-instances/{instance}/cancel")).json()["status"] == "CANCELED"


@pytest.fixture
def process(settings: Settings, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """An API that can be killed, and its address."""
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        environment = os.environ | replace(settings, port=port).to_env()
        started = subprocess.Popen([sys.executable, "-c", COMMAND], env=environment, stderr=log)
    try:
        wait_until(lambda: _is_ready(port))
        yield f"http://127.0.0.1:{port}", started
    finally:
        started.kill()
        started.wait()


async def test_an_api_that_dies_between_completion_and_advance_leaves_the_rest_to_the_chore(
    api: httpx.AsyncClient,
    process: tuple[str, subprocess.Popen[bytes]],
    key: str,
    conn: Connection,
    database_url: str,
    settings: Settings,
) -> None:
    await deploy(api, TWO)
    instance = await start(api)
    fetched = await fetch(api, "a")
    url, server = process

    def finish() -> None:
        body = {"worker_id": "w", "fencing_token": fetched["fencing_token"]}
        with suppress(httpx.TransportError):
            headers = {"X-API-Key": key}
            httpx.post(f"{url}/v1/external-tasks/{fetched['task_id']}/complete", json=body, headers=headers)

    def completed() -> bool:
        query = text("select state from celeriac.task_list where task_id = :id")
        return bool(conn.execute(query, {"id": fetched["task_id"]}).scalar_one() == "COMPLETED")

    # Somebody holds the instance, so the advance waits; the completion does not.
    with psycopg.connect(database_url) as holder:
        holder.execute("select from celeriac.instance where id = %s for update", [instance])
        caller = threading.Thread(target=finish)
        caller.start()
        await asyncio.to_thread(wait_until, completed)
        server.kill()
        await asyncio.to_thread(caller.join)
    assert at(await look(api, instance)) == ["a"]
    tools = open_tools(settings, make_app(settings))
    try:
        await asyncio.to_thread(wait_until, lambda: advance(tools)["advanced"])
    finally:
        close_tools(tools)
    assert at(await look(api, instance)) == ["b"]


def test_two_servers_advance_one_instance_in_turns(served: Served, settings: Settings, key: str) -> None:
    from tests.api.conftest import serving

    with serving(settings) as other, served.client(key) as one, other.client(key) as two:
        deployed = one.post("/v1/process-definitions", content=wide(12), headers={"Content-Type": "application/xml"})
        assert deployed.status_code == 201, deployed.text
        instance = one.post("/v1/process-instances", json={"process_key": "p"}).json()["instance_id"]
        asked = {"worker_id": "w", "task_types": ["t"], "max_tasks": 12}
        fetched = one.post("/v1/external-tasks/fetch-and-lock", json=asked).json()

        def finish(client: httpx.Client, tasks: list[dict[str, Any]]) -> None:
            for held in tasks:
                body = {"worker_id": "w", "fencing_token": held["fencing_token"]}
                client.post(f"/v1/external-tasks/{held['task_id']}/complete", json=body)

        threads = [
            threading.Thread(target=finish, args=(client, fetched[place::2])) for place, client in enumerate((one, two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        address = f"/v1/process-instances/{instance}"
        wait_until(lambda: one.get(address).json()["status"] == "COMPLETED")
