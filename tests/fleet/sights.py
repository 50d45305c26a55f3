"""What shows from outside how tasks of a fleet fared."""

from collections import Counter
from typing import Any

import psycopg
from sqlalchemy import Connection, Row, text

from app.dev.waiting import wait_until
from celeriac import NewTask, enqueue_many


def enqueue(database_url: str, task_type: str, *variables: dict[str, Any], priority: int = 0) -> list[str]:
    """Tasks enqueued in a transaction of a user's program; their ids."""
    with psycopg.connect(database_url) as connection:
        tasks = [NewTask(task_type, values, priority=priority) for values in variables]
        return [task.task_id for task in enqueue_many(connection, tasks)]


def states(conn: Connection) -> Counter[str]:
    return Counter(conn.execute(text("select state from celeriac.task_list")).scalars())


def all_completed(conn: Connection, count: int, seconds: float = 30) -> None:
    wait_until(lambda: states(conn) == {"COMPLETED": count}, seconds, what=f"{count} completed tasks")


def task(conn: Connection, task_id: str) -> Row[Any]:
    return conn.execute(text("select * from celeriac.task_detail where task_id = :id"), {"id": task_id}).one()


def effects(conn: Connection) -> dict[str, int]:
    """Fencing token of the effect of each task; the table refuses a second one."""
    return {str(row.task_id): row.fencing_token for row in conn.execute(text("select * from effect"))}


def starts(conn: Connection) -> list[Row[Any]]:
    return list(conn.execute(text("select * from started order by fencing_token")))


def started(conn: Connection, count: int = 1, seconds: float = 30) -> list[Row[Any]]:
    """Wait until so many attempts have begun."""
    wait_until(lambda: len(starts(conn)) >= count, seconds, what=f"{count} attempts")
    return starts(conn)
