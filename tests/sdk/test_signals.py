"""Sending signals inside the caller's own transaction, through every kind of connection."""

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from app.dev.waiting import wait_until
from celeriac import IdempotencyConflict, Invalid, TooLarge, asend_signal, ring_after_commit, send_signal
from tests.held_task import new_held
from tests.sdk.conftest import Book
from tests.sdk.test_enqueue import AWAITED, BLOCKING, INSERT, businesses, run, session
from tests.sdk.test_wakeup import Ear


def signals(book: Book) -> list[Any]:
    return list(book.conn.execute(sa.text("select * from celeriac.signals order by signal_id")))


@pytest.mark.parametrize("connect", BLOCKING)
def test_who_waits_wakes_when_the_callers_rows_are_committed(
    connect: Callable[[str], Any], business_table: str, book: Book
) -> None:
    task = new_held(book.conn)
    task.wait_for("paid", "order-7")
    with connect(business_table) as conn:
        run(conn, INSERT)
        sent = send_signal(conn, "paid", "order-7", {"id": 2**63, "price": Decimal("100000.10")})
        assert book.state(str(task.task_id)) == "WAITING"
        conn.commit()
    assert (sent.created, sent.delivered) == (True, 1)
    assert (book.state(str(task.task_id)), businesses(book)) == ("READY", 1)
    (signal,) = signals(book)
    assert (str(signal.signal_id), signal.topic, signal.key) == (sent.signal_id, "paid", "order-7")
    assert signal.payload == '{"id": 9223372036854775808, "price": 100000.10}'


@pytest.mark.parametrize("connect", BLOCKING)
def test_a_rolled_back_transaction_has_sent_nothing(
    connect: Callable[[str], Any], business_table: str, book: Book
) -> None:
    task = new_held(book.conn)
    task.wait_for("paid")
    with connect(business_table) as conn:
        run(conn, INSERT)
        send_signal(conn, "paid", dedupe_id="event-1")
        conn.rollback()
        # The dedupe id is free again, too.
        assert send_signal(conn, "paid", payload="other", dedupe_id="event-1").created
        conn.rollback()
    assert (book.state(str(task.task_id)), signals(book), businesses(book)) == ("WAITING", [], 0)


@pytest.mark.parametrize("connect", AWAITED)
async def test_the_same_holds_for_connections_that_are_awaited(
    connect: Callable[[str], Any], business_table: str, book: Book
) -> None:
    task = new_held(book.conn)
    task.wait_for("paid")
    async with connect(business_table) as conn:
        await run(conn, INSERT)
        await asend_signal(conn, "paid", payload=[1])
        await conn.rollback()
        await run(conn, INSERT)
        assert (await asend_signal(conn, "paid", payload=[2])).delivered == 1
        await conn.commit()
    assert [signal.payload for signal in signals(book)] == ["[2]"]
    assert (book.state(str(task.task_id)), businesses(book)) == ("READY", 1)


@pytest.mark.parametrize("connect", BLOCKING)
def test_a_signal_is_sent_once_by_its_dedupe_id(connect: Callable[[str], Any], database_url: str) -> None:
    with connect(database_url) as conn:
        first = send_signal(conn, "paid", payload={"n": 1}, dedupe_id="event-1")
        again = send_signal(conn, "paid", payload={"n": 1}, dedupe_id="event-1")
        conn.commit()
        assert (first.created, again.created, again.signal_id) == (True, False, first.signal_id)
        with pytest.raises(IdempotencyConflict) as refused:
            send_signal(conn, "paid", payload={"n": 2}, dedupe_id="event-1")
        conn.rollback()
    assert refused.value.field == "dedupe_id"


def test_every_option_arrives(database_url: str, book: Book) -> None:
    with psycopg.connect(database_url) as conn:
        send_signal(conn, "open", payload=False, ttl=timedelta(hours=1), broadcast=True)
        send_signal(conn, "open", ttl=1.5)
        send_signal(conn, "open")
    hour, short, week = signals(book)
    assert (hour.key, hour.payload, hour.broadcast) == (None, "false", True) or hour.key == ""
    assert [signal.expires_at - signal.sent_at for signal in (hour, short, week)] == [
        timedelta(hours=1),
        timedelta(seconds=1.5),
        timedelta(days=7),
    ]
    assert (short.payload, short.broadcast) == (None, False)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"payload": {"x": float("inf")}}, "payload.x"),
        ({"payload": ["a\0"]}, "payload[0]"),
        ({"payload": object()}, "payload"),
        ({"key": "\ud800"}, "key"),
        ({"ttl": float("nan")}, "ttl"),
        ({"ttl": "soon"}, "ttl"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_the_transaction_is_touched(
    arguments: dict[str, Any], field: str, business_table: str, book: Book
) -> None:
    with session(business_table) as conn:
        run(conn, INSERT)
        with pytest.raises(Invalid) as refused:
            send_signal(conn, "paid", **arguments)
        conn.commit()
    assert refused.value.field == field
    assert businesses(book) == 1


def test_what_the_authority_refuses_is_our_error(database_url: str) -> None:
    with psycopg.connect(database_url) as conn:
        with pytest.raises(Invalid) as refused:
            send_signal(conn, " surrounded by space ")
        conn.rollback()
        assert refused.value.field == "topic"
        with pytest.raises(TooLarge):
            send_signal(conn, "paid", payload="y" * 1_100_000)


def test_the_rights_of_the_api_role_are_enough(api_url_db: str, book: Book) -> None:
    with psycopg.connect(api_url_db) as conn:
        assert send_signal(conn, "paid").created
    assert len(signals(book)) == 1


def test_a_commit_rings_for_the_types_that_a_signal_woke(database_url: str, redis_url: str, book: Book) -> None:
    new_held(book.conn, "media.copy").wait_for("paid")
    engine = sa.create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    sessions = orm.sessionmaker(engine)
    ring_after_commit(sessions, redis_url)
    ear = Ear(redis_url)
    with sessions.begin() as opened:
        send_signal(opened, "nobody waits")
        send_signal(opened, "paid")
    wait_until(lambda: ear.has_heard(["media.copy"]), what="the wake-up")
    assert ear.heard == [["media.copy"]]
    engine.dispose()


def test_over_http_a_signal_is_the_same(client: Any, book: Book) -> None:
    task = new_held(book.conn)
    task.wait_for("paid", "order-7")
    sent = client.send_signal("paid", "order-7", {"price": 12.5}, ttl=60, dedupe_id="event-1")
    assert (sent.created, sent.delivered) == (True, 1)
    assert client.send_signal("paid", "order-7", {"price": 12.5}, ttl=60, dedupe_id="event-1").created is False
    (step,) = client.list_steps(str(task.task_id)).steps
    assert (step["kind"], step["result"]["payload"]) == ("signal", {"price": 12.5})
    assert json.dumps(step["result"]["key"]) == '"order-7"'


def test_over_http_incidents_and_operations_are_decided(client: Any, book: Book) -> None:
    first, second = new_held(book.conn), new_held(book.conn)
    incident_id = str(first.meet_other_code())
    operation_id = str(second.lose_track(1, "charge"))
    assert client.get_incident(incident_id)["kind"] == "other_code"
    assert client.get_operation(operation_id)["state"] == "UNKNOWN"
    assert len(client.list_incidents().incidents) == 2
    page = client.list_incidents(limit=1, sort="created_at")
    assert [found["incident_id"] for found in page.incidents] == [incident_id]
    assert client.list_incidents(limit=1, sort="created_at", cursor=page.next_cursor).next_cursor is None
    resolved = client.resolve_incident(incident_id, "retry", note="mended")
    assert (resolved.task_id, resolved.resolution) == (str(first.task_id), "retry")
    decided = client.resolve_operation(operation_id, "DONE", result=[1])
    assert (decided.task_id, decided.state) == (str(second.task_id), "DONE")
    assert client.list_incidents().incidents == []
    assert [found["operation_id"] for found in client.list_operations(state="DONE").operations] == [operation_id]
    assert client.get_operation(operation_id)["result"] == [1]


def test_over_http_a_task_is_canceled_and_undone(client: Any, book: Book) -> None:
    task = new_held(book.conn)
    task.promise_to_undo(1, "charge")
    assert client.cancel_task(str(task.task_id), reason="sold out", compensate=True).state == "UNDOING"
    assert client.get_task(str(task.task_id))["undoing"] is True
