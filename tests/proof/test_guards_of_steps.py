"""The guards of what durable tasks do and undo: each is taken out of the shipped text once, and its check must fail."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc
from sqlalchemy import Connection

from db.call import Json
from db.errors import Refused
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step
from tests.db.overlap import overlap
from tests.proof.shipped import install, replaced, shipped
from tests.proof.test_guards import Guard, Scene


def ledger_of(scene: Scene) -> Ledger:
    return Ledger(Clerk(scene.connection))


def held(scene: Scene, **item: Any) -> Any:
    return Clerk(scene.connection).held(scene.task_type, lock_duration_ms=1000, **item)


def fetched(scene: Scene) -> Any:
    (task,) = Clerk(scene.connection).fetch(scene.task_type)
    return task


def code(call: Callable[[], Any]) -> Any:
    """What a call answers, or the code of its refusal."""
    try:
        return call()
    except Refused as refusal:
        return refusal.code


def a_stale_token_writes_nothing(scene: Scene) -> None:
    zombie = held(scene)
    scene.clock.advance(2)
    fetched(scene)
    assert code(lambda: ledger_of(scene).record(zombie, step())) == "stale_token"


def a_stale_token_reads_nothing(scene: Scene) -> None:
    zombie = held(scene)
    scene.clock.advance(2)
    fetched(scene)
    assert code(lambda: ledger_of(scene).steps(zombie)) == "stale_token"


def another_worker_writes_nothing(scene: Scene) -> None:
    task = held(scene)
    assert code(lambda: ledger_of(scene).record(task, step(), worker_id="w2")) == "lease_lost"


def another_principal_writes_nothing(scene: Scene) -> None:
    scene.enqueue()
    task = Clerk(scene.connection).fetch(scene.task_type, principal="another")[0]
    assert code(lambda: ledger_of(scene).record(task, step())) == "lease_lost"


def another_worker_reads_nothing(scene: Scene) -> None:
    task = held(scene)
    assert code(lambda: ledger_of(scene).steps(task, worker_id="w2")) == "lease_lost"


def an_expired_lease_writes_nothing(scene: Scene) -> None:
    task = held(scene)
    scene.clock.advance(2)
    assert code(lambda: ledger_of(scene).record(task, step())) == "lease_expired"


def an_expired_lease_reads_nothing(scene: Scene) -> None:
    task = held(scene)
    scene.clock.advance(2)
    assert code(lambda: ledger_of(scene).steps(task)) == "lease_expired"


def nobody_takes_the_task_away_before_the_commit(scene: Scene) -> None:
    task = held(scene)
    with psycopg.connect(scene.url) as writer, psycopg.connect(scene.url, autocommit=True) as other:
        writer.execute(
            'select celeriac.record_steps(%s, \'w1\', %s, \'[{"ordinal": 1, "kind": "step", "name": "a"}]\')',
            (task.task_id, task.fencing_token),
        )
        other.execute("set lock_timeout = '1ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("select celeriac.cancel_task(%s)", (task.task_id,))


def what_is_recorded_stays(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.record(task, step(result=1))
    assert code(lambda: ledger.record(task, step(result=2))) == "invalid"


def no_step_takes_the_place_of_an_operation(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.begin(task, 1)
    assert code(lambda: ledger.record(task, step(1))) == "invalid"


def no_operation_takes_the_place_of_a_step(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.record(task, step(1))
    assert code(lambda: ledger.begin(task, 1)) == "invalid"


def results_have_a_largest_size(scene: Scene) -> None:
    task = held(scene)
    assert code(lambda: ledger_of(scene).record(task, step(result="x" * 1_048_576))) == "too_large"


def an_effect_is_made_once(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    assert [ledger.begin(task).fresh for _ in range(2)] == [True, False]


def another_operation_is_not_taken_for_it(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.begin(task, 1, "copy")
    assert code(lambda: ledger.begin(task, 1, "move")) == "invalid"


def what_is_done_stays_done(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    begun = ledger.begin(task)
    ledger.settle(task, begun.operation_id, "DONE", result=Json("1"))
    assert code(lambda: ledger.settle(task, begun.operation_id, "NOT_DONE")) == "invalid"


def done_again_needs_the_same_result(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    begun = ledger.begin(task)
    ledger.settle(task, begun.operation_id, "DONE", result=Json("1"))
    assert code(lambda: ledger.settle(task, begun.operation_id, "DONE", result=Json("2"))) == "invalid"


def an_operation_belongs_to_its_task(scene: Scene) -> None:
    ledger = ledger_of(scene)
    other = ledger.begin(held(scene))
    task = held(scene)
    assert code(lambda: ledger.settle(task, other.operation_id)) == "invalid"


def workers_do_not_decide_for_people(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.register(task)
    operation_id = ledger.unknown(task)
    ledger.clerk.cancel(task.task_id, compensate=True)
    second = fetched(scene)
    assert code(lambda: ledger.settle(second, operation_id, "DONE")) == "invalid"


def people_do_not_decide_for_workers(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    begun = ledger.begin(task)
    assert code(lambda: ledger.resolve(begun.operation_id, "NOT_DONE")) == "already_ended"


def one_of_two_people_decides(scene: Scene) -> None:
    """There is no task left to lock."""
    task, ledger = held(scene), ledger_of(scene)
    operation_id = ledger.unknown(task)
    ledger.clerk.cancel(task.task_id)
    answers = overlap(
        scene.url,
        lambda clerk: Ledger(clerk).resolve(operation_id, "DONE").state,
        lambda clerk: Ledger(clerk).resolve(operation_id, "NOT_DONE"),
    )
    assert (answers[0], answers[1].code) == ("DONE", "already_ended")


def a_decision_wakes_a_task_only_from_what_it_decides(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.register(task)
    operation_id = ledger.unknown(task, ordinal=2)
    ledger.clerk.cancel(task.task_id, compensate=True)
    ledger.clerk.fail(fetched(scene), retries=0)
    ledger.resolve(operation_id, "NOT_DONE")
    assert ledger.clerk.state(task.task_id) == "WAITING"


def foreign_operations_are_not_resolved(scene: Scene) -> None:
    ledger = ledger_of(scene)
    operation_id = ledger.unknown(held(scene))
    assert code(lambda: ledger.resolve(operation_id, only_types=["other"])) == "not_found"


def foreign_incidents_are_not_resolved(scene: Scene) -> None:
    ledger = ledger_of(scene)
    incident_id = ledger.incident(held(scene))
    assert code(lambda: ledger.decide(incident_id, only_types=["other"])) == "not_found"


def a_lost_answer_raises_no_second_incident(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    incident_id = ledger.incident(task)
    assert code(lambda: ledger.incident(task)) == incident_id


def a_decision_is_made_once(scene: Scene) -> None:
    ledger = ledger_of(scene)
    incident_id = ledger.incident(held(scene))
    ledger.decide(incident_id, "retry")
    assert code(lambda: ledger.decide(incident_id, "fail")) == "already_ended"


def what_is_registered_is_undone_before_the_task_fails(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.register(task)
    assert ledger.clerk.fail(task, retries=0).state == "READY"


def what_is_being_undone_begins_nothing_new(scene: Scene) -> None:
    ledger = ledger_of(scene)
    task = ledger.undoing(task_type=scene.task_type)
    assert code(lambda: ledger.record(task, step())) == "invalid"
    assert code(lambda: ledger.register(task, 2)) == "invalid"


def what_is_being_undone_does_not_complete(scene: Scene) -> None:
    ledger = ledger_of(scene)
    task = ledger.undoing(task_type=scene.task_type)
    assert code(lambda: ledger.clerk.complete(task)) == "invalid"


def undos_run_newest_first(scene: Scene) -> None:
    ledger = ledger_of(scene)
    task = ledger.undoing("refund", "unpack", task_type=scene.task_type)
    assert code(lambda: ledger.undone(task, 1)) == "invalid"
    assert [ledger.undone(task, 2), ledger.undone(task, 1)] == ["DONE", "DONE"]


def nothing_is_undone_of_a_task_that_goes_on(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.register(task)
    assert code(lambda: ledger.undone(task, 1)) == "invalid"


def it_ends_when_all_is_undone(scene: Scene) -> None:
    ledger = ledger_of(scene)
    task = ledger.undoing(task_type=scene.task_type)
    assert code(lambda: ledger.finish(task)) == "invalid"


def a_task_that_goes_on_is_not_finished(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    assert code(lambda: ledger.finish(task)) == "invalid"


def a_failing_undo_is_for_a_person(scene: Scene) -> None:
    ledger = ledger_of(scene)
    task = ledger.undoing(task_type=scene.task_type)
    assert ledger.clerk.fail(task, retries=0).state == "WAITING"
    assert ledger.clerk.scalar("select count(*) from celeriac.compensation where state = 'REGISTERED'") >= 1


def what_was_undone_begins_anew(scene: Scene) -> None:
    task, ledger = held(scene), ledger_of(scene)
    ledger.record(task, step(1))
    ledger.register(task, 2)
    ledger.clerk.fail(task, retries=0)
    undo = fetched(scene)
    ledger.undone(undo, 1)
    ledger.finish(undo)
    ledger.clerk.one("redrive_task", task_id=task.task_id)
    assert ledger.steps(fetched(scene)) == []


def what_a_person_lets_try_again_has_a_budget(scene: Scene) -> None:
    ledger = ledger_of(scene)
    task = ledger.undoing(task_type=scene.task_type, retries=2)
    ledger.clerk.fail(task, retry_after_ms=0)
    ledger.clerk.fail(fetched(scene))
    (incident,) = [row for row in ledger.open_incidents() if row["task_id"] == task.task_id]
    ledger.decide(incident["incident_id"], "retry")
    assert fetched(scene).retries == 2


# How a check fails: its own assert, a fault of the database, or no refusal where there should be one.
FAILS = (AssertionError, AttributeError, sqlalchemy.exc.DBAPIError, psycopg.Error, pytest.fail.Exception)
OWNER = "\n       and q.lease_owner = {0}.worker_id and q.lease_principal = session_user"
GUARDS = [
    Guard(1, "the token of a write", "try_lease", "\n       and q.fencing_token = try_lease.fencing_token", "",
          a_stale_token_writes_nothing),
    Guard(1, "the token of a read", "see_lease", "\n       and q.fencing_token = see_lease.fencing_token", "",
          a_stale_token_reads_nothing),
    Guard(4, "the owner of a write", "try_lease", OWNER.format("try_lease"), "", another_worker_writes_nothing),
    Guard(4, "the principal of a write", "try_lease", " and q.lease_principal = session_user", "",
          another_principal_writes_nothing),
    Guard(4, "the owner of a read", "see_lease", OWNER.format("see_lease"), "", another_worker_reads_nothing),
    Guard(4, "the end of the lease, of a write", "try_lease", " and q.lease_expires_at > celeriac.now()", "",
          an_expired_lease_writes_nothing),
    Guard(4, "the end of the lease, of a read", "see_lease", " and q.lease_expires_at > celeriac.now()", "",
          an_expired_lease_reads_nothing),
    Guard(8, "the lock of the lease", "try_lease", "\n       for update;", ";",
          nobody_takes_the_task_away_before_the_commit),
    Guard(11, "one record a place", "write_step", "perform celeriac.refuse(", "perform format('%s', ",
          what_is_recorded_stays),
    Guard(11, "a step at the place of an operation", "record_steps", "if has_operations then", "if false then",
          no_step_takes_the_place_of_an_operation),
    Guard(11, "an operation at the place of a step", "refuse_step", "if found then", "if false then",
          no_operation_takes_the_place_of_a_step),
    Guard(10, "the size of a result", "read_result", "> 1048576 then", "> 1048576000 then",
          results_have_a_largest_size),
    Guard(12, "begun once", "begin_operation", "elsif op.state = 'NOT_DONE' then", "elsif op.state <> 'DONE' then",
          an_effect_is_made_once),
    Guard(12, "its name", "begin_operation", "elsif op.name <> begin_operation.name then", "elsif false then",
          another_operation_is_not_taken_for_it),
    Guard(12, "settled once", "end_operation", "elsif op.state not in ('STARTED', 'UNKNOWN')", "elsif false",
          what_is_done_stays_done),
    Guard(12, "the same result", "end_operation",
          " and celeriac.result_of(op) is not distinct from end_operation.result", "",
          done_again_needs_the_same_result),
    Guard(12, "its task", "settle_operation", " and o.task_id = settle_operation.task_id", "",
          an_operation_belongs_to_its_task),
    Guard(13, "a person decides", "settle_operation", "elsif op.state = 'UNKNOWN' then", "elsif false then",
          workers_do_not_decide_for_people),
    Guard(13, "only the unknown", "resolve_operation", "if op.state <> 'UNKNOWN' and (", "if false and (",
          people_do_not_decide_for_workers),
    Guard(13, "one decision", "resolve_operation",
          "for update;\n    select i.* into incident", ";\n    select i.* into incident", one_of_two_people_decides),
    Guard(13, "what it waits for", "close_incident", "return found;", "return true;",
          a_decision_wakes_a_task_only_from_what_it_decides),
    Guard(13, "whose operation", "resolve_operation", "not celeriac.may_touch(of_type, only_types)", "false",
          foreign_operations_are_not_resolved),
    Guard(13, "whose incident", "resolve_incident",
          "incident.id is null or not (coalesce(", "incident.id is null or not (true or coalesce(",
          foreign_incidents_are_not_resolved),
    Guard(5, "an incident again", "past_incident", "if before.task_id is not null then", "if false then",
          a_lost_answer_raises_no_second_incident),
    Guard(13, "an incident is decided once", "resolve_incident",
          "elsif incident.resolution <> resolve_incident.resolution then", "elsif false then", a_decision_is_made_once),
    Guard(14, "undone first", "fail_for_good", "elsif next.number is not null then", "elsif false then",
          what_is_registered_is_undone_before_the_task_fails),
    Guard(14, "nothing new", "hold_onward", "if held.undoing then", "if false then",
          what_is_being_undone_begins_nothing_new),
    Guard(14, "no completion", "end_completed", " and not q.undoing", "", what_is_being_undone_does_not_complete),
    Guard(14, "newest first", "note_undo_error", 
          "elsif note_undo_error.number is distinct from (celeriac.next_undo(held.task_id)).number then",
          "elsif false then", undos_run_newest_first),
    Guard(14, "only what is being undone", "note_undo_error", "if not held.undoing then", "if false then",
          nothing_is_undone_of_a_task_that_goes_on),
    Guard(14, "all of it", "finish_undo", "elsif undo.number is not null then", "elsif false then",
          it_ends_when_all_is_undone),
    Guard(14, "only an undo is finished", "finish_undo", "if not held.undoing then", "if false then",
          a_task_that_goes_on_is_not_finished),
    Guard(14, "never given up by itself", "fail_for_good", "if held.undoing and next.number is null then",
          "if held.undoing then", a_failing_undo_is_for_a_person),
    Guard(14, "begun anew", "redrive_task", "perform celeriac.forget_steps(was.id);", "null;",
          what_was_undone_begins_anew),
    Guard(14, "a new budget", "go_on", "retries = celeriac.full_retries(w.task_id), ", "",
          what_a_person_lets_try_again_has_a_budget),
]  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"rule {guard.rule}, {guard.name}")
def test_a_check_holds_with_its_guard_and_fails_without(
    conn: Connection, clock: Clock, database_url: str, guard: Guard
) -> None:
    guard.check(Scene(conn, clock, database_url, "with"))
    install(conn, replaced(shipped(guard.function), guard.old, guard.new))
    with pytest.raises(FAILS):
        guard.check(Scene(conn, clock, database_url, "without"))
