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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

import psycopg
from psycopg import sql

from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.fleet_throughput import Way, fleet_rate
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
    has_steps: bool = False

    @property
    def program(self) -> Path:
        return HERE / "peers" / f"{self.name.lower()}_peer.py"


PEERS: Final = (
    Peer("DBOS", True, sql.SQL("select count(*) from dbos.workflow_status where status = 'SUCCESS'"), has_steps=True),
    Peer("Absurd", False, sql.SQL("select count(*) from absurd.t_bench where state = 'completed'"), has_steps=True),
    Peer("Procrastinate", False, sql.SQL("select count(*) from procrastinate_jobs where status = 'succeeded'")),
    Peer("PgQueuer", False, sql.SQL("select count(*) from pgqueuer_log where status = 'successful'")),
)


@dataclass(frozen=True)
class Load:
    """How many tasks a stretch has, and how often each system has one."""

    tasks: int
    rounds: int


Kind = Literal["noop", "steps"]
OURS: Final[Mapping[str, Way]] = {
    "Celeriac, single": "single",
    "Celeriac, batch=True": "batch",
    "Celeriac, three steps": "steps",
}


def run(quick: bool) -> Measured:
    load = Load(tasks=400, rounds=1) if quick else Load(tasks=6_000, rounds=3)
    python = environment()
    with durable_postgres() as server:
        contenders: dict[str, Callable[[], float]] = {}
        for peer in PEERS:
            contenders[peer.name] = partial(peer_rate, peer, server, python, load.tasks, "noop")
            if peer.has_steps:
                contenders[f"{peer.name}, three steps"] = partial(peer_rate, peer, server, python, load.tasks, "steps")
        for name, way in OURS.items():
            contenders[name] = partial(fleet_rate, server, load.tasks, way)
        rates: dict[str, list[float]] = defaultdict(list)
        for name in interleaved(list(contenders), load.rounds):
            rates[name].append(contenders[name]())
        version = server_version(server)
    return Measured({"tasks": load.tasks, "rounds": load.rounds, "workers": WORKERS}, tuple(figures(rates)), version)


def figures(rates: Mapping[str, list[float]]) -> Iterator[Figure]:
    best_of_all = max(median(rates[peer.name]) for peer in PEERS)
    best_fenced = max(median(rates[peer.name]) for peer in PEERS if peer.refuses_zombies)
    for ours in ("Celeriac, single", "Celeriac, batch=True"):
        rate = median(rates[ours])
        fenced, every = Goal("≥", 3, "DESIGN §9"), Goal("≥", 1, "DESIGN §9")
        yield Figure(f"{ours} / best of those that refuse a zombie's completion", rate / best_fenced, "", fenced)
        yield Figure(f"{ours} / best of all", rate / best_of_all, "", every)
    best_of_steps = max(median(rates[f"{peer.name}, three steps"]) for peer in PEERS if peer.has_steps)
    of_steps = median(rates["Celeriac, three steps"]) / best_of_steps
    yield Figure("three steps: Celeriac / best of those that have steps", of_steps, "", Goal("≥", 1, "DESIGN §9"))
    for name, samples in rates.items():
        yield Figure(name, median(samples), "tasks/s", None, {"rounds": [round(sample, 1) for sample in samples]})


def peer_rate(peer: Peer, server: EmbeddedPostgres, python: Path, tasks: int, kind: Kind) -> float:
    """Tasks a second of one stretch on a new database."""
    with (
        database(server, f"peer_{peer.name.lower()}") as url,
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as running,
    ):
        for verb in ("prepare", "enqueue"):
            command = order(peer, python, verb, url, tasks, "bench", kind)
            subprocess.run(command, check=True, capture_output=True, timeout=600)
        connection = running.enter_context(psycopg.connect(url, autocommit=True))
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
        for number in range(WORKERS):
            name = f"worker-{number}"
            command = order(peer, python, "work", url, 0, name, kind)
            running.enter_context(Process(command, Path(folder) / f"{name}.log", name=name))
        return rate_of(lambda: count(connection, peer.done), tasks)


def rate_of(done: Callable[[], int], tasks: int) -> float:
    """Tasks a second from the last look before a tenth of the backlog was done to the first after nine tenths were."""
    changed_at, seen = time.monotonic(), 0
    began: tuple[float, int] = (changed_at, 0)
    while True:
        now, ended = time.monotonic(), done()
        if ended >= tasks * 0.9:
            return (ended - began[1]) / (now - began[0])
        if ended < tasks * 0.1:
            began = now, ended
        if ended != seen:
            changed_at, seen = now, ended
        if now - changed_at > STANDSTILL_SECONDS:
            raise RuntimeError(f"nothing has moved for {STANDSTILL_SECONDS:.0f} s at {ended} of {tasks} tasks")
        time.sleep(0.01)


def count(connection: psycopg.Connection[tuple[int]], statement: sql.SQL) -> int:
    row = connection.execute(statement).fetchone()
    return 0 if row is None else row[0]


def order(peer: Peer, python: Path, verb: str, url: str, tasks: int, name: str, kind: Kind) -> Sequence[str | Path]:
    return [python, peer.program, verb, url, str(tasks), name, kind]


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
