"""The engine of a program: enqueue, signal, cancel, get, start, stop, and no broker."""

import datetime as dt
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.dev.waiting import wait_until
from celeriac import AlreadyEnded, Context, IdempotencyConflict, Invalid, NotFound, TaskEngine, task
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]


@task("copy", lease=30)
def copy(ctx: Context, input: dict[str, Any]) -> dict[str, Any]:
    path = ctx.step("plan", lambda: input["path"])
    if input.get("waits"):
        ctx.wait_for("approval")
    while gates.get(path) and not gates[path].wait(0.02):
        ctx.check()
    return {"path": path}


gates: dict[str, threading.Event] = {}


@pytest.fixture
def engine(fleet_url_db: str) -> Iterator[TaskEngine]:
    gates.clear()
    engine = TaskEngine(fleet_url_db, tasks=[copy])
    yield engine
    for gate in gates.values():
        gate.set()
    engine.stop()


def ended(engine: TaskEngine, task_run_id: str, state: str = "COMPLETED") -> None:
    def is_there() -> bool:
        view = engine.get(task_run_id)
        return view is not None and view.state == state

    wait_until(is_there, 20, what=state)


def test_what_is_enqueued_runs_and_can_be_looked_at(engine: TaskEngine) -> None:
    engine.start(concurrency=2)
    task_run_id = engine.enqueue("copy", {"path": "a"}, idempotency_key="a")
    ended(engine, task_run_id)
    view = engine.get(task_run_id)
    assert view is not None
    assert (view.kind, view.attempts, view.result, view.error) == ("copy", 1, {"path": "a"}, None)
    assert (view.last_step, view.waits_for) == ("plan", [])


def test_the_same_key_is_the_same_task(engine: TaskEngine) -> None:
    first = engine.enqueue("copy", {"path": "a"}, idempotency_key="k")
    assert engine.enqueue(copy, {"path": "a"}, idempotency_key="k") == first
    with pytest.raises(IdempotencyConflict):
        engine.enqueue("copy", {"path": "b"}, idempotency_key="k")


def test_it_may_be_available_later(engine: TaskEngine) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    view = engine.get(engine.enqueue("copy", {"path": "a"}, idempotency_key="a", available_at=later))
    assert view is not None
    assert view.state == "SCHEDULED"


def test_a_signal_says_how_many_it_woke_and_an_early_one_is_kept(engine: TaskEngine) -> None:
    assert engine.signal("approval", {"by": "Eva"}) == 0
    engine.start(concurrency=1)
    early = engine.enqueue("copy", {"path": "a", "waits": True}, idempotency_key="a")
    ended(engine, early)
    waiting = engine.enqueue("copy", {"path": "b", "waits": True}, idempotency_key="b")
    ended(engine, waiting, "WAITING")
    view = engine.get(waiting)
    assert view is not None
    assert view.waits_for == ["approval"]
    assert engine.signal("approval") == 1
    ended(engine, waiting)


def test_a_cancel_is_seen_by_the_handler_and_final(engine: TaskEngine, conn: Connection) -> None:
    gates["a"] = threading.Event()
    engine.start(concurrency=1)
    conn.execute(text("select * from celeriac.register_task_type('copy', lease_ms => 1500)"))
    held = engine.enqueue("copy", {"path": "a"}, idempotency_key="a")
    ended(engine, held, "LOCKED")
    engine.cancel(held, "changed my mind")
    engine.cancel(held, "again")
    after = engine.enqueue("copy", {"path": "b"}, idempotency_key="b")
    ended(engine, after)  # the only slot is free again: the handler was told
    view = engine.get(held)
    assert view is not None
    assert view.state == "CANCELED"
    with pytest.raises(AlreadyEnded):
        engine.cancel(after, "too late")
    with pytest.raises(NotFound):
        engine.cancel(str(uuid.uuid4()), "nobody")


def test_what_is_not_there_is_none_and_what_is_no_id_is_refused(engine: TaskEngine) -> None:
    assert engine.get(str(uuid.uuid4())) is None
    with pytest.raises(Invalid):
        engine.get("seven")


def test_stop_waits_for_what_runs_and_begins_nothing_more(engine: TaskEngine) -> None:
    gates["a"] = threading.Event()
    engine.start(concurrency=1)
    running = engine.enqueue("copy", {"path": "a"}, idempotency_key="a")
    ended(engine, running, "LOCKED")
    waiting = engine.enqueue("copy", {"path": "b"}, idempotency_key="b")
    stopping = threading.Thread(target=engine.stop)
    stopping.start()
    gates["a"].set()
    stopping.join(20)
    assert not stopping.is_alive()
    views = [engine.get(running), engine.get(waiting)]
    assert [view and view.state for view in views] == ["COMPLETED", "READY"]
    engine.start(concurrency=1)
    ended(engine, waiting)


def test_it_can_do_the_chores_as_well(fleet_url_db: str, carrier: Carrier) -> None:
    @task("naps", lease=30)
    def naps(ctx: Context) -> None:
        ctx.sleep(0.01)

    engine = TaskEngine(fleet_url_db, tasks=[naps])
    engine.start(roles=("worker", "chores"), concurrency=1)
    try:
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.1)
        ended(engine, engine.enqueue("naps", idempotency_key="a", available_at=soon))
    finally:
        engine.stop()


def test_roles_and_inputs_that_are_none_are_refused(engine: TaskEngine) -> None:
    with pytest.raises(ValueError, match="baker"):
        engine.start(roles=("baker",))
    engine.start()
    with pytest.raises(RuntimeError):
        engine.start()


def test_the_worker_is_known(engine: TaskEngine, conn: Connection) -> None:
    engine.start(concurrency=3)
    [worker] = conn.execute(text("select kind, task_types from celeriac.live_workers")).all()
    assert tuple(worker) == ("fleet", ["copy"])
    assert conn.execute(text("select delivery from celeriac.task_types")).scalars().all() == ["pull"]


def test_signals_without_a_pause_all_come_to_a_task_that_goes_on_in_a_fresh_one(
    fleet_url_db: str, conn: Connection
) -> None:
    """Case B26: each run takes ten and enqueues the next, which takes over what it has."""
    total = 200

    @task("collect", lease=30)
    def collect(ctx: Context, input: dict[str, Any]) -> dict[str, Any]:
        taken = list(input["taken"])
        for _ in range(10):
            signal = ctx.wait_for("number", "k")
            assert signal is not None
            taken.append(signal.payload)
        if len(taken) < total:
            ctx.enqueue(collect, {"taken": taken})
        return {"taken": taken}

    engine = TaskEngine(fleet_url_db, tasks=[collect])
    engine.start(concurrency=2)
    try:
        engine.enqueue(collect, {"taken": []}, idempotency_key="first")
        for number in range(total):
            engine.signal("number", number, key="k")
        statement = text("select count(*) from celeriac.task_list where state = 'COMPLETED'")
        wait_until(lambda: conn.execute(statement).scalar_one() == total // 10, 60, what="all runs")
    finally:
        engine.stop()
    taken = conn.execute(text("select result -> 'taken' from celeriac.task_detail")).scalars()
    longest = max((run if isinstance(run, list) else json.loads(run) for run in taken), key=len)
    assert sorted(longest) == list(range(total))


def test_after_a_cancel_what_undoes_a_step_does_not_come_before_it(
    fleet_url_db: str,
) -> None:
    told: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def charge() -> None:
        begun.set()
        go_on.wait(20)
        told.append("charge")

    @task("order", lease=30)
    def order(ctx: Context) -> None:
        ctx.step("book", told.append, "book", compensate=lambda name: told.append("unbook"))
        ctx.step("charge", charge, compensate=lambda: told.append("refund"))
        ctx.step("never", told.append, "never")

    engine = TaskEngine(fleet_url_db, tasks=[order])
    try:
        engine.start(concurrency=2)
        task_run_id = engine.enqueue("order", {}, idempotency_key="a")
        assert begun.wait(20)
        engine.cancel(task_run_id, "sold out", compensate=True)
        view = engine.get(task_run_id)
        assert view is not None
        assert view.state == "SCHEDULED"
        go_on.set()
        ended(engine, task_run_id, "CANCELED")
    finally:
        go_on.set()
        engine.stop()
    assert told == ["book", "charge", "refund", "unbook"]
