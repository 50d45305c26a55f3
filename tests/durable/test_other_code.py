"""A replay that meets other code is an incident that names both, and never a wrong value."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from celeriac import Context, RetryPolicy, task
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]
Handler = Callable[[Context], Any]


def plan() -> str:
    return "the plan"


def charge() -> str:
    return "the charge"


def original(ctx: Context) -> dict[str, Any]:
    got = [ctx.step("plan", plan), ctx.step("charge", charge)]
    ctx.wait_for("go")
    return {"got": got}


def swapped(ctx: Context) -> Any:
    ctx.step("charge", charge)
    ctx.step("plan", plan)
    ctx.wait_for("go")


def removed(ctx: Context) -> Any:
    ctx.step("charge", charge)
    ctx.wait_for("go")


def renamed(ctx: Context) -> Any:
    ctx.step("plan", plan)
    ctx.step("pay", charge)
    ctx.wait_for("go")


def another_kind(ctx: Context) -> Any:
    ctx.step("plan", plan)
    ctx.operation("charge", 1, do=lambda plan: None)
    ctx.wait_for("go")


def inserted(ctx: Context) -> Any:
    ctx.step("plan", plan)
    ctx.step("check", plan)
    ctx.step("charge", charge)
    ctx.wait_for("go")


def ends_early(ctx: Context) -> Any:
    ctx.step("plan", plan)


def gathered(ctx: Context) -> Any:
    ctx.gather(lambda: ctx.step("plan", plan), lambda: ctx.step("charge", charge))
    ctx.wait_for("go")


class Charge(BaseModel):
    euro: int


def typed_charge() -> Charge:
    return Charge(euro=1)


def another_type(ctx: Context) -> Any:
    ctx.step("plan", plan)
    ctx.step("charge", typed_charge)
    ctx.wait_for("go")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (swapped, "call 1 is recorded as the step 'plan', but this code makes the step 'charge' there"),
        (removed, "call 1 is recorded as the step 'plan', but this code makes the step 'charge' there"),
        (renamed, "call 2 is recorded as the step 'charge', but this code makes the step 'pay' there"),
        (another_kind, "call 2 is recorded as the step 'charge', but this code makes the operation 'charge' there"),
        (inserted, "call 2 is recorded as the step 'charge', but this code makes the step 'check' there"),
        (ends_early, "call 2 is recorded as the step 'charge', but this code ends without it"),
        (gathered, "call 1 is recorded as the step 'plan', but this code makes a gather there"),
        (another_type, "the recorded result of the step 'charge' (call 2) is not what this code expects"),
    ],
)
def test_other_code_is_an_incident_that_names_both(carrier: Carrier, other: Handler, says: str) -> None:
    task_id = carrier.start(task("order")(original))
    carrier.install(task("order")(other))
    made = carrier.signal("go")
    assert len(made) == 1  # no hot loop
    assert carrier.state(task_id) == "WAITING"
    [incident] = carrier.incidents()
    assert incident.kind == "other_code"
    assert says in incident.message
    carrier.install(task("order")(original))
    carrier.resolve("retry")
    assert carrier.result(task_id) == {"got": ["the plan", "the charge"]}


def branches(*names: str) -> Handler:
    def handler(ctx: Context) -> Any:
        ctx.gather(*(lambda name=name: ctx.step(name, plan) for name in names))  # type: ignore[misc]
        ctx.wait_for("go")

    return handler


def a_step_for_a_gather(ctx: Context) -> Any:
    ctx.step("a", plan)
    ctx.wait_for("go")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            branches("b", "a"),
            "call 1 of branch 1.0 is recorded as the step 'a', but this code makes the step 'b' there",
        ),
        (branches("a"), "call 1 of branch 1.1 is recorded as the step 'b', but this code ends without it"),
        (a_step_for_a_gather, "call 1 is recorded as a gather, but this code makes the step 'a' there"),
    ],
)
def test_branches_are_compared_too(carrier: Carrier, other: Handler, says: str) -> None:
    carrier.start(task("order")(branches("a", "b")))
    carrier.install(task("order")(other))
    carrier.signal("go")
    assert [says in incident.message for incident in carrier.incidents()] == [True], carrier.incidents()


def test_more_branches_and_more_calls_at_the_end_are_no_other_code(carrier: Carrier) -> None:
    def longer(ctx: Context) -> Any:
        branches("a", "b", "c")(ctx)
        ctx.step("more", plan)

    task_id = carrier.start(task("order")(branches("a", "b")))
    carrier.install(task("order")(longer))
    carrier.signal("go")
    assert carrier.state(task_id) == "COMPLETED"


def test_a_failed_step_is_compared_by_its_name(carrier: Carrier) -> None:
    def failing(name: str) -> Handler:
        def bad() -> None:
            raise ConnectionError("busy")

        def handler(ctx: Context) -> Any:
            try:
                ctx.step(name, bad)
            except Exception:
                ctx.wait_for("go")

        return handler

    carrier.start(task("order")(failing("a")))
    carrier.install(task("order")(failing("b")))
    carrier.signal("go")
    [incident] = carrier.incidents()
    assert "recorded as the step 'a', but this code makes the step 'b'" in incident.message


def test_an_incident_cannot_be_swallowed_by_the_handler(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def greedy(ctx: Context) -> Any:
        try:
            ctx.step("other", plan)
        except BaseException:
            try:
                ctx.step("more", effect, "more")
            except BaseException:
                return None

    task_id = carrier.start(task("order")(original))
    carrier.install(task("order")(greedy))
    carrier.signal("go")
    assert (carrier.state(task_id), effects()) == ("WAITING", [])
    assert len(carrier.incidents()) == 1


def test_a_person_can_end_what_no_code_fits(carrier: Carrier) -> None:
    task_id = carrier.start(task("order", retry=RetryPolicy(attempts=1))(original))
    carrier.install(task("order", retry=RetryPolicy(attempts=1))(renamed))
    carrier.signal("go")
    carrier.resolve("fail")
    assert carrier.state(task_id) == "FAILED"


def test_a_task_of_another_version_waits_for_its_own_code(carrier: Carrier) -> None:
    task_id = carrier.start(task("order", version=1)(original))
    carrier.install(task("order", version=2)(swapped))
    assert carrier.signal("go") == []
    carrier.install(task("order", version=1)(original), task("order", version=2)(swapped))
    carrier.run()
    assert carrier.state(task_id) == "COMPLETED"
