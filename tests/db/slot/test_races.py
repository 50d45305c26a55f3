"""A limit holds under any race: many connections claim, end, lose, cancel and give back, and never too many are held.

Three things are watched: how many handlers of a key run (counted by the workers themselves), what the tables say at any
moment (`slot_faults`), and that at the end all is done and no slot, BLOCKED task or opening is left.
"""

import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from tests.db.clerk import Clerk

WORKERS = 8
TASKS = int(os.environ.get("SLOT_TASKS", "600"))
LIMITS = {"narrow": 1, "wide": 3}
KEYS = ("a", "b")
FOREVER_MS = 3_600_000
# One that nobody holds: it is locked before it is canceled, so that no handler has begun meanwhile.
CANCEL = """
    select celeriac.cancel_task(q.task_id)
      from (select task_id from celeriac.queue where state in ('BLOCKED', 'READY') limit 1 for update skip locked) q
"""


class Handlers:
    """How many handlers of each key run now, and the most that ever did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: Counter[tuple[str, str]] = Counter()
        self.most: Counter[tuple[str, str]] = Counter()

    def begin(self, kind: tuple[str, str]) -> None:
        with self._lock:
            self._now[kind] += 1
            self.most[kind] = max(self.most[kind], self._now[kind])

    def end(self, kind: tuple[str, str]) -> None:
        with self._lock:
            self._now[kind] -= 1


class Worker:
    """One connection that takes tasks of both types and ends them in some way, drawn by lot."""

    def __init__(self, url: str, number: int, handlers: Handlers) -> None:
        self.name = f"w{number}"
        self._lot = random.Random(number)
        self._handlers = handlers
        self._conn: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._conn.execute("set deadlock_timeout = '50ms'")

    def call(self, function: str, *arguments: Any, **named: Any) -> list[Any]:
        places = ["%s"] * len(arguments) + [f"{name} => %s" for name in named]
        statement = f"select * from celeriac.{function}({', '.join(places)})"
        cursor = self._conn.cursor(row_factory=psycopg.rows.namedtuple_row)
        return cursor.execute(statement, [*arguments, *named.values()]).fetchall()

    def run(self, done: threading.Event) -> int:
        """Until all is done; how many tasks it ended."""
        ended = 0
        with self._conn:
            held: list[Any] = []
            while not done.is_set():
                held += self.take(held) if not held or self._lot.random() < 0.3 else []
                if held:
                    self._lot.shuffle(held)
                    ended += self.let_go(held)
            return ended

    def take(self, held: list[Any]) -> list[Any]:
        want = self._lot.choice([1, 1, 2, 5])
        lease_ms = self._lot.choice([FOREVER_MS, FOREVER_MS, 1])
        tasks = self.call("fetch_tasks", self.name, list(LIMITS), want, lease_ms)
        if lease_ms == 1:
            return []  # its lease is over before it could begin
        return self.begun(tasks)

    def begun(self, tasks: list[Any]) -> list[Any]:
        for task in tasks:
            self._handlers.begin((task.task_type, task.variables["key"]))
        return tasks

    def let_go(self, held: list[Any]) -> int:
        """Ends some of what it holds, each way now and then."""
        way = self._lot.choice(
            ["complete", "complete", "batch", "fused", "fail", "bury", "release", "all", "cancel", "lose"]
        )
        going = [held.pop()] if way in ("complete", "fail", "bury", "release", "cancel", "lose") else held[:]
        for task in going:
            self._handlers.end((task.task_type, task.variables["key"]))
        items = [{"task_id": str(task.task_id), "fencing_token": task.fencing_token} for task in going]
        if way == "complete":
            self.call("complete_task", going[0].task_id, self.name, going[0].fencing_token)
        elif way == "batch":
            self.call("complete_tasks", Jsonb(items), self.name)
            held.clear()
        elif way == "fused":
            answers = self.call(
                "complete_and_fetch", Jsonb(items), self.name, list(LIMITS), 2, lock_duration_ms=FOREVER_MS
            )
            held[:] = self.begun([row for row in answers if row.ordinal is None])
        elif way in ("fail", "bury"):
            item = (
                items[0] | {"retries": 0} if way == "bury" else items[0] | {"retry_after_ms": self._lot.choice([0, 1])}
            )
            self.call("fail_tasks", Jsonb([item]), self.name)
        elif way == "release":
            self.call("release_task", going[0].task_id, self.name, going[0].fencing_token)
        elif way == "all":
            self.call("release_leases", self.name)
            held.clear()
        elif way == "cancel":
            self.call("cancel_task", going[0].task_id)
        else:
            self.call("extend_lease", going[0].task_id, self.name, 1)
        return len(going) if way in ("complete", "batch", "fused", "bury", "cancel") else 0


def enqueue(clerk: Clerk, count: int) -> None:
    for name, limit in LIMITS.items():
        clerk.one("register_task_type", name=name, concurrency=limit, expirations=1000, retries=1000)
    lot = random.Random(7)
    items = [
        {"task_type": lot.choice([*LIMITS]), "concurrency_key": (key := lot.choice(KEYS)), "variables": {"key": key},
         "priority": lot.choice([0, 0, 1]), "delay_ms": lot.choice([0, 0, 5]), "version": lot.choice([1, 1, 2])}
        for _ in range(count)
    ]  # fmt: skip
    for start in range(0, count, 50):
        clerk.enqueue_items(items[start : start + 50])


def unfinished(clerk: Clerk) -> int:
    return int(clerk.scalar("select count(*) from celeriac.queue"))


def test_a_limit_is_never_passed_and_every_way_to_end_a_lease_frees_the_slot(
    clerk: Clerk, conn: Connection, database_url: str
) -> None:
    handlers, done = Handlers(), threading.Event()
    faults: list[Any] = []
    enqueue(clerk, TASKS)
    with psycopg.connect(database_url, autocommit=True) as canceling, ThreadPoolExecutor(WORKERS) as threads:
        running = [threads.submit(Worker(database_url, number, handlers).run, done) for number in range(WORKERS)]
        try:
            while not faults and unfinished(clerk) and not any(worker.done() for worker in running):
                clerk.one("expire_leases")
                clerk.one("promote_due")
                canceling.execute(CANCEL)
                faults = clerk.query("select * from celeriac.slot_faults")
                faults += clerk.query("""
                    select s.task_type, s.key, count(*)
                      from celeriac.slot s join celeriac.task_type t on t.name = s.task_type
                     group by s.task_type, s.key, t.concurrency having count(*) > t.concurrency""")
        finally:
            done.set()
        ended = sum(worker.result() for worker in running)
    assert faults == []
    assert ended > TASKS / 4
    assert handlers.most == {(name, key): limit for name, limit in LIMITS.items() for key in KEYS}
    assert unfinished(clerk) == clerk.scalar("select count(*) from celeriac.slot") == 0
    clerk.one("promote_due")
    assert clerk.scalar("select count(*) from celeriac.opening") == 0
