"""resolve_incident: a person has decided, and the task goes on, or ends."""

from typing import Any
from uuid import UUID

import pytest

from db.errors import AlreadyEnded, Invalid, NotFound
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step
from tests.db.overlap import overlap


def failing_undo(clerk: Clerk, ledger: Ledger, *names: str, **item: Any) -> tuple[Any, UUID]:
    """A task that waits because its newest undo fails, and the incident."""
    task = ledger.undoing(*names, **item)
    number = ledger.compensations(task)[0].number
    return task, ledger.incident(task, "undo_failed", ordinal=number, message="bank closed")


def test_retry_wakes_the_task(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    clerk.celery_type()
    task = clerk.held()
    ledger.record(task, step(1))
    incident_id = ledger.incident(task)
    clerk.rings()
    clock.advance(60)
    answer = ledger.decide(incident_id, "retry", note="rolled back to v1", principal="anna")
    assert (answer.incident_id, answer.task_id, answer.task_type) == (incident_id, task.task_id, "mail")
    assert answer.resolution == "retry"
    assert clerk.rings() == [("fleet", "mail")]
    assert clerk.query("select state, resolution, resolved_by, resolved_at, note from celeriac.incidents") == [
        {
            "state": "RESOLVED", "resolution": "retry", "resolved_by": "anna", "resolved_at": clock.now(),
            "note": "rolled back to v1",
        }
    ]  # fmt: skip
    line = clerk.timeline(task.task_id)[-1]
    assert (line["kind"], line["principal"]) == ("resolved", "anna")
    assert line["detail"] == {
        "incident_id": str(incident_id), "kind": "other_code", "resolution": "retry", "note": "rolled back to v1",
    }  # fmt: skip
    (again,) = clerk.fetch()
    assert (again.task_id, again.resumed) == (task.task_id, True)
    assert again.fencing_token > task.fencing_token
    assert len(ledger.steps(again)) == 1
    assert clerk.query("select * from celeriac.wait") == []


def test_fail_ends_the_task_as_the_attempt_that_met_it_would_have(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    start = clock.now()
    task = clerk.held()
    incident_id = ledger.incident(task)
    clock.advance(60)
    assert ledger.decide(incident_id, "fail", principal="anna").resolution == "fail"
    cold = clerk.task(task.task_id)
    assert (cold["state"], cold["error"], cold["ended_at"]) == ("FAILED", "expected plan, found copy", clock.now())
    assert (cold["worker_id"], cold["principal"], cold["attempts"], cold["started_at"]) == ("w1", "postgres", 1, start)
    assert cold["fencing_token"] >= task.fencing_token
    for table in ("queue", "waiting", "wait"):
        assert clerk.scalar(f"select count(*) from celeriac.{table}") == 0
    assert sorted(line["kind"] for line in clerk.timeline(task.task_id)) == ["failed", "incident", "resolved"]
    assert [row["task_id"] for row in clerk.query("select task_id from celeriac.dead_letters")] == [task.task_id]


def test_fail_undoes_what_is_to_be_undone_first(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    ledger.decide(ledger.incident(task), "fail")
    (undo,) = clerk.fetch()
    assert (undo.task_id, undo.undoing) == (task.task_id, True)
    ledger.undone(undo, 1)
    assert ledger.finish(undo) == "FAILED"
    assert clerk.task(task.task_id)["error"] == "expected plan, found copy"


def test_fail_of_a_task_whose_undo_met_other_code_gives_its_undos_up(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing("refund", "unpack", "unship")
    ledger.undone(task, 3)
    ledger.decide(ledger.incident(task), "fail")
    assert clerk.query("select number, state from celeriac.compensations order by number") == [
        {"number": 1, "state": "SKIPPED"}, {"number": 2, "state": "SKIPPED"}, {"number": 3, "state": "DONE"},
    ]  # fmt: skip
    cold = clerk.task(task.task_id)
    assert (cold["state"], cold["error"]) == ("FAILED", "out of stock")
    assert clerk.queue(task.task_id) is None
    assert clerk.one("redrive_task", task_id=task.task_id).state == "READY"


def test_fail_is_possible_though_the_timeline_of_then_is_gone(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    incident_id = ledger.incident(task)
    clerk.run("delete from celeriac.history")
    ledger.decide(incident_id, "fail")
    assert clerk.state(task.task_id) == "FAILED"


def test_a_failing_undo_is_tried_again_with_full_budgets(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = ledger.undoing(retries=2, policy={"expirations": 1})
    clock.advance(60)
    clerk.fail(clerk.fetch()[0], retry_after_ms=0)
    clerk.fail(clerk.fetch()[0], retry_after_ms=0)
    (incident,) = ledger.open_incidents()
    ledger.decide(incident["incident_id"], "retry")
    (again,) = clerk.fetch()
    hot = clerk.queue(task.task_id)
    assert hot is not None
    assert (again.undoing, again.retries, hot["expirations"]) == (True, 2, 0)
    assert [row.state for row in ledger.compensations(again)] == ["REGISTERED"]


def test_a_failing_undo_is_skipped_and_the_older_ones_follow(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task, incident_id = failing_undo(clerk, ledger, "refund", "unpack")
    clock.advance(1)
    ledger.decide(incident_id, "skip", note="refunded by hand")
    (again,) = clerk.fetch()
    assert [(row.number, row.state, row.error) for row in ledger.compensations(again)] == [
        (2, "SKIPPED", "bank closed"), (1, "REGISTERED", None),
    ]  # fmt: skip
    assert clerk.query("select ended_at from celeriac.compensations where number = 2") == [{"ended_at": clock.now()}]
    assert ledger.steps(again) == []
    with clerk.refuses(Invalid, "number"):
        ledger.undone(again, 2)
    ledger.undone(again, 1)
    assert ledger.finish(again) == "FAILED"
    assert clerk.state(task.task_id) == "FAILED"


def test_when_the_last_one_is_skipped_the_task_can_end(clerk: Clerk, ledger: Ledger) -> None:
    _, incident_id = failing_undo(clerk, ledger)
    ledger.decide(incident_id, "skip")
    assert ledger.finish(clerk.fetch()[0]) == "FAILED"


@pytest.mark.parametrize("resolution", ["retry", "fail"])
def test_the_same_again_holds_and_another_is_refused(clerk: Clerk, ledger: Ledger, resolution: str) -> None:
    incident_id = ledger.incident(clerk.held())
    first = ledger.decide(incident_id, resolution)
    before = clerk.everything()
    assert ledger.decide(incident_id, resolution) == first
    assert clerk.everything() == before
    with clerk.refuses(AlreadyEnded):
        ledger.decide(incident_id, "fail" if resolution == "retry" else "retry")


@pytest.mark.parametrize("resolution", ["skip", "DONE", "", None, "Retry"])
def test_what_other_code_cannot_be_resolved_as(clerk: Clerk, ledger: Ledger, resolution: str) -> None:
    incident_id = ledger.incident(clerk.held())
    with clerk.refuses(Invalid, "resolution"):
        ledger.decide(incident_id, resolution)


@pytest.mark.parametrize("resolution", ["fail", "", None])
def test_what_a_failing_undo_cannot_be_resolved_as(clerk: Clerk, ledger: Ledger, resolution: str) -> None:
    _, incident_id = failing_undo(clerk, ledger)
    with clerk.refuses(Invalid, "resolution"):
        ledger.decide(incident_id, resolution)


def test_an_unknown_operation_is_resolved_by_what_came_of_it(clerk: Clerk, ledger: Ledger) -> None:
    operation_id = ledger.unknown(clerk.held())
    (incident,) = ledger.open_incidents()
    with clerk.refuses(Invalid, "resolution") as caught:
        ledger.decide(incident["incident_id"], "retry")
    assert caught.value.detail == {"operation_id": str(operation_id)}
    assert "resolve_operation" in caught.value.message


def test_foreign_and_missing_look_the_same(clerk: Clerk, ledger: Ledger) -> None:
    incident_id = ledger.incident(clerk.held("pay"))
    for asked, only in ((incident_id, ["mail"]), (UUID(int=7), None), (UUID(int=7), ["%"])):
        with clerk.refuses(NotFound):
            ledger.decide(asked, only_types=only)
    assert ledger.decide(incident_id, only_types=["p%"]).task_type == "pay"


@pytest.mark.parametrize("keep", [True, False])
def test_of_two_people_one_decides(clerk: Clerk, ledger: Ledger, database_url: str, keep: bool) -> None:
    for said in (("retry", "fail"), ("fail", "retry")):
        task = clerk.held()
        incident_id = ledger.incident(task)
        first, second = overlap(
            database_url,
            lambda clerk, said=said, incident_id=incident_id: Ledger(clerk).decide(incident_id, said[0]),
            lambda clerk, said=said, incident_id=incident_id: Ledger(clerk).decide(incident_id, said[1]),
            keep=keep,
        )
        assert first.resolution == said[0]
        assert isinstance(second, AlreadyEnded) if keep else second.resolution == said[1]
        assert clerk.state(task.task_id) == ("READY" if said[0 if keep else 1] == "retry" else "FAILED")
        clerk.fetch(max_tasks=10)


@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.parametrize("resolution", ["retry", "fail"])
def test_beside_a_cancel_one_of_the_two_wins(
    clerk: Clerk, ledger: Ledger, database_url: str, cancel_first: bool, resolution: str
) -> None:
    task = clerk.held()
    incident_id = ledger.incident(task)
    calls: list[Any] = [
        lambda clerk: clerk.cancel(task.task_id), lambda clerk: Ledger(clerk).decide(incident_id, resolution),
    ]  # fmt: skip
    _, second = overlap(database_url, *(calls if cancel_first else calls[::-1]))
    if cancel_first:
        assert isinstance(second, AlreadyEnded)
    state = "FAILED" if resolution == "fail" and not cancel_first else "CANCELED"
    assert clerk.state(task.task_id) == state
    assert ledger.open_incidents() == []
    for table in ("waiting", "wait", "queue"):
        assert clerk.scalar(f"select count(*) from celeriac.{table}") == 0


def test_the_attempts_tell_of_each_once(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(retries=1)
    ledger.register(task)
    clock.advance(1)
    ledger.decide(ledger.incident(task), "fail")
    clock.advance(1)
    clerk.fail(clerk.fetch()[0], error="bank closed")
    clock.advance(1)
    ledger.decide(ledger.open_incidents()[0]["incident_id"], "retry")
    (undo,) = clerk.fetch()
    ledger.undone(undo, 1)
    ledger.finish(undo)
    rows = clerk.query("select attempt, outcome, error from celeriac.task_attempts order by started_at")
    assert [tuple(row.values()) for row in rows] == [
        (1, "failed", "expected plan, found copy"),
        (2, "failed", "bank closed"),
        (2, "undone", "expected plan, found copy"),
    ]


def test_an_attempt_that_met_an_incident_is_one_of_the_attempts(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.incident(task)
    (row,) = clerk.query("select attempt, outcome, error, fencing_token from celeriac.task_attempts")
    assert tuple(row.values()) == (1, "incident", "expected plan, found copy", task.fencing_token)
