"""Case B21: a signal and a receiver that goes to rest at the same moment meet, in whatever order they commit."""

import random
import threading
import time
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import Engine, Row

from db.engine import sync_engine
from tests.db.clerk import Clerk
from tests.db.overlap import overlap
from tests.db.waits import for_signal, send, steps, suspend

ROUNDS = 1000


def test_a_signal_waits_for_a_receiver_that_has_not_yet_committed(clerk: Clerk, database_url: str) -> None:
    task = clerk.held()
    rested, sent = overlap(database_url, lambda c: suspend(c, task, for_signal()), lambda c: send(c, payload=1))
    assert (rested[0].state, sent.delivered) == ("WAITING", 1)
    assert clerk.state(task.task_id) == "READY"


def test_a_receiver_waits_for_a_signal_that_has_not_yet_been_committed(clerk: Clerk, database_url: str) -> None:
    task = clerk.held()
    sent, met = overlap(database_url, lambda c: send(c, payload=1), lambda c: suspend(c, task, for_signal()))
    assert (sent.delivered, met[0].state) == (0, "SATISFIED")
    assert clerk.scalar("select taken_by from celeriac.signals") == task.task_id


def test_what_is_rolled_back_was_not_there_for_the_other(clerk: Clerk, database_url: str) -> None:
    task = clerk.held()
    _, sent = overlap(database_url, lambda c: suspend(c, task, for_signal()), lambda c: send(c, payload=1), keep=False)
    assert sent.delivered == 0
    assert suspend(clerk, task, for_signal())[0].state == "SATISFIED"
    _, met = overlap(database_url, send, lambda c: suspend(c, task, for_signal(ordinal=2)), keep=False)
    assert met[0].state == "WAITING"


def test_two_receivers_and_one_signal_at_once(clerk: Clerk, database_url: str) -> None:
    send(clerk)
    one, other = clerk.held(), clerk.held()
    answers = overlap(database_url, lambda c: suspend(c, one, for_signal()), lambda c: suspend(c, other, for_signal()))
    assert [answer[0].state for answer in answers] == ["SATISFIED", "WAITING"]


@pytest.mark.parametrize("signal_first", [True, False], ids=["signal first", "suspend first"])
def test_a_thousand_rounds_lose_and_double_nothing(clerk: Clerk, database_url: str, signal_first: bool) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * ROUNDS)
    tasks = [task for _ in range(2) for task in clerk.fetch(max_tasks=ROUNDS // 2, lock_duration_ms=600_000)]
    engine = sync_engine(database_url, pool_size=2)
    answers = race(engine, tasks, signal_first)
    engine.dispose()
    outcomes = Counter(answers)
    assert set(outcomes) == {("WAITING", 1), ("SATISFIED", 0)}, outcomes  # both ways were gone, and no third
    for number, task in enumerate(tasks):
        ((_, _, kind, _, result),) = steps(clerk, task.task_id)
        assert (kind, result["payload"]) == ("signal", number)
    assert clerk.scalar("select count(*) from celeriac.signals where taken_at is null") == 0
    assert clerk.scalar("select count(*) from celeriac.waiting") == 0


def race(engine: Engine, tasks: list[Row[Any]], signal_first: bool) -> list[tuple[str, int]]:
    """For each task, what its suspension and its signal were answered, the two begun within 2 ms of each other."""
    meet = threading.Barrier(2)
    chance = random.Random(7)
    offsets = [chance.uniform(0, 0.002) for _ in tasks]
    rested: list[str] = []
    sent: list[int] = []
    faults: list[BaseException] = []

    def play(late: bool, act: Any) -> None:
        try:
            with engine.connect() as connection:
                clerk = Clerk(connection)
                for number, task in enumerate(tasks):
                    meet.wait(60)
                    until = time.perf_counter() + (offsets[number] if late else 0)
                    while time.perf_counter() < until:
                        pass
                    act(clerk, number, task)
        except BaseException as fault:
            faults.append(fault)
            meet.abort()

    def rest(clerk: Clerk, number: int, task: Row[Any]) -> None:
        rested.append(suspend(clerk, task, for_signal("reply", str(number)))[0].state)

    def reply(clerk: Clerk, number: int, task: Row[Any]) -> None:
        sent.append(send(clerk, "reply", key=str(number), payload=number).delivered)

    threads = [
        threading.Thread(target=play, args=(signal_first, rest)),
        threading.Thread(target=play, args=(not signal_first, reply)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    return list(zip(rested, sent, strict=True))
