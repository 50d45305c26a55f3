import base64
import dataclasses
import json
from collections.abc import Iterator

import pytest
import redis
from sqlalchemy import Connection, text

from app.dev.valkey import EmbeddedValkey
from app.settings import Settings
from db import call
from tests.workers.ring_rows import enqueue, forget_holds, outbox, register_fleet_type, rung_types, write_ring
from workers.celery_app import make_app
from workers.chore import Tools
from workers.dispatch_outbox import RINGS_PER_QUEUE, dispatch_outbox, send, settle
from workers.maintenance import close_tools, open_tools


@pytest.fixture
def second_tools(settings: Settings) -> Iterator[Tools]:
    tools = open_tools(settings, make_app(settings))
    yield tools
    close_tools(tools)


def test_ready_work_of_a_fleet_type_puts_a_ring_into_its_queue(conn: Connection, tools: Tools, redis_url: str) -> None:
    register_fleet_type(conn, "mail", "fleet")
    enqueue(conn, "mail")
    assert dispatch_outbox(tools)["published"] == 1
    assert rung_types(redis_url, "fleet") == ["mail"]
    assert outbox(conn) == []


def test_a_ring_is_a_message_that_celery_workers_understand(conn: Connection, tools: Tools, redis_url: str) -> None:
    write_ring(conn, "fleet", {"task_type": "mail"})
    dispatch_outbox(tools)
    with redis.Redis.from_url(redis_url) as client:
        message = json.loads(client.lindex("fleet", 0))
    assert message["headers"]["task"] == "celeriac.ring"
    assert message["headers"]["id"] == message["properties"]["correlation_id"]
    assert json.loads(base64.b64decode(message["body"]))[:2] == [["mail"], {}]


def test_types_that_workers_pull_are_not_rung(conn: Connection, tools: Tools, redis_url: str) -> None:
    enqueue(conn, "pulled")
    assert outbox(conn) == []
    assert not dispatch_outbox(tools)


def test_a_backlog_costs_the_broker_a_bounded_number_of_rings(conn: Connection, tools: Tools, redis_url: str) -> None:
    register_fleet_type(conn, "mail", "fleet")
    for _ in range(3):
        enqueue(conn, *["mail"] * 1000)
        dispatch_outbox(tools)
    assert len(rung_types(redis_url, "fleet")) == RINGS_PER_QUEUE


def test_a_few_tasks_get_a_ring_each_so_that_several_workers_hear(
    conn: Connection, tools: Tools, redis_url: str
) -> None:
    register_fleet_type(conn, "mail", "fleet")
    enqueue(conn, *["mail"] * 7)
    dispatch_outbox(tools)
    assert len(rung_types(redis_url, "fleet")) == 7


def test_types_that_share_a_queue_share_its_room(conn: Connection, tools: Tools, redis_url: str) -> None:
    register_fleet_type(conn, "mail", "fleet")
    register_fleet_type(conn, "print", "fleet")
    enqueue(conn, *["mail"] * 1000, "print")
    dispatch_outbox(tools)
    rings = rung_types(redis_url, "fleet")
    assert "print" in rings
    assert len(rings) == RINGS_PER_QUEUE


def test_a_committed_ring_waits_for_a_broker_that_is_out(
    conn: Connection, tools: Tools, redis_url: str, valkey: EmbeddedValkey
) -> None:
    write_ring(conn, "fleet", {"task_type": "mail"})
    valkey.stop()
    assert dispatch_outbox(tools)["returned"] == 1
    assert outbox(conn)[0].attempts == 0, "an outage is not the row's fault"
    valkey.start()
    forget_holds(conn)
    assert dispatch_outbox(tools)["published"] == 1
    assert rung_types(redis_url, "fleet") == ["mail"]


def test_a_redis_that_is_full_counts_as_an_outage(
    conn: Connection, tools: Tools, valkey: EmbeddedValkey, redis_url: str
) -> None:
    write_ring(conn, "fleet", {"task_type": "mail"})
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("maxmemory", "1")
        try:
            assert dispatch_outbox(tools)["returned"] == 1
        finally:
            client.config_set("maxmemory", "0")
    forget_holds(conn)
    assert dispatch_outbox(tools)["published"] == 1


def test_a_redis_that_hangs_holds_the_dispatcher_for_seconds_only(
    conn: Connection, settings: Settings, valkey: EmbeddedValkey
) -> None:
    write_ring(conn, "fleet", {"task_type": "mail"})
    app = make_app(settings)
    app.conf.broker_transport_options = app.conf.broker_transport_options | {"socket_timeout": 0.2}
    tools = open_tools(settings, app)
    valkey.freeze()
    try:
        assert dispatch_outbox(tools)["returned"] == 1
    finally:
        valkey.thaw()
        close_tools(tools)


def test_a_rollback_rings_nobody(conn: Connection, tools: Tools) -> None:
    register_fleet_type(conn, "mail", "fleet")
    with conn.engine.execution_options(isolation_level="READ COMMITTED").connect() as transaction:
        enqueue(transaction, "mail")
        transaction.rollback()
    assert not dispatch_outbox(tools)


# B58: rows that can never be sent, more of them than a batch holds, in front of good ones.
POISON: list[tuple[str, object]] = [
    ("", {"task_type": "mail"}),
    ("q" * 256, {"task_type": "mail"}),
    ("bad\nname", {"task_type": "mail"}),
    ("fleet", {}),
    ("fleet", []),
    ("fleet", None),
    ("fleet", {"task_type": 7}),
    ("fleet", {"task_type": ""}),
    ("fleet", {"task_type": "x" * 100_000}),
    ("taken", {"task_type": "mail"}),
]


@pytest.mark.parametrize("batch", [1, 3, 500])
def test_poison_does_not_hold_up_the_good_rows(
    conn: Connection, tools: Tools, redis_url: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.dispatch_outbox.BATCH", batch)
    with redis.Redis.from_url(redis_url) as client:
        client.set("taken", "the key of this queue is no list")
    for key, payload in POISON:
        write_ring(conn, key, payload)
    for number in range(20):
        write_ring(conn, "fleet", {"task_type": f"good-{number:02}"})
    dispatch_outbox(tools)
    assert set(rung_types(redis_url, "fleet")) == {f"good-{number:02}" for number in range(20)}
    assert len(outbox(conn)) == len(POISON)


def test_poison_is_parked_with_its_reason_and_can_be_sent_again(conn: Connection, tools: Tools, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("taken", "the key of this queue is no list")
    write_ring(conn, "taken", {"task_type": "mail"})
    attempts = 0
    while outbox(conn)[0].parked_at is None:
        dispatch_outbox(tools)
        forget_holds(conn)
        attempts += 1
    assert attempts == 5
    assert "WRONGTYPE" in outbox(conn)[0].error
    assert not dispatch_outbox(tools), "what is parked is not tried"

    with redis.Redis.from_url(redis_url) as client:
        client.delete("taken")
    assert call.one(conn, "resend_outbox", max_rows=10).resent == 1
    assert dispatch_outbox(tools)["published"] == 1
    assert rung_types(redis_url, "taken") == ["mail"]


def test_a_queue_that_is_closed_to_us_holds_up_no_other(
    conn: Connection, settings: Settings, valkey: EmbeddedValkey
) -> None:
    """Case B58: the access list of a Redis names the keys that we may touch."""
    with redis.Redis.from_url(valkey.url()) as client:
        client.acl_setuser(
            "narrow", enabled=True, passwords=["+secret"], categories=["+@all"], keys=["fleet*"], channels=["*"]
        )
        narrow = dataclasses.replace(settings, broker_url=valkey.url().replace("://", "://narrow:secret@"))
        tools = open_tools(narrow, make_app(narrow))
        write_ring(conn, "other", {"task_type": "mail"})
        write_ring(conn, "fleet", {"task_type": "mail"})
        counts = dispatch_outbox(tools)
        client.acl_setuser("narrow", commands=["-exists"])
        write_ring(conn, "fleet", {"task_type": "print"})
        outage = dispatch_outbox(tools)
        close_tools(tools)
        client.acl_deluser("narrow")
    assert (counts["published"], counts["rejected"]) == (1, 1)
    assert rung_types(valkey.url(), "fleet") == ["mail"]
    assert "other" in outbox(conn)[0].error
    assert outage["returned"] == 1, "a user that may do nothing is not the rows' fault"


def test_a_row_that_kills_its_dispatcher_is_parked_and_takes_no_other_down(
    conn: Connection, tools: Tools, redis_url: str
) -> None:
    write_ring(conn, "fleet", {"task_type": "killer"})
    write_ring(conn, "fleet", {"task_type": "mail"})
    # What a dispatcher leaves behind that dies with its batch in its hands: attempts counted, nothing settled.
    assert len(call.rows(conn, "take_outbox", channel="ring", max_rows=10, hold_ms=1000)) == 2
    for _ in range(4):
        forget_holds(conn)
        [alone] = call.rows(conn, "take_outbox", channel="ring", max_rows=10, hold_ms=1000)
        assert alone.payload == '{"task_type": "killer"}'
    forget_holds(conn)
    assert dispatch_outbox(tools)["published"] == 1
    assert rung_types(redis_url, "fleet") == ["mail"]
    assert [row.parked_at is not None for row in outbox(conn)] == [True]


def test_a_row_in_flight_is_not_taken_by_another_dispatcher(
    conn: Connection, tools: Tools, second_tools: Tools
) -> None:
    write_ring(conn, "fleet", {"task_type": "mail"})
    taken = tools.rows("take_outbox", channel="ring", max_rows=10, hold_ms=60_000)
    assert len(taken) == 1
    assert not dispatch_outbox(second_tools)


def test_a_dispatcher_that_slept_through_its_hold_changes_nothing_when_it_wakes(
    conn: Connection, tools: Tools, second_tools: Tools, redis_url: str
) -> None:
    write_ring(conn, "fleet", {"task_type": "mail"})
    rows = tools.rows("take_outbox", channel="ring", max_rows=10, hold_ms=60_000)
    forget_holds(conn)
    assert dispatch_outbox(second_tools)["published"] == 1
    assert set(settle(tools, send(tools, rows)).values()) == {0}
    assert rung_types(redis_url, "fleet") == ["mail", "mail"], "a ring too many costs a fetch and nothing else"


def test_a_lost_ring_is_rung_again(conn: Connection, tools: Tools, redis_url: str, valkey: EmbeddedValkey) -> None:
    register_fleet_type(conn, "mail", "fleet")
    enqueue(conn, "mail")
    dispatch_outbox(tools)
    valkey.flush()
    conn.execute(text("update celeriac.queue set run_at = run_at - interval '1 minute'"))
    assert tools.one("ring_stale", older_than_ms=10_000).rung == 1
    dispatch_outbox(tools)
    assert rung_types(redis_url, "fleet") == ["mail"]


def test_without_a_broker_rings_wait_in_the_outbox(conn: Connection, settings: Settings) -> None:
    alone = dataclasses.replace(settings, redis_url=None, broker_url=None)
    tools = open_tools(alone, make_app(alone))
    write_ring(conn, "fleet", {"task_type": "mail"})
    assert not dispatch_outbox(tools)
    assert outbox(conn)[0].attempts == 0
    close_tools(tools)
