"""The command line's way to the database: one connection for one command, by CELERIAC_DATABASE_URL."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from app.settings import Settings


def settings() -> "Settings":
    """The settings of this process; raises SettingsError, which names the setting."""
    from app.settings import Settings

    return Settings.from_env(os.environ)


@contextmanager
def connection() -> "Iterator[Connection]":
    """A connection in autocommit, closed with the command."""
    from db.engine import sync_engine

    engine = sync_engine(settings().database_url)
    try:
        with engine.connect() as conn:
            yield conn
    finally:
        engine.dispose()


def select(conn: "Connection", sql: str, **values: object) -> list[dict[str, Any]]:
    """The rows of one SELECT, as mappings."""
    from sqlalchemy import text

    return [dict(row) for row in conn.execute(text(sql), values).mappings()]
