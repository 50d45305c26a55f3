"""A clerk on one migrated database and one connection with its plans: small tests share it, and each finds it empty."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Connection, Engine

from app.dev.postgres import EmbeddedPostgres
from db.engine import sync_engine
from db.migrate import HERE
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger

SHARED = "shared_by_db_tests"
NOW = (HERE / "functions/door/now.sql").read_text()
# Deleting a few rows takes a millisecond; another database, or truncating a dozen tables, many.
EMPTY = """
reset all;
select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid();
select setval('celeriac.refused_write', 1, false);
do $$
declare
    thing record;
begin
    set local session_replication_role = replica;  -- no foreign key asks in which order
    for thing in select * from pg_tables where schemaname = 'public' loop
        execute format('drop table public.%I', thing.tablename);
    end loop;
    for thing in select * from pg_tables where schemaname = 'celeriac' loop
        if thing.tablename ~ '^(history_[0-9]+|test_clock)$' then
            execute format('drop table celeriac.%I', thing.tablename);
        elsif thing.tablename not in ('revision', 'installation', 'history') then
            execute format('delete from celeriac.%I', thing.tablename);
        end if;
    end loop;
end $$;
"""


@pytest.fixture(scope="session")
def shared_engine(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[Engine]:
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"create database {SHARED} template {template_database}")
    engine = sync_engine(postgres_server.url(SHARED), pool_size=1, pool_pre_ping=True)
    yield engine
    engine.dispose()


@pytest.fixture
def database_url(postgres: EmbeddedPostgres, shared_engine: Engine) -> Iterator[str]:
    """The shared database, as its owner, empty."""
    yield postgres.url(SHARED)
    postgres.thaw()
    if not postgres.is_running:
        postgres.start()
    with shared_engine.connect() as connection:
        clerk = Clerk(connection)
        if clerk.scalar("select to_regclass('celeriac.test_clock') is not null"):
            connection.exec_driver_sql(NOW)
        connection.connection.cursor().execute(EMPTY)


@pytest.fixture
def conn(database_url: str, shared_engine: Engine) -> Iterator[Connection]:
    with shared_engine.connect() as connection:
        yield connection


@pytest.fixture
def clerk(conn: Connection) -> Clerk:
    return Clerk(conn)


@pytest.fixture
def ledger(clerk: Clerk) -> Ledger:
    return Ledger(clerk)
