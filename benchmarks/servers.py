"""The servers that are measured: a durable Postgres, a Valkey, and the API as a process with its own rights."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
from psycopg import sql

from app.cli.keys import ALL_VERBS, make_key
from app.dev.ports import free_port
from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process, console_command
from app.settings import Settings
from db.engine import sync_engine
from db.migrate import migrate

API_ROLE = "celeriac_api"

# Every commit waits for the disk, as in production. Checkpoints are kept out of the measured stretches (each benchmark
# asks for one before it starts), since they would hit whichever round happens to run.
POSTGRES_SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "min_wal_size": "1GB",
    "checkpoint_timeout": "30min",
    "track_functions": "pl",
    "track_commit_timestamp": "on",
}


@dataclass(frozen=True)
class Database:
    """One migrated database of a server."""

    server: EmbeddedPostgres
    name: str

    @property
    def owner_url(self) -> str:
        return self.server.url(self.name)

    @property
    def api_url(self) -> str:
        """With the rights of an API process: functions and views, no tables."""
        return self.server.url(self.name, role=API_ROLE)


@dataclass(frozen=True)
class Api:
    """One running API process and a key that may do everything."""

    port: int
    key: str
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def durable_postgres() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(durable=True, settings=POSTGRES_SETTINGS) as server:
        yield server


def new_database(server: EmbeddedPostgres, name: str, template: Database | None = None) -> Database:
    """A migrated database, or a copy of one that nobody is connected to."""
    with psycopg.connect(server.url(), autocommit=True) as conn:
        source = sql.Identifier("template1" if template is None else template.name)
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), source))
    database = Database(server, name)
    if template is None:
        migrate(database.owner_url)
    return database


@contextmanager
def running_api(database: Database, redis_url: str | None) -> Iterator[Api]:
    """`celeriac api` with the settings that everybody gets, and with the rights that production gives it."""
    with tempfile.TemporaryDirectory(prefix="celeriac-bench-") as folder:
        port = free_port()
        settings = Settings(
            database_url=database.api_url, redis_url=redis_url, port=port, state_dir=str(Path(folder) / "alive")
        )
        env = _outside() | settings.to_env()
        with Process([console_command("celeriac"), "api"], Path(folder) / "api.log", name="api", env=env) as process:
            process.wait_for(lambda: _is_ready(port), what="being ready")
            yield Api(port, _new_key(database), process)


def server_version(server: EmbeddedPostgres) -> str:
    with psycopg.connect(server.url()) as conn:
        return conn.info.parameter_status("server_version") or "unknown"


def _new_key(database: Database) -> str:
    engine = sync_engine(database.owner_url)
    with engine.connect() as conn:
        key = make_key(conn, "benchmark", ALL_VERBS, ["*"]).key
    engine.dispose()
    return key


def _outside() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
