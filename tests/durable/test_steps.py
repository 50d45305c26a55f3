"""Steps are done once, and come back as they were."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from celeriac import Context, Fatal, Invalid, Retry, RetryPolicy, StepFailed, task
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]


def test_steps_that_have_ended_are_not_run_again_after_a_crash(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        return {"steps": [ctx.step(name, effect, name) for name in ("plan", "charge", "ship")]}

    with carrier.killed_at("step.do.before", "ship"):
        task_id = carrier.start(order)
    assert effects() == ["plan", "charge"]
    carrier.take_over()
    assert carrier.result(task_id) == {"steps": ["plan", "charge", "ship"]}
    assert effects() == ["plan", "charge", "ship"]


def test_a_step_whose_record_was_lost_runs_again(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        ctx.step("charge", effect, "charge")

    with carrier.killed_at("step.record.before"):
        carrier.start(order)
    carrier.take_over()
    assert effects() == ["charge", "charge"]


def test_a_step_whose_answer_was_lost_does_not(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("order")
    def order(ctx: Context) -> None:
        ctx.step("charge", effect, "charge")

    with carrier.killed_at("step.record.after"):
        carrier.start(order)
    carrier.take_over()
    assert effects() == ["charge"]


def test_a_handler_without_durable_calls_asks_postgres_nothing(
    carrier: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    @task("plain")
    def plain(ctx: Context) -> None:
        calls.append(ctx.attempt)

    calls: list[object] = []
    carrier.install(plain)
    carrier.enqueue(plain)
    fetched = carrier.fetch()
    assert fetched is not None
    original = carrier.database.rows
    monkeypatch.setattr(carrier.database, "rows", lambda *a, **k: calls.append("asked") or original(*a, **k))
    made = carrier.carry(*fetched)
    assert made.outcome is not None
    assert calls == [1, "asked"]  # the report


@dataclass
class Copied:
    path: str
    at: dt.datetime


class Plan(BaseModel):
    parts: list[Copied]
    share: float


def test_a_result_has_the_same_type_and_value_in_the_first_run_and_in_a_replay(carrier: Carrier) -> None:
    moment = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)

    def copied() -> Copied:
        return Copied("a", moment)

    def plan() -> Plan:
        return Plan(parts=[Copied("b", moment)], share=0.1)

    def pairs() -> list[tuple[str, int]]:
        return [("a", 1)]

    def nothing() -> None:
        return None

    runs: list[list[Any]] = []

    def today() -> dt.date:
        return moment.date()

    @task("typed")
    def typed(ctx: Context) -> None:
        plain = {"tail": 1e22, "to": [1, {"b": None}], "x": True}
        steps = [
            ctx.step("copied", copied),
            ctx.step("plan", plan),
            ctx.step("pairs", pairs),
            ctx.step("nothing", nothing),
            ctx.step("plain", lambda: plain),
            ctx.step("today", today),
        ]
        runs.append([*steps, list(steps[4])])
        if ctx.attempt == 1:
            raise Retry(after=0)

    carrier.start(typed)
    first, second = runs
    assert first == second
    assert [type(value) for value in first] == [type(value) for value in second]
    assert first[0] == Copied("a", moment)
    assert first[2] == [("a", 1)]
    assert first[4] == {"tail": 1e22, "to": [1, {"b": None}], "x": True}
    assert type(first[4]["tail"]) is type(second[4]["tail"]) is float
    assert second[6] == first[6]  # the order of a dict decides in which order steps are made


def test_annotations_for_a_type_checkers_eyes_only_are_no_matter(carrier: Carrier) -> None:
    def charge(order: "OnlyForTheChecker") -> "dt.date":  # type: ignore[name-defined]  # noqa: F821
        return dt.date(2026, 3, 29)

    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        return {"month": ctx.step("charge", charge, 1).month}

    assert carrier.result(carrier.start(order)) == {"month": 3}


def test_two_steps_of_one_name_are_two_steps(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    @task("twice")
    def twice(ctx: Context) -> dict[str, Any]:
        numbers = iter(range(2))
        return {"got": [ctx.step("one", lambda: next(numbers) + ctx.attempt * 10) for _ in range(2)]}

    with carrier.killed_at("attempt.end"):
        task_id = carrier.start(twice)
    carrier.take_over()
    assert carrier.result(task_id) == {"got": [10, 11]}


@pytest.mark.parametrize("name", ["x" * 256, "", " a", "a\n", "a\0"])
def test_a_name_that_cannot_be_stored_is_refused_before_anything_is_done(
    carrier: Carrier, effect: Effect, effects: Effects, name: str
) -> None:
    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        with pytest.raises(Invalid, match="name must be"):
            ctx.step(name, effect, "never")
        with pytest.raises(TypeError, match="a name that is text"):
            ctx.step(effect, "never")  # type: ignore[arg-type]
        return {"lost": ctx.lease_lost.is_set(), "step": ctx.step("first", lambda: 1)}

    task_id = carrier.start(order)
    assert carrier.result(task_id) == {"lost": False, "step": 1}
    assert carrier.steps(task_id) == [("", 1, "step", "first")]
    assert effects() == []


def test_a_step_is_tried_again_by_its_own_policy(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def charge() -> str:
        effect("try")
        if len(effects()) < 3:
            raise ConnectionError("busy")
        return "charged"

    @task("order")
    def order(ctx: Context) -> dict[str, Any]:
        return {"charge": ctx.step("charge", charge, retry=RetryPolicy(attempts=3, first=0))}

    task_id = carrier.start(order)
    assert carrier.result(task_id) == {"charge": "charged"}
    assert carrier.task(task_id).attempts == 1


def test_what_is_never_to_be_retried_is_not(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def charge() -> None:
        effect("try")
        raise PermissionError("no")

    @task("order", retry=RetryPolicy(attempts=5, first=0, never=(PermissionError,)))
    def order(ctx: Context) -> None:
        ctx.step("charge", charge, retry=RetryPolicy(attempts=3, first=0, never=(OSError,)))

    task_id = carrier.start(order)
    assert effects() == ["try"]
    assert (carrier.state(task_id), carrier.task(task_id).attempts) == ("FAILED", 1)
    assert "'charge' failed: PermissionError: no" in carrier.task(task_id).error


def test_a_failure_that_the_handler_lives_with_is_final(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def charge() -> None:
        effect("try")
        raise ConnectionError("busy")

    errors: list[str] = []

    @task("order")
    def order(ctx: Context) -> None:
        try:
            ctx.step("charge", charge)
        except StepFailed as failed:
            errors.append(str(failed))
        ctx.step("go on", effect, "go on")

    with carrier.killed_at("attempt.end"):
        carrier.start(order)
    carrier.take_over()
    assert effects() == ["try", "go on"]
    assert errors == ["'charge' failed: ConnectionError: busy"] * 2


def test_a_failure_is_written_down_before_what_comes_after_it_begins(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    def charge() -> None:
        effect("try")
        raise ConnectionError("busy")

    @task("order")
    def order(ctx: Context) -> None:
        try:
            ctx.step("charge", charge)
        except StepFailed:
            ctx.step("go on", effect, "go on")

    with carrier.killed_at("step.do.before", "go on"):
        carrier.start(order)
    carrier.take_over()
    assert effects() == ["try", "go on"]


def test_a_failure_that_ends_the_attempt_is_not_final(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def charge() -> None:
        effect("try")
        if len(effects()) == 1:
            raise ConnectionError("busy")

    @task("order", retry=RetryPolicy(attempts=3, first=0))
    def order(ctx: Context) -> None:
        ctx.step("charge", charge)

    task_id = carrier.start(order)
    assert carrier.state(task_id) == "COMPLETED"
    assert effects() == ["try", "try"]


@pytest.mark.parametrize(
    ("raised", "state", "attempts"), [(Retry("later", after=0), "COMPLETED", 2), (Fatal("no"), "FAILED", 1)]
)
def test_what_a_step_raises_on_purpose_ends_the_attempt(
    carrier: Carrier, raised: Exception, state: str, attempts: int
) -> None:
    def moody(attempt: int) -> None:
        if attempt == 1:
            raise raised

    @task("order")
    def order(ctx: Context) -> None:
        ctx.step("charge", moody, ctx.attempt, retry=RetryPolicy(attempts=5, first=0))

    task_id = carrier.start(order)
    assert (carrier.state(task_id), carrier.task(task_id).attempts) == (state, attempts)


def unserialisable() -> Any:
    return {"rows": [1, object()]}


def nan() -> float:
    return float("nan")


def large() -> str:
    return "x" * (1024 * 1024)


def wrong() -> int:
    return "seven"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (unserialisable, "result.rows[1] is of type object, which JSON does not have"),
        (nan, "result is nan, which JSON does not have"),
        (large, "result has 1048578 bytes of JSON; at most 1048576 are stored"),
        (wrong, "result is of type str and cannot be stored as its annotation says"),
        (lambda: "a\0b", "result holds a NUL character"),
    ],
)
def test_a_result_that_cannot_be_stored_fails_the_step_and_says_why(
    carrier: Carrier, fn: Callable[[], Any], says: str
) -> None:
    @task("order", retry=RetryPolicy(attempts=1))
    def order(ctx: Context) -> None:
        ctx.step("charge", fn)

    task_id = carrier.start(order)
    assert carrier.state(task_id) == "FAILED"
    assert f"'charge' failed: its result cannot be stored: {says}" in carrier.task(task_id).error


def test_ten_thousand_steps_are_replayed_in_pages(carrier: Carrier) -> None:
    ran = 0

    def work(number: int) -> str:
        nonlocal ran
        ran += 1
        return "x" * 1000

    @task("long")
    def long(ctx: Context) -> dict[str, Any]:
        return {"sum": sum(len(ctx.step("work", work, number)) for number in range(10_000))}

    with carrier.killed_at("step.do.before", "work", time=9_990):
        task_id = carrier.start(long)
    carrier.take_over()
    assert carrier.result(task_id) == {"sum": 10_000_000}
    assert ran == 10_000
