"""`celeriac up`: everything on this machine with one command, for development.

What is not given by a CELERIAC_*_URL is started here: a Postgres and a Valkey whose data stay in the state folder.
The servers are child processes of this one; Ctrl-C or SIGTERM stops them in order, and they end with it in any case.
"""

import fcntl
import os
import secrets
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.exits import ExitCode, Stop
from app.cli.output import remark

if TYPE_CHECKING:
    from app.cli.supervise import Watched

DATABASE_URL = "CELERIAC_DATABASE_URL"
REDIS_URL = "CELERIAC_REDIS_URL"
DATABASE_NAME = "celeriac"


def up(
    state: Annotated[Path, typer.Option(help="Folder for logs and for the embedded servers' data.")] = Path(
        ".celeriac"
    ),
    flower: Annotated[bool, typer.Option(help="Serve Flower too.")] = True,
) -> None:
    """Run all servers on this machine until Ctrl-C.

    Postgres and Redis (embedded unless CELERIAC_DATABASE_URL and CELERIAC_REDIS_URL are set), API, maintenance, beat
    and Flower, each a process of its own; one that dies is started again. Prints the address of the API and, once for a
    new database, its first key.
    """
    from app.cli.supervise import supervise
    from app.settings import Settings

    given = {name: value for name, value in os.environ.items() if value.strip()}
    # Everything that can be refused is, before anything is started.
    settings = Settings.from_env({DATABASE_URL: "postgresql://embedded"} | given)
    demand_free_port("CELERIAC_PORT", settings.host, settings.port)
    if flower:
        demand_free_port("CELERIAC_FLOWER_PORT", settings.host, settings.flower_port)
    with folder_to_itself(state), stop_signals() as stopping, ExitStack() as running:
        stores = start_stores(given, state, running)
        prepare(stores.owner_url)
        watched = list(stores.watched)
        for name in ["api", "maintenance", "beat", *(["flower"] if flower else [])]:
            watched.append(console_server(name, stores.environment, state))
        supervise(watched, stopping, prefixed, Address(settings.host, settings.port).say_once)
    remark("all servers are stopped")


@contextmanager
def folder_to_itself(state: Path) -> Iterator[None]:
    """Make the folder and keep it from others as long as we live: two of us would write over each other's logs."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise Stop(ExitCode.FAILED, f"--state: another celeriac up is using {state}") from taken
        yield


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set; what was in charge of the signals comes back after."""
    stopping = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: stopping.set()) for number in signals]
    try:
        yield stopping
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


@dataclass(frozen=True)
class Stores:
    """Where the servers keep things: the environment that leads them there, and the stores that are ours to watch."""

    environment: Mapping[str, str]
    owner_url: str
    watched: "Sequence[Watched]"


def start_stores(given: Mapping[str, str], state: Path, running: ExitStack) -> Stores:
    """Start whichever of Postgres and Redis the environment does not name."""
    from app.cli.supervise import Watched
    from app.dev.postgres import EmbeddedPostgres
    from app.dev.valkey import EmbeddedValkey

    environment = {"CELERIAC_STATE_DIR": str((state / "alive").absolute())} | dict(given)
    owner_url = given.get(DATABASE_URL, "")
    watched = []
    if not owner_url:
        remark("starting an embedded Postgres")
        postgres = running.enter_context(EmbeddedPostgres(state / "postgres"))
        create_database(postgres.url(), DATABASE_NAME)
        owner_url = postgres.url(DATABASE_NAME)
        # As in production: the servers may call functions and read views, and nothing else.
        environment[DATABASE_URL] = postgres.url(DATABASE_NAME, role="celeriac_api")
        watched.append(Watched("postgres", postgres))
    if REDIS_URL not in given:
        remark("starting an embedded Valkey")
        valkey = running.enter_context(EmbeddedValkey(state / "valkey"))
        environment[REDIS_URL] = valkey.url()
        watched.append(Watched("valkey", valkey))
    chosen = (environment | {DATABASE_URL: owner_url}).items() - given.items()
    remark("for other commands: export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(chosen)))
    return Stores(environment, owner_url, watched)


def create_database(url: str, name: str) -> None:
    """Make the database `name` in an embedded Postgres; one that exists stays as it is."""
    from sqlalchemy import text

    from db.engine import sync_engine

    engine = sync_engine(url)
    with engine.connect() as conn:
        if conn.execute(text("select from pg_database where datname = :name"), {"name": name}).first() is None:
            conn.execute(text(f'create database "{name}"'))
    engine.dispose()


def prepare(database_url: str) -> None:
    """Migrate, and make the first key of a database that has none; it is printed this once."""
    import db.migrate
    from app.cli.database import select
    from app.cli.keys import ALL_VERBS, make_key
    from db.engine import sync_engine

    db.migrate.migrate(database_url)
    engine = sync_engine(database_url)
    with engine.connect() as conn:
        if not select(conn, "select key_id from celeriac.api_keys limit 1"):
            made = make_key(conn, "first key", ALL_VERBS, ["*"])
            print(f"first API key, shown this once: {made.key}", flush=True)
    engine.dispose()


def console_server(name: str, environment: Mapping[str, str], state: Path) -> "Watched":
    """One of our own servers as a child process that writes to a log file, which starts empty."""
    from app.cli.supervise import Watched
    from app.dev.processes import Process, console_command

    log = state / f"{name}.log"
    log.write_bytes(b"")
    own = dict(environment)
    if name == "flower" and not own.get("CELERIAC_FLOWER_BASIC_AUTH") and not own.get("CELERIAC_FLOWER_OPEN"):
        own["CELERIAC_FLOWER_BASIC_AUTH"] = f"celeriac:{secrets.token_urlsafe(12)}"
        remark(f"Flower's login for this run: {own['CELERIAC_FLOWER_BASIC_AUTH']}")
    return Watched(name, Process([console_command("celeriac"), name], log, name=name, env=own), log)


@dataclass
class Address:
    """Where the API is: said when it listens there, so that whoever reads it can use it."""

    host: str
    port: int
    said: bool = False

    def say_once(self) -> None:
        if not self.said and is_taken(self.host, self.port):
            self.said = True
            remark(f"API: http://{self.host}:{self.port}   description: /openapi.json   stop: Ctrl-C")


def is_taken(host: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def demand_free_port(setting: str, host: str, port: int) -> None:
    import socket

    try:
        socket.create_server((host, port)).close()
    except OSError as taken:
        why = str(taken.strerror).partition(" (while")[0]
        raise Stop(ExitCode.FAILED, f"{setting}: cannot listen on {host}:{port} ({why})") from taken


def prefixed(name: str, line: str) -> None:
    """A server's line on the terminal, with its name in front."""
    print(f"{name:<11} {line}", file=sys.stderr, flush=True)
