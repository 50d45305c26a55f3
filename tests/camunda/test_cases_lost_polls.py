"""Case B02 and its kind: polls whose client, answer, server or bell is lost. Nothing is stuck, nothing done twice."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, text

from app.dev.postgres import EmbeddedPostgres
from app.dev.valkey import EmbeddedValkey
from app.settings import Settings
from tests.api.conftest import Served
from tests.camunda.nodes import Node, node
from tests.camunda.runtime import at, deploy, error, start
from tests.camunda.test_external_task_polls import FETCH, ask, client_at, waiting
from tests.camunda.work import done, fetched, shown
from tests.workers.tcp_proxy import TcpProxy


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, camunda_open=True)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with client_at(served) as opened:
        yield opened


async def raw_poll(port: int, **asked: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A poll that was sent; what becomes of its connection is the test's affair."""
    body = json.dumps(ask("lost", **asked)).encode()
    head = f"POST /engine-rest{FETCH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


def port_of(served: Served) -> int:
    return int(served.url.rpartition(":")[2])


async def the_task(client: httpx.AsyncClient) -> dict[str, Any]:
    """The one open task, as soon as somebody holds it."""
    async with asyncio.timeout(20):
        while True:
            found = await at(client, "/external-task")
            if found and found[0]["workerId"] is not None:
                return dict(found[0])
            await asyncio.sleep(0.01)


async def test_an_answer_that_was_swallowed_on_the_way_costs_a_lock_and_nothing_else(
    served: Served, client: httpx.AsyncClient
) -> None:
    """The connection stays open and carries nothing: nobody can see that. An operator sees the holder, and unlocks."""
    await deploy(client)
    with TcpProxy(port_of(served)) as proxy:
        _, writer = await raw_poll(proxy.port)
        await waiting(served, 1)
        proxy.swallow()
        await start(client)
        held = await the_task(client)
        assert (held["workerId"], held["retries"]) == ("lost", None)
        assert await fetched(client) == []
        await done(client, held, "unlock")
        (again,) = await fetched(client)
        assert (again["id"], again["retries"]) == (held["id"], None)
        await done(client, again)
        writer.close()
    assert await at(client, "/incident") == []


async def test_without_an_operator_it_comes_back_when_the_lock_ends(served: Served, client: httpx.AsyncClient) -> None:
    """To a poll that waits already, with no maintenance process running."""
    await deploy(client)
    with TcpProxy(port_of(served)) as proxy:
        _, writer = await raw_poll(proxy.port, lock_ms=1500)
        await waiting(served, 1)
        proxy.swallow()
        await start(client)
        held = await the_task(client)
        (again,) = (await client.post(FETCH, json=ask("next"))).json()
        assert (again["id"], again["workerId"], again["retries"]) == (held["id"], "next", None)
        writer.close()


async def test_a_client_that_resets_its_connection_is_gone(served: Served, client: httpx.AsyncClient) -> None:
    await deploy(client)
    for _ in range(10):
        _, writer = await raw_poll(port_of(served))
        await waiting(served, 1)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.close()
        await waiting(served, 0)
        await start(client)
        (task,) = (await client.post(FETCH, json=ask("stayer"))).json()
        await done(client, task, worker="stayer")


async def test_one_worker_may_have_several_polls(served: Served, client: httpx.AsyncClient) -> None:
    """fetch-and-lock-unique-worker-request is off, as in Camunda unless somebody turns it on."""
    await deploy(client)
    polls = [asyncio.create_task(client.post(FETCH, json=ask("same"))) for _ in range(2)]
    await waiting(served, 2)
    instances = {(await start(client))["id"] for _ in range(2)}
    assert {task["processInstanceId"] for poll in polls for task in (await poll).json()} == instances


async def test_a_poll_of_a_suspended_instance_gets_its_task_when_it_goes_on(
    served: Served, client: httpx.AsyncClient
) -> None:
    await deploy(client)
    instance = (await start(client))["id"]
    path = f"/process-instance/{instance}/suspended"
    assert (await client.put(path, json={"suspended": True})).status_code == 204
    poll = asyncio.create_task(client.post(FETCH, json=ask()))
    await waiting(served, 1)
    assert (await client.put(path, json={"suspended": False})).status_code == 204
    assert [task["processInstanceId"] for task in (await poll).json()] == [instance]


async def test_redis_is_flushed_frozen_and_gone_while_polls_wait(
    served: Served, client: httpx.AsyncClient, valkey: EmbeddedValkey, conn: Connection
) -> None:
    """The bell is lost, not the work: Postgres is asked once a second."""
    await deploy(client)
    for hurt in (valkey.flush, valkey.freeze, valkey.thaw, valkey.stop):
        poll = asyncio.create_task(client.post(FETCH, json=ask()))
        await waiting(served, 1)
        await asyncio.to_thread(hurt)
        instance = (await start(client))["id"]
        (task,) = (await poll).json()
        assert task["processInstanceId"] == instance
        await done(client, task)
    statement = text("select count(*) from celeriac.task_list where task_type = 'a' and state = 'COMPLETED'")
    assert conn.execute(statement).scalar() == 4


async def test_postgres_is_restarted_while_polls_wait(
    served: Served, client: httpx.AsyncClient, postgres: EmbeddedPostgres
) -> None:
    """They wait on, or are told that the database is away; whoever asks then is served."""
    await deploy(client)
    polls = [asyncio.create_task(client.post(FETCH, json=ask(f"w{number}", 5000))) for number in range(5)]
    await waiting(served, 5)
    await asyncio.to_thread(postgres.restart)
    async with asyncio.timeout(20):
        while (begun := await client.post("/process-definition/key/p/start", json={})).status_code == 503:
            await asyncio.sleep(0.05)
    assert begun.status_code == 200, begun.text
    found: list[Any] = []
    for answered in await asyncio.gather(*polls):
        if answered.status_code == 503:
            assert error(answered)[1] == "ProcessEngineException"
        else:
            found += answered.json()
    found += await fetched(client) if not found else []
    assert [one["processInstanceId"] for one in found] == [begun.json()["id"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
async def test_a_server_is_restarted_under_a_long_poll(
    settings: Settings, tmp_path: Path, key: str, number: signal.Signals
) -> None:
    """SIGTERM answers the poll, SIGKILL cuts it off; either way it holds nothing, and the next one is served."""
    with node(settings, tmp_path) as api:
        async with api.client() as client:
            await deploy(client)
            poll = asyncio.create_task(client.post(FETCH, json=ask(wait_ms=1_800_000)))
            async with asyncio.timeout(20):
                while not await waiting_at(api, key):
                    await asyncio.sleep(0.05)
            api.process.send(number)
            if number is signal.SIGTERM:
                message = "Request rejected due to shutdown of application server."
                assert error(await poll) == (500, "RestException", message)
            else:
                with pytest.raises(httpx.TransportError):
                    await poll
            api.process.wait()
            api.process.start()
            api.wait_until_ready()
        async with api.client() as client:
            instance = (await start(client))["id"]
            (task,) = (await client.post(FETCH, json=ask())).json()
            assert task["processInstanceId"] == instance
            await done(client, task)


async def waiting_at(api: Node, key: str) -> int:
    """How many polls wait there, as its metrics say."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:
        metrics = (await http.get(f"http://127.0.0.1:{api.port}/metrics")).text
    (line,) = [one for one in metrics.splitlines() if one.startswith("celeriac_waiting_polls")]
    return int(float(line.split()[-1]))


async def test_a_poll_at_one_node_hears_of_what_happens_at_another(settings: Settings, tmp_path: Path) -> None:
    """Created, unlocked, failed, given retries, and let go by a node that was killed."""
    with node(settings, tmp_path, "first") as first, node(settings, tmp_path, "second") as second:
        async with first.client() as here, second.client() as there:
            await deploy(there)
            poll = asyncio.create_task(here.post(FETCH, json=ask()))
            await start(there)
            (task,) = (await poll).json()
            for verb, body in (("unlock", {}), ("failure", {"retries": 1})):
                poll = asyncio.create_task(here.post(FETCH, json=ask()))
                await done(there, task, verb, **body)
                assert [one["id"] for one in (await poll).json()] == [task["id"]]
            await done(there, task, "failure")
            poll = asyncio.create_task(here.post(FETCH, json=ask()))
            assert (await there.put(f"/external-task/{task['id']}/retries", json={"retries": 1})).status_code == 204
            assert [one["id"] for one in (await poll).json()] == [task["id"]]
            # A lock belongs to the worker, not to the node that it was taken at.
            first.process.send(signal.SIGKILL)
            assert (await shown(there, task))["workerId"] == "w"
            await done(there, task)
