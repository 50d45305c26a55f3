"""What a task did before it failed for good is undone, newest first, and each of it once."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text

from celeriac import Context, Fatal, NotDone, Retry, RetryPolicy, StepFailed, task
from celeriac.durable._declaration import DurableTask
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)
AT_ONCE = RetryPolicy(attempts=2, first=0)


@pytest.fixture
def trip(effect: Effect) -> DurableTask:
    def undo(name: str, result: str | None) -> None:
        effect(f"undo {name} ({result})")

    def book(name: str) -> str:
        return effect(name)

    def fails(name: str) -> str:
        effect(name)
        raise ConnectionError("sold out")

    @task("trip", retry=ONCE, compensate_retry=AT_ONCE)
    def trip(ctx: Context) -> None:
        ctx.step("flight", book, "flight", compensate=undo)
        ctx.operation("hotel", "hotel", do=book, compensate=undo)
        ctx.step("insurance", book, "insurance")
        ctx.gather(
            lambda: ctx.step("car", book, "car", compensate=undo), lambda: ctx.step("map", book, "map", compensate=undo)
        )
        ctx.step("dinner", fails, "dinner", compensate=undo)
        ctx.step("never", book, "never", compensate=undo)

    return trip


DONE = ["flight", "hotel", "insurance", "car", "map", "dinner"]
UNDONE = ["undo dinner (None)", "undo map (map)", "undo car (car)", "undo hotel (hotel)", "undo flight (flight)"]


def in_order(names: list[str]) -> list[str]:
    """Of the two branches either may be the newest."""
    return [{"car": "map", "undo car (car)": "undo map (map)"}.get(name, name) for name in names]


def test_all_that_was_begun_is_undone_newest_first(carrier: Carrier, trip: DurableTask, effects: Effects) -> None:
    task_id = carrier.start(trip)
    assert in_order(effects()) == in_order(DONE + UNDONE)
    ended = carrier.task(task_id)
    assert ended.state == "FAILED"
    assert "'dinner' failed: ConnectionError: sold out" in ended.error


def test_what_has_retries_left_is_not_undone(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("trip", retry=RetryPolicy(attempts=3, first=0))
    def trip(ctx: Context) -> None:
        ctx.step("flight", effect, "flight", compensate=lambda name: effect("undo"))
        if ctx.attempt < 3:
            raise Retry("later", after=0)

    assert carrier.state(carrier.start(trip)) == "COMPLETED"
    assert effects() == ["flight"]


POINTS = [
    "attempt.begin",
    "steps.read.before",
    "undo.do.before",
    "undo.settle.before",
    "undo.settle.after",
    "undo.finish.before",
    "undo.finish.after",
]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("time", [1, 3])
def test_an_undo_goes_on_where_its_worker_died(
    carrier: Carrier, trip: DurableTask, effects: Effects, point: str, time: int
) -> None:
    carrier.install(trip)
    task_id = carrier.enqueue(trip)
    assert carrier.attempt() is not None  # it fails, and is to be undone
    assert carrier.state(task_id) == "READY"
    time = time if point.startswith(("undo.do", "undo.settle")) else 1
    with carrier.killed_at(point, time=time):
        carrier.run()
    carrier.take_over()
    assert carrier.state(task_id) == "FAILED"
    undone = [name for name in effects() if name.startswith("undo")]
    if point == "undo.settle.before":  # it was undone, but nobody knew
        undone.remove(undone[time])
    assert in_order(undone) == in_order(UNDONE)


def test_a_failing_undo_is_an_incident_and_those_before_it_wait(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects
) -> None:
    """B35.6: step 3 of 5 fails; steps 1 and 2 have undos, and that of step 2 always fails."""
    broken = [True]

    def undo_two(name: str) -> None:
        effect("try to undo two")
        if broken[0]:
            raise ConnectionError("still down")

    def three() -> None:
        raise Fatal("no")

    @task("saga", compensate_retry=AT_ONCE)
    def saga(ctx: Context) -> None:
        ctx.step("one", effect, "one", compensate=lambda name: effect("undo one"))
        ctx.step("two", effect, "two", compensate=undo_two)
        ctx.step("three", three)
        ctx.step("four", effect, "four")
        ctx.step("five", effect, "five")

    task_id = carrier.start(saga)
    assert effects() == ["one", "two", "try to undo two", "try to undo two"]
    assert carrier.state(task_id) == "WAITING"  # not reported as rolled back
    [incident] = carrier.incidents()
    assert (incident.kind, incident.name) == ("undo_failed", "two")
    assert "ConnectionError: still down" in incident.message

    carrier.resolve("retry")  # nothing was mended
    assert carrier.state(task_id) == "WAITING"
    assert "undo one" not in effects()
    broken.clear()
    broken.append(False)
    carrier.resolve("retry")
    assert carrier.state(task_id) == "FAILED"
    assert effects()[-2:] == ["try to undo two", "undo one"]
    assert effects().count("undo one") == 1


def test_a_person_may_skip_an_undo(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def impossible(name: str) -> None:
        raise ConnectionError("gone")

    @task("saga", retry=ONCE, compensate_retry=ONCE)
    def saga(ctx: Context) -> None:
        ctx.step("one", effect, "one", compensate=lambda name: effect("undo one"))
        ctx.step("two", effect, "two", compensate=impossible)
        raise ValueError("no")

    task_id = carrier.start(saga)
    carrier.resolve("skip")
    assert (carrier.state(task_id), effects()) == ("FAILED", ["one", "two", "undo one"])
    assert "ValueError: no" in carrier.task(task_id).error


def test_a_handler_that_raises_by_itself_is_undone(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("saga")
    def saga(ctx: Context) -> None:
        ctx.step("one", effect, "one", compensate=lambda name: effect("undo one"))
        raise Fatal("no")

    task_id = carrier.start(saga)
    assert (carrier.state(task_id), effects()) == ("FAILED", ["one", "undo one"])


@pytest.mark.parametrize("where", ["waiting", "running", "ready"])
def test_a_cancel_may_ask_for_it(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects, where: str
) -> None:
    def cancel() -> None:
        conn.execute(
            text("select * from celeriac.cancel_task(task_id => :id, reason => 'no', compensate => true)"),
            {"id": task_id},
        )

    def unaware() -> None:
        cancel()
        effect("unaware")

    @task("trip")
    def trip(ctx: Context) -> None:
        ctx.step("flight", effect, "flight", compensate=lambda name: effect("undo flight"))
        if where == "running":
            # Its record is what tells; it is undone as well, and after it has ended.
            ctx.step("unaware", unaware, compensate=lambda: effect("undo unaware"))
            ctx.step("never", effect, "never")
        elif where == "ready":
            raise Retry("later", after=3600)
        else:
            ctx.wait_for("go")

    carrier.install(trip)
    task_id = carrier.enqueue(trip)
    carrier.run()
    if where != "running":
        cancel()
        cancel()
        carrier.run()
    assert carrier.state(task_id) == "CANCELED"
    ran = ["unaware", "undo unaware"] if where == "running" else []
    assert effects() == ["flight", *ran, "undo flight"]


def test_a_task_that_loses_too_many_leases_is_undone_too(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("trip")
    def trip(ctx: Context) -> None:
        ctx.step("flight", effect, "flight", compensate=lambda name: effect("undo flight"))
        ctx.step("deadly", lambda: None)

    with carrier.killed_at("step.do.before", "deadly"):
        task_id = carrier.start(trip)
    for _ in range(5):
        carrier.dead = False
        carrier.expire()
        with carrier.killed_at("step.do.before", "deadly"):
            carrier.run()
    carrier.take_over()
    assert (carrier.state(task_id), effects()) == ("FAILED", ["flight", "undo flight"])
    assert carrier.task(task_id).error.startswith("lease_lost")


def test_the_undo_follows_the_way_that_the_handler_went(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    """Also through failures that it lived with, and past operations that were never done."""

    def bad() -> None:
        raise ConnectionError("busy")

    def refused(plan: str) -> None:
        raise ConnectionRefusedError("nobody there")

    @task("trip", retry=ONCE)
    def trip(ctx: Context) -> None:
        try:
            ctx.step("bad", bad, compensate=lambda: effect("undo bad"))
        except StepFailed:
            ctx.step("instead", effect, "instead", compensate=lambda name: effect("undo instead"))
        try:
            ctx.operation("refused", "x", do=refused, reconcile=lambda plan: NotDone())
        except StepFailed:
            ctx.step("other", effect, "other", compensate=lambda name: effect("undo other"))
        raise ValueError("no")

    carrier.start(trip)
    assert effects() == ["instead", "other", "undo other", "undo instead", "undo bad"]


def test_other_code_that_cannot_undo_is_an_incident(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def trip(compensate: Callable[..., Any] | None) -> DurableTask:
        @task("trip", retry=ONCE)
        def trip(ctx: Context) -> None:
            ctx.step("flight", effect, "flight", compensate=compensate)
            raise ValueError("no")

        return trip

    carrier.install(trip(lambda name: effect("undo flight")))
    task_id = carrier.enqueue(trip(None))
    carrier.attempt()
    carrier.install(trip(None))
    carrier.run()
    [incident] = carrier.incidents()
    assert incident.kind == "other_code"
    assert incident.message == "'flight' is to be undone, but this code does not say how"
    carrier.install(trip(lambda name: effect("undo flight")))
    carrier.resolve("retry")
    assert (carrier.state(task_id), effects()) == ("FAILED", ["flight", "undo flight"])


def test_a_redrive_after_the_undo_begins_anew(
    carrier: Carrier, conn: Connection, trip: DurableTask, effects: Effects
) -> None:
    task_id = carrier.start(trip)
    conn.execute(text("select * from celeriac.redrive_task(:id)"), {"id": task_id})
    carrier.run()
    assert in_order(effects()) == in_order((DONE + UNDONE) * 2)


def test_a_redrive_without_one_goes_on_after_the_last_step(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects
) -> None:
    mended: list[bool] = []

    @task("order", retry=ONCE)
    def order(ctx: Context) -> None:
        ctx.step("plan", effect, "plan")
        if not mended:
            raise ValueError("broken")
        ctx.step("charge", effect, "charge")

    task_id = carrier.start(order)
    assert carrier.state(task_id) == "FAILED"
    mended.append(True)
    conn.execute(text("select * from celeriac.redrive_task(:id)"), {"id": task_id})
    carrier.run()
    assert (carrier.state(task_id), effects()) == ("COMPLETED", ["plan", "charge"])


def test_a_stale_resume_begins_no_second_undo(
    carrier: Carrier, conn: Connection, trip: DurableTask, effects: Effects
) -> None:
    carrier.install(trip)
    task_id = carrier.enqueue(trip)
    carrier.attempt()
    stale = carrier.fetch()
    assert stale is not None
    carrier.take_over()
    assert carrier.state(task_id) == "FAILED"
    before = effects()
    assert carrier.carry(*stale).outcome is None  # refused at its first word
    assert effects() == before


def test_what_is_done_again_after_an_undo_has_other_keys_for_others(carrier: Carrier, conn: Connection) -> None:
    keys: list[str] = []

    def charge(key: str) -> None:
        keys.append(key)

    @task("keyed", retry=ONCE)
    def keyed(ctx: Context) -> None:
        ctx.step("charge", charge, ctx.idempotency_key("charge"), compensate=lambda key: None)
        raise Fatal("no")

    task_id = carrier.start(keyed)
    for _ in range(2):
        conn.execute(text("select * from celeriac.redrive_task(:id)"), {"id": task_id})
        carrier.run()
    assert keys == [f"{task_id}:charge", f"{task_id}.1:charge", f"{task_id}.2:charge"]
