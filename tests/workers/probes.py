"""What shows from outside whether chores run: leases that come back."""

import itertools
from collections import Counter

import redis
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.dev.processes import Process
from app.dev.waiting import wait_until
from db import call
from tests.workers.ring_rows import enqueue

TYPE_NUMBERS = itertools.count(1)
"""A type for each probe: a task that loses its lease too often would fail."""


def until_ready(process: Process) -> Process:
    process.wait_for_output("ready.")
    return process


def hold(conn: Connection, count: int = 1, lease_ms: int = 1) -> None:
    """New tasks whose leases are over at once, held by a worker that never comes back."""
    task_type = f"type-{next(TYPE_NUMBERS)}"
    enqueue(conn, *[task_type] * count)
    call.rows(conn, "fetch_tasks", worker_id="dead", task_types=[task_type], max_tasks=count, lock_duration_ms=lease_ms)


def ready(conn: Connection) -> int:
    return conn.execute(text("select count(*) from celeriac.queue where state = 'READY'")).scalar_one()


def given_back(conn: Connection, seconds: float = 30) -> None:
    """Hold a task and wait until some chore gives it back: the proof that chores run."""
    before = ready(conn)
    hold(conn)
    wait_until(lambda: ready(conn) > before, seconds, what="the lease to be given back")


def losses(conn: Connection) -> Counter[str]:
    """How often each task lost its lease, by its timeline."""
    rows = conn.execute(text("select task_id from celeriac.task_timeline where kind = 'lease_lost'"))
    return Counter(str(row.task_id) for row in rows)


def ticks_are_consumed(redis_url: str) -> bool:
    """Whether a Celery worker listens to the ticks: it waits in BRPOP on their queues."""
    with redis.Redis.from_url(redis_url) as client:
        return any(entry["cmd"].lower() == "brpop" for entry in client.client_list())


def ticks_are_run(process: Process, conn: Connection) -> bool:
    so_far = process.output().count("ThreadPoolExecutor-0_")
    given_back(conn)
    return process.output().count("ThreadPoolExecutor-0_") > so_far


def answers(conn: Connection) -> bool:
    try:
        conn.execute(text("select 1"))
    except DBAPIError:
        conn.rollback()
        return False
    return True
