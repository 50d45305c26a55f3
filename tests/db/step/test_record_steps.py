"""record_steps: what a task has done. What it refuses of a lease: test_under_a_lease.py."""

import json
from typing import Any

import pytest

from db.call import Json
from db.errors import Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step

MIB = 1_048_576


def test_a_step_is_written_down_with_its_token_and_time(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    assert ledger.record(task, step(3, "plan", result={"n": 1})) == 1
    assert clerk.query("select * from celeriac.task_steps") == [
        {
            "task_id": task.task_id, "branch": "", "ordinal": 3, "kind": "step", "name": "plan", "result": '{"n": 1}',
            "error": None, "fencing_token": task.fencing_token, "recorded_at": clock.now(),
        }
    ]  # fmt: skip


def test_many_are_written_at_once_in_any_branch(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    steps = [step(1), step(1, branch="2.0"), step(1, branch="2.1", kind="transaction"), step(1, branch="2.1/1.17")]
    assert ledger.record(task, *steps) == 4
    assert [(row.branch, row.kind) for row in ledger.steps(task)] == [
        ("", "step"), ("2.0", "step"), ("2.1", "transaction"), ("2.1/1.17", "step"),
    ]  # fmt: skip


@pytest.mark.parametrize("result", [{"n": 1}, [1, 2], "text", 1.5, True, False, 0, "", [], {}])
def test_any_json_is_a_result_and_comes_back_as_it_was(clerk: Clerk, ledger: Ledger, result: Any) -> None:
    task = clerk.held()
    ledger.record(task, step(result=result))
    (row,) = ledger.steps(task)
    assert json.loads(row.result) == result


@pytest.mark.parametrize("item", [step(), step(result=None)], ids=["left out", "null"])
def test_no_result_is_none(clerk: Clerk, ledger: Ledger, item: Any) -> None:
    task = clerk.held()
    ledger.record(task, item)
    assert [(row.result, row.error) for row in ledger.steps(task)] == [(None, None)]


def test_an_error_is_what_a_step_came_to_and_is_cut_between_characters(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.record(task, step(error="é" * 10_000))
    (row,) = ledger.steps(task)
    assert row.error == "é" * 4096
    assert ledger.record(task, step(error="é" * 10_000)) == 0


def test_the_same_again_holds_and_changes_nothing(clerk: Clerk, ledger: Ledger) -> None:
    """The answer was lost, and the worker cannot know."""
    task = clerk.held()
    steps = [step(1, result={"a": 1, "b": 2}), step(2, error="no"), step(3)]
    assert ledger.record(task, *steps) == 3
    before = clerk.everything()
    assert ledger.record(task, *steps) == 0
    assert ledger.record(task, step(1, result={"b": 2, "a": 1.0})) == 0
    assert clerk.everything() == before
    assert ledger.record(task, *steps, step(4)) == 1


def test_the_next_holder_may_write_the_same_again_too(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    ledger.record(task, step(result=1))
    clock.advance(2)
    (second,) = clerk.fetch()
    assert ledger.record(second, step(result=1)) == 0
    assert clerk.scalar("select fencing_token from celeriac.step") == task.fencing_token


@pytest.mark.parametrize(
    "other",
    [
        step(result={"n": 2}), step(name="copy", result={"n": 1}), step(kind="transaction", result={"n": 1}), step(),
        step(error="no"),
    ],
    ids=["result", "name", "kind", "none", "error"],
)  # fmt: skip
def test_another_record_at_that_place_is_refused_and_names_what_is_there(
    clerk: Clerk, ledger: Ledger, other: dict[str, Any]
) -> None:
    task = clerk.held()
    ledger.record(task, step(result={"n": 1}))
    with clerk.refuses(Invalid, "steps") as caught:
        ledger.record(task, step(2), other)
    assert "call 1 is recorded as step 'plan'" in caught.value.message
    assert caught.value.detail == {"branch": "", "ordinal": 1, "kind": "step", "name": "plan"}


def test_one_place_twice_in_one_call_is_judged_the_same(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    assert ledger.record(task, step(result=1), step(result=1)) == 1
    with clerk.refuses(Invalid, "steps"):
        ledger.record(task, step(2, result=1), step(2, result=2))


def test_a_result_of_a_mebibyte_is_the_largest(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.record(task, step(result="x" * (MIB - 2)))
    with clerk.refuses(TooLarge, "steps[1].result"):
        ledger.record(task, step(2), step(3, result="x" * (MIB - 1)))


def test_the_text_of_a_result_is_measured_and_not_what_it_is_stored_as(clerk: Clerk, ledger: Ledger) -> None:
    """Case B17: ten numbers of twelve bytes each that are read back as a megabyte."""
    task = clerk.held()
    numbers = ",".join(["1e131000"] * 10)
    with clerk.refuses(TooLarge, "steps[0].result"):
        clerk.one(
            "record_steps", task_id=task.task_id, worker_id="w1", fencing_token=task.fencing_token,
            steps=Json(f'[{{"ordinal": 1, "kind": "step", "name": "plan", "result": [{numbers}]}}]'),
        )  # fmt: skip


@pytest.mark.parametrize(
    "field, item",
    [
        ("kind", step(kind="timer")),
        ("kind", step(kind="operation")),
        ("kind", {"ordinal": 1, "name": "plan"}),
        ("name", step(name="")),
        ("name", step(name="a\nb")),
        ("name", step(name="x" * 256)),
        ("name", step(name=7)),  # type: ignore[arg-type]
        ("name", {"ordinal": 1, "kind": "step"}),
        ("ordinal", step(0)),
        ("ordinal", step(-1)),
        ("ordinal", step(1_000_000_001)),
        ("ordinal", step(1.5)),  # type: ignore[arg-type]
        ("ordinal", {"kind": "step", "name": "plan"}),
        ("branch", step(branch="undo")),
        ("branch", step(branch="1")),
        ("branch", step(branch="1.0/")),
        ("branch", step(branch="/1.0")),
        ("branch", step(branch="0.0")),
        ("branch", step(branch="1.0\n")),
        ("branch", step(branch="1.0/" * 300 + "1.0")),
        ("branch", step(branch=7)),
        ("error", step(result=1, error="no")),
        ("error", step(error=7)),
        ("attempt", step(attempt=1)),
    ],
)
def test_bad_items_are_refused_by_field(clerk: Clerk, ledger: Ledger, field: str, item: Any) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, f"steps[1].{field}"):
        ledger.record(task, step(2), item)


@pytest.mark.parametrize("steps", ["{}", "null", "7", "[]", "[7]"])
def test_what_is_no_list_of_steps_is_refused(clerk: Clerk, steps: str) -> None:
    task = clerk.held()
    with pytest.raises(Invalid):
        clerk.one(
            "record_steps", task_id=task.task_id, worker_id="w1", fencing_token=task.fencing_token, steps=Json(steps)
        )


def test_a_thousand_go_in_one_call_and_not_one_more(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, "length of steps"):
        ledger.record(task, *(step(n) for n in range(1, 1002)))
    assert ledger.record(task, *(step(n) for n in range(1, 1001))) == 1000


def test_the_place_of_an_operation_is_not_for_a_step(clerk: Clerk, ledger: Ledger) -> None:
    """Other code runs now; what the operation has done outside must not be forgotten."""
    task = clerk.held()
    ledger.begin(task, 2, "copy")
    with clerk.refuses(Invalid, "steps") as caught:
        ledger.record(task, step(1), step(2, "copy"))
    assert caught.value.detail == {"branch": "", "ordinal": 2, "kind": "operation", "name": "copy"}


def test_a_task_that_is_being_undone_records_nothing_new(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    with clerk.refuses(Invalid, "task_id"):
        ledger.record(task, step())
