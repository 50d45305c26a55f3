"""A lease that is lost, a task that is canceled, a server that is away: what durable calls do then."""

import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.orm import sessionmaker

from app.dev.postgres import EmbeddedPostgres
from celeriac import Canceled, Conflict, Context, RetryPolicy, SoftTimeLimitExceeded, StepFailed, _faults, task
from celeriac._lease import Lease
from celeriac.durable._transactions import Transactions
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)


def fetched(carrier: Carrier) -> tuple[Lease, str]:
    one = carrier.fetch()
    assert one is not None
    return one


@pytest.mark.parametrize("kind", ["step", "operation", "transaction", "wait", "enqueue"])
def test_no_durable_call_of_a_frozen_worker_changes_anything(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects, kind: str
) -> None:
    """B64: it wakes after another one has taken over; that one's work stays as it is."""

    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        if ctx.attempt == 2:
            return {"by": "the other"}
        carrier.expire()
        assert carrier.attempt() is not None
        before.append(rows())
        with pytest.raises(Conflict):
            late(ctx)
        with pytest.raises(Conflict):
            ctx.step("and then", effect, "and then")
        return {"by": "the frozen"}

    def late(ctx: Context) -> None:
        match kind:
            case "step":
                ctx.step("late", effect, "late")
            case "operation":
                ctx.operation("late", 1, do=lambda plan: effect("late"))
            case "transaction":
                with ctx.transaction() as session:
                    session.execute("insert into asset values ('late')")
            case "wait":
                ctx.sleep(1)
            case _:
                ctx.enqueue("order")

    def rows() -> Any:
        tables = ("task", "queue", "step", "operation", "wait", "waiting", "incident")
        return [conn.execute(text(f"select count(*), min(t::text) from celeriac.{name} t")).one() for name in tables]

    before: list[Any] = []
    carrier.install(order)
    task_id = carrier.enqueue(order)
    carrier.carry(*fetched(carrier))
    assert carrier.result(task_id) == {"by": "the other"}
    assert "and then" not in effects()
    assert rows() == before[0]


def test_a_handler_learns_of_its_cancel_in_check_and_in_every_call(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        assert not ctx.canceled.is_set()
        lease.end(Canceled("by the keeper"))
        assert ctx.canceled.is_set()
        with pytest.raises(Canceled):
            ctx.check()
        ctx.step("never", effect, "never")

    carrier.install(order)
    carrier.enqueue(order)
    lease, worker_id = fetched(carrier)
    assert carrier.carry(lease, worker_id).outcome is None
    assert effects() == []


def test_a_time_limit_ends_the_attempt_at_its_next_call_and_no_step_is_tried_again(carrier: Carrier) -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        lease.interrupt(SoftTimeLimitExceeded("60 s are over"))
        raise SoftTimeLimitExceeded("60 s are over")

    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        try:
            ctx.step("work", work, retry=RetryPolicy(attempts=9, first=0))
        except SoftTimeLimitExceeded:
            ctx.step("more", work)

    carrier.install(order)
    task_id = carrier.enqueue(order)
    lease, worker_id = fetched(carrier)
    carrier.carry(lease, worker_id)
    assert "SoftTimeLimitExceeded: 60 s are over" in carrier.task(task_id).error
    assert len(tries) == 1


def test_a_pause_between_tries_ends_with_the_lease(carrier: Carrier) -> None:
    def work() -> None:
        lease.end(Canceled("no"))
        raise ConnectionError("busy")

    @task("order")
    def order(ctx: Context) -> None:
        ctx.step("work", work, retry=RetryPolicy(attempts=2, first=3600, cap=3600))

    carrier.install(order)
    carrier.enqueue(order)
    lease, worker_id = fetched(carrier)
    assert carrier.carry(lease, worker_id).outcome is None


def test_a_server_that_is_away_between_a_step_and_its_record_costs_nothing(
    carrier: Carrier, postgres: EmbeddedPostgres, fleet_url_db: str, tmp_path: Any
) -> None:
    ran: list[str] = []

    def work() -> str:
        ran.append("work")
        return "done"

    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        return {"work": ctx.step("work", work)}

    back = threading.Timer(0.5, postgres.start)

    def stop(name: str, subject: str) -> None:
        if name == "step.record.before":
            postgres.stop()
            back.start()

    carrier.install(order)
    task_id = carrier.enqueue(order)
    one = fetched(carrier)
    _faults.arm(stop)
    made = carrier.carry(*one)
    back.join()
    assert made.outcome is not None
    assert ran == ["work"]
    with psycopg.connect(fleet_url_db) as connection:
        row = connection.execute("select state from celeriac.task_list where task_id = %s", [task_id]).fetchone()
    assert row == ("COMPLETED",)


def test_a_connection_that_is_cut_in_a_transaction_fails_the_step_or_is_already_on_record(
    carrier: Carrier, conn: Connection, effects: Effects
) -> None:
    """The commit may have come through or not: the next attempt reads which."""

    @task("order", retry=RetryPolicy(attempts=3, first=0))
    def order(ctx: Context) -> None:
        with ctx.transaction() as session:
            session.execute("insert into asset values ('a')")
            if ctx.attempt == 1:
                pid = session.info.backend_pid
                conn.execute(text("select pg_terminate_backend(:pid)"), {"pid": pid})

    task_id = carrier.start(order)
    assert (carrier.state(task_id), carrier.task(task_id).attempts) == ("COMPLETED", 2)


def test_connections_of_an_engine_that_came_through_a_fork_are_not_used(carrier: Carrier, fleet_url_db: str) -> None:
    engine = create_engine(fleet_url_db.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        parent = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
    transactions = Transactions(sessionmaker(engine), carrier.database)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        with transactions.open() as session:
            os.write(writing, str(session.execute(text("select pg_backend_pid()")).scalar_one()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 100)) != parent
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select pg_backend_pid()").scalar_one() == parent
    engine.dispose()


def test_a_failure_to_go_on_from_is_not_taken_for_one_when_the_lease_is_gone(
    carrier: Carrier, effects: Effects
) -> None:
    def work() -> None:
        carrier.expire()
        assert carrier.attempt() is not None
        raise ConnectionError("busy")

    @task("order")
    def order(ctx: Context) -> None:
        if ctx.attempt == 2:
            return
        try:
            ctx.step("work", work)
        except StepFailed:
            ctx.step("instead", lambda: 1)

    carrier.install(order)
    task_id = carrier.enqueue(order)
    assert carrier.carry(*fetched(carrier)).outcome is None
    assert carrier.state(task_id) == "COMPLETED"
    assert carrier.steps(task_id) == []
