"""Enqueue in the caller's own transaction: the task and the caller's rows are committed together, or neither is.

`enqueue` and `enqueue_many` take a SQLAlchemy Session, scoped_session or Connection (2.0 or 2.1, any driver) or a
psycopg Connection; `aenqueue` and `aenqueue_many` their asyncio counterparts. They neither commit nor roll back. The
connection's user needs the right to execute `celeriac.enqueue_tasks`.

A refusal is raised as an error of `celeriac.errors`, and as after any error Postgres takes no more statements
in that transaction: roll it back, or enqueue inside a savepoint (`with session.begin_nested():`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

from celeriac import _json
from celeriac._sqlstates import refusal_in
from celeriac.values import EnqueuedTask, NewTask, TaskOptions

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
"""Where a Session's `info` keeps the task types enqueued in its transaction; ring_after_commit reads it."""

# The payload travels as text and the answer as plain text and numbers, so that no loader, dumper or
# row factory that the caller has set for JSON or UUIDs has a say.
_STATEMENT: Final = (
    "select ordinal, cast(task_id as text), task_type, state, created"
    " from celeriac.enqueue_tasks(tasks => cast({} as jsonb)) order by ordinal"
)


def enqueue(
    conn: BlockingConnection,
    task_type: str,
    variables: Mapping[str, Any] | None = None,
    **options: Unpack[TaskOptions],
) -> EnqueuedTask:
    """Create a task in the transaction of `conn`; TaskOptions has the rest, NewTask says what each means."""
    task = NewTask(task_type, variables or {}, **options)
    return enqueue_many(conn, [task])[0]


def enqueue_many(conn: BlockingConnection, tasks: Sequence[NewTask]) -> list[EnqueuedTask]:
    """Create up to 5 000 tasks in the transaction of `conn`, in one round trip; results in the order of `tasks`.

    Raises Invalid, TooLarge or IdempotencyConflict (its `task_id` is the first task with that key), and creates none.
    """
    if not tasks:
        return []
    body = _body(tasks)
    with _refusals():
        if _is_psycopg(conn):
            rows = _psycopg_rows(conn, body)
        else:
            session = _unscoped(conn)
            rows = session.execute(_statement(), {"tasks": body}).all()
            _note_types(session, tasks)
    return [EnqueuedTask(*row[1:]) for row in rows]


async def aenqueue(
    conn: AwaitedConnection,
    task_type: str,
    variables: Mapping[str, Any] | None = None,
    **options: Unpack[TaskOptions],
) -> EnqueuedTask:
    """`enqueue` for an AsyncSession, an AsyncConnection or a psycopg AsyncConnection."""
    task = NewTask(task_type, variables or {}, **options)
    return (await aenqueue_many(conn, [task]))[0]


async def aenqueue_many(conn: AwaitedConnection, tasks: Sequence[NewTask]) -> list[EnqueuedTask]:
    """`enqueue_many` for an AsyncSession, an AsyncConnection or a psycopg AsyncConnection."""
    if not tasks:
        return []
    body = _body(tasks)
    with _refusals():
        if _is_psycopg(conn):
            rows = await _psycopg_arows(conn, body)
        else:
            session = _unscoped(conn)
            rows = (await session.execute(_statement(), {"tasks": body})).all()
            _note_types(getattr(session, "sync_session", None), tasks)
    return [EnqueuedTask(*row[1:]) for row in rows]


def _body(tasks: Iterable[NewTask]) -> str:
    return _json.encode([task.to_json() for task in tasks], "tasks").decode()


def _statement() -> Any:
    from sqlalchemy import text

    return text(_STATEMENT.format(":tasks"))


def _psycopg_rows(conn: Any, body: str) -> list[tuple[Any, ...]]:
    import psycopg
    from psycopg.rows import tuple_row

    # Not conn.execute: the caller's row factory and cursor class would shape the answer and the placeholders.
    with psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        return cursor.execute(_STATEMENT.format("%(tasks)s"), {"tasks": body}).fetchall()


async def _psycopg_arows(conn: Any, body: str) -> list[tuple[Any, ...]]:
    import psycopg
    from psycopg.rows import tuple_row

    async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
        return await (await cursor.execute(_STATEMENT.format("%(tasks)s"), {"tasks": body})).fetchall()


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


def _note_types(session: Any, tasks: Sequence[NewTask]) -> None:
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(session, orm.Session):
        session.info.setdefault(NEW_TYPES, set()).update(task.task_type for task in tasks)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the authority's SQLSTATEs into our errors; everything else passes as it is."""
    try:
        yield
    except Exception as error:
        if refused := refusal_in(error):
            raise refused from error
        raise
