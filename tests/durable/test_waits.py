"""A task that waits has no worker; when it wakes, the handler goes on from there with what has come."""

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection, text

from celeriac import ChildFailed, Context, NewTask, RetryPolicy, Signal, StepFailed, task
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)


def held(conn: Connection) -> tuple[int, int]:
    """Queue rows and armed waits."""
    return tuple(
        conn.execute(
            text("select (select count(*) from celeriac.queue), (select count(*) from celeriac.wait where armed)")
        ).one()
    )  # type: ignore[return-value]


def test_a_signal_wakes_the_task_that_waits_for_it(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects
) -> None:
    signals: list[Signal | None] = []

    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        ctx.step("before", effect, "before")
        signals.append(ctx.wait_for("approval", timeout=300))
        ctx.step("after", effect, "after")
        return {"payload": signals[-1] and signals[-1].payload}

    task_id = carrier.start(order)
    assert carrier.state(task_id) == "WAITING"
    assert held(conn) == (0, 1)
    carrier.signal("approval", {"by": "Eva"})
    assert carrier.result(task_id) == {"payload": {"by": "Eva"}}
    assert effects() == ["before", "after"]
    [signal] = signals
    assert signal is not None
    assert (signal.topic, signal.key, dt.datetime.fromisoformat(signal.sent_at).tzinfo is not None) == (
        "approval",
        None,
        True,
    )
    assert carrier.task(task_id).attempts == 1


def test_a_signal_that_came_early_is_taken_without_leaving_the_worker(carrier: Carrier, effects: Effects) -> None:
    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        first, second = ctx.wait_for("approval"), ctx.wait_for("approval")
        assert first is not None
        assert second is not None
        return {"payloads": [first.payload, second.payload]}

    carrier.install(order)
    carrier.signal("approval", 1)
    carrier.signal("approval", 2)
    task_id = carrier.enqueue(order)
    made = carrier.run()
    assert carrier.result(task_id) == {"payloads": [1, 2]}
    assert len(made) == 1


def test_a_handler_that_changes_its_input_gets_it_anew_in_each_run(carrier: Carrier) -> None:
    seen: list[dict[str, Any]] = []

    @task("order")
    def order(ctx: Context, input: dict[str, Any]) -> None:
        seen.append({**input, **ctx.variables})
        input.pop("number")
        ctx.wait_for("approval")

    carrier.install(order)
    carrier.signal("approval", 1)
    carrier.enqueue(order, {"number": 1})
    carrier.run()
    assert seen == [{"number": 1}, {"number": 1}]


def test_a_time_out_is_remembered(carrier: Carrier) -> None:
    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        late = ctx.wait_for("approval", timeout=dt.timedelta(days=30))
        return {"late": late is None, "step": ctx.step("after", lambda: ctx.attempt)}

    task_id = carrier.start(order)
    with carrier.killed_at("attempt.end"):
        carrier.advance(30 * 86_400 + 1)
    carrier.signal("approval")
    carrier.take_over()
    assert carrier.result(task_id)["late"] is True


def test_sleep_and_a_moment_are_waits(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(days=40)

    @task("patient")
    def patient(ctx: Context) -> None:
        ctx.sleep(dt.timedelta(days=30))
        ctx.step("slept", effect, "slept")
        ctx.sleep_until(moment)
        ctx.sleep_until(moment - dt.timedelta(days=90))  # long ago
        ctx.sleep(0)

    task_id = carrier.start(patient)
    carrier.advance(29 * 86_400)
    assert effects() == []
    carrier.advance(2 * 86_400)
    assert (effects(), carrier.state(task_id)) == (["slept"], "WAITING")
    carrier.advance(10 * 86_400)
    assert carrier.state(task_id) == "COMPLETED"


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "soon"])
def test_a_duration_that_is_none_fails_the_attempt(carrier: Carrier, bad: Any) -> None:
    @task("patient", retry=ONCE)
    def patient(ctx: Context) -> None:
        ctx.sleep(bad)

    task_id = carrier.start(patient)
    assert carrier.state(task_id) == "FAILED"
    assert "duration must" in carrier.task(task_id).error


def test_a_loop_of_waits_goes_on_where_it_was(carrier: Carrier) -> None:
    @task("adder")
    def adder(ctx: Context) -> dict[str, Any]:
        total = 0
        while (signal := ctx.wait_for("number")) and signal.payload:
            total += signal.payload
        return {"total": total}

    task_id = carrier.start(adder)
    for number in [*range(1, 21), 0]:
        carrier.signal("number", number)
    assert carrier.result(task_id) == {"total": 210}


def test_finally_runs_when_the_handler_is_left_to_wait(carrier: Carrier, effects: Effects) -> None:
    ran: list[str] = []

    @task("careful")
    def careful(ctx: Context) -> None:
        try:
            ctx.wait_for("go")
        except Exception:
            ran.append("except Exception")
            raise
        finally:
            ran.append("finally")

    task_id = carrier.start(careful)
    assert ran == ["finally"]
    carrier.signal("go")
    assert ran == ["finally", "finally"]
    assert carrier.state(task_id) == "COMPLETED"


def test_a_durable_call_in_a_finally_does_nothing_while_the_handler_is_left(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    @task("careful")
    def careful(ctx: Context) -> None:
        try:
            ctx.wait_for("go")
        finally:
            ctx.step("close", effect, "close")

    task_id = carrier.start(careful)
    assert (carrier.state(task_id), effects()) == ("WAITING", [])
    carrier.signal("go")
    assert (carrier.state(task_id), effects()) == ("COMPLETED", ["close"])


def test_a_handler_that_swallows_what_suspends_it_fails_clearly(carrier: Carrier, conn: Connection) -> None:
    @task("greedy", retry=ONCE)
    def greedy(ctx: Context) -> None:
        with suppress(BaseException):  # what must not be done
            ctx.wait_for("go")

    @task("greedy-branch", retry=ONCE)
    def in_branch(ctx: Context) -> None:
        ctx.gather(lambda: greedy.handler(ctx), lambda: None)

    for declared in (greedy, in_branch):
        task_id = carrier.start(declared)
        assert carrier.state(task_id) == "FAILED"
        assert "it went on after a call that suspends the task" in carrier.task(task_id).error
    assert held(conn) == (0, 0)


def test_a_lost_answer_to_a_suspension_suspends_once(carrier: Carrier) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        ctx.wait_for("go")

    with carrier.killed_at("suspend.after"):
        task_id = carrier.start(order)
    carrier.take_over()
    assert carrier.state(task_id) == "WAITING"
    carrier.signal("go")
    assert carrier.state(task_id) == "COMPLETED"


def child(ctx: Context, input: dict[str, Any]) -> dict[str, Any]:
    if input["number"] < 0:
        raise ValueError("negative")
    return {"square": input["number"] ** 2}


square = task("square", retry=ONCE)(child)


def test_children_are_enqueued_once_and_waited_for(carrier: Carrier, conn: Connection) -> None:
    @task("parent")
    def parent(ctx: Context) -> dict[str, Any]:
        children = [ctx.enqueue(square, {"number": number}) for number in range(3)]
        children += ctx.enqueue_many([NewTask("square", {"number": number}) for number in range(3, 50)])
        return {"squares": [child.result()["square"] for child in children]}

    carrier.install(parent, square)
    task_id = carrier.enqueue(parent)
    with carrier.killed_at("enqueue.after", time=2):
        carrier.run()
    carrier.take_over()
    assert carrier.result(task_id) == {"squares": [number**2 for number in range(50)]}
    assert conn.execute(text("select count(*) from celeriac.task")).scalar_one() == 51


def test_a_child_that_failed_says_so(carrier: Carrier) -> None:
    @task("parent")
    def parent(ctx: Context) -> dict[str, Any]:
        try:
            ctx.enqueue(square, {"number": -1}).result()
        except ChildFailed as failed:
            return {"state": failed.state, "error": failed.error, "type": failed.task_type}
        raise AssertionError

    carrier.install(parent, square)
    task_id = carrier.enqueue(parent)
    carrier.run()
    result = carrier.result(task_id)
    assert (result["state"], result["type"]) == ("FAILED", "square")
    assert "negative" in result["error"]


def test_a_child_that_takes_too_long_is_a_time_out(carrier: Carrier) -> None:
    @task("parent")
    def parent(ctx: Context) -> dict[str, Any]:
        slow = ctx.enqueue("nobody-runs-this")
        try:
            slow.result(timeout=60)
        except TimeoutError as error:
            return {"error": str(error)}
        raise AssertionError

    task_id = carrier.start(parent)
    assert carrier.state(task_id) == "WAITING"
    carrier.advance(61)
    assert "has not ended within the time-out" in carrier.result(task_id)["error"]


def test_a_child_with_a_key_that_was_used_for_something_else_is_refused_as_often_as_it_is_asked_for(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    @task("parent")
    def parent(ctx: Context) -> dict[str, Any]:
        try:
            ctx.enqueue(square, {"number": 2}, idempotency_key="k")
        except StepFailed as failed:
            ctx.step("instead", effect, "instead")
            return {"error": failed.error.partition(":")[0]}
        raise AssertionError

    carrier.install(parent, square)
    carrier.enqueue(square, {"number": 1}, idempotency_key="k")
    task_id = carrier.enqueue(parent)
    with carrier.killed_at("attempt.end", "parent"):
        carrier.run()
    carrier.take_over()
    assert carrier.result(task_id) == {"error": "celeriac.errors.IdempotencyConflict"}
    assert effects() == ["instead"]
