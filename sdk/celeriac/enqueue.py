"""Enqueue in the caller's own transaction: the task and the caller's rows are committed together, or neither is.

`enqueue` and `enqueue_many` take a SQLAlchemy Session, scoped_session or Connection (2.0 or 2.1, any driver) or a
psycopg Connection; `aenqueue` and `aenqueue_many` their asyncio counterparts. They neither commit nor roll back. The
connection's user needs the right to execute `celeriac.enqueue_tasks`.

A refusal is raised as an error of `celeriac.errors`, and as after any error Postgres takes no more statements
in that transaction: roll it back, or enqueue inside a savepoint (`with session.begin_nested():`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from celeriac import _callers_connection, _json
from celeriac.values import EnqueuedTask, NewTask, TaskOptions

if TYPE_CHECKING:
    from celeriac._callers_connection import AwaitedConnection, BlockingConnection

_STATEMENT: Final = (
    "select cast(task_id as text), task_type, state, created"
    " from celeriac.enqueue_tasks(tasks => cast({tasks} as jsonb)) order by ordinal"
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
    rows = _callers_connection.rows(conn, _STATEMENT, _values(tasks))
    _callers_connection.note_types(conn, [task.task_type for task in tasks])
    return [EnqueuedTask(*row) for row in rows]


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
    rows = await _callers_connection.arows(conn, _STATEMENT, _values(tasks))
    _callers_connection.note_types(conn, [task.task_type for task in tasks])
    return [EnqueuedTask(*row) for row in rows]


def _values(tasks: Sequence[NewTask]) -> dict[str, str]:
    return {"tasks": _json.encode([task.to_json() for task in tasks], "tasks").decode()}
