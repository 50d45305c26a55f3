"""SQL functions on a connection of the caller's, in the caller's own transaction, whatever library it comes from.

It is a SQLAlchemy Session, scoped_session or Connection (2.0 or 2.1, any driver) or a psycopg Connection, or one of
their asyncio counterparts. Nothing here commits or rolls back.

A statement is a template with `{name}` where a value goes. Values travel as text and numbers, and answers should be
asked for as such, so that no loader, dumper or row factory that the caller has set for JSON or UUIDs has a say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from celeriac._sqlstates import refusal_in

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    BlockingConnection: TypeAlias = Session | scoped_session[Any] | Connection | psycopg.Connection[Any]
    AwaitedConnection: TypeAlias = (
        AsyncSession | async_scoped_session[Any] | AsyncConnection | psycopg.AsyncConnection[Any]
    )

NEW_TYPES: Final = "celeriac.new_task_types"
"""Where a Session's `info` keeps the types of the tasks that its transaction made ready; ring_after_commit reads it."""


def rows(conn: BlockingConnection, template: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What the statement answers, row by row; a refusal of the authority is raised as an error of `celeriac.errors`."""
    with _refusals():
        if _is_psycopg(conn):
            return _psycopg_rows(conn, template, values)
        return [tuple(row) for row in _unscoped(conn).execute(_statement(template, values), values).all()]


async def arows(conn: AwaitedConnection, template: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """`rows` for a connection that is awaited."""
    with _refusals():
        if _is_psycopg(conn):
            return await _psycopg_arows(conn, template, values)
        return [tuple(row) for row in (await _unscoped(conn).execute(_statement(template, values), values)).all()]


def note_types(conn: BlockingConnection | AwaitedConnection, task_types: Iterable[str]) -> None:
    """Remember in the Session (if it is one) that its commit makes work of these types ready."""
    if _is_psycopg(conn):
        return
    session: Any = _unscoped(conn)
    session = getattr(session, "sync_session", session)
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(session, orm.Session):
        session.info.setdefault(NEW_TYPES, set()).update(task_types)


def _statement(template: str, values: Mapping[str, Any]) -> Any:
    from sqlalchemy import text

    return text(template.format_map({name: f":{name}" for name in values}))


def _psycopg_rows(conn: Any, template: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    import psycopg
    from psycopg.rows import tuple_row

    # Not conn.execute: the caller's row factory and cursor class would shape the answer and the placeholders.
    with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        return cursor.execute(_psycopg_statement(template, values), values).fetchall()


async def _psycopg_arows(conn: Any, template: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    import psycopg
    from psycopg.rows import tuple_row

    async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
        return await (await cursor.execute(_psycopg_statement(template, values), values)).fetchall()


def _psycopg_statement(template: str, values: Mapping[str, Any]) -> Any:
    return template.format_map({name: f"%({name})s" for name in values})


# Only libraries that the caller has imported are looked at: the SDK needs none of them.


def _is_psycopg(conn: Any) -> bool:
    psycopg = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(conn, psycopg.Connection | psycopg.AsyncConnection)


def _unscoped(conn: Any) -> Any:
    """The session of this scope, or what it was when it is not scoped."""
    orm, asyncio = sys.modules.get("sqlalchemy.orm"), sys.modules.get("sqlalchemy.ext.asyncio")
    scoped = (orm is not None and isinstance(conn, orm.scoped_session)) or (
        asyncio is not None and isinstance(conn, asyncio.async_scoped_session)
    )
    return conn() if scoped else conn


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the authority's SQLSTATEs into our errors; everything else passes as it is."""
    try:
        yield
    except Exception as error:
        if refused := refusal_in(error):
            raise refused from error
        raise
