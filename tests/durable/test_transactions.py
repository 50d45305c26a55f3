"""The user's writes, the proof that the lease holds, and the record of the step: one commit."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from celeriac import AsyncContext, Context, RetryPolicy, StepFailed, enqueue, send_signal, task
from tests.clock import Clock
from tests.durable.carrier import LEASE_SECONDS, Carrier

Assets = Callable[[], list[str]]
Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)
SOURCES = ["default", "sessionmaker", "engine", "session", "connection", "psycopg", "function"]


@pytest.fixture
def engine(fleet_url_db: str) -> Iterator[Engine]:
    engine = create_engine(fleet_url_db.replace("postgresql://", "postgresql+psycopg://"))
    yield engine
    engine.dispose()


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, engine: Engine, fleet_url_db: str) -> Iterator[Any]:
    match request.param:
        case "default":
            yield None
        case "sessionmaker":
            yield sessionmaker(engine)
        case "engine":
            yield engine
        case "session":
            with Session(engine) as session:
                yield session
        case "connection":
            with engine.connect() as connection:
                yield connection
        case "psycopg":
            with psycopg.connect(fleet_url_db) as connection:
                yield connection
        case "function":
            yield lambda: Session(engine)


def insert(session: Any, path: str) -> None:
    """On whatever it is."""
    statement = f"insert into asset values ('{path}')"
    session.execute(statement if isinstance(session, psycopg.Connection) else text(statement))


def test_writes_are_committed_once_with_their_record(
    carrier: Carrier, source: Any, assets: Assets, effect: Effect, effects: Effects
) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        with ctx.transaction(source) as session:
            effect("body")
            insert(session, "a")
        ctx.step("after", effect, "after")

    with carrier.killed_at("step.record.before"):
        task_id = carrier.start(order)
    assert assets() == ["a"]
    carrier.take_over()
    assert carrier.state(task_id) == "COMPLETED"
    assert assets() == ["a"]
    assert effects() == ["body", "after", "body", "after"]
    assert carrier.steps(task_id)[0] == ("", 1, "transaction", "transaction")


@pytest.mark.parametrize(
    ("point", "before"),
    [
        ("transaction.body.after", []),
        ("transaction.record.before", []),
        ("transaction.record.after", []),
        ("transaction.commit.before", []),
        ("transaction.commit.after", ["a"]),
    ],
)
def test_wherever_the_worker_dies_the_row_and_its_record_stay_together(
    carrier: Carrier, source: Any, assets: Assets, point: str, before: list[str]
) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        with ctx.transaction(source) as session:
            insert(session, "a")

    with carrier.killed_at(point):
        task_id = carrier.start(order)
    assert (assets(), len(carrier.steps(task_id))) == (before, len(before))
    carrier.take_over()
    assert carrier.state(task_id) == "COMPLETED"
    assert (assets(), len(carrier.steps(task_id))) == (["a"], 1)


@pytest.mark.parametrize("by", ["expiry", "another worker", "cancel"])
def test_a_lease_that_was_lost_between_write_and_commit_takes_the_writes_along(
    carrier: Carrier, source: Any, assets: Assets, clock: Clock, conn: Connection, by: str
) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        if len(late) == 1:
            return  # the other worker
        late.append(ctx)
        with ctx.transaction(source) as session:
            insert(session, "late")
            if by == "cancel":
                conn.execute(text("select * from celeriac.cancel_task(:id)"), {"id": ctx.task_id})
            else:
                clock.advance(LEASE_SECONDS + 1)
            if by == "another worker":
                conn.execute(text("select * from celeriac.expire_leases()"))
                assert carrier.attempt() is not None

    late: list[Context] = []
    carrier.install(order)
    task_id = carrier.enqueue(order)
    made = carrier.attempt()
    assert made is not None
    assert made.outcome is None  # it stopped: there is nothing to report
    with pytest.raises(Exception, match=r"(?i)lease|token|cancel|ended"):
        late[0].check()
    assert (assets(), carrier.steps(task_id)) == ([], [])
    assert carrier.state(task_id) == {"expiry": "LOCKED", "another worker": "COMPLETED", "cancel": "CANCELED"}[by]


def test_an_error_in_the_block_rolls_back_and_is_the_steps_failure(
    carrier: Carrier, source: Any, assets: Assets, effect: Effect
) -> None:
    errors: list[str] = []

    @task("order")
    def order(ctx: Context) -> None:
        try:
            with ctx.transaction(source, name="rows") as session:
                insert(session, "a")
                insert(session, "a")
        except StepFailed as failed:
            errors.append(failed.error)
        with ctx.transaction(source) as session:
            insert(session, "b")

    with carrier.killed_at("attempt.end"):
        task_id = carrier.start(order)
    carrier.take_over()
    assert carrier.state(task_id) == "COMPLETED"
    assert assets() == ["b"]
    assert "duplicate key" in errors[0]
    assert errors[0] == errors[1]


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
def test_a_transaction_that_is_ended_inside_of_its_block_saves_nothing(
    carrier: Carrier, source: Any, assets: Assets, how: str
) -> None:
    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        with ctx.transaction(source) as session:
            insert(session, "a")
            with suppress(Exception):  # what must not be done
                getattr(session, how)()

    task_id = carrier.start(order)
    assert carrier.state(task_id) in ("FAILED", "COMPLETED")
    assert len(assets()) == len(carrier.steps(task_id)), (assets(), carrier.steps(task_id))
    if carrier.state(task_id) == "FAILED":
        assert assets() == []
        assert re.search("was ended inside of its block|connection is closed", carrier.task(task_id).error)
    else:  # the driver has refused it
        assert assets() == ["a"]


@pytest.mark.parametrize("statement", ["commit", "rollback"])
def test_nor_does_one_that_is_ended_by_a_statement(carrier: Carrier, assets: Assets, statement: str) -> None:
    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        with ctx.transaction() as session:
            session.execute(statement)

    task_id = carrier.start(order)
    assert "was ended inside of its block" in carrier.task(task_id).error
    assert carrier.steps(task_id) == []


@pytest.mark.parametrize("then", ["nothing", "write", "error"])
def test_what_a_raw_commit_has_saved_is_never_written_again(
    carrier: Carrier, source: Any, assets: Assets, then: str
) -> None:
    @task("order", retry=RetryPolicy(attempts=3, first=0))
    def order(ctx: Context) -> None:
        with ctx.transaction(source) as session:
            raw = isinstance(session, psycopg.Connection)
            insert(session, f"row {len(assets())}")
            session.execute("commit" if raw else text("commit"))
            if then == "nothing":
                return
            if raw:
                session.execute("begin")
            insert(session, f"more {len(assets())}")
            if then == "error":
                raise ZeroDivisionError

    task_id = carrier.start(order)
    carrier.run()
    assert carrier.state(task_id) == "FAILED"
    assert "was ended inside of its block by a statement" in carrier.task(task_id).error
    assert (assets(), carrier.steps(task_id)) == (["row 0"], [])


@pytest.mark.parametrize("then", ["nothing", "error"])
@pytest.mark.parametrize("kind", ["session", "connection", "psycopg"])
async def test_what_a_raw_commit_has_saved_is_never_written_again_by_async_handlers(
    carrier: Carrier, fleet_url_db: str, assets: Assets, kind: str, then: str
) -> None:
    aengine = create_async_engine(fleet_url_db.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    sources: dict[str, Any] = {"session": async_sessionmaker(aengine), "connection": aengine, "psycopg": None}

    @task("order", retry=RetryPolicy(attempts=3, first=0))
    async def order(ctx: AsyncContext) -> None:
        async with ctx.transaction(sources[kind]) as session:
            written: list[Any] = [f"insert into asset values ('row {len(assets())}')", "commit"]
            if kind == "psycopg":
                written.append("begin")
            for statement in written:
                await session.execute(statement if kind == "psycopg" else text(statement))
            if then == "error":
                raise ZeroDivisionError

    task_id = await asyncio.to_thread(carrier.start, order)
    assert carrier.state(task_id) == "FAILED"
    assert "was ended inside of its block by a statement" in carrier.task(task_id).error
    assert (assets(), carrier.steps(task_id)) == (["row 0"], [])


def test_an_engine_that_commits_each_statement_is_no_source(carrier: Carrier, engine: Engine, assets: Assets) -> None:
    @task("order", retry=RetryPolicy(attempts=3, first=0))
    def order(ctx: Context) -> None:
        with ctx.transaction(engine.execution_options(isolation_level="AUTOCOMMIT")) as connection:
            insert(connection, f"row {len(assets())}")

    task_id = carrier.start(order)
    assert "autocommit" in carrier.task(task_id).error
    assert (assets(), carrier.steps(task_id)) == (["row 0"], [])


def test_the_block_may_choose_its_isolation_level(carrier: Carrier, engine: Engine, assets: Assets) -> None:
    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute("set transaction isolation level serializable")
            insert(connection, "a")
        with ctx.transaction(sessionmaker(engine)) as session:
            session.connection(execution_options={"isolation_level": "SERIALIZABLE"})
            levels.append(session.execute(text("show transaction_isolation")).scalar_one())

    levels: list[str] = []
    task_id = carrier.start(order)
    assert carrier.state(task_id) == "COMPLETED"
    assert (assets(), levels) == (["a"], ["serializable"])


def test_savepoints_are_the_users_own_business(carrier: Carrier, engine: Engine, assets: Assets) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        with ctx.transaction(sessionmaker(engine)) as session:
            insert(session, "a")
            with suppress(ZeroDivisionError), session.begin_nested():
                insert(session, "b")
                raise ZeroDivisionError
            with session.begin_nested():
                insert(session, "c")

    carrier.start(order)
    assert assets() == ["a", "c"]


def test_a_session_that_is_in_a_transaction_is_not_taken(carrier: Carrier, engine: Engine, assets: Assets) -> None:
    with Session(engine) as session:

        @task("order", retry=ONCE)
        def order(ctx: Context) -> None:
            insert(session, "mine")
            with ctx.transaction(session):
                pass

        task_id = carrier.start(order)
    assert "is in a transaction already" in carrier.task(task_id).error
    assert assets() == []


def test_tasks_and_signals_of_the_block_are_sent_with_it(carrier: Carrier, engine: Engine) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        with ctx.transaction(engine) as connection:
            enqueue(connection, "mail")
            send_signal(connection, "ordered")

    @task("waits")
    def waits(ctx: Context) -> None:
        ctx.wait_for("ordered")

    carrier.install(order, waits)
    waiting = carrier.enqueue(waits)
    carrier.run()
    task_id = carrier.enqueue(order)
    carrier.run()
    assert (carrier.state(task_id), carrier.state(waiting)) == ("COMPLETED", "COMPLETED")


def test_what_transact_returns_is_kept_and_its_function_is_skipped(
    carrier: Carrier, source: Any, assets: Assets, effect: Effect, effects: Effects
) -> None:
    def add(session: Any, path: str) -> tuple[str, int]:
        effect("add")
        insert(session, path)
        return path, len(effects())

    got: list[Any] = []

    @task("order")
    def order(ctx: Context) -> None:
        got.append(ctx.transact("add", add, "a", source=source))

    with carrier.killed_at("attempt.end"):
        carrier.start(order)
    carrier.take_over()
    assert got == [("a", 1), ("a", 1)]
    assert (assets(), effects()) == (["a"], ["add"])


def test_a_result_of_transact_that_cannot_be_stored_rolls_back(carrier: Carrier, source: Any, assets: Assets) -> None:
    def add(session: Any) -> Any:
        insert(session, "a")
        return object()

    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        ctx.transact("add", add, source=source)

    task_id = carrier.start(order)
    assert "its result cannot be stored" in carrier.task(task_id).error
    assert assets() == []


def test_what_was_configured_is_the_default(carrier: Carrier, engine: Engine, assets: Assets) -> None:
    kinds: list[bool] = []

    @task("order")
    def order(ctx: Context) -> None:
        with ctx.transaction() as session:
            kinds.append(isinstance(session, Session))
            insert(session, "a")

    carrier.source = sessionmaker(engine)
    carrier.start(order)
    assert (kinds, assets()) == ([True], ["a"])


def test_what_a_handler_does_to_its_connection_meets_no_other_call(carrier: Carrier) -> None:
    rows: list[Any] = []

    @task("order")
    def order(ctx: Context) -> None:
        for _ in range(2):
            with ctx.transaction() as session:
                rows.append(session.execute("select count(*) as rows from asset").fetchone())
                session.row_factory = psycopg.rows.dict_row
                session.execute("set search_path = nowhere")
        ctx.step("after", lambda: 1)

    assert carrier.state(carrier.start(order)) == "COMPLETED"
    assert rows == [(0,), (0,)]


def test_a_source_that_is_none_says_so(carrier: Carrier) -> None:
    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        with ctx.transaction(lambda: 3):
            pass

    assert "a int is no source of transactions" in carrier.task(carrier.start(order)).error


def test_the_database_user_must_be_the_one_that_holds_the_lease(
    carrier: Carrier, conn: Connection, fleet_url_db: str, assets: Assets
) -> None:
    conn.execute(text("drop role if exists celeriac_test_other"))
    conn.execute(text("create role celeriac_test_other login in role celeriac_fleet"))
    other = psycopg.conninfo.make_conninfo(fleet_url_db, user="celeriac_test_other")

    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        with ctx.transaction(lambda: psycopg.connect(other)) as session:
            insert(session, "a")

    task_id = carrier.start(order)
    conn.execute(text("drop role celeriac_test_other"))
    assert assets() == []
    assert carrier.state(task_id) == "FAILED"
    assert "not by the database user of this transaction" in carrier.task(task_id).error


@pytest.fixture
async def aengine(fleet_url_db: str) -> AsyncEngine:
    return create_async_engine(fleet_url_db.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)


@pytest.mark.parametrize("kind", ["default", "sessionmaker", "engine", "function"])
@pytest.mark.parametrize("point", ["transaction.commit.before", "transaction.commit.after"])
def test_async_handlers_have_the_same(
    carrier: Carrier, aengine: AsyncEngine, fleet_url_db: str, assets: Assets, kind: str, point: str
) -> None:
    sources: dict[str, Any] = {
        "default": None,
        "sessionmaker": async_sessionmaker(aengine),
        "engine": aengine,
        "function": lambda: async_sessionmaker(aengine)(),
    }

    async def add(session: Any, path: str) -> str:
        await ainsert(session, path)
        return path

    @task("order")
    async def order(ctx: AsyncContext) -> dict[str, Any]:
        async with ctx.transaction(sources[kind]) as session:
            await ainsert(session, "a")
        return {"path": await ctx.transact("add", add, "b", source=sources[kind])}

    with carrier.killed_at(point, time=2):
        task_id = carrier.start(order)
    carrier.take_over()
    assert carrier.result(task_id) == {"path": "b"}
    assert assets() == ["a", "b"]


async def ainsert(session: Any, path: str) -> None:
    statement = f"insert into asset values ('{path}')"
    await session.execute(statement if isinstance(session, psycopg.AsyncConnection) else text(statement))


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
@pytest.mark.parametrize("kind", ["default", "sessionmaker", "engine"])
def test_async_transactions_end_with_their_block_too(
    carrier: Carrier, aengine: AsyncEngine, assets: Assets, kind: str, how: str
) -> None:
    sources: dict[str, Any] = {"default": None, "sessionmaker": async_sessionmaker(aengine), "engine": aengine}

    @task("order", retry=ONCE)
    async def order(ctx: AsyncContext) -> None:
        async with ctx.transaction(sources[kind]) as session:
            await ainsert(session, "a")
            with suppress(Exception):
                await getattr(session, how)()

    task_id = carrier.start(order)
    assert len(assets()) == len(carrier.steps(task_id))
    assert assets() == ([] if carrier.state(task_id) == "FAILED" else ["a"])


def test_an_async_handler_needs_an_async_source(carrier: Carrier, engine: Engine) -> None:
    @task("order", retry=ONCE)
    async def order(ctx: AsyncContext) -> None:
        async with ctx.transaction(engine):
            pass

    assert "is no source of transactions for an async handler" in carrier.task(carrier.start(order)).error


@pytest.mark.parametrize("when", ["write", "record"])
def test_a_process_that_is_killed_inside_of_a_transaction_leaves_nothing(
    carrier: Carrier, conn: Connection, fleet_url_db: str, assets: Assets, when: str
) -> None:
    program = Path(__file__).parent / "dies_in_transaction.py"
    arguments = [sys.executable, str(program), fleet_url_db, when]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -9, ended.stderr
    task_id = ended.stdout.strip()
    assert (assets(), carrier.steps(task_id), carrier.state(task_id)) == ([], [], "LOCKED")

    @task("order")
    def order(ctx: Context) -> None:
        with ctx.transaction() as session:
            insert(session, "a")

    carrier.install(order)
    carrier.take_over()
    assert (assets(), carrier.state(task_id)) == (["a"], "COMPLETED")
