"""Rings that are lost, doubled, late, garbled or for somebody else, and brokers that come and go."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import redis
from sqlalchemy import Connection

from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from celeriac import NewTask, enqueue_many
from tests.fleet.conftest import StartFleet
from tests.fleet.ringing import ring, send
from tests.fleet.sights import all_completed, effects, enqueue, started, states, task

OpenGate = Callable[[str], None]

GARBAGE = [
    b"not json",
    b"\xff\xfe\x00",
    b"[1, 2]",
    b"null",
    b"{}",
    b'{"properties": 1}',
    b'{"body": "x", "properties": {}}',
]


def message(name: str | None, body: str, content_type: str = "application/json", encoding: str = "utf-8") -> bytes:
    """A message of Celery's second protocol as another program might write it."""
    headers: dict[str, Any] = {"id": "11111111-1111-1111-1111-111111111111", "lang": "py"}
    if name is not None:
        headers["task"] = name
    properties = {"delivery_tag": "1", "delivery_info": {"exchange": "", "routing_key": "fleet"}, "delivery_mode": 2}
    whole = {
        "body": body,
        "headers": headers,
        "content-type": content_type,
        "content-encoding": encoding,
        "properties": properties,
    }
    return json.dumps(whole).encode()


STRANGE = [
    message("no.such.task", "[[],{},{}]"),
    message("celeriac.ring", "{not json"),
    message(None, "[[],{},{}]"),
    message("celeriac.ring", "inert", "application/x-python-serialize", "binary"),
    message("celeriac.ring", '[["no.such.type"],{},{}]'),
    message("celeriac.ring", "[[],{},{}]"),
    message("celeriac.ring", '[[null, 7],{"x": 1},{}]'),
]


def test_what_is_no_message_is_logged_and_dropped(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str
) -> None:
    fleet = start_fleet("prefork")
    with redis.Redis.from_url(redis_url) as client:
        for bad in GARBAGE + STRANGE:
            client.rpush("fleet", bad)
            ring(redis_url, "fleet", "mark")
        wait_until(lambda: not client.llen("fleet"), what="all messages to be taken")
    ids = enqueue(database_url, "mark", *[{}] * 20)
    all_completed(conn, 20)
    assert set(effects(conn)) == set(ids)
    assert fleet.is_running
    assert "dropped what is no message" in fleet.output()


def test_a_ring_that_comes_twice_while_its_slice_runs_costs_no_attempt(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str, open_gate: OpenGate
) -> None:
    short = '{"broker_transport_options": {"visibility_timeout": 1, "unacked_restore_interval": 1,'
    start_fleet("prefork", FLEET_SETTINGS=short + ' "unacked_restore_throttle": 1}}')
    ids = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    with redis.Redis.from_url(redis_url) as client:
        [(first, held_at)] = client.zrange("unacked_index", 0, -1, withscores=True)

        def is_handed_out_again() -> bool:
            """Its visibility time-out has passed: the same ring is held under a later time, or has gone for good."""
            now = client.zscore("unacked_index", first)
            return now is None or now > held_at

        wait_until(is_handed_out_again, what="the ring to be handed out again")
        ring(redis_url, "fleet", *["gated"] * 5)
        enqueue(database_url, "mark", *[{}] * 5)
        wait_until(lambda: states(conn) == {"LOCKED": 1, "COMPLETED": 5}, what="the others")
        open_gate("open")
        all_completed(conn, 6)
        wait_until(lambda: client.hlen("unacked") + client.llen("fleet") == 0, what="the copies to be gone")
    assert task(conn, ids[0]).attempts == 1


def test_a_worker_works_on_after_its_connections_were_cut_and_the_broker_restarted(
    start_fleet: StartFleet, conn: Connection, database_url: str, valkey: EmbeddedValkey, open_gate: OpenGate
) -> None:
    fleet = start_fleet("prefork")
    [held] = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    with redis.Redis.from_url(valkey.url()) as client:
        for _ in range(3):
            client.client_kill_filter(_type="pubsub")
            client.client_kill_filter(_type="normal", skipme=True)
    enqueue(database_url, "mark", {})
    wait_until(lambda: states(conn) == {"LOCKED": 1, "COMPLETED": 1}, 60, what="work after the cut")
    valkey.restart()
    open_gate("open")
    enqueue(database_url, "mark", {})
    all_completed(conn, 3, seconds=60)
    assert task(conn, held).attempts == 1
    assert fleet.is_running


@pytest.mark.parametrize("trouble", ["full", "only to be read"])
def test_a_broker_that_takes_nothing_for_a_while_ends_no_worker(
    trouble: str,
    start_fleet: StartFleet,
    dispatcher: Process,
    conn: Connection,
    database_url: str,
    valkey: EmbeddedValkey,
    open_gate: OpenGate,
) -> None:
    """Case B63: it answers each command with an error, as a Redis without memory or after a failover does."""
    fleet = start_fleet("prefork", FLEET_SLICE_TASKS="1")
    enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    with redis.Redis.from_url(valkey.url()) as client:
        if trouble == "full":
            client.config_set("maxmemory", "1")
        else:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            client.client_kill_filter(_type="normal", skipme=True)
            fleet.wait_for_output("Cannot connect to")
        finally:
            client.config_set("maxmemory", "0")
            client.execute_command("REPLICAOF", "NO", "ONE")
    open_gate("open")
    enqueue(database_url, "mark", *[{}] * 50)
    all_completed(conn, 51)
    assert fleet.is_running
    assert dispatcher.is_running


def test_tasks_of_the_user_s_own_run_beside_durable_ones(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str
) -> None:
    start_fleet("prefork")
    send(redis_url, "fleet", "plain", 7)
    enqueue(database_url, "mark", {})
    all_completed(conn, 1)
    wait_until(lambda: conn.exec_driver_sql("select number from plain").scalars().all() == [7], what="the plain task")


def test_workers_of_two_versions_share_the_work_of_a_rolling_upgrade(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet("prefork", concurrency=1, FLEET_VERSIONS="1")
    start_fleet("prefork", concurrency=1, FLEET_VERSIONS="2")
    with psycopg.connect(database_url) as connection:
        tasks = [NewTask("versioned", version=version) for version in (1, 2) * 20]
        tasks += [NewTask("only.new")] * 10
        ids = [task.task_id for task in enqueue_many(connection, tasks)]
    all_completed(conn, 50, seconds=60)
    results = {json.loads(task(conn, task_id).result)["code"] for task_id in ids[:40:2]}
    assert results == {1}
    assert {json.loads(task(conn, task_id).result)["code"] for task_id in ids[1:40:2]} == {2}
    assert {task(conn, task_id).attempts for task_id in ids} == {1}


def test_a_ring_finds_the_one_worker_that_has_the_code_for_what_it_stands_for(
    start_fleet: StartFleet, dispatcher: Process, conn: Connection, database_url: str
) -> None:
    start_fleet("prefork", concurrency=1, FLEET_VERSIONS="1")
    start_fleet("threads", concurrency=1, FLEET_VERSIONS="1")
    start_fleet("threads", concurrency=1, FLEET_VERSIONS="2")
    for number in range(6):
        with psycopg.connect(database_url) as connection:
            enqueue_many(connection, [NewTask("versioned", version=2), NewTask("only.new")])
        all_completed(conn, 2 * (number + 1))
    assert "ring_stale" not in dispatcher.output()


def test_a_ring_for_what_nobody_has_code_for_is_not_passed_on_for_ever(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str
) -> None:
    fleet = start_fleet("prefork", FLEET_VERSIONS="1")
    with psycopg.connect(database_url) as connection:
        enqueue_many(connection, [NewTask("versioned", version=3)])
    ring(redis_url, "fleet", "versioned", "stranger")
    wait_until(lambda: "'stranger' came to a worker" in fleet.output(), what="the ring to be given up")
    with redis.Redis.from_url(redis_url) as client:
        wait_until(lambda: not client.llen("fleet"), what="no ring to be left")
