"""Handlers that are coroutines have the same calls, awaited."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from celeriac import (
    AsyncContext,
    Canceled,
    ChildFailed,
    Context,
    Done,
    NotDone,
    RetryPolicy,
    SoftTimeLimitExceeded,
    StepFailed,
    task,
)
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]

ONCE = RetryPolicy(attempts=1)


def test_every_kind_of_call_survives_a_crash(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    async def charge(euro: int) -> tuple[int, str]:
        await asyncio.sleep(0)
        return euro, effect("charge")

    async def copy(plan: str) -> str:
        return effect(plan)

    async def find(plan: str) -> Done | NotDone:
        return Done(plan) if plan in effects() else NotDone()

    @task("square", retry=ONCE)
    async def square(ctx: AsyncContext, input: dict[str, Any]) -> dict[str, int]:
        return {"square": input["number"] ** 2}

    @task("order")
    async def order(ctx: AsyncContext) -> dict[str, Any]:
        got: list[Any] = [await ctx.step("charge", charge, 5), await ctx.step("plain", effect, "plain")]
        got.append(await ctx.operation("copy", "copy", do=copy, reconcile=find))
        recorded = asyncio.Event()

        async def first() -> str:
            result = await ctx.step("a", effect, "a")
            recorded.set()
            return result

        async def second() -> Any:
            await recorded.wait()  # the crash is behind both
            return await ctx.step("b", charge, 6)

        got += await ctx.gather(first, second)
        child = await ctx.enqueue(square, {"number": 3})
        got.append((await child.result())["square"])
        signal = await ctx.wait_for("go", timeout=60)
        await ctx.sleep(1)
        got.append(signal and signal.payload)
        return {"got": got}

    carrier.install(order, square)
    task_id = carrier.enqueue(order)
    with carrier.killed_at("step.record.after", "b"):
        carrier.run()
    carrier.take_over()
    carrier.signal("go", "went")
    carrier.advance(2)
    got = carrier.result(task_id)["got"]
    assert got == [[5, "charge"], "plain", "copy", "a", [6, "charge"], 9, "went"]
    assert sorted(effects()) == ["a", "charge", "charge", "copy", "plain"]


def test_gather_takes_coroutines_as_asyncio_does(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("both")
    async def both(ctx: AsyncContext) -> dict[str, Any]:
        a, signal, b = await ctx.gather(ctx.step("a", effect, "a"), ctx.wait_for("go"), ctx.step("b", effect, "b"))
        return {"got": [a, signal.topic, b]}

    task_id = carrier.start(both)
    carrier.signal("go")
    assert carrier.result(task_id) == {"got": ["a", "go", "b"]}
    assert sorted(effects()) == ["a", "b"]


@pytest.mark.parametrize("how", ["gather", "task", "thread"])
def test_calls_in_a_task_or_thread_of_ones_own_are_refused_and_point_to_gather(carrier: Carrier, how: str) -> None:
    @task("own", retry=ONCE)
    async def own(ctx: AsyncContext) -> None:
        if how == "gather":
            await asyncio.gather(ctx.step("a", lambda: 1), ctx.step("b", lambda: 1))
        elif how == "task":
            await asyncio.create_task(ctx.step("a", lambda: 1))
        else:
            await asyncio.to_thread(asyncio.run, ctx.step("a", lambda: 1))

    assert "Use ctx.gather" in carrier.task(carrier.start(own)).error


def test_a_coroutine_function_in_a_plain_handler_says_so(carrier: Carrier) -> None:
    async def charge() -> int:
        return 1

    @task("plain", retry=ONCE)
    def plain(ctx: Context) -> None:
        ctx.step("charge", charge)

    assert "only an `async def` handler can await it" in carrier.task(carrier.start(plain)).error


class Own(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Own("mine"), ValueError("plain")])
@pytest.mark.parametrize("where", ["handler", "step", "gather"])
def test_whatever_it_raises_fails_its_attempt_and_no_more(carrier: Carrier, error: BaseException, where: str) -> None:
    async def bad() -> None:
        raise error

    @task("bad", retry=ONCE)
    async def handler(ctx: AsyncContext) -> None:
        if where == "handler":
            await bad()
        elif where == "step":
            await ctx.step("bad", bad)
        else:
            await ctx.gather(bad, lambda: ctx.step("good", lambda: 1))

    task_id = carrier.start(handler)
    assert carrier.state(task_id) == "FAILED"
    assert type(error).__qualname__ in carrier.task(task_id).error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Own("mine"), StopIteration(1)])
def test_so_does_a_plain_function_in_its_thread(carrier: Carrier, error: BaseException) -> None:
    def bad() -> None:
        raise error

    @task("bad", retry=ONCE)
    async def handler(ctx: AsyncContext) -> None:
        await ctx.step("bad", bad)

    task_id = carrier.start(handler)
    assert carrier.state(task_id) == "FAILED"
    assert type(error).__qualname__ in carrier.task(task_id).error


@pytest.mark.parametrize("where", ["handler", "step", "gather"])
def test_it_is_cancelled_when_the_lease_ends(carrier: Carrier, where: str) -> None:
    seen: list[str] = []

    @task("long")
    async def long(ctx: AsyncContext) -> None:
        async def work() -> None:
            try:
                asyncio.get_running_loop().call_later(0.01, lease.end, Canceled("somebody said so"))
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        if where == "handler":
            await work()
        elif where == "step":
            await ctx.step("work", work)
        else:
            await ctx.gather(work, lambda: ctx.step("quick", lambda: 1))

    carrier.install(long)
    carrier.enqueue(long)
    fetched = carrier.fetch()
    assert fetched is not None
    lease = fetched[0]
    assert carrier.carry(*fetched).outcome is None
    assert seen == ["cancelled"]


def test_a_time_limit_cancels_it_and_fails_the_attempt(carrier: Carrier) -> None:
    @task("long", retry=ONCE)
    async def long(ctx: AsyncContext) -> None:
        asyncio.get_running_loop().call_soon(lease.interrupt, SoftTimeLimitExceeded("60 s are over"))
        await asyncio.sleep(60)

    carrier.install(long)
    task_id = carrier.enqueue(long)
    fetched = carrier.fetch()
    assert fetched is not None
    lease = fetched[0]
    carrier.carry(*fetched)
    assert "SoftTimeLimitExceeded: 60 s are over" in carrier.task(task_id).error


def test_a_task_group_around_a_wait_suspends_all_the_same(carrier: Carrier) -> None:
    @task("grouped")
    async def grouped(ctx: AsyncContext) -> dict[str, Any]:
        async with asyncio.TaskGroup():
            signal = await ctx.wait_for("go")
        return {"got": signal and signal.payload}

    task_id = carrier.start(grouped)
    assert carrier.state(task_id) == "WAITING"
    carrier.signal("go", 1)
    assert carrier.result(task_id) == {"got": 1}


def test_undos_may_be_coroutines(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    async def undo(name: str, result: str) -> None:
        effect(f"undo {result}")

    @task("trip", retry=ONCE)
    async def trip(ctx: AsyncContext) -> None:
        await ctx.step("flight", effect, "flight", compensate=undo)
        raise ValueError("no")

    task_id = carrier.start(trip)
    assert (carrier.state(task_id), effects()) == ("FAILED", ["flight", "undo flight"])


def test_failures_and_other_errors_are_those_of_plain_handlers(carrier: Carrier) -> None:
    async def bad() -> None:
        raise ConnectionError("busy")

    @task("doomed", retry=ONCE)
    async def doomed(ctx: AsyncContext) -> None:
        raise ValueError("no")

    @task("order")
    async def order(ctx: AsyncContext) -> dict[str, Any]:
        errors = []
        try:
            await ctx.step("bad", bad, retry=RetryPolicy(attempts=2, first=0))
        except StepFailed as failed:
            errors.append(failed.error)
        try:
            await (await ctx.enqueue(doomed)).result()
        except ChildFailed as failed:
            errors.append(failed.state)
        return {"errors": errors}

    carrier.install(order, doomed)
    task_id = carrier.enqueue(order)
    carrier.run()
    assert carrier.result(task_id) == {"errors": ["ConnectionError: busy", "FAILED"]}


async def test_where_a_loop_runs_already_it_fails_clearly(carrier: Carrier) -> None:
    @task("order", retry=ONCE)
    async def order(ctx: AsyncContext) -> None: ...

    task_id = carrier.start(order)
    assert "cannot run where an event loop runs already" in carrier.task(task_id).error
