"""Signals over HTTP: who waits is woken, who does not wait yet finds them, and whoever polls hears of it."""

import threading
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy import Connection, text

from tests.api.conftest import Keys, Served, client_of, wait_until
from tests.held_task import new_held

FETCH = "/v1/external-tasks/fetch-and-lock"


def state(conn: Connection, task_id: object) -> str:
    found = conn.execute(text("select state from celeriac.task_list where task_id = :id"), {"id": task_id})
    return str(found.scalar_one())


def steps(conn: Connection) -> list[Any]:
    return list(conn.execute(text("select result::jsonb ->> 'payload' from celeriac.task_steps")).scalars())


async def test_a_signal_wakes_the_task_that_waits_for_it(api: httpx.AsyncClient, conn: Connection) -> None:
    task = new_held(conn)
    task.wait_for("paid", "order-7")
    other_key = await api.post("/v1/signals", json={"topic": "paid", "key": "order-8"})
    assert (other_key.status_code, other_key.json()["delivered"], state(conn, task.task_id)) == (201, 0, "WAITING")
    sent = await api.post("/v1/signals", json={"topic": "paid", "key": "order-7", "payload": {"amount": 100000.10}})
    assert sent.status_code == 201
    assert (sent.json()["created"], sent.json()["delivered"]) == (True, 1)
    assert sent.json().keys() == {"signal_id", "created", "delivered"}
    assert (state(conn, task.task_id), steps(conn)) == ("READY", ['{"amount": 100000.1}'])


async def test_an_early_signal_is_kept_for_the_first_who_waits_for_it(api: httpx.AsyncClient, conn: Connection) -> None:
    await api.post("/v1/signals", json={"topic": "paid", "payload": [1, "two", None]})
    task = new_held(conn)
    task.wait_for("paid")
    assert (state(conn, task.task_id), steps(conn)) == ("LOCKED", ['[1, "two", null]'])


async def test_a_signal_that_is_sent_again_is_one_signal(api: httpx.AsyncClient) -> None:
    signal = {"topic": "paid", "dedupe_id": "event-1", "payload": {"n": 1}}
    first = await api.post("/v1/signals", json=signal)
    again = await api.post("/v1/signals", json=signal)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"created": False}
    other = await api.post("/v1/signals", json=signal | {"payload": {"n": 2}})
    assert (other.status_code, other.json()["code"], other.json()["field"]) == (
        409,
        "idempotency_conflict",
        "dedupe_id",
    )


async def test_a_broadcast_is_for_all_who_wait(api: httpx.AsyncClient, conn: Connection) -> None:
    tasks = [new_held(conn) for _ in range(3)]
    for task in tasks:
        task.wait_for("doors open")
    sent = await api.post("/v1/signals", json={"topic": "doors open", "broadcast": True})
    assert sent.json()["delivered"] == 3
    assert {state(conn, task.task_id) for task in tasks} == {"READY"}


async def test_a_payload_may_be_any_json_of_a_mebibyte_and_no_more(api: httpx.AsyncClient, conn: Connection) -> None:
    for payload in (None, False, 0, "", [], {}, "x" * 1_048_574):
        sent = await api.post("/v1/signals", json={"topic": "t", "payload": payload})
        assert sent.status_code == 201, payload
    refused = await api.post("/v1/signals", json={"topic": "t", "payload": "x" * 1_048_575})
    assert (refused.status_code, refused.json()["field"]) == (413, "payload")
    # 700 kB on the way, 15 MB as Postgres would write it out.
    unfolded = "[" + "1e307," * 110_000 + "1]"
    raw = f'{{"topic": "t", "payload": {unfolded}}}'
    refused = await api.post("/v1/signals", content=raw, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["field"]) == (413, "payload")
    null, false = conn.execute(text("select payload from celeriac.signals order by signal_id limit 2")).scalars()
    assert (null, false) == (None, "false")


async def test_a_restricted_key_wakes_tasks_of_its_own_types_only(
    app: FastAPI, keys: Keys, api: httpx.AsyncClient, conn: Connection
) -> None:
    payroll, mail = new_held(conn, "payroll"), new_held(conn, "mail")
    payroll.wait_for("go")
    mail.wait_for("go")
    async with client_of(app, keys.make("enqueue", types=("mail",), name="mailer")) as mailer:
        assert (await mailer.post("/v1/signals", json={"topic": "go"})).json()["delivered"] == 1
        assert (await mailer.post("/v1/signals", json={"topic": "go", "broadcast": True})).json()["delivered"] == 0
    assert (state(conn, payroll.task_id), state(conn, mail.task_id)) == ("WAITING", "READY")
    # What it sent early is for its own types as well.
    again = new_held(conn, "payroll")
    again.wait_for("go")
    assert state(conn, again.task_id) == "WAITING"


def test_a_poll_is_woken_for_the_task_that_a_signal_woke(served: Served, key: str, conn: Connection) -> None:
    new_held(conn).wait_for("paid")
    taken: list[Any] = []

    def poll() -> None:
        with served.client(key) as client:
            taken.extend(client.post(FETCH, json={"worker_id": "w", "task_types": ["mail"], "wait_ms": 30_000}).json())

    waiting = threading.Thread(target=poll)
    waiting.start()
    hub = served.application.state.parts.hub
    wait_until(lambda: hub.waiting == 1)
    with served.client(key) as client:
        assert client.post("/v1/signals", json={"topic": "paid"}).json()["delivered"] == 1
    waiting.join()
    assert [task["task_type"] for task in taken] == ["mail"]


async def test_polls_are_told_of_every_type_that_a_call_made_ready(
    app: FastAPI, api: httpx.AsyncClient, conn: Connection
) -> None:
    told: list[set[str]] = []
    app.state.parts.announcer.announce = lambda task_types: told.append(set(task_types))
    new_held(conn, "one").wait_for("go")
    incident_id = new_held(conn, "two").meet_other_code()
    operation_id = new_held(conn, "three").lose_track(1, "charge")
    undone = new_held(conn, "four")
    undone.promise_to_undo(1, "charge")
    for path, sent in (
        ("/v1/signals", {"topic": "go"}),
        (f"/v1/incidents/{incident_id}/resolve", {"resolution": "retry"}),
        (f"/v1/operations/{operation_id}/resolve", {"outcome": "DONE"}),
        (f"/v1/tasks/{undone.task_id}/cancel", {"compensate": True}),
    ):
        assert (await api.post(path, json=sent)).is_success
    assert told == [{"one"}, {"two"}, {"three"}, {"four"}]
