"""How soon a fleet begins: after a commit, and after a worker was killed; and what a backlog costs its broker."""

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import psycopg
import redis
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app.dev.waiting import wait_until
from benchmarks.callers import variables
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.fleet_throughput import Ground, ground
from benchmarks.samples import median, percentile, spread
from benchmarks.servers import durable_postgres, server_version
from celeriac import enqueue, ring_after_commit
from db.engine import driver_url

TASK_TYPE: Final = "bench.stamp"
LEASE_SECONDS: Final = 5
_COMMITTED: Final = "select extract(epoch from pg_xact_commit_timestamp(cast(%s as xid)))"
_BEGAN: Final = "select (result ->> 'began')::float8 from celeriac.task where id = %s and state = 'COMPLETED'"
_ENQUEUE: Final = """
    select count(*) from celeriac.enqueue_tasks(tasks => (
        select jsonb_agg(jsonb_build_object('task_type', 'bench.single', 'variables', cast(%s as jsonb)))
          from generate_series(1, 5000)))"""


@dataclass(frozen=True)
class Numbers:
    """Samples of each kind, and the tasks that wait while the broker's memory is looked at."""

    commits: int
    kills: int
    waiting: int


FULL = Numbers(commits=300, kills=5, waiting=1_000_000)
QUICK = Numbers(commits=10, kills=1, waiting=10_000)


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with durable_postgres() as server:
        with ground(server) as shared:
            figures = [*_commits(shared, numbers), *_kills(shared, numbers), *_memory(shared, numbers)]
        version = server_version(server)
    return Measured(asdict(numbers), tuple(figures), version)


def _commits(shared: Ground, numbers: Numbers) -> Iterator[Figure]:
    """From the commit of a task to the first line of its handler, one task after the other at random gaps."""
    engine = create_engine(driver_url(shared.database.api_url))
    counter = itertools.count()
    with (
        shared.worker("stamp"),
        psycopg.connect(shared.database.owner_url, autocommit=True) as owner,
        Session(engine) as session,
    ):
        ring_after_commit(session, shared.broker_url)
        samples = []
        for number in range(numbers.commits + 5):
            task_id = enqueue(session, TASK_TYPE, variables(next(counter))).task_id
            transaction = session.execute(text("select cast(pg_current_xact_id() as text)")).scalar_one()
            session.commit()
            wait_until(lambda: _value(owner, _BEGAN, task_id) is not None, 30, what="the task")  # noqa: B023
            began, committed = _value(owner, _BEGAN, task_id), _value(owner, _COMMITTED, transaction)
            if number >= 5:  # the first ones wait for the worker to be there
                samples.append(1000 * (began - committed))
            time.sleep(random.uniform(0.005, 0.1))
    engine.dispose()
    yield Figure("commit to handler start: p50", median(samples), "ms", Goal("≤", 10, "DESIGN §9"), spread(samples))
    yield Figure("commit to handler start: p99", percentile(samples, 99), "ms", Goal("≤", 50, "DESIGN §9"))


def _kills(shared: Ground, numbers: Numbers) -> Iterator[Figure]:
    """From kill -9 of the worker that holds a task to the handler's start in another one."""
    samples: list[float] = []
    with psycopg.connect(shared.database.owner_url, autocommit=True) as owner:
        for number in range(numbers.kills):
            with shared.worker("stamp") as doomed:
                task_id = _stay(owner, number)
                wait_until(lambda: "stays" in doomed.output(), 60, what="the attempt that stays")
                with shared.worker("stamp") as _:
                    time.sleep(3)  # it starts, and finds nothing
                    killed_at = time.time()
                    doomed.kill()
                    wait_until(lambda: _value(owner, _BEGAN, task_id) is not None, 60, what="the task")  # noqa: B023
                    samples.append(_value(owner, _BEGAN, task_id) - killed_at)
                doomed.log.unlink(missing_ok=True)
    yield Figure(
        f"kill -9 to handler start elsewhere, lease of {LEASE_SECONDS} s: slowest",
        max(samples),
        "s",
        Goal("≤", LEASE_SECONDS + 1.5, "DESIGN §9"),
        spread(samples),
    )


def _memory(shared: Ground, numbers: Numbers) -> Iterator[Figure]:
    """What the broker holds for a backlog that nobody works on."""
    payload = psycopg.types.json.Json(variables(1))
    with (
        psycopg.connect(shared.database.owner_url, autocommit=True) as owner,
        redis.Redis.from_url(shared.broker_url) as broker,
    ):
        broker.flushall()
        before = _used(broker)
        for _ in range(numbers.waiting // 5000):
            owner.execute(_ENQUEUE, [payload])
        wait_until(lambda: _value(owner, "select count(*) from celeriac.outbox where %s", True) == 0, 60, what="rings")
        more = (_used(broker) - before) / 1e6
        rings = int(str(broker.llen("single")))
    yield Figure(
        f"broker memory for {numbers.waiting:,} waiting tasks", more, "MB", Goal("≤", 1, "issue 3"), {"rings": rings}
    )


def _stay(owner: psycopg.Connection[Any], number: int) -> str:
    item = {"task_type": TASK_TYPE, "variables": {**variables(number), "stay": True}}
    row = owner.execute(
        "select task_id::text from celeriac.enqueue_tasks(tasks => %s)", [psycopg.types.json.Jsonb([item])]
    ).fetchone()
    assert row is not None
    return str(row[0])


def _value(owner: psycopg.Connection[Any], statement: str, value: Any) -> Any:
    row = owner.execute(statement, [value]).fetchone()
    return None if row is None or row[0] is None else float(row[0])


def _used(broker: redis.Redis) -> int:
    return int(broker.info("memory")["used_memory"])
