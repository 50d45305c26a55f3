"""cancel_task: READY | SCHEDULED | LOCKED | WAITING -> CANCELED."""

from uuid import UUID

import pytest

from db.errors import AlreadyEnded, Invalid, NotFound, StaleToken
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.waits import at_rest, for_signal, send


@pytest.mark.parametrize("item", [{}, {"delay_ms": 60_000}], ids=["READY", "SCHEDULED"])
def test_a_task_that_nobody_holds_ends_at_once(clerk: Clerk, clock: Clock, item: dict[str, int]) -> None:
    clock.freeze()
    task_id = clerk.enqueue(**item)
    before = clerk.task(task_id)
    answer = clerk.cancel(task_id, reason="not needed", principal="anna")
    assert (answer.task_id, answer.state) == (task_id, "CANCELED")
    assert clerk.queue(task_id) is None
    after = clerk.task(task_id)
    assert after == before | {
        "state": "CANCELED", "error": "not needed", "ended_at": clock.now(), "principal": "anna",
        "fencing_token": after["fencing_token"],
    }  # fmt: skip
    clock.advance(120)
    assert clerk.one("promote_due").promoted == 0
    assert clerk.fetch() == []


def test_a_held_task_ends_and_its_worker_becomes_stale(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.cancel(task.task_id)
    ended = clerk.task(task.task_id)
    assert (ended["state"], ended["worker_id"], ended["attempts"]) == ("CANCELED", "w1", 1)
    assert ended["fencing_token"] > task.fencing_token
    assert ended["started_at"] is not None


def test_a_waiting_task_ends(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    assert clerk.cancel(task.task_id).state == "CANCELED"
    assert clerk.timeline(task.task_id)[0]["detail"] == {"reason": None, "was": "WAITING"}
    assert (
        clerk.scalar("select count(*) from celeriac.waiting") == clerk.scalar("select count(*) from celeriac.wait") == 0
    )
    assert send(clerk).delivered == 0


def test_it_stands_in_the_timeline(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    clerk.cancel(task.task_id, reason="not needed", principal="anna")
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["at"], line["worker_id"], line["principal"]) == ("canceled", clock.now(), "w1", "anna")
    assert (line["fencing_token"], line["attempt"]) == (task.fencing_token, 1)
    assert line["detail"] == {"reason": "not needed", "was": "LOCKED"}


def test_canceling_again_gives_the_same_answer_and_changes_nothing(clerk: Clerk) -> None:
    task_id = clerk.enqueue()
    first = clerk.cancel(task_id, reason="one")
    before = clerk.everything()
    assert clerk.cancel(task_id, reason="two") == first
    assert clerk.everything() == before


def test_a_task_that_ended_otherwise_is_refused(clerk: Clerk) -> None:
    for task in (clerk.done(), clerk.dead()):
        with clerk.refuses(AlreadyEnded):
            clerk.cancel(task.task_id)


def test_foreign_and_missing_look_the_same(clerk: Clerk) -> None:
    """Case B66."""
    task_id = clerk.enqueue("pay")
    with clerk.refuses(NotFound) as foreign:
        clerk.cancel(task_id, only_types=["mail"])
    with clerk.refuses(NotFound) as missing:
        clerk.cancel(UUID(int=7), only_types=["mail"])
    assert foreign.value.message == missing.value.message


def test_a_reason_is_cut_between_characters_and_cannot_hold_a_nul(clerk: Clerk) -> None:
    """Case B13."""
    task_id = clerk.enqueue()
    with clerk.refuses(Invalid):
        clerk.cancel(task_id, reason="a\0b")
    clerk.cancel(task_id, reason="😀" * 5000)
    assert clerk.task(task_id)["error"] == "😀" * 2048


def test_a_task_that_failed_before_can_be_canceled_while_it_rests(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.fail(task, retry_after_ms=60_000)
    clerk.cancel(task.task_id)
    assert [line["kind"] for line in clerk.timeline(task.task_id)] == ["failed", "canceled"]
    assert clerk.task(task.task_id)["attempts"] == 1


def test_a_task_of_another_holder_is_stale_for_the_one_before_also_after_the_cancel(clerk: Clerk, clock: Clock) -> None:
    zombie = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.fetch(worker_id="w2")
    with clerk.refuses(StaleToken):
        clerk.extend(zombie)
