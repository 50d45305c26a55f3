"""Operations take effect at most once, or a person hears of it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection, text

from celeriac import ConnectionFailed, Context, Done, NotDone, RetryPolicy, StepFailed, Unknown, task
from celeriac.durable._declaration import DurableTask
from tests.durable.carrier import Carrier

Effect = Callable[..., str]
Effects = Callable[[], list[str]]


@dataclass
class Plan:
    source: str
    target: str


@dataclass
class Copied:
    path: str


@pytest.fixture
def copy(effect: Effect, effects: Effects) -> DurableTask:
    def do(plan: Plan) -> Copied:
        effect(plan.target)
        return Copied(plan.target)

    def find(plan: Plan) -> Done | NotDone:
        return Done(Copied(plan.target)) if plan.target in effects() else NotDone()

    @task("copy", retry=RetryPolicy(attempts=3, first=0))
    def copy(ctx: Context) -> Copied:
        return ctx.operation("copy", Plan("a", "b"), do=do, reconcile=find)

    return copy


def operation(conn: Connection) -> Any:
    return conn.execute(text("select state, attempt, error, plan from celeriac.operation")).one()


@pytest.mark.parametrize(
    "point",
    [
        "operation.begin.before",
        "operation.begin.after",
        "operation.do.before",
        "operation.do.after",
        "operation.settle.before",
        "operation.settle.after",
        "attempt.end",
    ],
)
def test_an_operation_that_can_be_looked_up_takes_effect_once_wherever_its_worker_dies(
    carrier: Carrier, copy: DurableTask, conn: Connection, effects: Effects, point: str
) -> None:
    with carrier.killed_at(point):
        task_id = carrier.start(copy)
    carrier.take_over()
    assert carrier.result(task_id) == {"path": "b"}
    assert effects() == ["b"]
    assert operation(conn).state == "DONE"
    assert operation(conn).plan == '{"source": "a", "target": "b"}'


@pytest.mark.parametrize("point", ["operation.reconcile.before", "operation.reconcile.after", "operation.begin.before"])
def test_it_is_reconciled_again_when_that_worker_dies_too(
    carrier: Carrier, copy: DurableTask, effects: Effects, point: str
) -> None:
    with carrier.killed_at("operation.settle.before"):
        task_id = carrier.start(copy)
    with carrier.killed_at(point):
        carrier.take_over()
    carrier.take_over()
    assert carrier.result(task_id) == {"path": "b"}
    assert effects() == ["b"]


def test_without_a_way_to_look_it_up_a_person_decides(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects
) -> None:
    @task("charge")
    def charge(ctx: Context) -> dict[str, Any]:
        return {"charge": ctx.operation("charge", {"euro": 5}, do=lambda plan: effect("charged"))}

    with carrier.killed_at("operation.do.after"):
        task_id = carrier.start(charge)
    carrier.take_over()
    assert carrier.state(task_id) == "WAITING"
    [incident] = carrier.incidents()
    assert (incident.kind, incident.name) == ("operation_unknown", "charge")
    assert "no `reconcile`" in incident.message
    conn.execute(
        text("select * from celeriac.resolve_operation(:id, 'DONE', cast(:result as jsonb))"),
        {"id": incident.operation_id, "result": '"by hand"'},
    )
    carrier.run()
    assert carrier.result(task_id) == {"charge": "by hand"}
    assert effects() == ["charged"]


@pytest.mark.parametrize(("outcome", "result"), [("NOT_DONE", "charged"), ("FAILED", "'charge' failed: gave up")])
def test_what_a_person_decides_is_what_the_handler_sees(
    carrier: Carrier, conn: Connection, effect: Effect, outcome: str, result: str
) -> None:
    @task("charge")
    def charge(ctx: Context) -> dict[str, Any]:
        try:
            return {"charge": ctx.operation("charge", 5, do=do, reconcile=lambda plan: Unknown("the bank is closed"))}
        except StepFailed as failed:
            return {"charge": str(failed)}

    def do(plan: int) -> str:
        return effect("charged")

    with carrier.killed_at("operation.do.before"):
        task_id = carrier.start(charge)
    carrier.take_over()
    [incident] = carrier.incidents()
    assert incident.message == "the bank is closed"
    conn.execute(
        text("select * from celeriac.resolve_operation(:id, :outcome, null, 'gave up')"),
        {"id": incident.operation_id, "outcome": outcome},
    )
    carrier.run()
    assert result in str(carrier.result(task_id)["charge"])


def test_a_lost_answer_to_its_beginning_is_no_reason_to_ask_anybody(
    carrier: Carrier, effect: Effect, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    @task("charge")
    def charge(ctx: Context) -> dict[str, Any]:
        return {"charge": ctx.operation("charge", 5, do=lambda plan: effect("charged"))}

    original, lost = carrier.database.rows, []

    def rows(statement: Any, **values: Any) -> Any:
        answer = original(statement, **values)
        if "begin_operation" in statement and not lost:
            lost.append(answer)
            raise ConnectionFailed("cut", sent=True)
        return answer

    monkeypatch.setattr(carrier.database, "rows", rows)
    assert carrier.result(carrier.start(charge)) == {"charge": "charged"}
    assert (effects(), len(lost)) == (["charged"], 1)


def test_what_was_tried_in_this_attempt_is_looked_up_also_when_the_handler_runs_again_in_it(
    carrier: Carrier, effect: Effect, effects: Effects
) -> None:
    def do(plan: int) -> None:
        effect("charged")
        raise TimeoutError("no answer")

    @task("charge")
    def charge(ctx: Context) -> None:
        def late() -> None:
            with suppress(StepFailed):
                ctx.operation("charge", 5, do=do)

        ctx.gather(late, lambda: ctx.wait_for("early"))

    carrier.install(charge)
    carrier.signal("early")
    carrier.enqueue(charge)
    carrier.run()
    assert effects() == ["charged"]
    assert [incident.kind for incident in carrier.incidents()] == ["operation_unknown"]


def test_a_try_that_raised_is_looked_up_before_the_next(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def do(plan: str) -> str:
        effect("charged")
        raise TimeoutError("no answer")

    def find(plan: str) -> Done:
        effect("looked up")
        return Done("found")

    @task("charge")
    def charge(ctx: Context) -> dict[str, Any]:
        return {"charge": ctx.operation("charge", "x", do=do, reconcile=find, retry=RetryPolicy(attempts=2, first=0))}

    assert carrier.result(carrier.start(charge)) == {"charge": "found"}
    assert effects() == ["charged", "looked up"]


def test_the_next_attempt_looks_it_up_too(carrier: Carrier, conn: Connection, effect: Effect, effects: Effects) -> None:
    def do(plan: str) -> str:
        effect("try")
        if len(effects()) == 1:
            raise ConnectionRefusedError("nobody there")
        return "done"

    @task("charge", retry=RetryPolicy(attempts=3, first=0))
    def charge(ctx: Context) -> dict[str, Any]:
        return {"charge": ctx.operation("charge", "x", do=do, reconcile=lambda plan: NotDone())}

    assert carrier.result(carrier.start(charge)) == {"charge": "done"}
    assert (operation(conn).state, operation(conn).attempt) == ("DONE", 2)


def test_a_handler_can_go_on_without_an_operation_that_had_no_effect(
    carrier: Carrier, conn: Connection, effect: Effect, effects: Effects
) -> None:
    def do(plan: str) -> str:
        effect("try")
        raise ConnectionRefusedError("nobody there")

    @task("charge")
    def charge(ctx: Context) -> dict[str, Any]:
        try:
            ctx.operation("charge", "x", do=do, reconcile=lambda plan: NotDone())
        except StepFailed as failed:
            return {"instead": ctx.step("instead", effect, "instead"), "since": str(failed)}
        raise AssertionError

    with carrier.killed_at("attempt.end"):
        task_id = carrier.start(charge)
    carrier.take_over()
    assert carrier.result(task_id) == {
        "instead": "instead",
        "since": "'charge' failed: ConnectionRefusedError: nobody there",
    }
    assert effects() == ["try", "instead"]
    assert operation(conn).state == "FAILED"


@pytest.mark.parametrize("found", [None, Unknown("the bank is closed"), Done("after all")])
def test_it_cannot_go_on_without_one_that_may_have_had(
    carrier: Carrier, effect: Effect, effects: Effects, found: Any
) -> None:
    def do(plan: str) -> str:
        effect("charged")
        raise TimeoutError("no answer")

    @task("charge")
    def charge(ctx: Context) -> None:
        try:
            ctx.operation("charge", "x", do=do, reconcile=(lambda plan: found) if found else None)
        except StepFailed:
            ctx.step("instead", effect, "instead")

    task_id = carrier.start(charge)
    assert carrier.state(task_id) == "WAITING"
    assert [incident.kind for incident in carrier.incidents()] == ["operation_unknown"]
    assert effects() == ["charged"]


def test_nor_can_it_end_without_one(carrier: Carrier, effect: Effect) -> None:
    def do(plan: str) -> None:
        raise TimeoutError("no answer")

    @task("charge")
    def charge(ctx: Context) -> None:
        with suppress(StepFailed):
            ctx.operation("charge", "x", do=do)

    task_id = carrier.start(charge)
    assert carrier.state(task_id) == "WAITING"
    assert "its last error was TimeoutError: no answer" in carrier.incidents()[0].message


def test_reconcile_gets_the_plan_that_was_written_down(carrier: Carrier, effect: Effect) -> None:
    plans: list[Plan] = []

    def find(plan: Plan) -> Done:
        plans.append(plan)
        return Done(None)

    @task("copy")
    def copy(ctx: Context) -> None:
        def do(plan: Plan) -> None:
            raise AssertionError("dies before")

        ctx.operation("copy", Plan("a", f"attempt {ctx.attempt}"), do=do, reconcile=find)

    with carrier.killed_at("operation.do.before"):
        carrier.start(copy)
    carrier.take_over()
    assert plans == [Plan("a", "attempt 1")]


def test_a_reconcile_that_says_nothing_known_fails_the_attempt(carrier: Carrier, effect: Effect) -> None:
    @task("charge", retry=RetryPolicy(attempts=1))
    def charge(ctx: Context) -> None:
        ctx.operation("charge", 1, do=lambda plan: None, reconcile=lambda plan: True)  # type: ignore[arg-type,return-value]

    with carrier.killed_at("operation.do.before"):
        task_id = carrier.start(charge)
    carrier.take_over()
    assert "must return Done(result), NotDone() or Unknown(why)" in carrier.task(task_id).error


@pytest.mark.parametrize("plan", [object(), float("nan"), "x" * 1024 * 1024])
def test_a_plan_that_cannot_be_stored_fails_before_anything_is_done(
    carrier: Carrier, effect: Effect, effects: Effects, plan: Any
) -> None:
    @task("charge", retry=RetryPolicy(attempts=1))
    def charge(ctx: Context) -> None:
        ctx.operation("charge", plan, do=lambda plan: effect("charged"))

    task_id = carrier.start(charge)
    assert carrier.state(task_id) == "FAILED"
    assert "plan " in carrier.task(task_id).error
    assert effects() == []


def test_a_result_that_cannot_be_stored_is_not_done_again(carrier: Carrier, effect: Effect, effects: Effects) -> None:
    def do(plan: int) -> Any:
        effect("charged")
        return object()

    @task("charge", retry=RetryPolicy(attempts=3, first=0))
    def charge(ctx: Context) -> None:
        ctx.operation("charge", 1, do=do)

    task_id = carrier.start(charge)
    assert effects() == ["charged"]
    assert carrier.state(task_id) == "WAITING"
    assert "its last error was its result cannot be stored" in carrier.incidents()[0].message
