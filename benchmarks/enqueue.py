"""What it costs a program to hand over a task: enqueue in a transaction of its own, in bulk, and Celery's apply_async.

Each way is what a user writes. A task of ours is on disk when the call returns; a message of Celery's is in Redis.
"""

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

from celery import Celery
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from app.dev.valkey import EmbeddedValkey
from benchmarks.callers import variables
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.samples import interleaved, median
from benchmarks.servers import Database, durable_postgres, new_database, server_version
from celeriac import NewTask, enqueue, enqueue_many
from db.engine import driver_url

TASK_TYPE = "bench.enqueue"
BULK = 1_000

Handover = Callable[[int], None]


@dataclass(frozen=True)
class Numbers:
    """Rounds, and how long each way runs in one."""

    rounds: int
    seconds: float


FULL = Numbers(rounds=5, seconds=2.0)
QUICK = Numbers(rounds=1, seconds=0.2)


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with ExitStack() as running:
        server = running.enter_context(durable_postgres())
        valkey = running.enter_context(EmbeddedValkey())
        database = new_database(server, "bench")
        ways: dict[str, tuple[Handover, int]] = {}
        with ours(database) as (single, together, bulk), celerys(valkey.url()) as (apply_async, batch):
            ways = {
                "enqueue, a transaction each": (single, 1),
                f"enqueue, {BULK} in one transaction": (together, BULK),
                f"enqueue_many of {BULK}": (bulk, BULK),
                "Celery apply_async": (apply_async, 1),
                f"Celery apply_async in Producer.batch of {BULK}": (batch, BULK),
            }
            rates: dict[str, list[float]] = defaultdict(list)
            for name in interleaved(list(ways), numbers.rounds):
                rates[name].append(rate(*ways[name], numbers.seconds))
                valkey.flush()
        version = server_version(server)
    return Measured(asdict(numbers), tuple(figures(rates)), version)


def figures(rates: Mapping[str, list[float]]) -> Iterator[Figure]:
    middle = {name: median(samples) for name, samples in rates.items()}
    celery, celery_bulk = middle["Celery apply_async"], middle[f"Celery apply_async in Producer.batch of {BULK}"]
    yield Figure("enqueue, a transaction each / apply_async", middle["enqueue, a transaction each"] / celery, "")
    yield Figure(
        f"enqueue_many of {BULK} / apply_async",
        middle[f"enqueue_many of {BULK}"] / celery,
        "",
        Goal("≥", 1, "DESIGN §9"),
    )
    yield Figure(
        f"enqueue_many of {BULK} / apply_async in Producer.batch", middle[f"enqueue_many of {BULK}"] / celery_bulk, ""
    )
    for name, samples in rates.items():
        yield Figure(name, middle[name], "tasks/s", None, {"rounds": [round(sample, 1) for sample in samples]})


def rate(hand_over: Handover, size: int, seconds: float) -> float:
    """Tasks a second while `hand_over(size)` is called again and again."""
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        hand_over(size)
        done += size
    return done / (time.monotonic() - began)


@contextmanager
def ours(database: Database) -> Iterator[tuple[Handover, Handover, Handover]]:
    engine = create_engine(driver_url(database.api_url))
    numbers = itertools.count()
    with Session(engine) as session:

        def one_by_one(size: int) -> None:
            for _ in range(size):
                enqueue(session, TASK_TYPE, variables(next(numbers)))
            session.commit()

        def bulk(size: int) -> None:
            enqueue_many(session, [NewTask(TASK_TYPE, variables(next(numbers))) for _ in range(size)])
            session.commit()

        yield one_by_one, one_by_one, bulk
    engine.dispose()


@contextmanager
def celerys(broker_url: str) -> Iterator[tuple[Handover, Handover]]:
    app = Celery("bench", broker=broker_url, set_as_current=False)
    app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
    numbers = itertools.count()

    def do_nothing(**_: object) -> None: ...

    noop = app.task(do_nothing, name="bench.noop")

    def apply_async(size: int) -> None:
        for _ in range(size):
            noop.apply_async(kwargs=variables(next(numbers)))

    def batch(size: int) -> None:
        with app.producer_pool.acquire(block=True) as producer, producer.batch(size):
            for _ in range(size):
                noop.apply_async(kwargs=variables(next(numbers)), producer=producer)

    yield apply_async, batch
    app.close()
