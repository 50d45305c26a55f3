"""No-op tasks a second through other systems that keep tasks in Postgres, each as its own documentation sets it up.

Every system gets a database of its own on the same durable server, a backlog, and two worker processes; the rate is
taken from the middle of the backlog, after the start and before the end. The fleet of Celeriac runs in the same rounds
with two children (benchmarks/fleet_throughput.py says how).
"""

import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.fleet_throughput import fleet_rate
from benchmarks.samples import interleaved, median
from benchmarks.servers import durable_postgres, server_version

HERE: Final = Path(__file__).parent
REQUIREMENTS: Final = HERE / "peers" / "requirements.txt"
ENVIRONMENT: Final = HERE.parent / ".tools" / "peers"
WORKERS: Final = 2
STANDSTILL_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Peer:
    """One other system. `refuses_zombies`: a completion by a worker that has lost the task changes nothing."""

    name: str
    refuses_zombies: bool
    done: sql.SQL
    """Counts the tasks that have ended well."""

    @property
    def program(self) -> Path:
        return HERE / "peers" / f"{self.name.lower()}_peer.py"


PEERS: Final = (
    Peer("DBOS", True, sql.SQL("select count(*) from dbos.workflow_status where status = 'SUCCESS'")),
    Peer("Absurd", False, sql.SQL("select count(*) from absurd.t_bench where state = 'completed'")),
    Peer("Procrastinate", False, sql.SQL("select count(*) from procrastinate_jobs where status = 'succeeded'")),
    Peer("PgQueuer", False, sql.SQL("select count(*) from pgqueuer_log where status = 'successful'")),
)


@dataclass(frozen=True)
class Load:
    """How many tasks a stretch has, and how often each system has one."""

    tasks: int
    rounds: int


def run(quick: bool) -> Measured:
    load = Load(tasks=400, rounds=1) if quick else Load(tasks=6_000, rounds=3)
    python = environment()
    with durable_postgres() as server:
        contenders: dict[str, Callable[[], float]] = {
            peer.name: lambda peer=peer: peer_rate(peer, server, python, load.tasks)  # type: ignore[misc]
            for peer in PEERS
        }
        contenders["Celeriac, single"] = lambda: fleet_rate(server, load.tasks, batch=False)
        contenders["Celeriac, batch=True"] = lambda: fleet_rate(server, load.tasks, batch=True)
        rates: dict[str, list[float]] = defaultdict(list)
        for name in interleaved(list(contenders), load.rounds):
            rates[name].append(contenders[name]())
        version = server_version(server)
    return Measured({"tasks": load.tasks, "rounds": load.rounds, "workers": WORKERS}, tuple(figures(rates)), version)


def figures(rates: dict[str, list[float]]) -> Iterator[Figure]:
    best_of_all = max(median(rates[peer.name]) for peer in PEERS)
    best_fenced = max(median(rates[peer.name]) for peer in PEERS if peer.refuses_zombies)
    for ours in ("Celeriac, single", "Celeriac, batch=True"):
        rate = median(rates[ours])
        yield Figure(
            f"{ours} / best of those that refuse a zombie's completion",
            rate / best_fenced,
            "",
            Goal("≥", 3, "DESIGN §9"),
        )
        yield Figure(f"{ours} / best of all", rate / best_of_all, "", Goal("≥", 1, "DESIGN §9"))
    for name, samples in rates.items():
        yield Figure(name, median(samples), "tasks/s", None, {"rounds": [round(sample, 1) for sample in samples]})


def peer_rate(peer: Peer, server: EmbeddedPostgres, python: Path, tasks: int) -> float:
    """Tasks a second of one stretch on a new database."""
    with (
        database(server, f"peer_{peer.name.lower()}") as url,
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as running,
    ):
        for verb in ("prepare", "enqueue"):
            subprocess.run(command(peer, python, verb, url, tasks), check=True, capture_output=True, timeout=600)
        connection = running.enter_context(psycopg.connect(url, autocommit=True))
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
        for number in range(WORKERS):
            name = f"worker-{number}"
            log = Path(folder) / f"{name}.log"
            running.enter_context(Process(command(peer, python, "work", url, 0, name), log, name=name))
        return rate_of(lambda: count(connection, peer.done), tasks)


def rate_of(done: Callable[[], int], tasks: int) -> float:
    """Tasks a second between a tenth and nine tenths of the backlog."""
    moved_at, seen = time.monotonic(), 0
    first: tuple[float, int] | None = None
    while True:
        now, ended = time.monotonic(), done()
        if ended != seen:
            moved_at, seen = now, ended
        if now - moved_at > STANDSTILL_SECONDS:
            raise RuntimeError(f"nothing has moved for {STANDSTILL_SECONDS:.0f} s at {ended} of {tasks} tasks")
        if first is None and ended >= tasks * 0.1:
            first = now, ended
        elif first is not None and ended >= tasks * 0.9 and now > first[0]:
            return (ended - first[1]) / (now - first[0])
        time.sleep(0.01)


def count(connection: psycopg.Connection[tuple[int]], statement: sql.SQL) -> int:
    row = connection.execute(statement).fetchone()
    return 0 if row is None else row[0]


def command(peer: Peer, python: Path, verb: str, url: str, tasks: int, name: str = "bench") -> Sequence[str | Path]:
    return [python, peer.program, verb, url, str(tasks), name]


@contextmanager
def database(server: EmbeddedPostgres, name: str) -> Iterator[str]:
    """A database that is there for one stretch."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield server.url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def environment() -> Path:
    """The interpreter that has the peers; made when it is missing or older than what it should hold."""
    python = ENVIRONMENT / "bin" / "python"
    made = ENVIRONMENT / ".made"
    if not made.exists() or made.stat().st_mtime < REQUIREMENTS.stat().st_mtime:
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        made.touch()
    return python
