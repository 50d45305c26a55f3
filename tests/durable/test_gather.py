"""Several lines of calls at once: whoever comes first, each call has its own place."""

import contextvars
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from celeriac import Context, Done, NotDone, OutOfPlace, RetryPolicy, StepFailed, task
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)


def test_results_come_in_the_order_of_the_functions_and_of_no_clock(carrier: Carrier) -> None:
    second_is_done = threading.Event()

    def first() -> int:
        assert second_is_done.wait(10)
        return 1

    def second() -> int:
        second_is_done.set()
        return 2

    @task("both")
    def both(ctx: Context) -> dict[str, Any]:
        return {"got": ctx.gather(lambda: ctx.step("a", first), lambda: ctx.step("b", second), lambda: "plain")}

    task_id = carrier.start(both)
    assert carrier.result(task_id) == {"got": [1, 2, "plain"]}
    assert carrier.steps(task_id) == [("1.0", 1, "step", "a"), ("1.1", 1, "step", "b")]


def test_branches_of_random_lengths_survive_a_hundred_crashes_with_each_effect_once(
    carrier: Carrier, effects: Effects, effect: Effect
) -> None:
    chance = random.Random(40)
    written = threading.Lock()

    def work(name: str) -> str:
        time.sleep(chance.random() / 500)
        with written:
            return effect(name)

    def find(name: str) -> Done | NotDone:
        with written:
            return Done(name) if name in effects() else NotDone()

    @task("gather")
    def handler(ctx: Context) -> dict[str, Any]:
        def line(letter: str, length: int) -> int:
            for number in range(length):
                ctx.operation(letter, f"{ctx.task_id} {letter}{number}", do=work, reconcile=find)
            return ctx.step("length", lambda: length)

        lengths = ctx.step("lengths", lambda: [chance.randint(0, 3) for _ in range(3)])
        lines = ctx.gather(*(partial(line, letter, length) for letter, length in zip("abc", lengths, strict=True)))
        return {"lengths": lengths, "lines": lines}

    carrier.install(handler)
    crashes, done = 0, 0
    while crashes < 100:
        task_id = carrier.enqueue(handler)
        for _ in range(5):  # so many lost leases a task survives
            with carrier.killed_at_point(chance.randint(1, 40)):
                carrier.run()
            if not carrier.dead:
                break
            crashes += 1
            carrier.dead = False
            carrier.expire()
        carrier.run()
        result = carrier.result(task_id)
        assert result["lines"] == result["lengths"]
        done += sum(result["lengths"])
    assert carrier.incidents() == []
    assert len(effects()) == len(set(effects())) == done


def test_branches_may_branch_and_each_waits_for_its_own(carrier: Carrier) -> None:
    @task("tree")
    def tree(ctx: Context) -> dict[str, Any]:
        def leaf(name: str) -> Any:
            signal = ctx.wait_for(name)
            return ctx.step("leaf", lambda: signal and signal.payload)

        def pair(letter: str) -> list[Any]:
            return ctx.gather(lambda: leaf(f"{letter}1"), lambda: leaf(f"{letter}2"))

        return {"got": ctx.gather(lambda: pair("a"), lambda: pair("b"), lambda: ctx.sleep(60))}

    task_id = carrier.start(tree)
    carrier.advance(61)
    for topic in ("b2", "a1", "b1", "a2"):
        assert carrier.state(task_id) == "WAITING"
        carrier.signal(topic, topic)
    assert carrier.result(task_id) == {"got": [["a1", "a2"], ["b1", "b2"], None]}
    assert ("1.0/1.1", 1, "signal", "a2") in carrier.steps(task_id)


def test_a_thousand_branches_wait_with_few_threads(carrier: Carrier) -> None:
    @task("many")
    def many(ctx: Context) -> dict[str, Any]:
        return {"got": len(ctx.gather(*[lambda: ctx.wait_for("go", timeout=60)] * 1000))}

    task_id = carrier.start(many)
    assert carrier.state(task_id) == "WAITING"
    assert threading.active_count() < 50
    carrier.advance(61)
    assert carrier.result(task_id) == {"got": 1000}


def test_an_error_of_one_branch_is_raised_when_all_have_ended_or_wait(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    def fails() -> None:
        effect("fails")
        raise ConnectionError("busy")

    @task("some")
    def some(ctx: Context) -> dict[str, Any]:
        try:
            ctx.gather(
                lambda: ctx.wait_for("never"), lambda: ctx.step("bad", fails), lambda: ctx.step("good", effect, "good")
            )
        except StepFailed as failed:
            return {"error": str(failed), "step": ctx.step("instead", effect, "instead")}
        raise AssertionError

    with carrier.killed_at("attempt.end"):
        task_id = carrier.start(some)
    carrier.take_over()
    assert carrier.result(task_id) == {"error": "'bad' failed: ConnectionError: busy", "step": "instead"}
    assert sorted(effects()) == ["fails", "good", "instead"]


def test_a_branch_sees_the_context_variables_of_the_handler(carrier: Carrier) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")

    @task("some")
    def some(ctx: Context) -> dict[str, Any]:
        tenant.set("acme")
        return {"got": ctx.gather(tenant.get, lambda: ctx.gather(tenant.get))}

    assert carrier.result(carrier.start(some)) == {"got": ["acme", ["acme"]]}


def test_gathering_nothing_is_nothing(carrier: Carrier) -> None:
    @task("none")
    def none(ctx: Context) -> dict[str, Any]:
        return {"got": ctx.gather()}

    assert carrier.result(carrier.start(none)) == {"got": []}


def test_a_durable_call_in_a_thread_of_ones_own_is_refused_and_points_to_gather(carrier: Carrier) -> None:
    @task("threads", retry=ONCE)
    def threads(ctx: Context) -> None:
        errors: list[Exception] = []

        def run() -> None:
            try:
                ctx.step("a", lambda: 1)
            except OutOfPlace as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        raise errors[0]

    error = carrier.task(carrier.start(threads)).error
    assert "a durable call must be made by the handler itself" in error
    assert "ctx.gather" in error


@pytest.mark.parametrize("outer", ["step", "operation", "transaction"])
def test_a_durable_call_inside_of_another_is_refused(carrier: Carrier, outer: str) -> None:
    @task("nested", retry=ONCE)
    def nested(ctx: Context) -> None:
        def inner(*_: Any) -> None:
            ctx.step("inner", lambda: 1)

        if outer == "step":
            ctx.step("outer", inner)
        elif outer == "operation":
            ctx.operation("outer", 1, do=inner)
        else:
            with ctx.transaction(name="outer"):
                inner()

    error = carrier.task(carrier.start(nested)).error
    assert f"cannot be made inside of another one: the {outer} 'outer' (call 1) has not ended" in error


def test_a_context_that_outlived_its_attempt_is_refused(carrier: Carrier) -> None:
    kept: list[Context] = []

    @task("leaky")
    def leaky(ctx: Context) -> None:
        kept.append(ctx)

    carrier.start(leaky)
    with pytest.raises(OutOfPlace):
        kept[0].step("late", lambda: 1)
