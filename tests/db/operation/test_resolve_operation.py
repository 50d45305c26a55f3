"""resolve_operation: UNKNOWN -> DONE | NOT_DONE | FAILED, because a person found out."""

from typing import Any
from uuid import UUID

import pytest

from db.call import Json
from db.errors import AlreadyEnded, Invalid, NotFound, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger
from tests.db.overlap import overlap


def test_done_the_handler_goes_on_with_that_result(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    clerk.celery_type()
    task = clerk.held(retries=2)
    operation_id = ledger.unknown(task, ordinal=4, branch="2.1")
    clerk.rings()
    clock.advance(60)
    answer = ledger.resolve(operation_id, "DONE", result=Json('{"path": "b"}'), note="seen it", principal="anna")
    assert tuple(answer) == (operation_id, "DONE", task.task_id, "mail")
    assert clerk.rings() == [("fleet", "mail")]
    (again,) = clerk.fetch()
    assert (again.task_id, again.attempt, again.retries, again.resumed) == (task.task_id, 1, 2, True)
    assert again.fencing_token > task.fencing_token
    (row,) = ledger.steps(again)
    assert (row.branch, row.ordinal, row.kind, row.name) == ("2.1", 4, "operation", "copy")
    assert (row.result, row.error) == ('{"path": "b"}', None)
    (incident,) = clerk.query("select state, resolution, resolved_by, resolved_at, note from celeriac.incidents")
    assert incident == {
        "state": "RESOLVED", "resolution": "DONE", "resolved_by": "anna", "resolved_at": clock.now(), "note": "seen it",
    }  # fmt: skip
    assert clerk.query("select * from celeriac.wait") == []
    line = clerk.timeline(task.task_id)[-1]
    assert (line["kind"], line["principal"]) == ("resolved", "anna")
    assert (line["detail"]["resolution"], line["detail"]["note"]) == ("DONE", "seen it")


def test_not_done_it_is_begun_again(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    operation_id = ledger.unknown(task)
    assert ledger.resolve(operation_id, "NOT_DONE").state == "NOT_DONE"
    (again,) = clerk.fetch()
    assert ledger.steps(again) == []
    begun = ledger.begin(again)
    assert (begun.operation_id, begun.fresh, begun.attempt) == (operation_id, True, 2)


@pytest.mark.parametrize("note, error", [("lost at sea", "lost at sea"), (None, "it failed")])
def test_failed_the_handler_gets_its_error(clerk: Clerk, ledger: Ledger, note: str | None, error: str) -> None:
    task = clerk.held()
    ledger.resolve(ledger.unknown(task), "FAILED", note=note)
    (row,) = ledger.steps(clerk.fetch()[0])
    assert (row.result, row.error) == (None, error)


@pytest.mark.parametrize(
    "outcome, said", [("DONE", {"result": Json("1")}), ("NOT_DONE", {}), ("FAILED", {"note": "no"})]
)
def test_the_same_resolution_again_holds(clerk: Clerk, ledger: Ledger, outcome: str, said: dict[str, Any]) -> None:
    task = clerk.held()
    operation_id = ledger.unknown(task)
    first = ledger.resolve(operation_id, outcome, **said)
    before = clerk.everything()
    assert ledger.resolve(operation_id, outcome, **said) == first
    assert clerk.everything() == before


def test_another_resolution_is_refused(clerk: Clerk, ledger: Ledger) -> None:
    operation_id = ledger.unknown(clerk.held())
    ledger.resolve(operation_id, "DONE", result=Json("1"))
    for outcome, said in (("NOT_DONE", {}), ("FAILED", {}), ("DONE", {"result": Json("2")}), ("DONE", {})):
        with clerk.refuses(AlreadyEnded):
            ledger.resolve(operation_id, outcome, **said)


@pytest.mark.parametrize("outcome", [None, "DONE", "NOT_DONE"])
def test_only_an_unknown_one_can_be_resolved(clerk: Clerk, ledger: Ledger, outcome: str | None) -> None:
    """What its worker knows is not for a person to say, not even the same."""
    task = clerk.held()
    begun = ledger.begin(task)
    if outcome:
        ledger.settle(task, begun.operation_id, outcome)
    for said in ("DONE", "NOT_DONE", "FAILED"):
        with clerk.refuses(AlreadyEnded):
            ledger.resolve(begun.operation_id, said)


@pytest.mark.parametrize(
    "field, said",
    [
        ("outcome", {"outcome": "UNKNOWN"}), ("outcome", {"outcome": None}), ("outcome", {"outcome": "ERRED"}),
        ("result", {"outcome": "NOT_DONE", "result": Json("1")}),
        ("result", {"outcome": "FAILED", "result": Json("1")}),
    ],
)  # fmt: skip
def test_bad_resolutions_are_refused_by_field(clerk: Clerk, ledger: Ledger, field: str, said: dict[str, Any]) -> None:
    operation_id = ledger.unknown(clerk.held())
    with clerk.refuses(Invalid, field):
        ledger.resolve(operation_id, **said)


def test_a_result_over_a_mebibyte_is_too_large(clerk: Clerk, ledger: Ledger) -> None:
    operation_id = ledger.unknown(clerk.held())
    with clerk.refuses(TooLarge, "result"):
        ledger.resolve(operation_id, result=Json('"' + "x" * 1_048_575 + '"'))


def test_foreign_and_missing_look_the_same(clerk: Clerk, ledger: Ledger) -> None:
    operation_id = ledger.unknown(clerk.held("pay"))
    for asked, only in ((operation_id, ["mail"]), (UUID(int=7), None)):
        with clerk.refuses(NotFound):
            ledger.resolve(asked, only_types=only)
    assert ledger.resolve(operation_id, only_types=["p%"]).state == "DONE"


def test_it_stays_open_when_its_task_is_canceled_since_the_effect_may_be_there(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    operation_id = ledger.unknown(task)
    clerk.cancel(task.task_id)
    assert [incident["operation_id"] for incident in ledger.open_incidents()] == [operation_id]
    assert ledger.resolve(operation_id, "DONE", note="refunded by hand").state == "DONE"
    assert ledger.open_incidents() == []
    assert clerk.state(task.task_id) == "CANCELED"


def test_a_task_that_is_held_up_by_something_else_by_now_stays_so(clerk: Clerk, ledger: Ledger) -> None:
    """It was canceled with compensation while the operation was unknown, and then its undo failed."""
    task = clerk.held()
    ledger.register(task)
    operation_id = ledger.unknown(task, ordinal=2)
    clerk.cancel(task.task_id, compensate=True)
    clerk.fail(clerk.fetch()[0], retries=0)
    assert [incident["kind"] for incident in ledger.open_incidents()] == ["operation_unknown", "undo_failed"]
    ledger.resolve(operation_id, "NOT_DONE")
    assert clerk.state(task.task_id) == "WAITING"
    (incident,) = ledger.open_incidents()
    ledger.decide(incident["incident_id"], "retry")
    assert clerk.state(task.task_id) == "READY"


@pytest.mark.parametrize("keep", [True, False])
def test_of_two_people_one_decides(clerk: Clerk, ledger: Ledger, database_url: str, keep: bool) -> None:
    for outcomes in (("DONE", "NOT_DONE"), ("NOT_DONE", "DONE")):
        operation_id = ledger.unknown(clerk.held())
        first, second = overlap(
            database_url,
            lambda clerk, outcome=outcomes[0], operation_id=operation_id: Ledger(clerk).resolve(operation_id, outcome),
            lambda clerk, outcome=outcomes[1], operation_id=operation_id: Ledger(clerk).resolve(operation_id, outcome),
            keep=keep,
        )
        assert first.state == outcomes[0]
        assert isinstance(second, AlreadyEnded) if keep else second.state == outcomes[1]
        (again,) = clerk.fetch()
        assert len(ledger.steps(again)) == int(outcomes[0 if keep else 1] == "DONE")


@pytest.mark.parametrize("cancel_first", [True, False])
def test_beside_a_cancel_the_task_ends_and_the_operation_is_settled(
    clerk: Clerk, ledger: Ledger, database_url: str, cancel_first: bool
) -> None:
    task = clerk.held()
    operation_id = ledger.unknown(task)
    calls = [lambda clerk: clerk.cancel(task.task_id), lambda clerk: Ledger(clerk).resolve(operation_id, "DONE")]
    overlap(database_url, *(calls if cancel_first else calls[::-1]))
    assert clerk.state(task.task_id) == "CANCELED"
    assert ledger.open_incidents() == []
    assert clerk.query("select state from celeriac.operations") == [{"state": "DONE"}]
    for table in ("waiting", "wait", "queue"):
        assert clerk.scalar(f"select count(*) from celeriac.{table}") == 0
