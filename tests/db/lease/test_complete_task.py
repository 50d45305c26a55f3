"""complete_task: LOCKED -> COMPLETED. What it refuses of a lease: test_refused_writes.py."""

import json
from typing import Any

import pytest

from db import call
from db.errors import AlreadyEnded, Canceled, Invalid, LeaseLost, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_the_task_ends_with_its_result_and_leaves_the_queue(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(variables={"to": "ada"})
    before = clerk.task(task.task_id)
    start = clock.now()
    clock.advance(5)
    answer = clerk.complete(task, variables={"sent": 1}, principal=None)
    assert (answer.task_id, answer.state) == (task.task_id, "COMPLETED")
    assert clerk.queue(task.task_id) is None
    assert clerk.task(task.task_id) == before | {
        "state": "COMPLETED", "result": '{"sent": 1}', "started_at": start, "ended_at": clock.now(), "attempts": 1,
        "fencing_token": task.fencing_token, "worker_id": "w1", "principal": "postgres",
    }  # fmt: skip
    assert clerk.timeline(task.task_id) == []


def test_attempts_and_lost_leases_stand_on_the_ended_task(clerk: Clerk, clock: Clock) -> None:
    clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    (task,) = clerk.fetch()
    clerk.complete(task)
    ended = clerk.task(task.task_id)
    assert (ended["attempts"], ended["expirations"]) == (2, 1)


@pytest.mark.parametrize("nothing", [None, {}], ids=["null", "empty"])
def test_no_result_is_an_empty_one(clerk: Clerk, nothing: Any) -> None:
    task = clerk.held()
    clerk.complete(task, variables=nothing)
    assert clerk.task(task.task_id)["result"] == "{}"


@pytest.mark.parametrize("token", ["sent", "not sent"])
def test_the_same_completion_again_holds_and_changes_nothing(clerk: Clerk, token: str) -> None:
    """Case B10: the answer was lost, the worker asks again."""
    task = clerk.held()
    changed: dict[str, Any] = {"variables": {"a": 1, "b": [2]}} | ({} if token == "sent" else {"fencing_token": None})
    first = clerk.complete(task, **changed)
    before = clerk.everything()
    assert clerk.complete(task, **changed) == first
    assert clerk.complete(task, **changed | {"variables": {"b": [2], "a": 1}}) == first
    assert clerk.everything() == before


def test_another_result_is_refused(clerk: Clerk) -> None:
    """Case B10."""
    task = clerk.held()
    clerk.complete(task, variables={"a": 1})
    with clerk.refuses(AlreadyEnded):
        clerk.complete(task, variables={"a": 2})
    with clerk.refuses(AlreadyEnded):
        clerk.complete(task)


@pytest.mark.parametrize(
    "changed", [{"worker_id": "w2"}, {"principal": "eve"}, {"fencing_token": 999_999}], ids=lambda c: next(iter(c))
)
def test_who_did_not_complete_it_cannot_repeat_it(clerk: Clerk, changed: dict[str, Any]) -> None:
    """Case B10: another worker with the same token or none is told that it has ended."""
    task = clerk.done()
    with clerk.refuses(AlreadyEnded):
        clerk.complete(task, **changed)


def test_a_failure_or_a_release_after_the_completion_is_refused(clerk: Clerk) -> None:
    """Case B10."""
    task = clerk.done()
    for write in (clerk.fail, clerk.release, clerk.extend):
        with clerk.refuses(AlreadyEnded):
            write(task)


def test_a_task_that_was_purged_since_is_not_found(clerk: Clerk, clock: Clock) -> None:
    """Case B10: told from an ended one for as long as history is kept."""
    task = clerk.done()
    clock.advance(10)
    clerk.one("purge_ended", older_than_ms=1)
    with pytest.raises(Exception, match="no such task"):
        clerk.complete(task)


def test_numbers_of_a_result_keep_their_digits(clerk: Clerk) -> None:
    """Case B17."""
    result = '{"id": 9007199254740993, "sum": 250000.10, "past_int64": 9223372036854775808}'
    task = clerk.held()
    clerk.complete(task, variables=call.Json(result))
    assert (
        clerk.task(task.task_id)["result"]
        == '{"id": 9007199254740993, "sum": 250000.10, "past_int64": 9223372036854775808}'
    )


@pytest.mark.parametrize("result", ["[]", "7", '"done"', "true"])
def test_a_result_is_an_object(clerk: Clerk, result: str) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, "items[0].variables"):
        clerk.complete(task, variables=call.Json(result))


def test_a_result_over_a_mebibyte_is_too_large(clerk: Clerk) -> None:
    """Case B16: refused at the write that crosses the limit."""
    task = clerk.held()
    with clerk.refuses(TooLarge, "items[0].variables"):
        clerk.complete(task, variables={"blob": "x" * 1_048_576})
    clerk.complete(task, variables={"blob": "x" * (1_048_576 - len('{"blob": ""}'))})


@pytest.mark.parametrize("result", ['{"a": "b\\u0000"}', '{"b\\u0000": 1}', '{"a": "\\udc00"}', '{"a": NaN}'])
def test_a_result_that_cannot_be_stored_is_invalid_and_the_task_can_still_be_canceled(
    clerk: Clerk, result: str
) -> None:
    """Case B13."""
    task = clerk.held()
    with clerk.refuses(Invalid):
        clerk.complete(task, variables=call.Json(result))
    assert clerk.cancel(task.task_id, reason="cannot be stored").state == "CANCELED"


def test_of_a_cancel_and_a_completion_the_first_wins(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.cancel(task.task_id)
    with clerk.refuses(Canceled):
        clerk.complete(task)
    other = clerk.done()
    with clerk.refuses(AlreadyEnded):
        clerk.cancel(other.task_id)


def test_a_lease_of_another_caller_is_not_mine(clerk: Clerk) -> None:
    clerk.enqueue()
    (task,) = clerk.fetch(principal="anna")
    with clerk.refuses(LeaseLost):
        clerk.complete(task, principal="eve")
    assert json.loads(clerk.task(task.task_id)["variables"]) == {}
    clerk.complete(task, principal="anna")
    assert clerk.task(task.task_id)["principal"] == "anna"
