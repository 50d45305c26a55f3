"""Chores, claimers, completers and cancels on the same rows: nobody sees a deadlock, and every task ends."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from sqlalchemy import Connection, Engine, text

from db import call
from db.engine import sync_engine
from db.errors import Conflict, NotFound
from workers.chore import Tools
from workers.expire_leases import expire_leases
from workers.promote_due import promote_due

SECONDS = 10
OPEN_TASKS = 400
TYPES = ["mail", "print"]
OPEN = "select count(*) from celeriac.task_list where state not in ('COMPLETED', 'FAILED', 'CANCELED')"


@dataclass
class Crowd:
    """Everybody who works on the same tasks; `over` ends them all."""

    engine: Engine
    tools: Tools
    over: threading.Event = field(default_factory=threading.Event)

    def fetch(self, conn: Connection, worker: str) -> list[dict[str, object]]:
        rows = call.rows(
            conn,
            "fetch_tasks",
            worker_id=worker,
            task_types=random.sample(TYPES, k=2),
            max_tasks=random.randint(1, 40),
            lock_duration_ms=random.choice([1, 50, 1000]),
        )
        items: list[dict[str, object]] = [
            {"task_id": str(row.task_id), "fencing_token": row.fencing_token} for row in rows
        ]
        random.shuffle(items)
        return items

    def complete_in_batches(self, conn: Connection, worker: str) -> None:
        items = self.fetch(conn, worker)
        if some := items[: len(items) // 4]:
            call.rows(conn, "complete_tasks", items=call.json_list(some), worker_id=worker)

    def complete_one_by_one(self, conn: Connection, worker: str) -> None:
        for item in self.fetch(conn, worker)[:2]:
            ignore_refusal(lambda item=item: call.one(conn, "complete_task", worker_id=worker, **item))

    def fail_in_batches(self, conn: Connection, worker: str) -> None:
        items = [item | {"error": "again", "retry_after_ms": 20, "retries": 5} for item in self.fetch(conn, worker)]
        if items:
            call.rows(conn, "fail_tasks", items=call.json_list(items), worker_id=worker)

    def extend_and_release(self, conn: Connection, worker: str) -> None:
        for item in self.fetch(conn, worker):
            ignore_refusal(
                lambda item=item: call.one(conn, "extend_lease", worker_id=worker, lock_duration_ms=500, **item)
            )
            ignore_refusal(lambda item=item: call.one(conn, "release_task", worker_id=worker, **item))

    def cancel_and_redrive(self, conn: Connection, worker: str) -> None:
        ids = conn.execute(text("select task_id from celeriac.task_list")).scalars().all()
        for task_id in random.sample(ids, k=min(5, len(ids))):
            ignore_refusal(lambda task_id=task_id: call.one(conn, "cancel_task", task_id=task_id))
        call.rows(conn, "redrive_tasks", max_tasks=20)
        time.sleep(0.05)

    def enqueue_more(self, conn: Connection, worker: str) -> None:
        missing = OPEN_TASKS - conn.execute(text(OPEN)).scalar_one()
        tasks = [{"task_type": random.choice(TYPES), "policy": {"expirations": 1000}} for _ in range(missing)]
        if tasks:
            call.rows(conn, "enqueue_tasks", tasks=call.json_list(tasks))
        time.sleep(0.05)

    def do_chores(self, conn: Connection, worker: str) -> None:
        expire_leases(self.tools)
        promote_due(self.tools)
        self.tools.one("purge_ended", older_than_ms=0, max_tasks=100)

    def keep_doing(self, what: Callable[[Connection, str], None], worker: str) -> None:
        with self.engine.connect() as conn:
            while not self.over.is_set():
                what(conn, worker)


def ignore_refusal(write: Callable[[], object]) -> None:
    """A lease may be gone when we write, and a task may be purged: both are told, and nothing is changed."""
    try:
        write()
    except (Conflict, NotFound):
        return


@pytest.fixture
def engine(database_url: str, conn: Connection) -> Iterator[Engine]:
    name = conn.execute(text("select current_database()")).scalar_one()
    conn.execute(text(f"alter database {name} set deadlock_timeout = '100ms'"))
    engine = sync_engine(database_url, pool_size=30)
    yield engine
    engine.dispose()


def test_nobody_meets_a_deadlock_and_every_task_ends(engine: Engine, conn: Connection, tools: Tools) -> None:
    crowd = Crowd(engine, tools)
    crowd.enqueue_more(conn, "first")
    deeds = [
        *[crowd.complete_in_batches] * 3,
        *[crowd.complete_one_by_one] * 2,
        *[crowd.fail_in_batches] * 3,
        *[crowd.extend_and_release] * 3,
        *[crowd.cancel_and_redrive] * 2,
        *[crowd.do_chores] * 3,
        crowd.enqueue_more,
    ]
    with ThreadPoolExecutor(len(deeds)) as threads:
        futures: list[Future[None]] = [
            threads.submit(crowd.keep_doing, deed, f"worker-{number}") for number, deed in enumerate(deeds)
        ]
        crowd.over.wait(SECONDS)
        crowd.over.set()
    for future in futures:
        future.result()
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    assert conn.execute(text(deadlocks)).scalar_one() == 0

    crowd.over.clear()
    with ThreadPoolExecutor(2) as threads:
        finishing = (
            threads.submit(crowd.keep_doing, complete_all, "last"),
            threads.submit(crowd.keep_doing, crowd.do_chores, "chores"),
        )
        deadline = time.monotonic() + 30
        while conn.execute(text(OPEN)).scalar_one() and time.monotonic() < deadline:
            time.sleep(0.05)
        crowd.over.set()
    for future in finishing:
        future.result()
    assert conn.execute(text(OPEN)).scalar_one() == 0
    assert conn.execute(text("select count(*) from celeriac.queue")).scalar_one() == 0


def complete_all(conn: Connection, worker: str) -> None:
    rows = call.rows(conn, "fetch_tasks", worker_id=worker, task_types=TYPES, max_tasks=100, lock_duration_ms=30_000)
    items = [{"task_id": str(row.task_id), "fencing_token": row.fencing_token} for row in rows]
    if items:
        call.rows(conn, "complete_tasks", items=call.json_list(items), worker_id=worker)
