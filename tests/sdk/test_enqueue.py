"""Enqueueing inside the caller's own transaction, through every kind of connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import class_row, dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sa_async

from celeriac import (
    IdempotencyConflict,
    Invalid,
    NewTask,
    Policy,
    TooLarge,
    aenqueue,
    aenqueue_many,
    enqueue,
    enqueue_many,
)
from tests.sdk.conftest import Book

INSERT = "insert into business values ('order')"


def sqlalchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


@contextmanager
def session(url: str) -> Iterator[Any]:
    engine = sa.create_engine(sqlalchemy_url(url))
    with orm.Session(engine) as opened:
        yield opened
    engine.dispose()


@contextmanager
def scoped_session(url: str) -> Iterator[Any]:
    engine = sa.create_engine(sqlalchemy_url(url))
    scoped = orm.scoped_session(orm.sessionmaker(engine))
    yield scoped
    scoped.remove()
    engine.dispose()


@contextmanager
def connection(url: str) -> Iterator[Any]:
    # Loaders of the caller's own must not matter.
    engine = sa.create_engine(sqlalchemy_url(url), json_deserializer=lambda text: text)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


@contextmanager
def psycopg_connection(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as opened:
        yield opened


@contextmanager
def psycopg_with_dicts(url: str) -> Iterator[Any]:
    with psycopg.connect(url, row_factory=dict_row) as opened:
        psycopg.types.json.set_json_loads(lambda data: {"mine": data}, opened)
        yield opened


@contextmanager
def psycopg_with_raw_cursors(url: str) -> Iterator[Any]:
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor, row_factory=class_row(Row)) as opened:
        yield opened


class Row:
    """A row class that our answer would not fit into."""


BLOCKING = [
    session, scoped_session, connection, psycopg_connection, psycopg_with_dicts, psycopg_with_raw_cursors,
]  # fmt: skip


@asynccontextmanager
async def async_session(url: str) -> AsyncIterator[Any]:
    engine = sa_async.create_async_engine(sqlalchemy_url(url))
    async with sa_async.AsyncSession(engine) as opened:
        yield opened
    await engine.dispose()


@asynccontextmanager
async def async_scoped_session(url: str) -> AsyncIterator[Any]:
    engine = sa_async.create_async_engine(sqlalchemy_url(url))
    scoped = sa_async.async_scoped_session(sa_async.async_sessionmaker(engine), scopefunc=asyncio.current_task)
    yield scoped
    await scoped.remove()
    await engine.dispose()


@asynccontextmanager
async def async_connection(url: str) -> AsyncIterator[Any]:
    engine = sa_async.create_async_engine(sqlalchemy_url(url))
    async with engine.connect() as opened:
        yield opened
    await engine.dispose()


@asynccontextmanager
async def psycopg_async_connection(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as opened:
        yield opened


AWAITED = [async_session, async_scoped_session, async_connection, psycopg_async_connection]


def run(conn: Any, statement: str) -> Any:
    return conn.execute(statement if "psycopg" in type(conn).__module__ else sa.text(statement))


def businesses(book: Book) -> int:
    return int(book.conn.execute(sa.text("select count(*) from business")).scalar_one())


def tasks(book: Book) -> int:
    return int(book.conn.execute(sa.text("select count(*) from celeriac.task_list")).scalar_one())


@pytest.mark.parametrize("connect", BLOCKING)
def test_a_task_is_committed_together_with_the_callers_rows(
    connect: Callable[[str], Any], business_table: str, book: Book
) -> None:
    with connect(business_table) as conn:
        run(conn, INSERT)
        task = enqueue(conn, "media.copy", {"id": 2**63, "price": Decimal("100000.10")}, idempotency_key="order-1")
        assert (tasks(book), businesses(book)) == (0, 0)
        conn.commit()
    assert (task.task_type, task.state, task.created) == ("media.copy", "READY", True)
    assert book.state(task.task_id) == "READY"
    assert book.task(task.task_id).variables == '{"id": 9223372036854775808, "price": 100000.10}'
    assert businesses(book) == 1


@pytest.mark.parametrize("connect", BLOCKING)
def test_a_rolled_back_transaction_leaves_no_task(
    connect: Callable[[str], Any], business_table: str, book: Book
) -> None:
    with connect(business_table) as conn:
        run(conn, INSERT)
        enqueue(conn, "media.copy", idempotency_key="order-1")
        conn.rollback()
        # The key is free again, too.
        assert enqueue(conn, "media.copy", {"other": 1}, idempotency_key="order-1").created
        conn.rollback()
    assert (tasks(book), businesses(book)) == (0, 0)


@pytest.mark.parametrize("connect", AWAITED)
async def test_the_same_holds_for_connections_that_are_awaited(
    connect: Callable[[str], Any], business_table: str, book: Book
) -> None:
    async with connect(business_table) as conn:
        await run(conn, INSERT)
        kept = await aenqueue(conn, "media.copy", {"n": 1})
        many = await aenqueue_many(conn, [NewTask("media.copy"), NewTask("media.move")])
        await conn.commit()
        await run(conn, INSERT)
        await aenqueue(conn, "media.copy", {"n": 2})
        await conn.rollback()
    assert [task.task_type for task in many] == ["media.copy", "media.move"]
    assert (book.state(kept.task_id), tasks(book), businesses(book)) == ("READY", 3, 1)


@pytest.mark.parametrize("connect", BLOCKING)
def test_a_used_key_with_other_input_is_refused_with_the_first_tasks_id(
    connect: Callable[[str], Any], database_url: str
) -> None:
    with connect(database_url) as conn:
        first = enqueue(conn, "media.copy", {"n": 1}, idempotency_key="order-1")
        again = enqueue(conn, "media.copy", {"n": 1}, idempotency_key="order-1")
        conn.commit()
        assert (again.task_id, again.created) == (first.task_id, False)
        with pytest.raises(IdempotencyConflict) as refused:
            enqueue(conn, "media.copy", {"n": 2}, idempotency_key="order-1")
        conn.rollback()
    assert refused.value.task_id == first.task_id
    assert refused.value.field == "tasks[0].idempotency_key"


@pytest.mark.parametrize("connect", AWAITED)
async def test_a_refusal_is_the_same_error_when_awaited(connect: Callable[[str], Any], database_url: str) -> None:
    async with connect(database_url) as conn:
        first = await aenqueue(conn, "media.copy", {"n": 1}, idempotency_key="order-1")
        with pytest.raises(IdempotencyConflict) as refused:
            await aenqueue(conn, "media.copy", {"n": 2}, idempotency_key="order-1")
        await conn.rollback()
    assert refused.value.task_id == first.task_id


def test_inside_a_savepoint_a_refusal_leaves_the_transaction_usable(business_table: str, book: Book) -> None:
    with session(business_table) as conn:
        run(conn, INSERT)
        with pytest.raises(Invalid), conn.begin_nested():
            enqueue(conn, " surrounded by space ")
        enqueue(conn, "media.copy")
        conn.commit()
    assert (tasks(book), businesses(book)) == (1, 1)


def test_the_rights_of_the_api_role_are_enough(api_url_db: str, book: Book) -> None:
    with psycopg.connect(api_url_db) as conn:
        task = enqueue(conn, "media.copy")
    assert book.state(task.task_id) == "READY"


def test_all_or_none_of_many(database_url: str, book: Book) -> None:
    with psycopg.connect(database_url) as conn, pytest.raises(Invalid) as refused:
        enqueue_many(conn, [NewTask("media.copy"), NewTask("media.copy", retries=0)])
    assert refused.value.field == "tasks[1].retries"
    with psycopg.connect(database_url) as conn:
        created = enqueue_many(conn, [NewTask("media.copy", {"n": n}) for n in range(500)])
        assert enqueue_many(conn, []) == []
    assert len({task.task_id for task in created}) == 500
    assert [book.task(task.task_id).variables for task in created[::100]] == [
        f'{{"n": {n}}}' for n in range(0, 500, 100)
    ]


def test_every_option_arrives(database_url: str, book: Book) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    with psycopg.connect(database_url) as conn:
        task = enqueue(
            conn, "media.copy", {"a": [1, None, True, "ä"]}, idempotency_key="k", business_key="b",
            fairness_key="t", concurrency_key="c", priority=7, run_at=later, retries=9, version=2,
            policy=Policy(lease_seconds=1.5, backoff_factor=3, expirations=2),
        )  # fmt: skip
        delayed = enqueue(conn, "media.copy", delay=timedelta(hours=1))
    row = book.task(task.task_id)
    assert (row.state, row.priority, row.retries, row.version) == ("SCHEDULED", 7, 9, 2)
    assert (row.business_key, row.idempotency_key, row.fairness_key, row.run_at) == ("b", "k", "t", later)
    assert row.concurrency_key == "c"
    assert row.policy == '{"lease_ms": 1500, "expirations": 2, "backoff_factor": 3}'
    row = book.task(delayed.task_id)
    assert row.run_at - row.created_at == timedelta(hours=1)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"variables": {"x": float("inf")}}, "tasks[0].variables.x"),
        ({"variables": {"x": "a\0"}}, "tasks[0].variables.x"),
        ({"variables": {"x": "\ud800"}}, "tasks[0].variables.x"),
        ({"variables": {"x": object()}}, "tasks[0].variables.x"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at"),
        ({"delay": float("nan")}, "delay"),
        ({"delay": "soon"}, "delay"),
        ({"run_at": "2030"}, "run_at"),
        ({"run_at": date(2030, 1, 1)}, "run_at"),
        ({"run_at": 2030}, "run_at"),
        ({"variables": [1]}, "variables"),
        ({"variables": [("a", 1)]}, "variables"),
        ({"variables": "text"}, "variables"),
        ({"variables": 1}, "variables"),
        ({"policy": {"lease_seconds": 1}}, "policy"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_the_transaction_is_touched(
    arguments: dict[str, Any], field: str, business_table: str, book: Book
) -> None:
    with session(business_table) as conn:
        run(conn, INSERT)
        with pytest.raises(Invalid) as refused:
            enqueue(conn, "media.copy", **arguments)
        conn.commit()
    assert refused.value.field == field
    assert businesses(book) == 1


def test_a_payload_over_its_limit_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url) as conn, pytest.raises(TooLarge):
        enqueue(conn, "media.copy", {"x": "y" * 1_100_000})


def test_other_errors_of_the_database_pass_as_they_are(empty_database_url: str) -> None:
    with session(empty_database_url) as conn, pytest.raises(sa.exc.ProgrammingError):
        enqueue(conn, "media.copy")
    with psycopg.connect(empty_database_url) as conn, pytest.raises(psycopg.errors.InvalidSchemaName):
        enqueue(conn, "media.copy")
