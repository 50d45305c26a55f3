"""Migrate: tables by Alembic, then every function and view anew, in one transaction under one lock.

Safe to run twice and by several at once: the second waits, finds all in place and loads the same text again.
"""

import hashlib
from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from db.engine import sync_engine
from db.sql_file import run_file

HERE = Path(__file__).parent
# Any fixed number: the lock that makes concurrent migrates take turns.
_LOCK = 4_231_779_001


def migrate(database_url: str) -> None:
    """Brings the schema `celeriac` to this release. Run it as the owner; making the roles takes CREATEROLE, once."""
    engine = sync_engine(database_url, pool_size=1, isolation_level="READ COMMITTED")
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"select pg_advisory_xact_lock({_LOCK})")
            connection.exec_driver_sql("create schema if not exists celeriac")
            _upgrade_tables(connection)
            for file in loaded_files():
                run_file(connection, file)
            _note(connection)
    finally:
        engine.dispose()


def loaded_files() -> list[Path]:
    """What every migrate loads anew, in order: roles, functions, views, grants."""
    functions = sorted((HERE / "functions").rglob("*.sql"))
    return [HERE / "roles.sql", HERE / "load.sql", *functions, HERE / "views" / "views.sql", HERE / "grants.sql"]


def code_hash() -> str:
    """What `celeriac.installation.code_hash` holds when the database runs this release's functions and views."""
    digest = hashlib.sha256()
    for file in loaded_files():
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _upgrade_tables(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(HERE / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _note(connection: Connection) -> None:
    connection.execute(
        sqlalchemy.text(
            "insert into celeriac.installation (code_hash, migrated_at) values (:hash, celeriac.now()) "
            "on conflict (singleton) do update set code_hash = excluded.code_hash, migrated_at = excluded.migrated_at"
        ),
        {"hash": code_hash()},
    )
