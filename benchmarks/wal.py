"""How many bytes of write-ahead log a task and a step of it cost: what a disk, a replica and a backup have to carry."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import psycopg

from app.dev.postgres import EmbeddedPostgres
from app.dev.postgres_binaries import find_binaries
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.servers import Database, durable_postgres, new_database, server_version
from benchmarks.shapes import add_open, settle
from benchmarks.sql_caller import SqlCaller

TASK_TYPE, STEP_TYPE = "bench.wal", "bench.wal.steps"
PHASES = ("enqueue", "fetch", "complete")
BUDGET = Goal("≤", 1.8)
STEP_BUDGET = Goal("≤", 0.4, "issue 3")

Owner = psycopg.Connection[Any]


@dataclass(frozen=True)
class Numbers:
    """Tasks that pass unmeasured after the checkpoint, tasks measured, and tasks that always wait in the queue."""

    warm_up: int
    tasks: int
    backlog: int


FULL = {
    1: Numbers(warm_up=5_000, tasks=15_000, backlog=1_000),
    50: Numbers(warm_up=20_000, tasks=40_000, backlog=1_000),
}
QUICK = {1: Numbers(warm_up=100, tasks=200, backlog=200), 50: Numbers(warm_up=500, tasks=1_000, backlog=200)}


FULL_STEPS, QUICK_STEPS = 5_000, 1_000
LEASE = "select task_id, fencing_token from celeriac.fetch_tasks('worker', %s, 1, 3600000)"
RECORD = "select recorded from celeriac.record_steps(%s, 'worker', %s, cast(%s as jsonb))"
BEGIN = "select operation_id from celeriac.begin_operation(%s, 'worker', %s, '', %s, 'copy', '{\"to\": \"b\"}')"
SETTLE = "select state from celeriac.settle_operation(%s, 'worker', %s, %s, 'DONE', '{\"path\": \"b\"}')"


@dataclass(frozen=True)
class Log:
    """WAL of a measured stretch in bytes; `phases` leaves out what others wrote in between (autovacuum)."""

    total: int
    full_pages: int
    phases: Mapping[str, int]


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with durable_postgres() as server:
        database = new_database(server, "bench")
        logs = {batch: _measure(database, batch, of_batch) for batch, of_batch in numbers.items()}
        steps = QUICK_STEPS if quick else FULL_STEPS
        of_steps = _measure_steps(new_database(server, "steps"), steps)
        version = server_version(server)
    settings: dict[str, Any] = {f"batch_{batch}": asdict(of_batch) for batch, of_batch in numbers.items()}
    settings["steps"] = steps
    figures = [figure for batch, log in logs.items() for figure in _figures(batch, numbers[batch], log)]
    figures += [Figure(name, size / 1000, "kB", goal) for name, (size, goal) in of_steps.items()]
    return Measured(settings, tuple(figures), version)


def _figures(batch: int, numbers: Numbers, log: Log) -> list[Figure]:
    size = "single" if batch == 1 else f"batches of {batch}"
    a_task = {name: _kilobytes(log.phases[name], numbers) for name in PHASES}
    return [
        Figure(f"WAL a task, {size}", _kilobytes(log.total, numbers), "kB", BUDGET, {"phases": a_task}),
        Figure(f"WAL a task, {size}, of it full-page images", _kilobytes(log.full_pages, numbers), "kB"),
        *(Figure(f"WAL a task, {size}, by {name}", a_task[name], "kB") for name in PHASES),
    ]


def _kilobytes(size: int, numbers: Numbers) -> float:
    return size / numbers.tasks / 1000


def _measure(database: Database, batch: int, numbers: Numbers) -> Log:
    with (
        psycopg.connect(database.owner_url, autocommit=True) as owner,
        closing(SqlCaller(database.api_url, "worker", TASK_TYPE)) as caller,
    ):
        add_open(owner, TASK_TYPE, numbers.backlog, "READY")
        settle(owner)
        # The first change of a page after a checkpoint logs the whole page; the warm-up has most of these behind it.
        _pass_through(owner, caller, batch, numbers.warm_up)
        start = _position(owner)
        phases = _pass_through(owner, caller, batch, numbers.tasks)
        end = _position(owner)
    return Log(end - start, _full_page_bytes(database.server, start, end), phases)


def _measure_steps(database: Database, steps: int) -> Mapping[str, tuple[float, Goal | None]]:
    """WAL bytes a step by how it is recorded, full-page images included; one task does them all."""
    with (
        psycopg.connect(database.owner_url, autocommit=True) as owner,
        psycopg.connect(database.api_url, autocommit=True) as worker,
        closing(SqlCaller(database.api_url, "worker", STEP_TYPE)) as caller,
    ):
        caller.enqueue(1)
        task_id, token = _only(worker.execute(LEASE, [[STEP_TYPE]]))
        settle(owner)

        def record(first: int, count: int) -> None:
            steps = [
                {"ordinal": n, "kind": "step", "name": "charge", "result": {"n": n}}
                for n in range(first, first + count)
            ]
            worker.execute(RECORD, [task_id, token, json.dumps(steps)])

        def operate(ordinal: int) -> None:
            (operation_id,) = _only(worker.execute(BEGIN, [task_id, token, ordinal]))
            worker.execute(SETTLE, [task_id, token, operation_id])

        def cost(calls: Iterable[Callable[[], None]], count: int) -> float:
            before = _position(owner)
            for call in calls:
                call()
            return (_position(owner) - before) / count

        # The first thousand have the full-page images of tables and indexes that were there before.
        singles, more, last = (range(start, start + steps) for start in (1001, 100_001, 200_001))
        for n in range(1, 1001):
            record(n, 1)
        return {
            "WAL a step": (cost((partial(record, n, 1) for n in singles), steps), STEP_BUDGET),
            "WAL a step, a hundred in one call": (cost((partial(record, n, 100) for n in more[::100]), steps), None),
            "WAL an operation": (cost((partial(operate, n) for n in last), steps), None),
        }


def _only(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    if row is None:
        raise RuntimeError("no row")
    return row


def _pass_through(owner: Owner, caller: SqlCaller, batch: int, tasks: int) -> Mapping[str, int]:
    """WAL bytes of each phase while `tasks` are enqueued, fetched and completed."""
    written: Counter[str] = Counter()
    for _ in range(tasks // batch):
        with _counted(owner, written, "enqueue"):
            caller.enqueue(batch)
        with _counted(owner, written, "fetch"):
            held = caller.fetch(batch)
        with _counted(owner, written, "complete"):
            caller.complete(held)
    return written


@contextmanager
def _counted(owner: Owner, written: Counter[str], phase: str) -> Iterator[None]:
    before = _position(owner)
    yield
    written[phase] += _position(owner) - before


def _position(owner: Owner) -> int:
    row = owner.execute("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    if row is None:
        raise RuntimeError("no WAL position")
    return int(row[0])


def _full_page_bytes(server: EmbeddedPostgres, start: int, end: int) -> int:
    """What pg_waldump counts as full-page images between two positions; the log must be on disk up to `end`."""
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute("select pg_switch_wal()")
    command = [find_binaries(server.version) / "pg_waldump", "--stats", f"--path={server.data_dir / 'pg_wal'}"]
    bounds = [f"--start={_as_lsn(start)}", f"--end={_as_lsn(end)}"]
    answer = subprocess.run([*map(str, command), *bounds], capture_output=True, text=True, check=True)
    return _full_pages_in(answer.stdout)


def _as_lsn(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _full_pages_in(stats: str) -> int:
    """Column "FPI size" of the line of totals: count, record size, FPI size, combined size, each with its [percent]."""
    total = next(line for line in stats.splitlines() if line.startswith("Total"))
    return int(re.sub(r"\[[^]]*\]", " ", total).split()[3])
