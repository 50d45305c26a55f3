"""Parents, children, signals, timers, cancels and sweeps on the same rows at once: no deadlock, and every task ends."""

import random
from typing import Any

from sqlalchemy import Row

from db import call
from db.errors import Refused
from tests.db.clerk import Clerk
from tests.db.crowd import Part, let_loose
from tests.db.waits import children, fire, for_signal, for_task, for_time, send, steps, suspend

PARENTS = 150
KEYS = 4


def some_signal(chance: random.Random, ordinal: int, branch: str = "") -> dict[str, Any]:
    key = str(chance.randrange(KEYS))
    return for_signal("go", key, ordinal=ordinal, branch=branch, timeout_ms=chance.choice([20, 200]))


def be_parent(clerk: Clerk, chance: random.Random, name: str) -> None:
    for task in clerk.fetch("parent", worker_id=name, max_tasks=3, lock_duration_ms=chance.choice([200, 5000])):
        go_on(clerk, chance, name, task)


def go_on(clerk: Clerk, chance: random.Random, name: str, task: Row[Any]) -> None:
    if task.attempt > 3 or len(steps(clerk, task.task_id)) > 6:
        clerk.complete(task, worker_id=name)
        return
    ids = children(clerk, task, *[{"task_type": "child"}] * 4, worker_id=name)
    met = {step[0] for step in steps(clerk, task.task_id)}
    waits = [for_task(id, branch=f"2.{n}") for n, id in enumerate(ids)]
    waits += [
        for_time(chance.choice([0, 50, 200]), branch="2.9"),
        some_signal(chance, 1, "2.10"),
        some_signal(chance, 1, "2.11"),
    ]
    waits = [wait for wait in waits if wait["branch"] not in met]
    if not waits or suspend(clerk, task, *waits, worker_id=name)[0].state == "SATISFIED":
        clerk.complete(task, worker_id=name)


def be_child(clerk: Clerk, chance: random.Random, name: str) -> None:
    held = clerk.fetch("child", worker_id=name, max_tasks=12, lock_duration_ms=chance.choice([50, 5000]))
    for task in [task for task in held if chance.random() < 0.2]:
        held.remove(task)
        try:
            suspend(clerk, task, some_signal(chance, 1 + task.attempt), worker_id=name)
        except Refused:
            continue
    chance.shuffle(held)
    if held:
        items = [{"task_id": str(task.task_id), "fencing_token": task.fencing_token} for task in held]
        failure = {"error": "no paper", "retries": 0}
        if chance.random() < 0.8:
            clerk.rows("complete_tasks", items=call.json_list(items), worker_id=name)
        else:
            clerk.rows("fail_tasks", items=call.json_list([item | failure for item in items]), worker_id=name)


def be_sender(clerk: Clerk, chance: random.Random, name: str) -> None:
    key, broadcast = str(chance.randrange(KEYS)), chance.random() < 0.3
    clerk.conn.exec_driver_sql("begin")
    send(clerk, "go", key=key, broadcast=broadcast, ttl_ms=chance.choice([0, 100]))
    clerk.conn.exec_driver_sql(chance.choice(["commit", "commit", "rollback"]))


def be_chore(clerk: Clerk, chance: random.Random, name: str) -> None:
    fire(clerk, max_tasks=chance.choice([3, 1000]))
    clerk.one("expire_leases", max_tasks=50)
    if chance.random() < 0.1:
        clerk.one("purge_ended", older_than_ms=chance.choice([0, 50]))


def be_canceler(clerk: Clerk, chance: random.Random, name: str) -> None:
    statement = "select task_id from celeriac.task_list where task_type = :type order by random() limit 1"
    for row in clerk.query(statement, type=chance.choice(["parent", "child"])):
        if chance.random() < 0.3:
            clerk.cancel(row["task_id"], reason=name)


def test_no_deadlock_and_every_task_ends(clerk: Clerk, database_url: str) -> None:
    clerk.enqueue_items([{"task_type": "parent", "policy": {"expirations": 1000}}] * PARENTS)
    parts: list[Part] = [be_parent, be_parent, be_parent, be_child, be_child, be_child, be_sender, be_sender]
    parts += [be_chore, be_chore, be_canceler]
    open_tasks = "select count(*) from celeriac.task where ended_at is null"
    let_loose(clerk, database_url, parts, lambda: clerk.scalar(open_tasks) == 0, seconds=120)
    fire(clerk)
    for table in ("queue", "waiting", "wait", "follow_up"):
        assert clerk.scalar(f"select count(*) from celeriac.{table}") == 0, table
