"""From the commit of a task to the answer of a long poll that waited for it."""

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.dev.valkey import EmbeddedValkey
from benchmarks.callers import Held, variables
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.http_caller import HttpCaller
from benchmarks.samples import median, percentile, spread
from benchmarks.servers import Api, Database, durable_postgres, new_database, running_api, server_version
from celeriac.enqueue import enqueue
from celeriac.wakeup import ring_after_commit
from db.engine import driver_url

TASK_TYPE = "bench.wakeup"
POLL_MS = 30_000
HUB_TICK_MS = 1_200.0
MEDIAN, TAIL = Goal("≤", 10.0), Goal("≤", 50.0)
# The hub looks once a second, give or take a fifth; the claim and the answer come on top.
WITHOUT_REDIS = Goal("≤", HUB_TICK_MS + TAIL.limit, "DESIGN §9")

Enqueue = Callable[[], None]
Owner = psycopg.Connection[Any]


@dataclass(frozen=True)
class Numbers:
    """Samples of a way, and the random gaps between them.

    Without Redis a poll is answered at a tick; gaps as long as a tick let the next task come at any time after it.
    """

    samples: int
    samples_without_redis: int
    shortest_gap_ms: float
    longest_gap_ms: float
    longest_gap_ms_without_redis: float


@dataclass(frozen=True)
class Way:
    """How a task gets in, and where a poll waits for it."""

    name: str
    producer: AbstractContextManager[Enqueue]
    api: Api
    samples: int
    longest_gap_ms: float
    rings: bool = True


FULL = Numbers(
    samples=400, samples_without_redis=60, shortest_gap_ms=5, longest_gap_ms=100, longest_gap_ms_without_redis=1_000
)
QUICK = Numbers(
    samples=20, samples_without_redis=3, shortest_gap_ms=5, longest_gap_ms=20, longest_gap_ms_without_redis=20
)


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with ExitStack() as running:
        server = running.enter_context(durable_postgres())
        valkey = running.enter_context(EmbeddedValkey())
        database = new_database(server, "bench")
        near, far = (running.enter_context(running_api(database, valkey.url())) for _ in range(2))
        deaf = running.enter_context(running_api(database, None))
        often = (numbers.samples, numbers.longest_gap_ms)
        seldom = (numbers.samples_without_redis, numbers.longest_gap_ms_without_redis)
        ways = [
            Way("HTTP, poll at another API process (Redis)", _by_http(far), near, *often),
            Way("HTTP, poll at the same API process", _by_http(near), near, *often),
            Way("SDK enqueue and ring_after_commit (Redis)", _sdk(database, valkey.url()), near, *often),
            Way("SDK enqueue, no Redis", _sdk(database, None), deaf, *seldom, rings=False),
        ]
        figures = [figure for way in ways for figure in _figures(way, _latencies(way, database, numbers))]
        version = server_version(server)
    return Measured(asdict(numbers), tuple(figures), version)


def _figures(way: Way, samples: Sequence[float]) -> Iterator[Figure]:
    details = spread(samples)
    if way.rings:
        yield Figure(f"{way.name}: p50", median(samples), "ms", MEDIAN, details)
        yield Figure(f"{way.name}: p99", percentile(samples, 99), "ms", TAIL, details)
    else:
        yield Figure(f"{way.name}: p50", median(samples), "ms", None, details)
        yield Figure(f"{way.name}: slowest", max(samples), "ms", WITHOUT_REDIS, details)


@contextmanager
def _by_http(api: Api) -> Iterator[Enqueue]:
    with closing(HttpCaller(api, "producer", TASK_TYPE)) as caller:
        yield lambda: caller.enqueue(1)


@contextmanager
def _sdk(database: Database, redis_url: str | None) -> Iterator[Enqueue]:
    """Enqueue as an application does: in a transaction of its own session."""
    engine = create_engine(driver_url(database.api_url))
    numbers = itertools.count()
    with Session(engine) as session:
        if redis_url is not None:
            ring_after_commit(session, redis_url)

        def act() -> None:
            enqueue(session, TASK_TYPE, variables(next(numbers)))
            session.commit()

        yield act
    engine.dispose()


def _latencies(way: Way, database: Database, numbers: Numbers) -> Sequence[float]:
    """Milliseconds from commit to answer, one task after the other."""
    with (
        way.producer as act,
        closing(HttpCaller(way.api, "waiting", TASK_TYPE)) as caller,
        psycopg.connect(database.owner_url, autocommit=True) as owner,
        ThreadPoolExecutor(max_workers=1) as waiting,
    ):
        latencies = []
        for _ in range(way.samples):
            gap_ms = random.uniform(numbers.shortest_gap_ms, way.longest_gap_ms)
            latencies.append(_latency(act, gap_ms, caller, owner, waiting))
        return latencies


def _latency(act: Enqueue, gap_ms: float, caller: HttpCaller, owner: Owner, waiting: ThreadPoolExecutor) -> float:
    poll = waiting.submit(_ask, caller)
    time.sleep(gap_ms / 1000)
    act()
    held, answered_at = poll.result()
    latency_ms = (answered_at - _committed_at(owner, held)) * 1000
    caller.complete([held])
    return latency_ms


def _ask(caller: HttpCaller) -> tuple[Held, float]:
    """The task that a long poll was answered with, and when: seconds of the machine's clock, as Postgres uses it."""
    held = caller.fetch(1, wait_ms=POLL_MS)
    answered_at = time.time()
    if not held:
        raise RuntimeError("the poll ended without the task that was committed for it")
    return held[0], answered_at


def _committed_at(owner: Owner, held: Held) -> float:
    """When the task was committed, by Postgres' own record; it stamps a commit before it flushes it to disk.

    A fetch does not touch the row in `task`, so it still carries the transaction that made it.
    """
    statement = "select extract(epoch from pg_xact_commit_timestamp(xmin)) from celeriac.task where id = %s"
    row = owner.execute(statement, [held.task_id]).fetchone()
    if row is None:
        raise RuntimeError("a task that was fetched is not there")
    return float(row[0])
