"""Long polls of fetchAndLock at a real server: who is woken, who is told to go, what a client that left holds."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, text

from app.settings import Settings
from tests.api.conftest import Keys, Served, serving
from tests.camunda.runtime import deploy, error, start
from tests.camunda.work import act, done

FETCH = "/external-task/fetchAndLock"


def ask(worker: str = "w", wait_ms: int | None = 30_000, lock_ms: int = 600_000, **topic: Any) -> dict[str, Any]:
    topics = [{"topicName": "a", "lockDuration": lock_ms, **topic}]
    return {"workerId": worker, "maxTasks": 1, "asyncResponseTimeout": wait_ms, "topics": topics}


async def waiting(served: Served, count: int) -> None:
    async with asyncio.timeout(20):
        while served.application.state.parts.hub.waiting != count:
            await asyncio.sleep(0.005)


@pytest.fixture
def settings(request: pytest.FixtureRequest, api_url_db: str) -> Settings:
    """Without Redis unless a test says otherwise: the process itself must wake its own polls."""
    return replace(Settings.from_env({"CELERIAC_DATABASE_URL": api_url_db}), camunda_open=True)


def client_at(served: Served, connections: int = 100) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=f"{served.url}/engine-rest", timeout=70, limits=limits)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with client_at(served) as opened:
        yield opened


async def test_a_waiting_poll_gets_the_task_that_is_made_meanwhile(served: Served, client: httpx.AsyncClient) -> None:
    await deploy(client)
    poll = asyncio.create_task(client.post(FETCH, json=ask()))
    await waiting(served, 1)
    instance = (await start(client))["id"]
    (task,) = (await poll).json()
    assert (task["processInstanceId"], task["workerId"], task["retries"]) == (instance, "w", None)


async def test_the_next_task_of_an_instance_wakes_its_poll(served: Served, client: httpx.AsyncClient) -> None:
    await deploy(client)
    await start(client)
    (first,) = (await client.post(FETCH, json=ask())).json()
    poll = asyncio.create_task(client.post(FETCH, json=ask(topicName="b")))
    await waiting(served, 1)
    await done(client, first)
    assert (await poll).json()[0]["activityId"] == "b"


@pytest.mark.parametrize("verb", ["unlock", "failure"])
async def test_a_task_that_comes_back_wakes_the_next_poll(served: Served, client: httpx.AsyncClient, verb: str) -> None:
    await deploy(client)
    await start(client)
    (task,) = (await client.post(FETCH, json=ask())).json()
    poll = asyncio.create_task(client.post(FETCH, json=ask("other")))
    await waiting(served, 1)
    await done(client, task, verb, retries=1)
    assert [one["id"] for one in (await poll).json()] == [task["id"]]


async def test_a_task_with_new_retries_wakes_a_poll(served: Served, client: httpx.AsyncClient) -> None:
    await deploy(client)
    await start(client)
    (task,) = (await client.post(FETCH, json=ask())).json()
    await done(client, task, "failure")
    poll = asyncio.create_task(client.post(FETCH, json=ask("other")))
    await waiting(served, 1)
    assert (await client.put(f"/external-task/{task['id']}/retries", json={"retries": 1})).status_code == 204
    assert [one["id"] for one in (await poll).json()] == [task["id"]]


@pytest.mark.parametrize("wait_ms", [None, 0, -5, 50])
async def test_without_work_the_answer_is_empty_at_its_time(client: httpx.AsyncClient, wait_ms: int | None) -> None:
    answered = await client.post(FETCH, json=ask(wait_ms=wait_ms))
    assert (answered.status_code, answered.json()) == (200, [])


async def test_nothing_asked_waits_as_well(served: Served, client: httpx.AsyncClient) -> None:
    """A client that polls again at once must not be sent round in circles."""
    poll = asyncio.create_task(client.post(FETCH, json=ask() | {"maxTasks": 0}))
    await waiting(served, 1)
    await deploy(client)
    await start(client)
    await asyncio.sleep(0)
    assert not poll.done()
    poll.cancel()


async def test_a_poll_with_filters_waits_for_what_suits_it(served: Served, client: httpx.AsyncClient) -> None:
    await deploy(client)
    choosy = asyncio.create_task(client.post(FETCH, json=ask(businessKey="B-2")))
    await waiting(served, 1)
    other = asyncio.create_task(client.post(FETCH, json=ask("other")))
    await waiting(served, 2)
    await start(client, businessKey="B-1")
    assert (await other).json()[0]["businessKey"] == "B-1"
    await start(client, businessKey="B-2")
    assert (await choosy).json()[0]["businessKey"] == "B-2"


class TestAFullHouse:
    @pytest.fixture
    def settings(self, api_url_db: str) -> Settings:
        made = Settings.from_env({"CELERIAC_DATABASE_URL": api_url_db})
        assert made.camunda_polls == 200
        return replace(made, camunda_open=True)

    async def test_two_hundred_wait_and_the_next_one_is_told_to_come_later(self, served: Served, key: str) -> None:
        async with client_at(served, 300) as client, served.async_client(key) as native:
            await deploy(client)
            polls = [asyncio.create_task(client.post(FETCH, json=ask(f"w{n}", 60_000))) for n in range(200)]
            await waiting(served, 200)
            refused = await client.post(FETCH, json=ask("late"))
            message = (
                "At the moment the server has to handle too many requests at the same time. Please try again later."
            )
            assert error(refused) == (500, "InvalidRequestException", message)
            # Who needs not wait is served, and so are the polls of the other face.
            assert (await client.post(FETCH, json=ask("late", None))).json() == []
            other = {"worker_id": "n", "task_types": ["mail"], "wait_ms": 60_000}
            polls.append(asyncio.create_task(native.post("/v1/external-tasks/fetch-and-lock", json=other)))
            await waiting(served, 201)
            await start(client)
            (first,), _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
            assert len(first.result().json()) == 1
            for poll in polls:
                poll.cancel()
            await waiting(served, 0)
            assert (await client.post(FETCH, json=ask("late", 1))).json() == []


def hang_up(served: Served) -> socket.socket:
    """A poll on a bare socket, sent and left unanswered; closing it is the client's sudden end."""
    body = json.dumps(ask("leaver")).encode()
    head = (
        f"POST /engine-rest{FETCH} HTTP/1.1\r\nHost: x\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, port = served.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(head.encode() + body)
    return connection


async def test_work_is_never_stuck_with_a_poll_whose_client_is_gone(
    served: Served, client: httpx.AsyncClient, conn: Connection
) -> None:
    """Case B02: fifty rounds with the hang-up moved across the moment at which the task is made."""
    await deploy(client)
    for number in range(50):
        leaver = hang_up(served)
        await waiting(served, 1)
        stayer = asyncio.create_task(client.post(FETCH, json=ask("stayer")))
        await waiting(served, 2)
        made = asyncio.create_task(start(client))
        await asyncio.sleep((number % 10) * 0.001)
        leaver.close()
        instance = (await made)["id"]
        (task,) = await first_tasks(client, stayer)
        assert (task["processInstanceId"], task["retries"]) == (instance, None)
        await done(client, task, worker="stayer")
        await waiting(served, 0)
    states = conn.execute(text("select state, count(*) from celeriac.task_list where task_type = 'a' group by state"))
    assert [tuple(row) for row in states] == [("COMPLETED", 50)]


async def first_tasks(client: httpx.AsyncClient, poll: asyncio.Task[httpx.Response]) -> list[dict[str, Any]]:
    """The stayer's. When the answer had already left for the leaver, an operator sees the holder and unlocks."""
    finished, _ = await asyncio.wait([poll], timeout=1.5)
    if not finished:
        (held,) = (await client.get("/external-task", params={"topicName": "a"})).json()
        assert (held["workerId"], held["retries"]) == ("leaver", None)
        assert (await act(client, held, "unlock")).status_code == 204
    return list((await poll).json())


async def test_a_process_that_stops_tells_its_polls(settings: Settings) -> None:
    async with asyncio.timeout(30):
        with serving(settings) as served:
            async with client_at(served) as client:
                polls = [asyncio.create_task(client.post(FETCH, json=ask(wait_ms=1_800_000))) for _ in range(20)]
                await waiting(served, 20)
                served.stop()
                answers = await asyncio.gather(*polls)
    message = "Request rejected due to shutdown of application server."
    assert {error(answer) for answer in answers} == {(500, "RestException", message)}


async def test_a_revoked_key_gets_no_lock_when_its_poll_waits(
    settings: Settings, keys: Keys, conn: Connection, key: str
) -> None:
    with serving(settings) as served:
        async with client_at(served) as client, served.async_client(keys.make(name="doomed")) as doomed:
            await deploy(client)
            poll = asyncio.create_task(doomed.post(f"/engine-rest{FETCH}", json=ask()))
            await waiting(served, 1)
            key_id = conn.execute(text("select key_id from celeriac.api_keys where name = 'doomed'")).scalar_one()
            assert (await httpx_delete(served, key, f"/v1/keys/{key_id}")).status_code == 200
            async with asyncio.timeout(10):
                while (await doomed.get("/v1/tasks")).status_code != 401:
                    await asyncio.sleep(0.05)
            await start(client)
            assert (await poll).status_code == 401
            assert len((await client.post(FETCH, json=ask(wait_ms=None))).json()) == 1


async def httpx_delete(served: Served, key: str, path: str) -> httpx.Response:
    async with served.async_client(key) as client:
        return await client.delete(path)
