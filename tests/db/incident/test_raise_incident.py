"""raise_incident: LOCKED -> WAITING, because a person must look. Its lease: ../step/test_under_a_lease.py."""

from typing import Any

import pytest

from db.call import Json
from db.errors import Invalid, LeaseLost, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger
from tests.db.overlap import overlap


def test_it_names_what_was_expected_and_found_and_the_task_waits(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    clock.advance(1)
    detail = Json('{"found": {"name": "copy"}, "expected": {"name": "plan"}}')
    incident_id = ledger.incident(task, branch="2.1", ordinal=3, name="copy", message="é" * 5000, detail=detail)
    assert ledger.open_incidents() == [
        {
            "incident_id": incident_id, "task_id": task.task_id, "task_type": "mail", "kind": "other_code",
            "state": "OPEN", "branch": "2.1", "ordinal": 3, "name": "copy", "message": "é" * 4096, "detail": detail,
            "operation_id": None, "instance_id": None, "token_id": None, "created_at": clock.now(),
            "resolved_at": None, "resolution": None, "resolved_by": None, "note": None,
        }
    ]  # fmt: skip
    assert (clerk.state(task.task_id), clerk.queue(task.task_id)) == ("WAITING", None)
    assert clerk.fetch() == []
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["fencing_token"], line["detail"]["kind"]) == (
        "incident",
        task.fencing_token,
        "other_code",
    )


def test_it_costs_no_attempt_no_retry_and_holds_no_slot(clerk: Clerk, ledger: Ledger) -> None:
    clerk.one("register_task_type", name="mail", concurrency=1)
    task = clerk.held(concurrency_key="k", retries=2)
    incident_id = ledger.incident(task)
    assert clerk.query("select * from celeriac.slot") == []
    ledger.decide(incident_id)
    (again,) = clerk.fetch()
    assert (again.task_id, again.attempt, again.retries, again.resumed) == (task.task_id, 1, 2, True)


def test_place_name_and_detail_may_be_missing(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.incident(task, branch=None, ordinal=None, name=None, message=None, detail=None)
    (incident,) = ledger.open_incidents()
    assert (incident["branch"], incident["ordinal"], incident["name"]) == (None, None, None)
    assert (incident["message"], incident["detail"]) == ("", "{}")


def test_it_is_held_up_no_second_time_by_a_time_out_of_that_call(clerk: Clerk, ledger: Ledger) -> None:
    """The call had waited for a signal, which may have a time-out still."""
    task = clerk.held()
    clerk.run(
        "insert into celeriac.wait (task_id, since, until, ordinal, branch, kind, name, armed)"
        " values (:t, now(), now(), 3, '', 'timer', 'pause', false)", t=task.task_id,
    )  # fmt: skip
    ledger.decide(ledger.incident(task, branch="", ordinal=3))
    assert clerk.query("select kind, armed from celeriac.wait") == [{"kind": "timer", "armed": False}]


def test_the_same_again_is_the_same_incident(clerk: Clerk, ledger: Ledger) -> None:
    """The answer was lost; also when somebody has decided since."""
    task = clerk.held()
    incident_id = ledger.incident(task)
    before = clerk.everything()
    assert ledger.incident(task) == incident_id
    assert clerk.everything() == before
    with clerk.refuses(LeaseLost):
        ledger.incident(task, worker_id="w2")
    ledger.decide(incident_id)
    assert ledger.incident(task) == incident_id
    (again,) = clerk.fetch()
    assert ledger.incident(again) != incident_id


@pytest.mark.parametrize(
    "field, said",
    [
        ("kind", {"kind": "operation_unknown"}), ("kind", {"kind": None}), ("kind", {"kind": "broken"}),
        ("name", {"name": ""}), ("detail", {"detail": Json("[]")}), ("detail", {"detail": Json("7")}),
    ],
)  # fmt: skip
def test_bad_ones_are_refused_by_field(clerk: Clerk, ledger: Ledger, field: str, said: dict[str, Any]) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, field):
        ledger.incident(task, **said)


def test_a_detail_over_a_mebibyte_is_too_large(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    with clerk.refuses(TooLarge, "detail"):
        ledger.incident(task, detail={"text": "x" * 1_048_576})


def test_an_undo_that_fails_names_its_compensation(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing("refund", "unpack")
    ledger.undone(task, 2)
    ledger.incident(task, "undo_failed", ordinal=1, name="refund", message="bank closed", branch="")
    (incident,) = ledger.open_incidents()
    assert (incident["branch"], incident["ordinal"], incident["name"]) == ("undo", 1, "refund")
    assert clerk.query("select state, error from celeriac.compensations where number = 1") == [
        {"state": "REGISTERED", "error": "bank closed"}
    ]


@pytest.mark.parametrize("number", [1, 3, None])
def test_only_the_undo_of_now_can_fail(clerk: Clerk, ledger: Ledger, number: int | None) -> None:
    task = ledger.undoing("refund", "unpack")
    with clerk.refuses(Invalid, "number"):
        ledger.incident(task, "undo_failed", ordinal=number)


def test_a_task_that_is_not_being_undone_has_no_failing_undo(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    with clerk.refuses(Invalid, "task_id"):
        ledger.incident(task, "undo_failed", ordinal=1)


def test_a_cancel_ends_the_task_and_closes_it(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.incident(task)
    assert clerk.cancel(task.task_id, principal="anna").state == "CANCELED"
    assert ledger.open_incidents() == []
    assert clerk.query("select resolution, resolved_by from celeriac.incidents") == [
        {"resolution": "canceled", "resolved_by": "anna"}
    ]
    assert clerk.query("select * from celeriac.wait") == clerk.query("select * from celeriac.waiting") == []


def test_a_cancel_with_compensation_closes_it_and_undoes_the_task(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    ledger.incident(task)
    assert clerk.cancel(task.task_id, compensate=True).state == "UNDOING"
    assert ledger.open_incidents() == []
    (undo,) = clerk.fetch()
    ledger.undone(undo, 1)
    assert ledger.finish(undo) == "CANCELED"


def test_a_failing_undo_is_not_canceled_away(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    ledger.incident(task, "undo_failed", ordinal=1)
    before = clerk.everything()
    assert clerk.cancel(task.task_id).state == "UNDOING"
    assert clerk.everything() == before


@pytest.mark.parametrize("cancel_first", [True, False])
def test_beside_a_cancel_the_task_ends(clerk: Clerk, ledger: Ledger, database_url: str, cancel_first: bool) -> None:
    task = clerk.held()
    calls: list[Any] = [
        lambda clerk: clerk.cancel(task.task_id).state, lambda clerk: Ledger(clerk).incident(task),
    ]  # fmt: skip
    answers = overlap(database_url, *(calls if cancel_first else calls[::-1]))
    assert "CANCELED" in answers
    assert clerk.state(task.task_id) == "CANCELED"
    assert ledger.open_incidents() == []
    assert len(clerk.query("select * from celeriac.incidents")) == (0 if cancel_first else 1)
