"""Long polls against a real server: who is woken, what is held while waiting, and what happens when somebody leaves."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import Connection, event, text

from app.settings import Settings
from db import call
from tests.api.conftest import Keys, Served, serving

FETCH = "/v1/external-tasks/fetch-and-lock"


def ask(types: list[str], wait_ms: int = 30_000, **more: Any) -> dict[str, Any]:
    return {"worker_id": "w", "task_types": types, "wait_ms": wait_ms} | more


async def waiting(served: Served, count: int) -> None:
    async with asyncio.timeout(20):
        while served.application.state.parts.hub.waiting != count:
            await asyncio.sleep(0.005)


@contextmanager
def counted_statements(served: Served) -> Iterator[list[str]]:
    """Every statement that the server's process sends to Postgres while the block runs."""
    engine = served.application.state.parts.database.engine.sync_engine
    seen: list[str] = []

    def note(*arguments: Any) -> None:
        seen.append(arguments[2])

    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


def of(statements: list[str], function: str) -> int:
    return sum(f"celeriac.{function}(" in statement for statement in statements)


async def idle_polls(served: Served, client: httpx.AsyncClient, count: int) -> list[asyncio.Task[httpx.Response]]:
    """That many polls that have looked once, found nothing, and wait."""
    with counted_statements(served) as statements:
        polls = [asyncio.create_task(client.post(FETCH, json=ask(["mail"], 60_000))) for _ in range(count)]
        async with asyncio.timeout(30):
            while of(statements, "fetch_tasks") < count:
                await asyncio.sleep(0.01)
    return polls


@pytest.fixture(params=["with Redis", "without Redis"])
def settings(request: pytest.FixtureRequest, api_url_db: str) -> Settings:
    redis = {"CELERIAC_REDIS_URL": request.getfixturevalue("redis_url")} if request.param == "with Redis" else {}
    return Settings.from_env({"CELERIAC_DATABASE_URL": api_url_db} | redis)


@pytest.fixture
async def client(served: Served, key: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served.async_client(key, connections=300) as opened:
        yield opened


async def test_a_waiting_poll_is_answered_as_soon_as_a_task_is_made(served: Served, client: httpx.AsyncClient) -> None:
    poll = asyncio.create_task(client.post(FETCH, json=ask(["mail"])))
    await waiting(served, 1)
    made = (await client.post("/v1/tasks", json={"task_type": "mail"})).json()
    assert [task["task_id"] for task in (await poll).json()] == [made["task_id"]]


async def test_a_poll_without_work_ends_empty_at_its_time(client: httpx.AsyncClient) -> None:
    assert (await client.post(FETCH, json=ask(["mail"], wait_ms=50))).json() == []


async def test_a_task_made_elsewhere_is_found(served: Served, client: httpx.AsyncClient, conn: Connection) -> None:
    """Without Redis too, since the process looks once a second."""
    poll = asyncio.create_task(client.post(FETCH, json=ask(["mail"])))
    await waiting(served, 1)
    call.rows(conn, "enqueue_tasks", tasks=call.Json('[{"task_type":"mail"}]'))
    assert len((await poll).json()) == 1


@pytest.mark.parametrize("verb", ["fail", "unlock"])
async def test_a_task_that_comes_back_wakes_the_next_poll(served: Served, client: httpx.AsyncClient, verb: str) -> None:
    await client.post("/v1/tasks", json={"task_type": "mail"})
    task = (await client.post(FETCH, json=ask(["mail"]))).json()[0]
    poll = asyncio.create_task(client.post(FETCH, json=ask(["mail"])))
    await waiting(served, 1)
    more = {"error": "x", "retry_after_ms": 0} if verb == "fail" else {}
    await client.post(f"/v1/external-tasks/{task['task_id']}/{verb}", json={"worker_id": "w"} | more)
    assert (await poll).json()[0]["task_id"] == task["task_id"]


async def test_two_hundred_idle_polls_and_one_task_cost_a_handful_of_claims(
    served: Served, client: httpx.AsyncClient
) -> None:
    """Case B50, fourth part."""
    polls = await idle_polls(served, client, 200)
    with counted_statements(served) as statements:
        await client.post("/v1/tasks", json={"task_type": "mail"})
        done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert of(statements, "fetch_tasks") <= 3
    await client.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}] * 199})
    answers = await asyncio.gather(*polls)
    assert len({task["task_id"] for answer in answers for task in answer.json()}) == 200


async def test_the_oldest_poll_is_served_first(served: Served, client: httpx.AsyncClient) -> None:
    polls = []
    for number in range(5):
        polls.append(asyncio.create_task(client.post(FETCH, json=ask(["mail"], worker_id=f"w{number}"))))
        await waiting(served, number + 1)
    for poll in polls:
        await client.post("/v1/tasks", json={"task_type": "mail"})
        assert len((await poll).json()) == 1


async def test_work_that_one_version_cannot_run_goes_to_the_poll_that_can(
    served: Served, client: httpx.AsyncClient
) -> None:
    old = asyncio.create_task(client.post(FETCH, json=ask(["mail"], versions={"mail": [1]})))
    await waiting(served, 1)
    new = asyncio.create_task(client.post(FETCH, json=ask(["mail"], versions={"mail": [2]})))
    await waiting(served, 2)
    await client.post("/v1/tasks", json={"task_type": "mail", "version": 2})
    assert (await new).json()[0]["version"] == 2
    await client.post("/v1/tasks", json={"task_type": "mail", "version": 1})
    assert (await old).json()[0]["version"] == 1


def hang_up(served: Served, key: str, types: list[str]) -> socket.socket:
    """A poll on a bare socket, sent and left unanswered; closing it is the client's sudden end."""
    body = json.dumps(ask(types, lock_duration_ms=600_000, worker_id="leaver")).encode()
    head = (
        f"POST {FETCH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, port = served.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(head.encode() + body)
    return connection


async def test_work_is_never_stuck_with_a_poll_whose_client_is_gone(
    served: Served, client: httpx.AsyncClient, key: str, conn: Connection
) -> None:
    """Case B02: fifty rounds with the hang-up moved across the moment at which the task is made."""
    for number in range(50):
        leaver = hang_up(served, key, ["mail"])
        await waiting(served, 1)
        stayer = asyncio.create_task(client.post(FETCH, json=ask(["mail"], worker_id="stayer")))
        await waiting(served, 2)
        made = asyncio.create_task(client.post("/v1/tasks", json={"task_type": "mail"}))
        await asyncio.sleep((number % 10) * 0.001)
        leaver.close()
        task_id = (await made).json()["task_id"]
        task = await first_task(client, stayer, task_id)
        assert task["task_id"] == task_id
        done = {"worker_id": "stayer", "fencing_token": task["fencing_token"]}
        completed = await client.post(f"/v1/external-tasks/{task_id}/complete", json=done)
        assert completed.status_code == 200, completed.text
        await waiting(served, 0)
    states = conn.execute(text("select state, count(*) from celeriac.task_list group by state")).all()
    assert [tuple(row) for row in states] == [("COMPLETED", 50)]


async def first_task(client: httpx.AsyncClient, poll: asyncio.Task[httpx.Response], task_id: str) -> dict[str, Any]:
    """The stayer's task. When the answer had already left for the leaver, an operator sees the holder and unlocks."""
    done, _ = await asyncio.wait([poll], timeout=1.5)
    if not done:
        shown = (await client.get(f"/v1/tasks/{task_id}")).json()
        assert (shown["state"], shown["worker_id"], shown["retries"]) == ("LOCKED", "leaver", 3)
        held = {"worker_id": "leaver", "fencing_token": shown["fencing_token"]}
        assert (await client.post(f"/v1/external-tasks/{task_id}/unlock", json=held)).status_code == 200
    return dict((await poll).json()[0])


async def test_a_client_that_leaves_frees_its_place(served: Served, client: httpx.AsyncClient, key: str) -> None:
    """Case B54, fifth part."""
    leavers = [hang_up(served, key, ["mail"]) for _ in range(50)]
    await waiting(served, 50)
    for leaver in leavers:
        leaver.close()
    await waiting(served, 0)
    await client.post("/v1/tasks", json={"task_type": "mail"})
    assert len((await client.post(FETCH, json=ask(["mail"]))).json()) == 1


async def test_a_revoked_key_gets_no_lease_also_when_its_poll_waits(
    served: Served, client: httpx.AsyncClient, keys: Keys, conn: Connection
) -> None:
    doomed = keys.make(name="doomed")
    async with served.async_client(doomed) as other:
        poll = asyncio.create_task(other.post(FETCH, json=ask(["mail"], wait_ms=60_000)))
        await waiting(served, 1)
        key_id = conn.execute(text("select key_id from celeriac.api_keys where name = 'doomed'")).scalar_one()
        assert (await client.delete(f"/v1/keys/{key_id}")).status_code == 200
        async with asyncio.timeout(10):
            while (await other.get("/v1/tasks")).status_code != 401:
                await asyncio.sleep(0.05)
        made = (await client.post("/v1/tasks", json={"task_type": "mail"})).json()
        assert (await poll).status_code == 401
    assert (await client.get(f"/v1/tasks/{made['task_id']}")).json()["state"] == "READY"


async def test_a_process_that_stops_sends_its_polls_home_empty(settings: Settings, keys: Keys) -> None:
    async with asyncio.timeout(30):
        with serving(settings) as served:
            client = served.async_client(keys.make())
            polls = [asyncio.create_task(client.post(FETCH, json=ask(["mail"], wait_ms=60_000))) for _ in range(20)]
            await waiting(served, 20)
            served.stop()
            answers = await asyncio.gather(*polls)
            await client.aclose()
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, [])] * 20


@pytest.mark.parametrize("wait_ms", [0, 30_000])
async def test_a_lease_does_not_begin_before_there_is_a_connection(
    settings: Settings, keys: Keys, conn: Connection, database_url: str, wait_ms: int
) -> None:
    """Else a worker that counts cautiously throws fresh leases away whenever connections are short."""
    twin = {"task_type": "other", "idempotency_key": "k"}
    with serving(replace(settings, database_pool=1)) as served, psycopg.connect(database_url) as holder:
        async with served.async_client(keys.make()) as client:
            await client.post("/v1/tasks", json={"task_type": "mail"})
            holder.execute("select celeriac.enqueue_tasks(%s::jsonb)", [json.dumps([twin])])
            blocked = asyncio.create_task(client.post("/v1/tasks", json=twin))
            while not conn.execute(text("select from pg_locks where not granted")).all():
                await asyncio.sleep(0.01)
            poll = asyncio.create_task(client.post(FETCH, json=ask(["mail"], wait_ms)))
            await asyncio.sleep(0.5)
            holder.rollback()
            assert (await blocked).status_code == 201
            answer = await poll
    assert len(answer.json()) == 1
    assert int(answer.headers["Celeriac-Waited-Ms"]) > 0


class TestAThousandPolls:
    """Case B54: waiting costs no connection and no transaction, and others are served meanwhile."""

    @pytest.fixture
    def settings(self, api_url_db: str, redis_url: str) -> Settings:
        return Settings.from_env({"CELERIAC_DATABASE_URL": api_url_db, "CELERIAC_REDIS_URL": redis_url})

    async def test_hold_nothing_and_keep_nobody_waiting(self, served: Served, key: str, conn: Connection) -> None:
        async with served.async_client(key, connections=1100) as client:
            polls = await idle_polls(served, client, 1000)
            with counted_statements(served) as statements:
                started = time.monotonic()
                for _ in range(20):
                    assert (await client.get("/v1/tasks")).status_code == 200
                    assert (await client.get("/health/ready")).status_code == 200
                await asyncio.sleep(3)
                seconds = time.monotonic() - started
            sessions = conn.execute(
                text(
                    "select count(*), count(*) filter (where state = 'idle in transaction') from pg_stat_activity"
                    " where application_name = 'celeriac' and datname = current_database() and pid <> pg_backend_pid()"
                )
            ).one()
            assert sessions[0] <= 10
            assert sessions[1] == 0
            assert of(statements, "ready_types") <= seconds / 0.8 + 1
            assert of(statements, "fetch_tasks") == 0
            made = await client.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}] * 100})
            assert made.status_code == 201
            await waiting(served, 900)
            served.stop()
            answers = await asyncio.gather(*polls)
        assert len({task["task_id"] for answer in answers for task in answer.json()}) == 100

    async def test_nobody_waiting_means_no_look_at_the_queue(self, served: Served, key: str) -> None:
        with counted_statements(served) as statements:
            await asyncio.sleep(2.5)
        assert of(statements, "ready_types") == 0
