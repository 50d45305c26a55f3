"""begin_operation: nothing | NOT_DONE -> STARTED, before the effect. Its lease: ../step/test_under_a_lease.py."""

from typing import Any

import pytest

from db.call import Json
from db.errors import Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step
from tests.db.overlap import overlap


def test_it_is_written_down_before_the_effect(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    begun = ledger.begin(task, 2, "copy", branch="1.0", plan=Json('{"to": "b"}'))
    assert (begun.state, begun.attempt, begun.fresh, begun.plan, begun.error) == (
        "STARTED",
        1,
        True,
        '{"to": "b"}',
        None,
    )
    assert clerk.query("select * from celeriac.operations") == [
        {
            "operation_id": begun.operation_id, "task_id": task.task_id, "task_type": "mail", "branch": "1.0",
            "ordinal": 2, "name": "copy", "state": "STARTED", "attempt": 1, "fencing_token": task.fencing_token,
            "plan": '{"to": "b"}', "result": None, "error": None, "started_at": clock.now(), "ended_at": None,
            "unknown_at": None,
        }
    ]  # fmt: skip
    assert ledger.steps(task) == []


def test_again_it_is_not_fresh_and_must_be_reconciled_with_the_plan_it_was_begun_with(
    clerk: Clerk, ledger: Ledger
) -> None:
    """The answer was lost, or the very same worker came by twice: nobody knows whether the effect came."""
    task = clerk.held()
    begun = ledger.begin(task, plan=Json('{"to": "b"}'))
    before = clerk.everything()
    again = ledger.begin(task, plan=Json('{"to": "c"}'))
    assert (again.operation_id, again.state, again.attempt) == (begun.operation_id, "STARTED", 1)
    assert (again.fresh, again.plan) == (False, '{"to": "b"}')
    assert clerk.everything() == before


def test_whoever_takes_the_task_over_finds_it_started(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    begun = ledger.begin(task)
    ledger.settle(task, begun.operation_id, "ERRED", error="connection reset")
    clock.advance(2)
    (second,) = clerk.fetch()
    found = ledger.begin(second)
    assert (found.operation_id, found.fresh, found.attempt) == (begun.operation_id, False, 1)
    assert found.error == "connection reset"


def test_what_was_not_done_is_begun_again_with_the_plan_of_now(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    begun = ledger.begin(task)
    ledger.settle(task, begun.operation_id, "NOT_DONE", error="nothing there")
    clock.advance(1)
    again = ledger.begin(task, plan=Json('{"to": "c"}'))
    assert (again.operation_id, again.state, again.attempt) == (begun.operation_id, "STARTED", 2)
    assert (again.fresh, again.plan, again.error) == (True, '{"to": "c"}', None)
    (row,) = clerk.query("select started_at, ended_at, error from celeriac.operations")
    assert row == {"started_at": clock.now(), "ended_at": None, "error": None}


@pytest.mark.parametrize("outcome", ["DONE", "FAILED"])
def test_what_has_ended_is_answered_as_it_ended(clerk: Clerk, ledger: Ledger, outcome: str) -> None:
    task = clerk.held()
    ledger.settle(task, ledger.begin(task).operation_id, outcome)
    found = ledger.begin(task)
    assert (found.state, found.fresh) == (outcome, False)


def test_without_a_plan_the_plan_is_none(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    assert ledger.begin(task, plan=Json("null")).plan is None
    assert ledger.begin(task).plan is None


def test_another_name_at_that_place_is_refused_and_told_what_is_there(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.begin(task, 1, "copy")
    with clerk.refuses(Invalid, "name") as caught:
        ledger.begin(task, 1, "move")
    assert caught.value.detail == {"branch": "", "ordinal": 1, "kind": "operation", "name": "copy"}


def test_the_place_of_a_step_is_not_for_an_operation(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.record(task, step(1, "plan"))
    with clerk.refuses(Invalid, "ordinal") as caught:
        ledger.begin(task, 1, "plan")
    assert caught.value.detail == {"branch": "", "ordinal": 1, "kind": "step", "name": "plan"}


@pytest.mark.parametrize(
    "field, asked",
    [
        ("branch", {"branch": "undo"}), ("branch", {"branch": None}), ("ordinal", {"ordinal": 0}),
        ("ordinal", {"ordinal": None}), ("name", {"name": ""}), ("name", {"name": None}),
    ],
)  # fmt: skip
def test_a_bad_place_or_name_is_refused_by_field(
    clerk: Clerk, ledger: Ledger, field: str, asked: dict[str, Any]
) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, field):
        ledger.begin(task, **asked)


def test_a_plan_of_a_mebibyte_is_the_largest(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.begin(task, 1, plan=Json('"' + "x" * 1_048_574 + '"'))
    with clerk.refuses(TooLarge, "plan"):
        ledger.begin(task, 2, plan=Json('"' + "x" * 1_048_575 + '"'))


def test_a_task_that_is_being_undone_begins_nothing_new(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    with clerk.refuses(Invalid, "task_id"):
        ledger.begin(task, 2)


@pytest.mark.parametrize("keep", [True, False])
def test_of_two_calls_at_once_one_is_fresh(clerk: Clerk, database_url: str, keep: bool) -> None:
    """Two threads with one lease: the effect is made once."""
    task = clerk.held()
    first, second = overlap(
        database_url, lambda clerk: Ledger(clerk).begin(task), lambda clerk: Ledger(clerk).begin(task), keep=keep
    )
    assert (first.fresh, second.fresh) == (True, not keep)
    assert clerk.scalar("select count(*) from celeriac.operation") == 1
