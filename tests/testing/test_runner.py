"""The kit's runner: durable tasks in the test's own process, without a broker and without waiting."""

from datetime import timedelta
from typing import Any

import pytest

from celeriac import AsyncContext, Context, Fatal, Retry, RetryPolicy, task
from celeriac.testing import Clock, RunnerMaker, crash_at, every_crash

calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def call(what: str) -> str:
    calls.append(what)
    return what.upper()


@task("greet", lease=30)
def greet(ctx: Context, input: dict[str, str]) -> dict[str, str]:
    return {"greeting": ctx.step("greet", call, input["name"])}


@task("two", lease=30)
def two(ctx: Context) -> dict[str, str]:
    return {"first": ctx.step("first", call, "first"), "second": ctx.step("second", call, "second")}


@task("moody", lease=30, retry=RetryPolicy(attempts=3, first=3600))
def moody(ctx: Context) -> None:
    call(f"attempt {ctx.attempt}")
    if ctx.attempt < 3:
        raise Retry("not in the mood")


@task("patient", lease=30)
def patient(ctx: Context) -> dict[str, Any]:
    signal = ctx.wait_for("go", "key", timeout=timedelta(days=30))
    return {"got": signal.payload if signal else None}


@task("stubborn", lease=30, retry=RetryPolicy(attempts=1))
def stubborn(ctx: Context) -> None:
    ctx.step("try", fail_twice, retry=RetryPolicy(attempts=3, first=3600))


def fail_twice() -> None:
    call("try")
    if len(calls) < 3:
        raise OSError("not yet")


@task("hopeless", lease=30)
def hopeless(ctx: Context) -> None:
    raise Fatal("no such thing")


@task("parent", lease=30)
def parent(ctx: Context) -> dict[str, Any]:
    return {"child": ctx.enqueue(greet, {"name": "ida"}).result()}


@task("coroutine", lease=30)
async def coroutine(ctx: AsyncContext) -> dict[str, str]:
    return {"first": await ctx.step("first", acall, "first")}


async def acall(what: str) -> str:
    return call(what)


@task("limited", lease=30, rate=(1, 3600))
def limited(ctx: Context) -> None:
    call("limited")


@task("endless", lease=30, retry=RetryPolicy(attempts=100, first=0, cap=0))
def endless(ctx: Context) -> None:
    raise Retry("again", after=0)


def test_a_task_is_run_and_its_steps_and_result_are_there(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(greet)
    task_id = runner.enqueue(greet, {"name": "ida"})
    assert runner.task(task_id).state == "READY"
    assert runner.run() == 1
    assert runner.result(task_id) == {"greeting": "IDA"}
    [step] = runner.steps(task_id)
    assert (step.kind, step.name, step.result) == ("step", "greet", "IDA")
    assert runner.run() == 0


def test_only_its_own_tasks_are_run(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(greet)
    task_id = runner.enqueue("other", {"name": "ida"})
    assert runner.run() == 0
    assert runner.task(task_id).state == "READY"


def test_a_retry_is_made_when_its_time_has_come(celeriac_runner: RunnerMaker, celeriac_clock: Clock) -> None:
    runner = celeriac_runner(moody)
    task_id = runner.enqueue(moody)
    assert runner.run() == 1
    assert runner.task(task_id).state == "SCHEDULED"
    assert runner.run() == 0
    celeriac_clock.advance(hours=2)
    assert runner.run() == 1


def test_skipping_runs_all_that_the_time_will_bring(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(moody, patient)
    before = runner.clock.now()
    moody_id, patient_id = runner.enqueue(moody), runner.enqueue(patient)
    runner.run(skip=True)
    assert calls == ["attempt 1", "attempt 2", "attempt 3"]
    assert runner.result(moody_id) == {}
    assert runner.result(patient_id) == {"got": None}
    assert runner.clock.now() - before >= timedelta(days=30)


def test_a_signal_wakes_who_waits(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(patient)
    task_id = runner.enqueue(patient)
    assert runner.signal("go", {"by": "ida"}, key="key") == 0 or runner.run() == 1
    runner.run()
    assert runner.result(task_id) == {"got": {"by": "ida"}}


def test_a_task_that_waits_is_woken_and_counted(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(patient)
    task_id = runner.enqueue(patient)
    runner.run()
    assert runner.task(task_id).state == "WAITING"
    assert runner.signal("go", {"by": "ida"}, key="key") == 1
    runner.run()
    assert runner.result(task_id) == {"got": {"by": "ida"}}


def test_children_are_run_too(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(parent, greet)
    task_id = runner.enqueue(parent)
    assert runner.run() == 3
    assert runner.result(task_id) == {"child": {"greeting": "IDA"}}


def test_skipping_goes_on_when_a_rate_allows_it(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(limited)
    before = runner.clock.now()
    for _ in range(3):
        runner.enqueue(limited)
    assert runner.run() == 1
    assert runner.run(skip=True) == 2
    assert timedelta(hours=2) <= runner.clock.now() - before < timedelta(hours=3)


async def test_an_async_test_can_run_async_handlers(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(coroutine)
    task_id = runner.enqueue(coroutine)
    with crash_at("step:first"):
        await runner.arun()
    await runner.arun()
    assert runner.result(task_id) == {"first": "FIRST"}
    assert calls == ["first", "first"]


def test_nobody_waits_between_the_tries_of_a_step(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(stubborn)
    task_id = runner.enqueue(stubborn)
    runner.run()
    assert runner.result(task_id) == {}
    assert calls == ["try"] * 3


def test_the_result_of_a_failed_task_is_a_failed_assertion(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(hopeless)
    task_id = runner.enqueue(hopeless)
    runner.run()
    with pytest.raises(AssertionError, match="FAILED after 1 attempts: Fatal: no such thing"):
        runner.result(task_id)


def test_a_task_can_be_canceled(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(patient)
    task_id = runner.enqueue(patient)
    runner.run()
    assert runner.cancel(task_id, reason="a test") == "CANCELED"
    assert runner.run(skip=True) == 0


@task("outburst", lease=30)
def outburst(ctx: Context, input: dict[str, str]) -> None:
    ctx.step("interrupt", interrupt, input["how"])


def interrupt(how: str) -> None:
    if how == "Ctrl-C":
        raise KeyboardInterrupt
    pytest.fail("that is wrong")


@pytest.mark.parametrize(
    ("how", "error"), [("Ctrl-C", KeyboardInterrupt), ("pytest.fail", pytest.fail.Exception)], ids=["ctrl_c", "fail"]
)
def test_what_ends_a_test_is_not_an_error_of_the_task(
    how: str, error: type[BaseException], celeriac_runner: RunnerMaker
) -> None:
    runner = celeriac_runner(outburst)
    task_id = runner.enqueue(outburst, {"how": how})
    with pytest.raises(error):
        runner.run()
    assert runner.task(task_id).error is None


def test_work_without_an_end_is_told(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(endless)
    runner.enqueue(endless)
    with pytest.raises(AssertionError, match="still work after 20 attempts"):
        runner.run(max_attempts=20)


def test_a_crash_leaves_the_lease_and_another_worker_takes_over(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(two)
    task_id = runner.enqueue(two)
    with crash_at("step:second"):
        assert runner.run() == 1
    assert runner.task(task_id).state == "LOCKED"
    assert [step.name for step in runner.steps(task_id)] == ["first"]
    assert runner.run() == 1
    assert runner.result(task_id) == {"first": "FIRST", "second": "SECOND"}
    assert calls == ["first", "second", "second"]  # the first is on record; the second was done and not yet recorded
    assert runner.task(task_id).attempts == 2


def test_a_point_can_be_named_exactly(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(two)
    runner.enqueue(two)
    with crash_at("step.record.after:second") as crash:
        runner.run()
    assert str(crash) == "step.record.after:second"
    runner.run()
    assert calls == ["first", "second"]


def test_a_crash_at_the_very_fetch_leaves_the_lease_too(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(two)
    task_id = runner.enqueue(two)
    with crash_at("fetch.after"):
        runner.run()
    assert (runner.task(task_id).state, calls) == ("LOCKED", [])
    runner.run()
    assert runner.result(task_id) is not None


def test_a_crash_that_does_not_happen_is_told_with_the_points_that_were_passed(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(two)
    runner.enqueue(two)
    with (
        pytest.raises(AssertionError, match=r"(?s)nothing came to step.record.before:third.*step.do.before:first"),
        crash_at("step:third"),
    ):
        runner.run()


def test_after_the_block_nothing_crashes(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(two)
    with crash_at("step:first"):
        runner.enqueue(two)
        runner.run()
    runner.run()
    task_id = runner.enqueue(two)
    runner.run()
    assert runner.result(task_id) is not None


def test_a_task_can_be_crashed_at_every_point_it_comes_to(celeriac_runner: RunnerMaker) -> None:
    runner = celeriac_runner(two)
    crashes = []
    for crash in every_crash():
        calls.clear()
        task_id = runner.enqueue(two)
        with crash:
            runner.run()
        runner.run()
        assert runner.result(task_id) == {"first": "FIRST", "second": "SECOND"}, crash
        assert 2 <= len(calls) <= 3, crash
        crashes.append(str(crash))
    assert crashes[0] == "no crash"
    assert {"step.do.before:first", "step.record.after:second", "attempt.begin:two"} < set(crashes)
