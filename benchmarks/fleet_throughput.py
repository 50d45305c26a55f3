"""No-op tasks a second on a Celery fleet: durable ones, single and in batches, beside Celery's own with acks_late.

All three run in workers of one app: prefork, four children, the same Redis. A worker starts on a backlog, and the rate
is taken from the middle of it: after a tenth and before the last twentieth, so neither start nor end counts.
"""

import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import psutil
import psycopg
import redis
from celery import Celery

from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process, console_command
from app.dev.valkey import EmbeddedValkey
from app.settings import Settings
from benchmarks.callers import new_task, variables
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.samples import interleaved, median
from benchmarks.servers import Database, durable_postgres, new_database, server_version

Way = Literal["plain", "single", "batch", "steps"]
WAYS: Final[Sequence[Way]] = ("plain", "single", "batch", "steps")
CHILDREN: Final = 4
AT_ONCE: Final = 1_000
STANDSTILL_SECONDS: Final = 60.0
LABELS: Final = {
    "plain": "plain Celery, acks_late",
    "single": "durable tasks on the fleet, single",
    "batch": "durable tasks on the fleet, batch=True",
    "steps": "durable tasks of three steps on the fleet",
}


@dataclass(frozen=True)
class Load:
    """Tasks of a stretch, and how often each way has one. Batches are quick: they get more tasks."""

    tasks: int
    batched: int
    rounds: int

    def of(self, way: Way) -> int:
        return self.batched if way == "batch" else self.tasks


@dataclass(frozen=True)
class Stretch:
    """One worker on one backlog. `cpu_ms` is CPU time a task of the worker with its children, over its whole life."""

    per_second: float
    cpu_ms: float


FULL = Load(tasks=10_000, batched=60_000, rounds=5)
QUICK = Load(tasks=600, batched=1_500, rounds=1)


@dataclass(frozen=True)
class Ground:
    """What all workers of a run share."""

    database: Database
    broker_url: str
    folder: Path
    children: int = CHILDREN

    @contextmanager
    def worker(self, queue: str) -> Iterator[Process]:
        """A worker of the app on one queue, started; it may not be ready yet."""
        options = ["--pool=prefork", f"--concurrency={self.children}", f"--queues={queue}", f"--hostname={queue}@bench"]
        quiet = ["--loglevel=WARNING", "--without-gossip", "--without-mingle"]
        command: list[str | Path] = [
            console_command("celery"),
            "-A",
            "benchmarks.fleet_app",
            "worker",
            *options,
            *quiet,
        ]
        environment = {
            **os.environ,
            "BENCH_BROKER_URL": self.broker_url,
            "BENCH_DATABASE_URL": self.database.server.url(self.database.name, role="celeriac_fleet"),
        }
        with Process(command, self.folder / f"{queue}.log", name=queue, env=environment, cwd=ROOT) as process:
            yield process


ROOT: Final = Path(__file__).parent.parent


def run(quick: bool) -> Measured:
    load = QUICK if quick else FULL
    with durable_postgres() as server, ground(server) as shared:
        stretches: dict[Way, list[Stretch]] = defaultdict(list)
        for way in interleaved(WAYS, load.rounds):
            stretches[way].append(stretch(shared, way, load.of(way)))
        version = server_version(server)
    settings = {"tasks": load.tasks, "batched": load.batched, "rounds": load.rounds, "children": CHILDREN}
    return Measured(settings, tuple(_figures(stretches)), version)


def fleet_rate(server: EmbeddedPostgres, tasks: int, way: Way) -> float:
    """Durable tasks a second on a fleet of two children, in a database of its own on this server."""
    with ground(server, children=2) as shared:
        return stretch(shared, way, tasks).per_second


@contextmanager
def ground(server: EmbeddedPostgres, children: int = CHILDREN) -> Iterator[Ground]:
    """A database, a broker and a dispatcher; the task types are known, as after the first start of a fleet."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="celeriac-bench-")))
        valkey = running.enter_context(EmbeddedValkey())
        database = new_database(server, f"fleet_{time.time_ns()}")
        settings = Settings(database_url=database.api_url, redis_url=valkey.url(), state_dir=str(folder / "alive"))
        outside = {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}
        command: list[str | Path] = [console_command("celeriac"), "maintenance"]
        running.enter_context(Process(command, folder / "maintenance.log", env=outside | settings.to_env()))
        shared = Ground(database, valkey.url(), folder, children)
        with shared.worker("single") as first, psycopg.connect(database.owner_url, autocommit=True) as owner:
            first.wait_for(lambda: _count(owner, "select count(*) from celeriac.task_type") == 4, what="its types")
        yield shared


def stretch(shared: Ground, way: Way, tasks: int) -> Stretch:
    """Fill a backlog, start a worker on it, and take its rate."""
    with (
        psycopg.connect(shared.database.owner_url, autocommit=True) as owner,
        redis.Redis.from_url(shared.broker_url) as broker,
    ):
        left: Callable[[], int]
        if way == "plain":
            _publish(shared.broker_url, tasks)
            left = lambda: int(broker.llen("plain"))  # noqa: E731
        else:
            _enqueue(owner, f"bench.{way}", tasks)
            left = lambda: _count(owner, "select count(*) from celeriac.queue")  # noqa: E731
        for statement in ("vacuum analyze celeriac.queue, celeriac.task, celeriac.outbox", "checkpoint"):
            owner.execute(statement)
        with shared.worker(way) as worker:
            rate = _rate(left, tasks)
            _until(left, lambda count: count == 0)
            return Stretch(rate, 1000 * _cpu_seconds(worker.pid) / tasks)


def _rate(left: Callable[[], int], tasks: int) -> float:
    first = _until(left, lambda count: count <= tasks * 0.9)
    began = time.perf_counter()
    last = _until(left, lambda count: count <= tasks * 0.05)
    return (first - last) / (time.perf_counter() - began)


def _until(left: Callable[[], int], is_met: Callable[[int], bool]) -> int:
    """Wait for a count of what is left; raises RuntimeError when it stands still."""
    count, changed_at = left(), time.perf_counter()
    while not is_met(count):
        time.sleep(0.01)
        now = left()
        if now != count:
            count, changed_at = now, time.perf_counter()
        elif time.perf_counter() - changed_at > STANDSTILL_SECONDS:
            raise RuntimeError(f"{count} tasks have stood still for {STANDSTILL_SECONDS:g} s")
    return count


def _publish(broker_url: str, tasks: int) -> None:
    app = Celery("bench", broker=broker_url, set_as_current=False)
    with app.producer_pool.acquire() as producer, producer.batch(AT_ONCE):
        for number in range(tasks):
            app.send_task("bench.plain", (variables(number),), queue="plain", producer=producer)
    app.close()


def _enqueue(owner: psycopg.Connection[Any], task_type: str, tasks: int) -> None:
    for first in range(0, tasks, AT_ONCE):
        items = [new_task(task_type, number) for number in range(first, min(first + AT_ONCE, tasks))]
        owner.execute("select from celeriac.enqueue_tasks(tasks => cast(%s as jsonb))", [json.dumps(items)])


def _count(owner: psycopg.Connection[Any], statement: str) -> int:
    row = owner.execute(statement).fetchone()
    return int(row[0]) if row else 0


def _cpu_seconds(pid: int) -> float:
    process = psutil.Process(pid)
    return sum(sum(one.cpu_times()[:2]) for one in [process, *process.children(recursive=True)])


def _figures(stretches: dict[Way, list[Stretch]]) -> Iterator[Figure]:
    rates = {way: median([one.per_second for one in stretches[way]]) for way in WAYS}
    goals = {"single": Goal("≥", 1.0, "DESIGN §9"), "batch": Goal("≥", 2.5, "DESIGN §9")}
    for way, goal in goals.items():
        by_round = [
            round(ours.per_second / plain.per_second, 3)
            for ours, plain in zip(stretches[way], stretches["plain"], strict=True)  # type: ignore[index]
        ]
        ratio = rates[way] / rates["plain"]  # type: ignore[index]
        yield Figure(f"{LABELS[way]} / {LABELS['plain']}", ratio, "", goal, {"ratio_by_round": by_round})
    for way in WAYS:
        yield Figure(
            LABELS[way],
            rates[way],
            "tasks/s",
            None,
            {
                "tasks_per_s": [round(one.per_second, 1) for one in stretches[way]],
                "cpu_ms_a_task_of_the_worker": round(median([one.cpu_ms for one in stretches[way]]), 4),
            },
        )
