"""Every call of a durable task needs: this lease, this owner, this principal, this token, in time."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from app.dev.postgres import EmbeddedPostgres
from db.engine import sync_engine
from db.errors import AlreadyEnded, Canceled, Invalid, LeaseExpired, LeaseLost, NotFound, StaleToken
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step
from tests.db.overlap import overlap

NOBODY = UUID(int=7)
FETCH = "select task_id, fencing_token from celeriac.fetch_tasks('w1', '{mail}', 1)"
RECORD = """
    select celeriac.record_steps(%s, 'w1', %s, '[{"ordinal": 1, "kind": "transaction", "name": "order"}]')
"""
Call = Callable[..., Any]
CALLS: dict[str, Call] = {
    "record_steps": lambda ledger, task, **changed: ledger.record(task, step(), **changed),
    "read_steps": Ledger.steps,
    "begin_operation": Ledger.begin,
    "settle_operation": lambda ledger, task, **changed: ledger.settle(task, NOBODY, **changed),
    "settle_operation unknown": lambda ledger, task, **changed: ledger.settle(task, NOBODY, "UNKNOWN", **changed),
    "raise_incident": Ledger.incident,
    "register_compensation": Ledger.register,
    "read_compensations": Ledger.compensations,
    "settle_compensation": lambda ledger, task, **changed: ledger.undone(task, 1, **changed),
    "finish_undo": Ledger.finish,
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_call
def test_a_stale_token_is_refused(clerk: Clerk, ledger: Ledger, clock: Clock, call: Call) -> None:
    """Case B64: the frozen worker wakes up, before the second one is done."""
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    clerk.fetch(worker_id="w2")
    with clerk.refuses(StaleToken):
        call(ledger, zombie)


@every_call
def test_a_token_is_needed(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    """A worker without one could be the one from before."""
    task = clerk.held()
    with clerk.refuses(LeaseLost):
        call(ledger, task, fencing_token=None)


@every_call
def test_another_worker_is_refused(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    task = clerk.held()
    with clerk.refuses(LeaseLost):
        call(ledger, task, worker_id="w2")
    with clerk.refuses(Invalid, "worker_id"):
        call(ledger, task, worker_id="")


@every_call
def test_a_lease_of_another_principal_is_refused(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    """The principal is who is logged in; nobody can say it is another."""
    clerk.enqueue()
    (task,) = clerk.fetch(principal="the api")
    with clerk.refuses(LeaseLost):
        call(ledger, task)


@every_call
def test_an_expired_lease_is_refused_though_nobody_took_the_task(
    clerk: Clerk, ledger: Ledger, clock: Clock, call: Call
) -> None:
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(1)
    with clerk.refuses(LeaseExpired):
        call(ledger, task)


@every_call
def test_a_task_that_nobody_holds_is_refused(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    task = clerk.held()
    clerk.release(task)
    with clerk.refuses(LeaseLost):
        call(ledger, task)


@every_call
def test_an_ended_task_is_refused(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    for task, refusal in ((clerk.done(), AlreadyEnded), (clerk.dead(), AlreadyEnded)):
        with clerk.refuses(refusal):
            call(ledger, task)
    canceled = clerk.held()
    clerk.cancel(canceled.task_id)
    with clerk.refuses(Canceled):
        call(ledger, canceled)


@every_call
def test_a_task_that_waits_is_refused(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    task = clerk.held()
    ledger.unknown(task)
    if call is Ledger.incident:
        assert ledger.open_incidents()[0]["incident_id"] == call(ledger, task)
    else:
        with clerk.refuses(LeaseLost):
            call(ledger, task)


@every_call
def test_a_task_that_never_was_is_refused(clerk: Clerk, ledger: Ledger, call: Call) -> None:
    task = clerk.held()
    with clerk.refuses(NotFound):
        call(ledger, task, task_id=NOBODY)


def test_a_sweep_passes_by_while_something_is_written(
    clerk: Clerk, ledger: Ledger, clock: Clock, database_url: str
) -> None:
    """What was written under the lease was written in time, though its commit comes after the end of the lease."""
    task = clerk.held(lock_duration_ms=1000)
    clock.freeze()

    def record_and_linger(clerk: Clerk) -> int:
        recorded = Ledger(clerk).record(task, step())
        clock.advance(2)
        return recorded

    recorded, swept = overlap(database_url, record_and_linger, lambda clerk: clerk.one("expire_leases"))
    assert (recorded, swept.expired) == (1, 0)
    assert clerk.one("expire_leases").expired == 1
    assert clerk.scalar("select count(*) from celeriac.step") == 1


@pytest.mark.parametrize("keep", [True, False])
def test_a_cancel_waits_for_what_is_being_written(clerk: Clerk, ledger: Ledger, database_url: str, keep: bool) -> None:
    task = clerk.held()
    recorded, canceled = overlap(
        database_url,
        lambda clerk: Ledger(clerk).record(task, step()),
        lambda clerk: clerk.cancel(task.task_id),
        keep=keep,
    )
    assert (recorded, canceled.state) == (1, "CANCELED")
    assert clerk.scalar("select count(*) from celeriac.step") == int(keep)


def test_what_is_written_after_a_cancel_is_refused(clerk: Clerk, ledger: Ledger, database_url: str) -> None:
    task = clerk.held()
    _, recorded = overlap(
        database_url, lambda clerk: clerk.cancel(task.task_id), lambda clerk: Ledger(clerk).record(task, step())
    )
    assert isinstance(recorded, Canceled)
    assert clerk.scalar("select count(*) from celeriac.step") == 0


def test_a_cancel_that_is_rolled_back_lets_it_be_written(clerk: Clerk, ledger: Ledger, database_url: str) -> None:
    task = clerk.held()
    _, recorded = overlap(
        database_url,
        lambda clerk: clerk.cancel(task.task_id),
        lambda clerk: Ledger(clerk).record(task, step()),
        keep=False,
    )
    assert recorded == 1


def test_it_commits_together_with_what_its_caller_writes(clerk: Clerk, ledger: Ledger, database_url: str) -> None:
    clerk.run("create table public.orders (id integer)")
    task = clerk.held()
    with psycopg.connect(database_url) as connection:
        for end in (connection.rollback, connection.commit):
            connection.execute("insert into public.orders values (1)")
            connection.execute(RECORD, (task.task_id, task.fencing_token))
            end()
            count = clerk.scalar("select count(*) from public.orders")
            assert len(ledger.steps(task)) == count
    assert count == 1


def test_a_zombie_cannot_commit_what_it_wrote_in_its_own_tables(clerk: Clerk, clock: Clock, database_url: str) -> None:
    """Case B64: the fence check is part of the business transaction."""
    clerk.run("create table public.orders (id integer)")
    task = clerk.held(lock_duration_ms=1000)
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into public.orders values (1)")
        clock.advance(2)
        clerk.fetch(worker_id="w2")
        with pytest.raises(psycopg.Error, match="stale"):
            connection.execute(RECORD, (task.task_id, task.fencing_token))
    assert clerk.scalar("select count(*) from public.orders") == 0


def test_the_principal_is_who_is_logged_in(clerk: Clerk, postgres: EmbeddedPostgres) -> None:
    """A fleet worker that knows the token of another fleet's task can do nothing with it."""
    clerk.enqueue()
    clerk.run("create role fleet_a login in role celeriac_fleet; create role fleet_b login in role celeriac_fleet")
    try:
        database = clerk.scalar("select current_database()")
        urls = [f"postgresql://{role}@127.0.0.1:{postgres.port}/{database}" for role in ("fleet_a", "fleet_b")]
        with psycopg.connect(urls[0], autocommit=True) as mine, psycopg.connect(urls[1], autocommit=True) as other:
            fetched = mine.execute(FETCH).fetchone()
            with pytest.raises(psycopg.Error, match="another worker"):
                other.execute(RECORD, fetched)
            mine.execute(RECORD, fetched)
    finally:
        clerk.run("drop role fleet_a; drop role fleet_b")


@pytest.mark.parametrize("role", ["celeriac_api", "celeriac_fleet"])
def test_a_role_can_do_all_of_it(clerk: Clerk, database_url: str, role: str) -> None:
    engine = sync_engine(f"{database_url}?options=-crole%3D{role}", pool_size=1)
    with engine.connect() as connection:
        ledger = Ledger(Clerk(connection))
        task = ledger.clerk.held()
        ledger.record(task, step(1))
        ledger.register(task, 2)
        ledger.resolve(ledger.unknown(task, ordinal=2), "DONE")
        (task,) = ledger.clerk.fetch()
        assert [row.kind for row in ledger.steps(task)] == ["step", "operation"]
        ledger.decide(ledger.incident(task), "fail")
        (task,) = ledger.clerk.fetch()
        ledger.undone(task, ledger.compensations(task)[0].number)
        assert ledger.finish(task) == "FAILED"
    engine.dispose()
