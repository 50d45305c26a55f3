"""settle_compensation, finish_undo: undos run newest first, then the task ends. Lease: step/test_under_a_lease.py."""

import psycopg
import pytest

from db.errors import AlreadyEnded, Canceled, Invalid, LeaseLost
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step
from tests.db.overlap import overlap


def states(ledger: Ledger, task: object) -> list[str]:
    """Of all compensations, newest first."""
    return [row.state for row in ledger.compensations(task)]  # type: ignore[arg-type]


def test_an_undo_that_was_made_is_a_step_in_a_branch_of_its_own(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = ledger.undoing("refund", "unpack")
    clock.advance(1)
    assert ledger.undone(task, 2) == "DONE"
    assert clerk.query("select number, state, ended_at from celeriac.compensations order by number") == [
        {"number": 1, "state": "REGISTERED", "ended_at": None},
        {"number": 2, "state": "DONE", "ended_at": clock.now()},
    ]
    (row,) = ledger.steps(task)
    assert tuple(row) == ("undo", 2, "step", "unpack", None, None)


def test_undos_run_newest_first(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing("refund", "unpack", "unship")
    for number in (1, 2):
        with clerk.refuses(Invalid, "number"):
            ledger.undone(task, number)
        with clerk.refuses(Invalid, "number"):
            ledger.undone(task, number, error="no")
    for number in (3, 2, 1):
        ledger.undone(task, number)
    assert states(ledger, task) == ["DONE"] * 3


def test_an_error_is_noted_and_it_is_to_be_undone_still(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    assert ledger.undone(task, 1, error="é" * 5000) == "REGISTERED"
    (row,) = ledger.compensations(task)
    assert (row.state, row.error) == ("REGISTERED", "é" * 4096)
    assert ledger.steps(task) == []
    ledger.undone(task, 1)
    (row,) = ledger.compensations(task)
    assert (row.state, row.error) == ("DONE", None)


def test_the_same_again_holds(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = ledger.undoing("refund", "unpack")
    ledger.undone(task, 2)
    before = clerk.everything()
    assert ledger.undone(task, 2) == "DONE"
    assert clerk.everything() == before
    clock.advance(60)
    (second,) = clerk.fetch()
    assert ledger.undone(second, 2) == "DONE"


def test_what_was_undone_cannot_fail_afterwards(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    ledger.undone(task, 1)
    with clerk.refuses(Invalid, "number"):
        ledger.undone(task, 1, error="no")


@pytest.mark.parametrize("number", [0, 2, -1, None])
def test_a_number_that_was_never_given_is_refused(clerk: Clerk, ledger: Ledger, number: int) -> None:
    task = ledger.undoing()
    with clerk.refuses(Invalid, "number"):
        ledger.undone(task, number)


def test_a_task_that_is_not_being_undone_undoes_nothing(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    with clerk.refuses(Invalid, "task_id"):
        ledger.undone(task, 1)
    with clerk.refuses(Invalid, "task_id"):
        ledger.finish(task)


def test_an_undo_that_writes_here_is_one_commit_with_the_proof_of_it(
    clerk: Clerk, ledger: Ledger, database_url: str
) -> None:
    clerk.run("create table public.refunds (id integer)")
    task = ledger.undoing()
    settle = "select celeriac.settle_compensation(%s, 'w1', %s, 1)"
    with psycopg.connect(database_url) as connection:
        for end, state in ((connection.rollback, "REGISTERED"), (connection.commit, "DONE")):
            connection.execute("insert into public.refunds values (1)")
            connection.execute(settle, (task.task_id, task.fencing_token))
            end()
            assert states(ledger, task) == [state]
    assert clerk.scalar("select count(*) from public.refunds") == 1


def test_when_all_is_undone_the_task_ends_failed_as_it_had_failed(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    clock.freeze()
    task = ledger.undoing()
    clock.advance(1)
    ledger.undone(task, 1)
    clock.advance(1)
    assert ledger.finish(task) == "FAILED"
    cold = clerk.task(task.task_id)
    assert (cold["state"], cold["error"], cold["ended_at"]) == ("FAILED", "out of stock", clock.now())
    assert (cold["worker_id"], cold["principal"], cold["fencing_token"]) == ("w1", "postgres", task.fencing_token)
    assert (cold["attempts"], cold["result"]) == (2, None)
    assert clerk.queue(task.task_id) is None
    assert clerk.query("select ended_at from celeriac.sagas") == [{"ended_at": clock.now()}]
    line = clerk.timeline(task.task_id)[-1]
    assert (line["kind"], line["worker_id"], line["fencing_token"]) == ("undone", "w1", task.fencing_token)
    assert line["detail"] == {"state": "FAILED", "error": "out of stock"}
    assert clerk.query("select task_id, error from celeriac.dead_letters") == [
        {"task_id": task.task_id, "error": "out of stock"}
    ]


def test_it_does_not_end_before_all_is_undone(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing("refund", "unpack")
    ledger.undone(task, 2)
    with clerk.refuses(Invalid, "task_id") as caught:
        ledger.finish(task)
    assert caught.value.detail == {"number": 1}


def test_the_end_again_holds_and_for_nobody_else(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    ledger.undone(task, 1)
    ledger.finish(task)
    before = clerk.everything()
    assert ledger.finish(task) == "FAILED"
    assert clerk.everything() == before
    with clerk.refuses(AlreadyEnded):
        ledger.finish(task, worker_id="w2")


def test_the_end_after_a_cancel_again_holds(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.register(task)
    clerk.cancel(task.task_id, compensate=True)
    clerk.release(task)
    (undo,) = clerk.fetch()
    ledger.undone(undo, 1)
    assert [ledger.finish(undo) for _ in range(2)] == ["CANCELED", "CANCELED"]
    with clerk.refuses(Canceled):
        ledger.undone(undo, 1)


def test_a_worker_that_fails_after_the_last_undo_ends_it_all_the_same(clerk: Clerk, ledger: Ledger) -> None:
    """Nothing is left that a person could decide."""
    task = ledger.undoing()
    ledger.undone(task, 1)
    assert clerk.fail(task, retries=0, error="closed the connection").state == "FAILED"
    assert clerk.task(task.task_id)["error"] == "out of stock"
    assert ledger.open_incidents() == []


def test_when_it_has_used_up_its_budget_a_person_must_look(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing("refund", "unpack", retries=2)
    ledger.undone(task, 2)
    assert clerk.fail(task, retry_after_ms=0, error="bank closed").state == "READY"
    (task,) = clerk.fetch()
    answer = clerk.fail(task, error="bank closed")
    assert (answer.state, answer.retries, answer.run_at) == ("WAITING", 0, None)
    assert clerk.fail(task, error="bank closed") == answer
    (incident,) = ledger.open_incidents()
    assert (incident["kind"], incident["branch"], incident["ordinal"]) == ("undo_failed", "undo", 1)
    assert (incident["name"], incident["message"]) == ("refund", "bank closed")
    assert clerk.state(task.task_id) == "WAITING"
    assert clerk.query("select error from celeriac.compensations where number = 1") == [{"error": "bank closed"}]


def test_so_must_one_when_it_has_lost_too_many_leases(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    task = ledger.undoing(policy={"expirations": 0})
    clock.advance(60)
    swept = clerk.one("expire_leases")
    assert (swept.expired, swept.failed, swept.task_types) == (1, 1, [])
    (incident,) = ledger.open_incidents()
    assert (incident["kind"], incident["message"]) == ("undo_failed", "lease_lost")
    ledger.decide(incident["incident_id"], "retry")
    (again,) = clerk.fetch()
    assert (again.task_id, again.undoing) == (task.task_id, True)
    assert clerk.queue(task.task_id) is not None


@pytest.mark.parametrize("finish_first", [True, False])
def test_beside_a_cancel_it_ends_as_it_had_begun(
    clerk: Clerk, ledger: Ledger, database_url: str, finish_first: bool
) -> None:
    task = ledger.undoing()
    ledger.undone(task, 1)
    calls = [
        lambda clerk: Ledger(clerk).finish(task),
        lambda clerk: clerk.cancel(task.task_id, compensate=True).state,
    ]
    first, second = overlap(database_url, *(calls if finish_first else calls[::-1]))
    finished, canceled = (first, second) if finish_first else (second, first)
    assert finished == "FAILED"
    assert isinstance(canceled, AlreadyEnded) if finish_first else canceled == "UNDOING"
    assert clerk.state(task.task_id) == "FAILED"


def test_two_zombies_cannot_end_it_twice(clerk: Clerk, ledger: Ledger, clock: Clock) -> None:
    zombie = ledger.undoing()
    ledger.undone(zombie, 1)
    clock.advance(60)
    (task,) = clerk.fetch(worker_id="w2")
    ledger.finish(task, worker_id="w2")
    with clerk.refuses(AlreadyEnded):
        ledger.finish(zombie)


def test_redriven_after_its_undo_it_begins_anew(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.record(task, step(1))
    ledger.settle(task, ledger.begin(task, 2).operation_id, "DONE")
    ledger.register(task, 3)
    clerk.fail(task, retries=0)
    (undo,) = clerk.fetch()
    ledger.undone(undo, 1)
    ledger.finish(undo)
    clerk.one("redrive_task", task_id=task.task_id)
    for table in ("step", "operation", "compensation", "saga"):
        assert clerk.scalar(f"select count(*) from celeriac.{table}") == 0
    (again,) = clerk.fetch()
    assert (again.resumed, again.undoing, again.attempt) == (False, False, 1)
    assert ledger.register(again, 1) == 1
    assert clerk.fail(again, retries=0).state == "READY"


def test_redriven_without_an_undo_it_goes_on_from_its_steps(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.record(task, step(1))
    begun = ledger.begin(task, 2)
    clerk.fail(task, retries=0)
    clerk.one("redrive_task", task_id=task.task_id)
    (again,) = clerk.fetch()
    assert (again.resumed, again.undoing, again.attempt) == (True, False, 1)
    assert len(ledger.steps(again)) == 1
    found = ledger.begin(again, 2)
    assert (found.operation_id, found.fresh) == (begun.operation_id, False)


def test_what_is_being_undone_cannot_be_redriven(clerk: Clerk, ledger: Ledger) -> None:
    task = ledger.undoing()
    with clerk.refuses(AlreadyEnded):
        clerk.one("redrive_task", task_id=task.task_id)
    with clerk.refuses(LeaseLost):
        ledger.finish(task, worker_id="w2")
