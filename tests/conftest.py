"""What every test can ask for: real servers, one migrated database a test, a clock it can move.

Servers are started once for each pytest process (each xdist worker has its own), so a test may stop, kill or freeze
them: the next test gets them running again. TEST_POSTGRES chooses the version: 18 (default), 16, system.
"""

import itertools
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from hypothesis import settings as hypothesis_settings
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from app.dev.postgres import EmbeddedPostgres
from app.dev.postgres_binaries import Version
from app.dev.valkey import EmbeddedValkey
from app.settings import Settings
from db.engine import async_engine, sync_engine
from db.migrate import migrate
from tests.clock import Clock
from tests.db.pgbouncer import PGBOUNCER, running_pgbouncer

# A run in the background (`make test &`, CI) is started with SIGINT ignored, and so would be all that we start: what is
# caught here, children get back as the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is merged must not hang on the dice: `make test` tries the same examples each time, and `make fuzz` new ones.
hypothesis_settings.register_profile("same", derandomize=True)
hypothesis_settings.register_profile("new")
hypothesis_settings.load_profile("same")

VERSIONS: dict[str, Version] = {"16": 16, "18": 18, "system": "system"}
TEMPLATE = "celeriac_template"
database_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Set up before every server, so checked after all are gone."""
    before = set(psutil.Process().children())
    yield
    left = [child for child in psutil.Process().children() if child not in before]
    assert not left, f"tests left processes behind: {[child.cmdline() for child in left]}"


@pytest.fixture(scope="session")
def postgres_server(no_process_is_left: None) -> Iterator[EmbeddedPostgres]:
    version = VERSIONS[os.environ.get("TEST_POSTGRES", "18")]
    with EmbeddedPostgres(version=version, durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server(no_process_is_left: None) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: EmbeddedPostgres) -> EmbeddedPostgres:
    """The Postgres server, running, whatever the test before did to it."""
    postgres_server.thaw()
    if not postgres_server.is_running:
        postgres_server.start()
    return postgres_server


@pytest.fixture
def valkey(valkey_server: EmbeddedValkey) -> EmbeddedValkey:
    """The Redis, running and empty, whatever the test before did to it."""
    valkey_server.thaw()
    if not valkey_server.is_running:
        valkey_server.start()
    valkey_server.flush()
    return valkey_server


@pytest.fixture(scope="session")
def template_database(postgres_server: EmbeddedPostgres) -> str:
    """A migrated database that every test's own one is copied from."""
    _administrate(postgres_server, f"create database {TEMPLATE}")
    migrate(postgres_server.url(TEMPLATE))
    return TEMPLATE


@pytest.fixture(scope="session")
def celeriac_template_url(postgres_server: EmbeddedPostgres, template_database: str) -> str:
    """The fixtures of celeriac.testing work on our own server, whose version TEST_POSTGRES chooses."""
    return postgres_server.url(template_database)


@pytest.fixture
def empty_database_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """A database with nothing in it."""
    yield from _database(postgres, template="template0")


@pytest.fixture
def database_url(postgres: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    """A fresh migrated database, as its owner."""
    yield from _database(postgres, template=template_database)


@pytest.fixture
def api_url_db(database_url: str, postgres: EmbeddedPostgres) -> str:
    """The same database with the rights of an API process."""
    return postgres.url(_name_of(database_url), role="celeriac_api")


@pytest.fixture
def fleet_url_db(database_url: str, postgres: EmbeddedPostgres) -> str:
    """The same database with the rights of a fleet worker."""
    return postgres.url(_name_of(database_url), role="celeriac_fleet")


@pytest.fixture
def redis_url(valkey: EmbeddedValkey) -> str:
    return valkey.url()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike ``tmp_path``: a Postgres that root started can keep its data there."""
    with tempfile.TemporaryDirectory(prefix="celeriac-test-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
def pooled_url(database_url: str, postgres: EmbeddedPostgres, open_folder: Path) -> Iterator[str]:
    """The same database through a PgBouncer in transaction mode."""
    if PGBOUNCER is None:
        pytest.skip("there is no pgbouncer on this machine")
    with running_pgbouncer(database_url, postgres.port, open_folder) as url:
        yield url


@pytest.fixture
def settings(api_url_db: str, redis_url: str) -> Settings:
    return Settings.from_env({"CELERIAC_DATABASE_URL": api_url_db, "CELERIAC_REDIS_URL": redis_url})


@pytest.fixture
def conn(database_url: str) -> Iterator[Connection]:
    """A connection as owner; every statement commits."""
    engine = sync_engine(database_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
async def aconn(database_url: str) -> AsyncIterator[AsyncConnection]:
    engine = async_engine(database_url)
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@pytest.fixture
def clock(conn: Connection) -> Clock:
    return Clock(conn)


def _database(server: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = f"test_{next(database_numbers)}"
    # file_copy: with fsync off it beats wal_log (10 ms against 18 in memory, 18.4).
    _administrate(server, f"create database {name} template {template} strategy file_copy")
    yield server.url(name)
    server.thaw()
    if not server.is_running:
        server.start()
    _administrate(server, f"drop database {name} with (force)")


def _administrate(server: EmbeddedPostgres, statement: Any) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(statement)


def _name_of(database_url: str) -> str:
    return database_url.rsplit("/", 1)[1]
