"""LOCKED -> WAITING, and what has come by then."""

import pytest

from db.errors import AlreadyEnded, Canceled, Invalid, LeaseExpired, LeaseLost, StaleToken
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.waits import at_rest, children, fire, for_signal, for_task, for_time, send, steps, suspend


def test_a_task_that_waits_has_no_queue_row_and_gets_its_attempt_back(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    assert clerk.queue(task.task_id) is None
    assert clerk.state(task.task_id) == "WAITING"
    assert clerk.query("select state, attempts from celeriac.task_list") == [{"state": "WAITING", "attempts": 0}]
    assert clerk.fetch() == []


def test_a_task_that_comes_back_is_handed_out_with_a_higher_token_and_may_have_steps(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal(), priority=7, retries=9)
    send(clerk)
    (again,) = clerk.fetch()
    assert again.task_id == task.task_id
    assert again.fencing_token > task.fencing_token
    assert (again.attempt, again.retries, again.priority, again.payload_bytes) == (1, 9, 7, task.payload_bytes)
    assert clerk.queue(task.task_id)["resumed"] is True  # type: ignore[index]


def test_the_same_again_after_a_lost_answer_changes_nothing(clerk: Clerk) -> None:
    task = clerk.held()
    first = suspend(clerk, task, for_signal(timeout_ms=60_000))
    before = clerk.query("select * from celeriac.wait")
    assert suspend(clerk, task, for_signal(timeout_ms=60_000)) == first
    assert clerk.query("select * from celeriac.wait") == before


def test_what_was_satisfied_is_answered_again_after_a_lost_answer(clerk: Clerk) -> None:
    send(clerk, payload={"n": 1})
    task = clerk.held()
    first = suspend(clerk, task, for_signal())
    assert [row.state for row in first] == ["SATISFIED"]
    assert suspend(clerk, task, for_signal()) == first
    assert clerk.state(task.task_id) == "LOCKED"


def test_whoever_has_lost_the_lease_suspends_nothing(clerk: Clerk, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    with clerk.refuses(StaleToken):
        suspend(clerk, task, for_signal(), fencing_token=task.fencing_token + 1)
    with clerk.refuses(LeaseLost):
        suspend(clerk, task, for_signal(), worker_id="w2")
    clock.advance(2)
    with clerk.refuses(LeaseExpired):
        suspend(clerk, task, for_signal())


def test_a_task_that_waits_takes_no_write_of_its_last_worker(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    for write in (clerk.extend, clerk.complete, clerk.fail, clerk.release):
        with clerk.refuses(LeaseLost):
            write(task)
    send(clerk)
    clerk.fetch(worker_id="w2")
    for write in (clerk.extend, clerk.complete, clerk.fail, clerk.release):
        with clerk.refuses(StaleToken):
            write(task)
    with clerk.refuses(StaleToken):
        suspend(clerk, task, for_signal())


def test_an_ended_task_does_not_begin_to_wait(clerk: Clerk) -> None:
    task = clerk.done()
    with clerk.refuses(AlreadyEnded):
        suspend(clerk, task, for_signal())
    canceled = clerk.held()
    clerk.cancel(canceled.task_id)
    with clerk.refuses(Canceled):
        suspend(clerk, canceled, for_signal())


def test_of_several_waits_the_first_to_come_wakes_and_the_others_keep_their_time(clerk: Clerk, clock: Clock) -> None:
    waits = [for_time(30_000, ordinal=1, branch="1.0"), for_signal(ordinal=1, branch="1.1", timeout_ms=90_000)]
    task = at_rest(clerk, *waits)
    clock.advance(10)
    send(clerk, payload=1)
    (again,) = clerk.fetch()
    assert [(branch, result["payload"]) for branch, _, _, _, result in steps(clerk, task.task_id)] == [("1.1", 1)]
    assert clerk.scalar("select bool_or(armed) from celeriac.wait") is False
    clock.advance(10)
    assert suspend(clerk, again, waits[0])[0].state == "WAITING"
    clock.advance(9)
    assert fire(clerk).fired == 0
    clock.advance(2)
    assert fire(clerk).fired == 1


def test_time_goes_on_for_a_wait_beside_one_that_is_satisfied_at_once(clerk: Clerk, clock: Clock) -> None:
    send(clerk)
    task = clerk.held()
    sleep = for_time(20_000, branch="1.0")
    (met,) = suspend(clerk, task, sleep, for_signal(branch="1.1"))
    assert (met.branch, met.state) == ("1.1", "SATISFIED")
    clock.advance(15)
    assert suspend(clerk, task, sleep)[0].state == "WAITING"
    clock.advance(6)
    assert fire(clerk).fired == 1


def test_what_time_has_passed_is_satisfied_at_once(clerk: Clerk) -> None:
    task = clerk.held()
    answer = suspend(
        clerk,
        task,
        for_time(0, ordinal=1),
        {"kind": "timer", "name": "until", "until": "2020-01-01T00:00:00Z", "ordinal": 2},
        for_signal(ordinal=3, timeout_ms=0),
        for_signal(ordinal=4),
    )
    assert [(row.ordinal, row.kind, row.state, row.result) for row in answer] == [
        (1, "timer", "SATISFIED", None),
        (2, "timer", "SATISFIED", None),
        (3, "signal", "SATISFIED", None),
    ]


def test_a_place_that_holds_another_call_is_refused(clerk: Clerk) -> None:
    task = clerk.held()
    children(clerk, task)
    with clerk.refuses(Invalid, "waits") as caught:
        suspend(clerk, task, for_signal())
    assert caught.value.detail["kind"] == "enqueue"


def test_a_completion_forgets_what_was_waited_for_and_keeps_what_was_done(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal(branch="1.0"), for_time(branch="1.1"))
    send(clerk)
    clerk.complete(clerk.fetch()[0])
    assert clerk.scalar("select count(*) from celeriac.wait") == 0
    assert len(steps(clerk, task.task_id)) == 1


def test_a_wait_that_never_rested_is_forgotten_at_the_end_as_well(clerk: Clerk) -> None:
    send(clerk)
    task = clerk.held()
    suspend(clerk, task, for_time(branch="1.0"), for_signal(branch="1.1"))
    clerk.complete(task)
    assert clerk.scalar("select count(*) from celeriac.wait") == 0


def test_ten_thousand_waits_are_taken_in_one_call(clerk: Clerk) -> None:
    task = clerk.held()
    ids = [str(row.task_id) for row in clerk.enqueue_items([{"task_type": "child"}] * 5000)] * 2
    waits = [{"kind": "task", "name": "c", "child_id": id, "ordinal": n + 1} for n, id in enumerate(ids)]
    assert suspend(clerk, task, *waits)[0].state == "WAITING"
    assert clerk.scalar("select count(*) from celeriac.wait where armed") == 10_000
    with clerk.refuses(Invalid, "length of waits"):
        suspend(clerk, task, *waits, for_signal(ordinal=10_001))


@pytest.mark.parametrize(
    ("wait", "field"),
    [
        ({"kind": "signal", "ordinal": 1, "name": "x"}, "topic"),
        ({"kind": "signal", "ordinal": 1, "name": "x", "topic": " x"}, "topic"),
        ({"kind": "signal", "ordinal": 1, "name": "x", "topic": "x", "key": ""}, "key"),
        ({"kind": "signal", "ordinal": 1, "name": "x", "topic": "x", "key": "k "}, "key"),
        ({"kind": "signal", "ordinal": 1, "name": "x", "topic": "x", "key": 1}, "key"),
        ({"kind": "signal", "ordinal": 1, "name": "x", "topic": "x", "delay_ms": 1}, "delay_ms"),
        ({"kind": "signal", "ordinal": 1, "name": "x", "topic": "x", "timeout_ms": -1}, "timeout_ms"),
        ({"kind": "signal", "ordinal": 1, "topic": "x"}, "name"),
        ({"kind": "timer", "ordinal": 1, "name": "x"}, "delay_ms"),
        ({"kind": "timer", "ordinal": 1, "name": "x", "delay_ms": 1, "until": "2030-01-01T00:00:00Z"}, "delay_ms"),
        ({"kind": "timer", "ordinal": 1, "name": "x", "delay_ms": 3155760000001}, "delay_ms"),
        ({"kind": "timer", "ordinal": 1, "name": "x", "delay_ms": 1.5}, "delay_ms"),
        ({"kind": "timer", "ordinal": 1, "name": "x", "until": "2030-01-01T00:00:00"}, "until"),
        ({"kind": "task", "ordinal": 1, "name": "x"}, "child_id"),
        ({"kind": "task", "ordinal": 1, "name": "x", "child_id": "7"}, "child_id"),
        ({"kind": "incident", "ordinal": 1, "name": "x"}, "kind"),
        ({"ordinal": 1, "name": "x"}, "kind"),
        ({"kind": "timer", "name": "x", "delay_ms": 1}, "ordinal"),
        ({"kind": "timer", "ordinal": 0, "name": "x", "delay_ms": 1}, "ordinal"),
        ({"kind": "timer", "ordinal": 1, "name": "x", "delay_ms": 1, "branch": "undo"}, "branch"),
        ({"kind": "timer", "ordinal": 1, "name": "x", "delay_ms": 1, "colour": "red"}, "colour"),
    ],
)
def test_a_wait_that_is_none_is_refused_by_field(clerk: Clerk, wait: dict[str, object], field: str) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, f"waits[0].{field}"):
        suspend(clerk, task, wait)


def test_two_waits_at_one_place_and_a_wait_for_itself_are_refused(clerk: Clerk) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, "waits"):
        suspend(clerk, task, for_time(), for_signal())
    with clerk.refuses(Invalid, "waits[0].child_id"):
        suspend(clerk, task, for_task(task.task_id))
    with clerk.refuses(Invalid, "waits"):
        suspend(clerk, task, *[for_signal(f"t{n}", ordinal=n + 1) for n in range(1001)])
