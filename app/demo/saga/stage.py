"""The saga's servers and workers: those of the demo, a stock worker in another language, and systems outside."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import db.migrate
from app.cli.exits import ExitCode, Stop
from app.cli.keys import make_key
from app.cli.up import create_database
from app.demo.saga.fleet_post import TillPost
from app.demo.saga.orders import TILL_QUEUE, TOPICS, make_schema
from app.demo.stage import DATABASE, FLEET_ROLE, Stage, is_ready, outside, servers, stop_all
from app.demo.worker import KEY_VARIABLE
from app.dev.ports import free_port
from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey

if TYPE_CHECKING:
    from sqlalchemy import Engine

HERE = Path(__file__).parent
STOCK_NAMES = ("stock-1", "stock-2")
OFFICE_NAMES = ("office-1", "office-2")
TILL_NAMES = ("till-1", "till-2")
# The first with fetch built in.
OLDEST_NODE = 18
# Workers are killed and frozen on purpose here; the default, five lost leases, is for tasks that kill their workers.
MOST_EXPIRATIONS = 50
TASK_TYPES = ("reserve", "release", "check_credit", "void_credit", "charge", "refund", "ship")


@dataclass(frozen=True)
class Places:
    """Where everybody finds everybody."""

    work: Path
    api_port: int
    outside_port: int

    @property
    def diaries(self) -> Path:
        return self.work / "diaries"

    @property
    def ledger(self) -> Path:
        """What the systems outside have noted."""
        return self.work / "outside.ledger"

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def outside_url(self) -> str:
        return f"http://127.0.0.1:{self.outside_port}"


@dataclass(frozen=True)
class SagaStage(Stage):
    """Everything that runs."""

    places: Places
    api: Process
    shop_key: str
    """May deploy the process and start it."""

    def restart_api(self) -> None:
        """Kill it (SIGKILL) and start another one on its port."""
        self.api.kill()
        self.api.start()
        self.api.wait_for(lambda: is_ready(self.places.api_port), what="being ready")


@contextmanager
def set_up(work: Path, pause_ms: int, keep: bool) -> Iterator[SagaStage]:
    """Start all servers; stop all on the way out, whatever happened. The workers are made but not started."""
    from db.engine import sync_engine

    with ExitStack() as running:
        places = Places(work, free_port(), free_port())
        places.diaries.mkdir(parents=True)
        postgres = running.enter_context(EmbeddedPostgres(work / "postgres" if keep else None))
        valkey = running.enter_context(EmbeddedValkey(work / "valkey"))
        create_database(postgres.url(), DATABASE)
        db.migrate.migrate(postgres.url(DATABASE))
        engine = sync_engine(postgres.url(DATABASE))
        running.callback(engine.dispose)
        make_schema(engine)
        register_types(engine)
        started = {
            process.name: running.enter_context(process)
            for process in (systems_outside(places), *servers(postgres, valkey, work, places.api_port))
        }
        started["outside"].wait_for_output("open")
        started["api"].wait_for(lambda: is_ready(places.api_port), what="being ready")
        fleet_url = postgres.url(DATABASE, role=FLEET_ROLE)
        workers = {name: stock(name, places, key_of(engine, name), pause_ms) for name in STOCK_NAMES}
        workers |= {name: office(name, places, key_of(engine, name), pause_ms) for name in OFFICE_NAMES}
        for name in TILL_NAMES:
            post = TillPost(name, valkey.url(), fleet_url, str(places.diaries), str(pause_ms))
            workers[name] = till(post, work)
        running.callback(stop_all, workers.values())
        shop_key = key_of(engine, "shop", ["manage", "enqueue"])
        yield SagaStage(postgres, valkey, workers, engine, places, started["api"], shop_key)


def systems_outside(places: Places) -> Process:
    arguments = [f"--port={places.outside_port}", f"--ledger={places.ledger}"]
    return python("outside", "app.demo.saga.outside", arguments, places, {})


def stock(name: str, places: Places, key: str, pause_ms: int) -> Process:
    """One external worker in another language: it gets addresses and a key in its environment."""
    told = {
        "WORKER": name,
        "API_URL": places.api_url,
        "OUTSIDE_URL": places.outside_url,
        "DIARY": str(places.diaries / f"{name}.PID.diary"),
        "PAUSE_MS": str(pause_ms),
        KEY_VARIABLE: key,
    }
    return Process(stock_command(), places.work / f"{name}.log", name=name, env=outside() | told)


def stock_command() -> list[str]:
    """Node where there is one, else the shell and curl. Raises Stop without both."""
    node = shutil.which("node") or shutil.which("nodejs")
    if node is not None and node_version(node) >= OLDEST_NODE:
        return [node, str(HERE / "stock.mjs")]
    if shutil.which("curl") is None:
        raise Stop(ExitCode.USAGE, f"a worker of the saga needs Node {OLDEST_NODE} or newer, or curl: neither is here")
    return ["/bin/sh", str(HERE / "stock.sh")]


def node_version(node: str) -> int:
    """Its major version; 0 when it does not tell."""
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = told.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0


def office(name: str, places: Places, key: str, pause_ms: int) -> Process:
    """One external worker in Python."""
    arguments = [
        f"--name={name}",
        f"--api-url={places.api_url}",
        f"--outside-url={places.outside_url}",
        f"--diaries={places.diaries}",
        f"--pause-ms={pause_ms}",
    ]
    return python(name, "app.demo.saga.office", arguments, places, {KEY_VARIABLE: key})


def till(post: TillPost, work: Path) -> Process:
    """One Celery worker with two children. It may call Celeriac's functions and write its own business table."""
    options = [f"--hostname={post.worker}@%h", f"--queues={TILL_QUEUE}", "--concurrency=2", "--loglevel=INFO"]
    command = [sys.executable, "-P", "-m", "celery", "-A", "app.demo.saga.fleet", "worker", *options]
    # Celery looks for modules where it is started: the work folder has none.
    return Process(command, work / f"{post.worker}.log", name=post.worker, env=outside() | post.to_env(), cwd=work)


def python(name: str, module: str, arguments: list[str], places: Places, told: Mapping[str, str]) -> Process:
    # -P: a package `app` in the folder where the demo is started is somebody else's.
    command = [sys.executable, "-P", "-m", module, *arguments]
    return Process(command, places.work / f"{name}.log", name=name, env=outside() | dict(told))


def register_types(engine: "Engine") -> None:
    """Tasks here lose many leases, and none of that is their fault."""
    from db.call import one

    with engine.connect() as conn:
        for name in TASK_TYPES:
            one(conn, "register_task_type", name=f"order.{name}", expirations=MOST_EXPIRATIONS)


def key_of(engine: "Engine", name: str, verbs: list[str] | None = None) -> str:
    """A key that may do this, by default work, with the topics of orders and nothing else."""
    with engine.connect() as conn:
        return make_key(conn, name, verbs=verbs or ["work"], task_types=[TOPICS]).key
