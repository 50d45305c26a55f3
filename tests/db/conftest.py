"""A clerk on a migrated database that these many small tests share: each finds it empty."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection

import db
from app.dev.postgres import EmbeddedPostgres
from tests.db.clerk import Clerk

SHARED = "shared_by_db_tests"
NOW = (Path(db.__file__).parent / "functions/door/now.sql").read_text()
# Deleting a few rows takes a millisecond; another database, or truncating a dozen tables, many.
EMPTY = """
select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid();
drop table if exists celeriac.test_clock;
do $$
declare
    thing record;
begin
    for thing in select * from pg_tables where schemaname = 'public' loop
        execute format('drop table public.%I', thing.tablename);
    end loop;
    for thing in select * from pg_tables where schemaname = 'celeriac' loop
        if thing.tablename ~ '^history_[0-9]+$' then
            execute format('drop table celeriac.%I', thing.tablename);
        elsif thing.tablename not in ('revision', 'installation', 'history') then
            execute format('delete from celeriac.%I', thing.tablename);
        end if;
    end loop;
end $$;
alter sequence celeriac.refused_write restart;
"""


@pytest.fixture(scope="session")
def shared_database(postgres_server: EmbeddedPostgres, template_database: str) -> str:
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"create database {SHARED} template {template_database}")
    return SHARED


@pytest.fixture
def database_url(postgres: EmbeddedPostgres, shared_database: str) -> Iterator[str]:
    """The shared database, as its owner, empty."""
    url = postgres.url(shared_database)
    yield url
    postgres.thaw()
    if not postgres.is_running:
        postgres.start()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(NOW)
        connection.execute(EMPTY)


@pytest.fixture
def clerk(conn: Connection) -> Clerk:
    return Clerk(conn)
