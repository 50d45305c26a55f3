"""The demo's servers and workers, all real and all processes of their own."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

import db.migrate
from app.cli.keys import make_key
from app.cli.up import create_database
from app.demo.fleet_post import FleetPost
from app.demo.orders import FLEET_QUEUE, TASK_TYPE, make_schema
from app.demo.worker import KEY_VARIABLE
from app.dev.ports import free_port
from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process, console_command
from app.dev.valkey import EmbeddedValkey
from app.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

WORKER_NAMES = ("worker-1", "worker-2")
FLEET_NAMES = ("fleet-1", "fleet-2")
API_ROLE = "celeriac_api"
FLEET_ROLE = "celeriac_fleet"
DATABASE = "celeriac"


@dataclass(frozen=True)
class Folders:
    """Where things are: what is copied, where to, and where logs, diaries and data go."""

    source: Path
    target: Path
    work: Path

    @property
    def diaries(self) -> Path:
        return self.work / "diaries"


@dataclass(frozen=True)
class Stage:
    """Everything that runs, and a way to look into the database as its owner."""

    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    workers: Mapping[str, Process]
    """External workers and Celery workers, by name."""
    engine: "Engine"


@contextmanager
def set_up(folders: Folders, pause_ms: int, keep: bool) -> "Iterator[Stage]":
    """Start all servers; stop all on the way out, whatever happened. The workers are made but not started."""
    from db.engine import sync_engine

    with ExitStack() as running:
        folders.diaries.mkdir(parents=True)
        # Without `keep` the data go to a temporary folder that the server's own user can reach and that goes with it.
        postgres = running.enter_context(EmbeddedPostgres(folders.work / "postgres" if keep else None))
        valkey = running.enter_context(EmbeddedValkey(folders.work / "valkey"))
        create_database(postgres.url(), DATABASE)
        db.migrate.migrate(postgres.url(DATABASE))
        engine = sync_engine(postgres.url(DATABASE))
        running.callback(engine.dispose)
        make_schema(engine)
        port = free_port()
        for server in servers(postgres, valkey, folders.work, port):
            running.enter_context(server)
            if server.name == "api":
                server.wait_for(lambda: is_ready(port), what="being ready")
        workers = {name: worker(name, folders, port, worker_key(engine, name), pause_ms) for name in WORKER_NAMES}
        fleet_url = postgres.url(DATABASE, role=FLEET_ROLE)
        for name in FLEET_NAMES:
            post = FleetPost(name, valkey.url(), fleet_url, folders.source, folders.target, folders.diaries, pause_ms)
            workers[name] = fleet_worker(post, folders.work)
        running.callback(stop_all, workers.values())
        yield Stage(postgres, valkey, workers, engine)


def stop_all(workers: Iterable[Process]) -> None:
    """Tell all to stop, then wait for each: they finish what they have in hand at the same time."""
    for process in workers:
        process.thaw()
        process.send(process.stop_signal)
    for process in workers:
        process.stop()


def servers(postgres: EmbeddedPostgres, valkey: EmbeddedValkey, work: Path, port: int) -> list[Process]:
    """API, maintenance and beat. The API may only do what its role may: call functions and read views."""
    own = Settings(
        database_url=postgres.url(DATABASE), redis_url=valkey.url(), port=port, state_dir=str(work / "alive")
    )
    env = {
        "api": replace(own, database_url=postgres.url(DATABASE, role=API_ROLE)).to_env(),
        "maintenance": own.to_env(),
        "beat": own.to_env(),
    }
    return [
        Process([console_command("celeriac"), name], work / f"{name}.log", name=name, env=outside() | env[name])
        for name in env
    ]


def worker(name: str, folders: Folders, port: int, key: str, pause_ms: int) -> Process:
    """One external worker. It gets an address and a key, and nothing that leads to the database."""
    arguments = [
        f"--name={name}",
        f"--api-url=http://127.0.0.1:{port}",
        f"--source={folders.source}",
        f"--target={folders.target}",
        f"--diaries={folders.diaries}",
        f"--pause-ms={pause_ms}",
    ]
    env = outside() | {KEY_VARIABLE: key}
    # -P: a package `app` in the folder where the demo is started is somebody else's.
    command = [sys.executable, "-P", "-m", "app.demo.worker", *arguments]
    return Process(command, folders.work / f"{name}.log", name=name, env=env)


def fleet_worker(post: FleetPost, work: Path) -> Process:
    """One Celery worker with two children. It may call Celeriac's functions and write its own business table."""
    options = [f"--hostname={post.worker}@%h", f"--queues={FLEET_QUEUE}", "--concurrency=2", "--loglevel=INFO"]
    command = [sys.executable, "-P", "-m", "celery", "-A", "app.demo.fleet", "worker", *options]
    # Celery looks for modules where it is started: the work folder has none.
    return Process(command, work / f"{post.worker}.log", name=post.worker, env=outside() | post.to_env(), cwd=work)


def worker_key(engine: "Engine", name: str) -> str:
    """A key of this worker's own that may work on copies and nothing else."""
    with engine.connect() as conn:
        return make_key(conn, name, verbs=["work"], task_types=[TASK_TYPE]).key


def outside() -> dict[str, str]:
    """The environment without settings: those of the person who starts the demo must not leak into it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
