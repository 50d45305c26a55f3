"""A signal finds who waits for it, or is kept for who will; to one, or to all."""

import json
from typing import Any

import pytest

from db import call
from db.engine import sync_engine
from db.errors import IdempotencyConflict, Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.overlap import overlap
from tests.db.waits import another, at_rest, fire, for_signal, for_time, send, steps, suspend

WEEK_SECONDS = 7 * 24 * 60 * 60


def kept(clerk: Clerk) -> int:
    """How many signals nobody has got."""
    found = clerk.scalar("select count(*) from celeriac.signals where taken_at is null")
    assert isinstance(found, int)
    return found


def got(clerk: Clerk, task_id: Any) -> list[Any]:
    """The payloads that a task has got, in the order of its calls."""
    return [result and result["payload"] for _, _, kind, _, result in steps(clerk, task_id) if kind == "signal"]


def test_whoever_waits_gets_it_and_is_ready_in_the_same_transaction(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal("approval", "order-7"))
    answer = send(clerk, "approval", key="order-7", payload={"by": "anna"})
    assert (answer.created, answer.delivered, answer.task_types) == (True, 1, ["mail"])
    assert clerk.state(task.task_id) == "READY"
    ((branch, ordinal, kind, name, result),) = steps(clerk, task.task_id)
    assert (branch, ordinal, kind, name) == ("", 1, "signal", "approval")
    assert result.pop("sent_at").endswith("Z")
    assert result == {
        "signal_id": str(answer.signal_id),
        "topic": "approval",
        "key": "order-7",
        "payload": {"by": "anna"},
    }
    (taken,) = clerk.query("select taken_by, taken_at is not null as taken from celeriac.signals")
    assert taken == {"taken_by": task.task_id, "taken": True}


def test_an_early_one_is_kept_and_met(clerk: Clerk) -> None:
    answer = send(clerk, payload=[1])
    assert answer.delivered == 0
    task = clerk.held()
    (met,) = suspend(clerk, task, for_signal())
    assert (met.state, json.loads(met.result)["payload"]) == ("SATISFIED", [1])
    assert clerk.state(task.task_id) == "LOCKED"
    assert suspend(clerk, task, for_signal(ordinal=2))[0].state == "WAITING"


def test_early_ones_are_met_in_the_order_in_which_they_were_sent(clerk: Clerk) -> None:
    for number in range(5):
        send(clerk, payload=number)
    task = clerk.held()
    for ordinal in range(1, 6):
        suspend(clerk, task, for_signal(ordinal=ordinal))
    assert got(clerk, task.task_id) == [0, 1, 2, 3, 4]


def test_waits_of_one_call_for_the_same_signal_get_one_each(clerk: Clerk) -> None:
    send(clerk, payload=1), send(clerk, payload=2)
    task = clerk.held()
    answer = suspend(clerk, task, *[for_signal(branch=f"1.{n}") for n in range(3)])
    assert [(row.branch, json.loads(row.result)["payload"]) for row in answer] == [("1.0", 1), ("1.1", 2)]


def test_an_expired_one_is_met_by_nobody(clerk: Clerk, clock: Clock) -> None:
    send(clerk, ttl_ms=1000)
    clock.advance(2)
    assert at_rest(clerk, for_signal())
    send(clerk, topic="other")
    clock.advance(WEEK_SECONDS - 1)
    assert suspend(clerk, clerk.held(), for_signal("other"))[0].state == "SATISFIED"


@pytest.mark.parametrize("broadcast", [True, False])
def test_one_that_is_just_being_forgotten_is_passed_over(clerk: Clerk, database_url: str, broadcast: bool) -> None:
    """Its time ended between the look at it and the taking."""
    send(clerk, broadcast=broadcast)
    task = clerk.held()
    with another(database_url) as other:
        other.run("delete from celeriac.signal")
        assert suspend(clerk, task, for_signal())[0].state == "WAITING"
        other.conn.exec_driver_sql("commit")
    assert clerk.state(task.task_id) == "WAITING"


def test_one_without_time_to_live_is_for_who_waits_now_and_the_sender_is_told(clerk: Clerk) -> None:
    assert send(clerk, ttl_ms=0).delivered == 0
    at_rest(clerk, for_signal())
    assert send(clerk, ttl_ms=0).delivered == 1


def test_one_taker_is_the_one_who_waits_longest(clerk: Clerk) -> None:
    first, second, third = (at_rest(clerk, for_signal()) for _ in range(3))
    assert [send(clerk, payload=n).delivered for n in range(2)] == [1, 1]
    assert [got(clerk, task.task_id) for task in (first, second, third)] == [[0], [1], []]


def test_who_has_come_back_between_keeps_its_place_in_the_line(clerk: Clerk) -> None:
    first = at_rest(clerk, for_signal(branch="1.0"), for_signal("else", branch="1.1"))
    second = at_rest(clerk, for_signal())
    send(clerk, "else")
    suspend(clerk, clerk.fetch()[0], for_signal(branch="1.0"))
    send(clerk, payload=1)
    assert got(clerk, first.task_id)[0] == 1
    assert got(clerk, second.task_id) == []


def test_a_broadcast_is_for_all_who_wait_and_all_who_will_once_each(clerk: Clerk, clock: Clock) -> None:
    before = [at_rest(clerk, for_signal()) for _ in range(3)]
    answer = send(clerk, payload="now", broadcast=True, ttl_ms=60_000)
    assert answer.delivered == 3
    later = clerk.held("late")
    assert suspend(clerk, later, for_signal())[0].state == "SATISFIED"
    assert suspend(clerk, later, for_signal(ordinal=2))[0].state == "WAITING"
    for task in clerk.fetch(max_tasks=3):
        assert suspend(clerk, task, for_signal(ordinal=2))[0].state == "WAITING"
    assert [got(clerk, task.task_id) for task in (*before, later)] == [["now"]] * 4
    clock.advance(61)
    assert suspend(clerk, clerk.held("late"), for_signal())[0].state == "WAITING"


def test_a_broadcast_to_more_than_one_pass_takes_reaches_them_all(clerk: Clerk) -> None:
    for _ in range(1100):
        clerk.enqueue()
    for task in clerk.fetch(max_tasks=1000) + clerk.fetch(max_tasks=1000):
        suspend(clerk, task, for_signal())
    assert send(clerk, broadcast=True).delivered == 1000
    for task in clerk.fetch(max_tasks=10):
        assert suspend(clerk, task, for_signal(ordinal=2))[0].state == "WAITING"  # it has got it
    assert fire(clerk).task_types == ["mail"]
    states = clerk.query("select state, count(*) as n from celeriac.task_list group by 1 order by 1")
    assert states == [{"state": "READY", "n": 1090}, {"state": "WAITING", "n": 10}]
    assert clerk.scalar("select count(*) from celeriac.follow_up") == 0


@pytest.mark.parametrize("early", [True, False], ids=["kept", "live"])
@pytest.mark.parametrize(
    ("sent", "awaited"),
    [
        (("n", "1"), ("n", "01")),
        (("n", "a"), ("n", "A")),
        (("n", "\u00e9"), ("n", "e\u0301")),
        (("n", "k"), ("n", None)),
        (("n", None), ("n", "k")),
        (("n", "k"), ("N", "k")),
        (("n k", None), ("n", "k")),
        (("n", "a b"), ("n", "a  b")),
    ],
)
def test_alike_is_not_equal(clerk: Clerk, sent: tuple[str, Any], awaited: tuple[str, Any], early: bool) -> None:
    """Case B22: topic and key are compared by their code points, the same live and kept."""
    if early:
        send(clerk, sent[0], key=sent[1])
    task = at_rest(clerk, for_signal(*awaited))
    if not early:
        assert send(clerk, sent[0], key=sent[1]).delivered == 0
    assert clerk.state(task.task_id) == "WAITING"
    assert send(clerk, awaited[0], key=awaited[1]).delivered == 1


def test_the_same_again_is_the_first_one(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    first = send(clerk, payload={"a": 1, "b": 2}, dedupe_id="d1")
    again = send(clerk, payload={"b": 2, "a": 1}, dedupe_id="d1")
    assert (again.signal_id, again.created, again.delivered) == (first.signal_id, False, 1)
    assert kept(clerk) == 0
    assert len(steps(clerk, task.task_id)) == 1


def test_another_payload_under_the_same_dedupe_id_is_refused_and_told_the_first(clerk: Clerk) -> None:
    first = send(clerk, payload=1, dedupe_id="d1")
    for other in ({"payload": 2}, {}, {"payload": 1, "broadcast": True}):
        with clerk.refuses(IdempotencyConflict, "dedupe_id") as caught:
            send(clerk, dedupe_id="d1", **other)
        assert caught.value.detail == {"signal_id": str(first.signal_id)}
    assert send(clerk, payload=2, dedupe_id="d1", key="other key").created
    assert send(clerk, "other topic", payload=2, dedupe_id="d1").created


def test_a_dedupe_id_holds_until_its_signal_expires(clerk: Clerk, clock: Clock) -> None:
    send(clerk, payload=1, dedupe_id="d1", ttl_ms=60_000)
    clock.advance(59)
    assert not send(clerk, payload=1, dedupe_id="d1", ttl_ms=60_000).created
    clock.advance(2)
    assert send(clerk, payload=2, dedupe_id="d1").created


def test_a_time_out_is_an_outcome_of_its_own_and_a_late_signal_is_kept_for_others(clerk: Clerk, clock: Clock) -> None:
    task = at_rest(clerk, for_signal(timeout_ms=60_000))
    clock.advance(61)
    fire(clerk)
    assert send(clerk, payload=1).delivered == 0
    assert got(clerk, task.task_id) == [None]
    assert suspend(clerk, clerk.fetch()[0], for_signal(ordinal=2))[0].state == "SATISFIED"


def test_signals_after_the_only_receiver_has_ended_are_kept_and_the_sender_sees_it(clerk: Clerk) -> None:
    """Case B26.2 and 3: what comes too late is not lost in silence: `delivered` is 0, and it lies there for others."""
    at_rest(clerk, for_signal())
    answers = [send(clerk, payload=n).delivered for n in range(5)]
    clerk.complete(clerk.fetch()[0])
    assert answers == [1, 0, 0, 0, 0]
    assert (send(clerk, payload=5).delivered, kept(clerk)) == (0, 5)
    task = clerk.held()
    for ordinal in range(1, 6):
        suspend(clerk, task, for_signal(ordinal=ordinal))
    assert got(clerk, task.task_id) == [1, 2, 3, 4, 5]


def test_runs_that_follow_each_other_lose_and_double_no_signal(clerk: Clerk) -> None:
    """Case B26.1: each run takes ten and begins the next; signals come in all the while."""
    taken: list[int] = []
    sent = 0
    clerk.enqueue()
    while len(taken) < 200:
        (run,) = clerk.fetch()
        for _ in range(7):
            send(clerk, payload=sent)
            sent += 1
        ordinal = len(steps(clerk, run.task_id)) + 1
        while ordinal <= 10 and suspend(clerk, run, for_signal(ordinal=ordinal))[0].state == "SATISFIED":
            ordinal += 1
        if ordinal > 10:
            taken += got(clerk, run.task_id)
            clerk.complete(run)
            clerk.enqueue()
        else:
            send(clerk, payload=sent)
            sent += 1
    assert taken == list(range(200))


def test_a_senders_rights_bound_who_gets_it_live_and_kept(clerk: Clerk) -> None:
    """Case B22.1: what a sender may not touch neither goes on nor sees the payload."""
    foreign = at_rest(clerk, for_signal(), task_type="payroll")
    assert send(clerk, only_types=["mail%"]).delivered == 0
    assert suspend(clerk, clerk.held("payroll"), for_signal())[0].state == "WAITING"
    assert suspend(clerk, clerk.held("mail"), for_signal())[0].state == "SATISFIED"
    ours = at_rest(clerk, for_signal())
    assert send(clerk, only_types=["mail%"]).delivered == 1
    assert (clerk.state(ours.task_id), clerk.state(foreign.task_id)) == ("READY", "WAITING")


def test_a_roll_back_of_the_senders_transaction_has_sent_nothing(clerk: Clerk) -> None:
    task = at_rest(clerk, for_signal())
    clerk.conn.exec_driver_sql("begin")
    assert send(clerk).delivered == 1
    clerk.conn.exec_driver_sql("rollback")
    assert clerk.state(task.task_id) == "WAITING"
    assert kept(clerk) == 0


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_sender_with_an_old_snapshot_reaches_who_came_since(clerk: Clerk, database_url: str, level: str) -> None:
    engine = sync_engine(database_url, pool_size=1)
    with engine.connect() as old:
        old.exec_driver_sql(f"begin isolation level {level}")
        old.exec_driver_sql("select count(*) from celeriac.task")
        task = at_rest(clerk, for_signal())
        assert send(Clerk(old), payload=1).delivered == 0
        old.exec_driver_sql("commit")
    engine.dispose()
    fire(clerk)
    assert got(clerk, task.task_id) == [1]
    assert clerk.scalar("select count(*) from celeriac.follow_up") == 0


def test_a_fleet_is_rung_for_who_was_woken(clerk: Clerk) -> None:
    clerk.celery_type()
    at_rest(clerk, for_signal())
    clerk.rings()
    send(clerk)
    assert clerk.rings() == [("fleet", "mail")]


def test_two_for_one_taker_at_once_release_two_different_waiters(clerk: Clerk, database_url: str) -> None:
    """Case B22.3."""
    tasks = [at_rest(clerk, for_signal()) for _ in range(3)]
    one, other = overlap(database_url, lambda c: send(c, payload=1), lambda c: send(c, payload=2))
    assert (one.delivered, other.delivered) == (1, 1)
    assert sorted(payload for task in tasks for payload in got(clerk, task.task_id)) == [1, 2]


def test_a_waiter_that_somebody_is_at_is_not_waited_for_and_not_forgotten(clerk: Clerk, database_url: str) -> None:
    """What holds it may be rolled back: then the signal must come to it."""
    task = at_rest(clerk, for_signal(branch="1.0"), for_signal("else", branch="1.1"))
    woken, sent = overlap(database_url, lambda c: send(c, "else"), lambda c: send(c, payload=1), keep=False)
    assert (woken.delivered, sent.delivered) == (1, 0)
    assert clerk.state(task.task_id) == "WAITING"
    assert fire(clerk).task_types == ["mail"]
    assert got(clerk, task.task_id) == [1]
    assert clerk.scalar("select count(*) from celeriac.follow_up") == 0


def test_a_waiter_that_was_woken_otherwise_leaves_the_signal_for_the_next(clerk: Clerk, database_url: str) -> None:
    task = at_rest(clerk, for_signal(branch="1.0"), for_signal("else", branch="1.1"))
    overlap(database_url, lambda c: send(c, "else", payload=1), lambda c: send(c, payload=2))
    fire(clerk)
    assert got(clerk, task.task_id) == [1]
    assert suspend(clerk, clerk.fetch()[0], for_signal(branch="1.0"))[0].state == "SATISFIED"


def test_expired_ones_are_forgotten_in_bounded_batches_with_who_got_them(clerk: Clerk, clock: Clock) -> None:
    at_rest(clerk, for_signal(), for_time(ordinal=2))
    send(clerk, broadcast=True, ttl_ms=1000)
    for _ in range(3):
        send(clerk, "other", ttl_ms=1000)
    send(clerk, "kept")
    clock.advance(2)
    fire(clerk, max_tasks=2)
    assert clerk.scalar("select count(*) from celeriac.signal") == 3
    fire(clerk)
    assert clerk.query("select topic from celeriac.signals") == [{"topic": "kept"}]
    assert clerk.scalar("select count(*) from celeriac.signal_receipt") == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", ""), ("topic", " approval"), ("topic", "a\u200b"), ("topic", None), ("topic", "x" * 256), ("key", ""),
        ("key", "k "), ("dedupe_id", ""), ("ttl_ms", -1), ("ttl_ms", 3155760000001), ("ttl_ms", None),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_field(clerk: Clerk, field: str, value: Any) -> None:
    with clerk.refuses(Invalid, field):
        send(clerk, **{field: value})


def test_a_payload_over_the_limit_is_refused(clerk: Clerk) -> None:
    with clerk.refuses(TooLarge, "payload"):
        clerk.one("send_signal", topic="t", payload=call.Json(json.dumps("x" * 1_048_575)))
    assert clerk.one("send_signal", topic="t", payload=call.Json(json.dumps("x" * 1_048_574))).created


def test_numbers_in_a_payload_stay_what_they_are(clerk: Clerk) -> None:
    """Case B17."""
    exact = '{"n": 9007199254740993, "d": 100000.10}'
    clerk.one("send_signal", topic="t", payload=call.Json(exact))
    (met,) = suspend(clerk, clerk.held(), for_signal("t"))
    assert '"n": 9007199254740993' in met.result
    assert "100000.10" in met.result
