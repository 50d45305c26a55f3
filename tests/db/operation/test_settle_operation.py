"""settle_operation: what came of an effect. Its lease: ../step/test_under_a_lease.py."""

from typing import Any

import pytest

from db.call import Json
from db.errors import Invalid, LeaseLost, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger
from tests.db.overlap import overlap


def operation(clerk: Clerk) -> dict[str, Any]:
    return clerk.query("select state, attempt, result, error, ended_at from celeriac.operations")[0]


def test_done_it_is_a_step_with_its_result(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    begun = ledger.begin(task, 4, "copy", branch="2.1")
    answer = ledger.settle(task, begun.operation_id, "DONE", result=Json('{"path": "b"}'))
    assert (answer.operation_id, answer.state) == (begun.operation_id, "DONE")
    (row,) = ledger.steps(task)
    assert (row.branch, row.ordinal, row.kind, row.name) == ("2.1", 4, "operation", "copy")
    assert (row.result, row.error) == ('{"path": "b"}', None)
    assert operation(clerk) == {
        "state": "DONE", "attempt": 1, "result": '{"path": "b"}', "error": None, "ended_at": clock.now(),
    }  # fmt: skip


def test_done_with_null_it_is_a_step_with_none(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    begun = ledger.begin(task)
    for _ in range(2):
        assert ledger.settle(task, begun.operation_id, "DONE", result=Json("null")).state == "DONE"
    assert [(row.result, row.error) for row in ledger.steps(task)] == [(None, None)]


def test_failed_it_is_a_step_with_its_error(clerk: Clerk, ledger: Ledger) -> None:
    """It is known to have had no effect, and the handler goes on without it."""
    task = clerk.held()
    for ordinal, first in ((1, "ERRED"), (2, "NOT_DONE")):
        begun = ledger.begin(task, ordinal)
        ledger.settle(task, begun.operation_id, first, error="no")
        assert ledger.settle(task, begun.operation_id, "FAILED", error="declined").state == "FAILED"
    assert [(row.kind, row.result, row.error) for row in ledger.steps(task)] == [("operation", None, "declined")] * 2


def test_a_failure_without_words_is_an_error_all_the_same(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.settle(task, ledger.begin(task).operation_id, "FAILED")
    assert ledger.steps(task)[0].error == "it failed"


def test_not_done_it_is_no_step(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    assert ledger.settle(task, ledger.begin(task).operation_id, "NOT_DONE").state == "NOT_DONE"
    assert ledger.steps(task) == []
    assert operation(clerk)["ended_at"] == clock.now()


def test_an_error_is_noted_and_it_stays_started(clerk: Clerk, ledger: Ledger) -> None:
    """Whether the effect came, nobody knows."""
    task = clerk.held()
    begun = ledger.begin(task)
    assert ledger.settle(task, begun.operation_id, "ERRED", error="é" * 5000).state == "STARTED"
    assert (operation(clerk)["error"], operation(clerk)["ended_at"]) == ("é" * 4096, None)
    assert ledger.settle(task, begun.operation_id, "DONE").state == "DONE"
    assert operation(clerk)["error"] is None


@pytest.mark.parametrize("outcome", ["DONE", "NOT_DONE", "FAILED", "ERRED"])
def test_the_same_outcome_again_holds_and_changes_nothing(clerk: Clerk, ledger: Ledger, outcome: str) -> None:
    task = clerk.held()
    begun = ledger.begin(task)
    said: dict[str, Any] = {"result": Json("1")} if outcome == "DONE" else {"error": "no"}
    first = ledger.settle(task, begun.operation_id, outcome, **said)
    before = clerk.everything()
    assert ledger.settle(task, begun.operation_id, outcome, **said) == first
    assert clerk.everything() == before


@pytest.mark.parametrize(
    "first, second",
    [
        ("DONE", "NOT_DONE"), ("DONE", "FAILED"), ("DONE", "ERRED"), ("DONE", "UNKNOWN"), ("FAILED", "DONE"),
        ("FAILED", "NOT_DONE"), ("NOT_DONE", "DONE"), ("NOT_DONE", "ERRED"), ("NOT_DONE", "UNKNOWN"),
    ],
)  # fmt: skip
def test_an_outcome_that_cannot_follow_is_refused(clerk: Clerk, ledger: Ledger, first: str, second: str) -> None:
    task = clerk.held()
    begun = ledger.begin(task)
    ledger.settle(task, begun.operation_id, first)
    with clerk.refuses(Invalid, "outcome") as caught:
        ledger.settle(task, begun.operation_id, second)
    assert caught.value.detail == {"state": first}


def test_another_result_is_refused(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    begun = ledger.begin(task)
    ledger.settle(task, begun.operation_id, "DONE", result=Json("1"))
    for other in ("2", "null"):
        with clerk.refuses(Invalid, "outcome"):
            ledger.settle(task, begun.operation_id, "DONE", result=Json(other))


@pytest.mark.parametrize(
    "field, said",
    [
        ("outcome", {"outcome": "STARTED"}), ("outcome", {"outcome": "done"}), ("outcome", {"outcome": None}),
        ("result", {"outcome": "NOT_DONE", "result": Json("1")}),
    ],
)  # fmt: skip
def test_bad_outcomes_are_refused_by_field(clerk: Clerk, ledger: Ledger, field: str, said: dict[str, Any]) -> None:
    task = clerk.held()
    begun = ledger.begin(task)
    with clerk.refuses(Invalid, field):
        ledger.settle(task, begun.operation_id, **said)


def test_a_result_over_a_mebibyte_is_too_large(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    begun = ledger.begin(task)
    with clerk.refuses(TooLarge, "result"):
        ledger.settle(task, begun.operation_id, "DONE", result=Json('"' + "x" * 1_048_575 + '"'))


def test_an_operation_of_another_task_is_refused(clerk: Clerk, ledger: Ledger) -> None:
    other = ledger.begin(clerk.held())
    task = clerk.held()
    with clerk.refuses(Invalid, "operation_id"):
        ledger.settle(task, other.operation_id, "DONE")


def test_unknown_it_is_an_incident_and_the_task_waits_without_worker_or_attempt(
    clerk: Clerk, ledger: Ledger, clock: Clock
) -> None:
    clock.freeze()
    task = clerk.held(retries=2)
    begun = ledger.begin(task, 4, "copy", branch="2.1")
    clock.advance(1)
    answer = ledger.settle(task, begun.operation_id, "UNKNOWN", error="the disk is gone")
    assert (answer.operation_id, answer.state) == (begun.operation_id, "UNKNOWN")
    (incident,) = ledger.open_incidents()
    assert incident | {"incident_id": None} == {
        "incident_id": None, "task_id": task.task_id, "task_type": "mail", "kind": "operation_unknown", "state": "OPEN",
        "branch": "2.1", "ordinal": 4, "name": "copy", "message": "the disk is gone", "detail": "{}",
        "operation_id": begun.operation_id, "instance_id": None, "token_id": None, "created_at": clock.now(),
        "resolved_at": None, "resolution": None, "resolved_by": None, "note": None,
    }  # fmt: skip
    assert operation(clerk) == {
        "state": "UNKNOWN", "attempt": 1, "result": None, "error": "the disk is gone", "ended_at": clock.now(),
    }  # fmt: skip
    assert (clerk.state(task.task_id), clerk.queue(task.task_id)) == ("WAITING", None)
    assert clerk.query("select attempts, retries from celeriac.waiting") == [{"attempts": 0, "retries": 2}]
    assert clerk.query("select kind, incident_id, armed from celeriac.wait") == [
        {"kind": "incident", "incident_id": incident["incident_id"], "armed": True}
    ]
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["fencing_token"], line["worker_id"]) == ("incident", task.fencing_token, "w1")
    assert line["detail"] == {
        "incident_id": str(incident["incident_id"]), "kind": "operation_unknown", "error": "the disk is gone",
    }  # fmt: skip


def test_unknown_again_holds_though_the_lease_is_gone(clerk: Clerk, ledger: Ledger) -> None:
    """The answer was lost."""
    task = clerk.held()
    operation_id = ledger.unknown(task)
    before = clerk.everything()
    assert ledger.settle(task, operation_id, "UNKNOWN").state == "UNKNOWN"
    assert clerk.everything() == before
    with clerk.refuses(LeaseLost):
        ledger.settle(task, operation_id, "UNKNOWN", worker_id="w2")
    with clerk.refuses(LeaseLost):
        ledger.settle(task, operation_id, "DONE")


def test_unknown_without_words_has_a_message(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.settle(task, ledger.begin(task).operation_id, "UNKNOWN")
    assert "took effect" in ledger.open_incidents()[0]["message"]


def test_what_a_person_must_decide_no_worker_decides(clerk: Clerk, ledger: Ledger) -> None:
    """The task was canceled meanwhile, and is being undone."""
    task = clerk.held()
    ledger.register(task)
    operation_id = ledger.unknown(task)
    clerk.cancel(task.task_id, compensate=True)
    (second,) = clerk.fetch()
    for outcome in ("DONE", "UNKNOWN"):
        with clerk.refuses(Invalid, "outcome"):
            ledger.settle(second, operation_id, outcome)


def test_a_task_that_is_being_undone_may_still_say_what_came_of_an_operation(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    begun = ledger.begin(task)
    clerk.fail(task, retries=0)
    (undo,) = clerk.fetch()
    assert ledger.settle(undo, begun.operation_id, "DONE", result=Json("1")).state == "DONE"
    assert [row.result for row in ledger.steps(undo)] == ["1"]


@pytest.mark.parametrize("outcome", ["DONE", "NOT_DONE", "UNKNOWN"])
def test_beside_a_cancel_one_of_the_two_wins(clerk: Clerk, ledger: Ledger, database_url: str, outcome: str) -> None:
    for first_is_cancel in (True, False):
        task = clerk.held()
        begun = ledger.begin(task)
        calls = [
            lambda clerk, task=task: clerk.cancel(task.task_id).state,
            lambda clerk, task=task, begun=begun: Ledger(clerk).settle(task, begun.operation_id, outcome).state,
        ]
        first, second = overlap(database_url, *(calls if first_is_cancel else calls[::-1]))
        if first_is_cancel:
            assert (first, getattr(second, "code", None)) == ("CANCELED", "canceled")
        else:
            assert (first, second) == (outcome, "CANCELED")
        assert clerk.state(task.task_id) == "CANCELED"
        assert clerk.scalar("select count(*) from celeriac.waiting") == 0
        assert clerk.scalar("select count(*) from celeriac.wait") == 0
