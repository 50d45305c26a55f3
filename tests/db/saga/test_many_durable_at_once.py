"""Durable tasks that record, wait, are decided about, canceled, lost and undone at once: nobody is stuck."""

import random
from typing import Any

from sqlalchemy import Row

from db.call import json_list
from db.errors import Refused
from tests.db.clerk import Clerk
from tests.db.crowd import let_loose
from tests.db.ledger import Ledger, step

TASKS = 150


def work(clerk: Clerk, chance: random.Random, name: str) -> None:
    for task in clerk.fetch(worker_id=name, max_tasks=3, lock_duration_ms=chance.choice([5, 100, 5000])):
        try:
            (undo if task.undoing else go_on)(Ledger(clerk), chance, task, name)
        except Refused:
            continue  # someone else was first, and the answer says so


def go_on(ledger: Ledger, chance: random.Random, task: Row[Any], name: str) -> None:
    me = {"worker_id": name}
    if not ledger.steps(task, **me):
        ledger.register(task, 1, **me)
        ledger.record(task, step(1), **me)
    operation = ledger.begin(task, 2, **me)
    if operation.fresh or operation.state == "STARTED":
        outcome = chance.choice(["DONE", "DONE", "NOT_DONE", "ERRED", "UNKNOWN"])
        ledger.settle(task, operation.operation_id, outcome, **me)
    end = chance.choice(["complete", "complete", "fail", "incident", "release", "rest", "die"])
    if end == "complete":
        ledger.clerk.complete(task, **me)
    elif end == "fail":
        ledger.clerk.fail(task, retry_after_ms=0, **me)
    elif end == "incident":
        ledger.incident(task, **me)
    elif end == "release":
        ledger.clerk.release(task, **me)
    elif end == "rest":
        waits = [{"branch": "", "ordinal": 3, "kind": "timer", "name": "pause", "delay_ms": chance.choice([0, 5])}]
        lease = {"task_id": task.task_id, "fencing_token": task.fencing_token}
        ledger.clerk.rows("suspend_task", **lease, **me, waits=json_list(waits))


def undo(ledger: Ledger, chance: random.Random, task: Row[Any], name: str) -> None:
    me = {"worker_id": name}
    for compensation in ledger.compensations(task, **me):
        if chance.random() < 0.3:
            ledger.clerk.fail(task, retry_after_ms=0, **me)
            return
        if compensation.state == "REGISTERED":
            ledger.undone(task, compensation.number, **me)
    ledger.finish(task, **me)


def decide(clerk: Clerk, chance: random.Random, name: str) -> None:
    for incident in Ledger(clerk).open_incidents()[:3]:
        if incident["kind"] == "operation_unknown":
            Ledger(clerk).resolve(incident["operation_id"], chance.choice(["DONE", "NOT_DONE", "FAILED"]))
        else:
            choices = ["retry", "fail"] if incident["kind"] == "other_code" else ["retry", "skip"]
            Ledger(clerk).decide(incident["incident_id"], chance.choice(choices))


def cancel(clerk: Clerk, chance: random.Random, name: str) -> None:
    rows = clerk.query("select task_id from celeriac.task_list where ended_at is null order by random() limit 1")
    for row in rows:
        if chance.random() < 0.2:
            clerk.cancel(row["task_id"], compensate=chance.random() < 0.7)


def sweep(clerk: Clerk, chance: random.Random, name: str) -> None:
    for chore in ("expire_leases", "promote_due", "fire_timers"):
        clerk.one(chore)


def test_no_deadlock_every_task_ends_and_nothing_registered_is_forgotten(clerk: Clerk, database_url: str) -> None:
    policy = {"backoff_first_ms": 0, "expirations": 3}
    clerk.enqueue_items([{"task_type": "mail", "retries": 2, "policy": policy}] * TASKS)
    open_work = """
        select count(*) from celeriac.task t where t.ended_at is null
         union all select count(*) from celeriac.incident i where i.resolved_at is null"""
    parts = [work] * 4 + [decide] * 2 + [cancel, sweep]
    let_loose(clerk, database_url, parts, lambda: not any(row["count"] for row in clerk.query(open_work)), seconds=90)
    for table in ("queue", "waiting", "wait"):
        assert clerk.scalar(f"select count(*) from celeriac.{table}") == 0, table
    ends = clerk.query("""
        select t.state, s.cause, s.ended_at is not null as undone,
               count(*) filter (where c.state = 'REGISTERED') as left_over
          from celeriac.task t
          left join celeriac.saga s on s.task_id = t.id
          left join celeriac.compensation c on c.task_id = t.id
         group by t.id, t.state, s.cause, s.ended_at""")
    assert {(end["state"], end["undone"]) for end in ends if end["cause"]} <= {("FAILED", True), ("CANCELED", True)}
    assert {end["cause"] for end in ends if end["state"] == "COMPLETED"} <= {None}
    assert sum(end["left_over"] for end in ends if end["state"] == "FAILED" or end["cause"]) == 0
    assert any(end["cause"] for end in ends)
