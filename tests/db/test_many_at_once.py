"""Case B45: completions in batches and alone, sweeps, cancels and purges on the same rows at once: no deadlock."""

import random
import threading
from typing import Any

import pytest

from db import call
from db.engine import sync_engine
from tests.db.clerk import Clerk
from tests.db.crowd import let_loose

TASKS = 600


def complete_batches(clerk: Clerk, chance: random.Random, name: str) -> None:
    tasks = clerk.fetch(worker_id=name, max_tasks=20, lock_duration_ms=chance.choice([1, 20, 1000]))
    chance.shuffle(tasks)
    if not tasks:
        return
    items = [{"task_id": str(task.task_id), "fencing_token": task.fencing_token} for task in tasks]
    function = chance.choice(["complete_tasks", "complete_tasks", "fail_tasks"])
    clerk.rows(function, items=call.json_list(items), worker_id=name)


def complete_one_by_one(clerk: Clerk, chance: random.Random, name: str) -> None:
    for task in clerk.fetch(worker_id=name, max_tasks=5, lock_duration_ms=chance.choice([5, 1000])):
        write = chance.choice([Clerk.complete, Clerk.complete, Clerk.fail, Clerk.release, Clerk.extend])
        write(clerk, task, worker_id=name)


def sweep(clerk: Clerk, chance: random.Random, name: str) -> None:
    clerk.one("expire_leases", max_tasks=50)
    clerk.one("promote_due", max_tasks=50)
    clerk.one("purge_ended", older_than_ms=chance.choice([0, 50]))


def cancel_and_redrive(clerk: Clerk, chance: random.Random, name: str) -> None:
    rows = clerk.query("select task_id from celeriac.task_list order by random() limit 3")
    for row in rows:
        if chance.random() < 0.3:
            clerk.cancel(row["task_id"])
    clerk.rows("redrive_tasks", max_tasks=50)


def test_no_deadlock_and_every_task_ends(clerk: Clerk, database_url: str) -> None:
    policy = {"backoff_first_ms": 0, "expirations": 1000}
    clerk.enqueue_items([{"task_type": "mail", "retries": 1000, "policy": policy}] * TASKS)
    parts = [complete_batches] * 4 + [complete_one_by_one] * 2 + [sweep] * 2 + [cancel_and_redrive] * 2
    let_loose(clerk, database_url, parts, lambda: clerk.scalar("select count(*) from celeriac.queue") == 0, seconds=60)
    assert clerk.scalar("select count(*) from celeriac.task where ended_at is null") == 0


@pytest.mark.parametrize("function", ["complete_tasks", "fail_tasks"])
def test_a_batch_that_is_sent_twice_at_once_in_another_order_holds_both_times(
    clerk: Clerk, database_url: str, function: str
) -> None:
    """Case B45: a client gave up waiting for the answer and asked again."""
    engine = sync_engine(database_url, pool_size=2)
    ready = threading.Barrier(2)
    answers: list[Any] = []

    def send(items: list[dict[str, Any]]) -> None:
        with engine.connect() as connection:
            ready.wait()
            try:
                answers.extend(Clerk(connection).rows(function, items=call.json_list(items), worker_id="w1"))
            except Exception as fault:
                answers.append(fault)

    for _ in range(5):
        clerk.enqueue_items([{"task_type": "mail"}] * 200)
        tasks = clerk.fetch(max_tasks=200)
        items = [{"task_id": str(task.task_id), "fencing_token": task.fencing_token} for task in tasks]
        senders = [threading.Thread(target=send, args=(order,)) for order in (items, items[::-1])]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    engine.dispose()
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    assert {answer.code for answer in answers} == {None}
    assert len(answers) == 2000
