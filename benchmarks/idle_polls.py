"""A thousand workers with nothing to do: what their long polls cost, and how many of them one task wakes."""

import resource
import selectors
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psutil
import psycopg

from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.http_caller import HttpCaller, fetch_body, read_leases
from benchmarks.http_connection import HttpConnection
from benchmarks.servers import Api, Database, durable_postgres, new_database, running_api, server_version

TASK_TYPE = "bench.idle"
POLL_MS = 60_000
FETCH = "/v1/external-tasks/fetch-and-lock"
# A session of Postgres that has become idle reports what it did within ten seconds.
REPORTED_SECONDS = 11
# Both ends of every connection, and what the processes have open besides.
WANTED_FILES = 4096
QUERIES_A_SECOND = Goal("≤", 1.0, "DESIGN §9")
ONE_CLAIM = Goal("=", 1)

Observer = psycopg.Connection[Any]


@dataclass(frozen=True)
class Numbers:
    """Polls that wait, and seconds for which nothing happens."""

    polls: int
    seconds: float


FULL = Numbers(polls=1_000, seconds=20)
QUICK = Numbers(polls=50, seconds=3)


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    _allow_open_files()
    with ExitStack() as running:
        server = running.enter_context(durable_postgres())
        valkey = running.enter_context(EmbeddedValkey())
        database = new_database(server, "bench")
        api = running.enter_context(running_api(database, valkey.url()))
        # Connected to another database: what it asks must not count.
        observer = running.enter_context(psycopg.connect(server.url(), autocommit=True))
        figures = list(_figures(api, database, observer, numbers))
        version = server_version(server)
    return Measured(asdict(numbers), tuple(figures), version)


def _figures(api: Api, database: Database, observer: Observer, numbers: Numbers) -> Iterator[Figure]:
    before = _observe(api, database, observer, numbers)
    with _waiting_polls(api, numbers.polls) as polls:
        during = _observe(api, database, observer, numbers)
        yield from _cost(before, during, numbers)
        yield from _one_task(api, database, polls)


@dataclass(frozen=True)
class Observed:
    """A quiet stretch: queries a second, connections, and the API process's share of a core and memory."""

    queries: float
    connections: int
    core: float
    memory_mib: float


def _observe(api: Api, database: Database, observer: Observer, numbers: Numbers) -> Observed:
    time.sleep(REPORTED_SECONDS)
    transactions, cpu, began = _transactions(observer, database), _cpu_seconds(api), time.monotonic()
    time.sleep(numbers.seconds)
    seconds = time.monotonic() - began
    return Observed(
        # Every statement of the API is a transaction.
        queries=(_transactions(observer, database) - transactions) / seconds,
        connections=_connections(observer, database),
        core=(_cpu_seconds(api) - cpu) / seconds,
        memory_mib=_memory_mib(api),
    )


def _cost(before: Observed, during: Observed, numbers: Numbers) -> Iterator[Figure]:
    details = {"before": asdict(before), "with_polls": asdict(during)}
    yield Figure(f"queries with {numbers.polls} idle polls", during.queries, "1/s", QUERIES_A_SECOND, details)
    yield Figure("queries without any poll (the process looks after its own readiness)", before.queries, "1/s")
    yield Figure("connections to Postgres", during.connections, "")
    yield Figure("API process, share of one core", during.core, "")
    yield Figure("API process, memory", during.memory_mib, "MiB")
    added = during.memory_mib - before.memory_mib
    yield Figure("API process, memory that a poll adds", added / numbers.polls * 1024, "KiB")


def _one_task(api: Api, database: Database, polls: Sequence[HttpConnection]) -> Iterator[Figure]:
    """One task arrives: exactly one poll is answered, and Postgres has seen exactly one claim."""
    before = _claims(database)
    with closing(HttpCaller(api, "producer", TASK_TYPE)) as producer:
        producer.enqueue(1)
        answered = _answered(polls, REPORTED_SECONDS)
    tasks = [task for poll in answered for task in read_leases(poll.receive())]
    if len(tasks) != 1:
        raise RuntimeError(f"one task was enqueued and {len(tasks)} were handed out")
    yield Figure("claims for one task that arrives", _claims(database) - before, "", ONE_CLAIM)
    yield Figure("polls answered for one task that arrives", len(answered), "", ONE_CLAIM)


@contextmanager
def _waiting_polls(api: Api, count: int) -> Iterator[Sequence[HttpConnection]]:
    with ExitStack() as open_things:
        polls = [open_things.enter_context(closing(HttpConnection(api.port, api.key))) for _ in range(count)]
        for number, poll in enumerate(polls):
            poll.send("POST", FETCH, fetch_body(f"idle-{number}", TASK_TYPE, 1, POLL_MS))
        with closing(HttpConnection(api.port, api.key)) as metrics:
            wait_until(lambda: _waiting(metrics) == count, what=f"{count} polls to wait")
            yield polls


def _waiting(connection: HttpConnection) -> int:
    for line in connection.get("/metrics").decode().splitlines():
        if line.startswith("celeriac_waiting_polls"):
            return int(float(line.split()[-1]))
    raise RuntimeError("the API does not say how many polls wait")


def _answered(polls: Sequence[HttpConnection], seconds: float) -> Sequence[HttpConnection]:
    """The polls that are answered within `seconds`; all of them are watched for that long."""
    found: list[HttpConnection] = []
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for poll in polls:
            selector.register(poll, selectors.EVENT_READ, poll)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                found.append(key.data)
                selector.unregister(key.data)
    return found


def _transactions(observer: Observer, database: Database) -> int:
    statement = "select xact_commit + xact_rollback from pg_stat_database where datname = %s"
    return _number(observer, statement, database.name)


def _connections(observer: Observer, database: Database) -> int:
    return _number(observer, "select count(*) from pg_stat_activity where datname = %s", database.name)


def _claims(database: Database) -> int:
    """How often fetch_tasks was called, by Postgres' own count."""
    statement = "select coalesce(sum(calls), 0) from pg_stat_user_functions where funcname = %s"
    with psycopg.connect(database.owner_url, autocommit=True) as conn:
        return _number(conn, statement, "fetch_tasks")


def _number(conn: Observer, statement: str, argument: str) -> int:
    row: Sequence[Any] | None = conn.execute(statement.encode(), [argument]).fetchone()
    if row is None:
        raise RuntimeError("no statistics")
    return int(row[0])


def _memory_mib(api: Api) -> float:
    return float(psutil.Process(api.process.pid).memory_info().rss) / 2**20


def _cpu_seconds(api: Api) -> float:
    times = psutil.Process(api.process.pid).cpu_times()
    return float(times.user + times.system)


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < WANTED_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(WANTED_FILES, hard), hard))
