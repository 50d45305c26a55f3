"""What tests of waiting tasks share: suspending one, and what it waits for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from db import call
from db.engine import sync_engine
from tests.db.clerk import Clerk


def for_signal(topic: str = "approval", key: str | None = None, *, ordinal: int = 1, **more: Any) -> dict[str, Any]:
    """A wait for a signal, as suspend_task takes it."""
    return {"kind": "signal", "name": topic, "topic": topic, "key": key, "ordinal": ordinal, **more}


def for_time(delay_ms: int = 60_000, *, ordinal: int = 1, **more: Any) -> dict[str, Any]:
    return {"kind": "timer", "name": "sleep", "delay_ms": delay_ms, "ordinal": ordinal, **more}


def for_task(child_id: UUID, *, ordinal: int = 1, **more: Any) -> dict[str, Any]:
    return {"kind": "task", "name": "child", "child_id": str(child_id), "ordinal": ordinal, **more}


def suspend(clerk: Clerk, task: Row[Any], *waits: dict[str, Any], **changed: Any) -> list[Row[Any]]:
    """The answer of suspend_task; a `task` is a row of fetch_tasks."""
    write = {"task_id": task.task_id, "worker_id": "w1", "fencing_token": task.fencing_token} | changed
    return clerk.rows("suspend_task", **write, waits=call.json_list(waits))


def at_rest(clerk: Clerk, *waits: dict[str, Any], task_type: str = "mail", **item: Any) -> Row[Any]:
    """A new task that waits."""
    task = clerk.held(task_type, **item)
    (answer,) = suspend(clerk, task, *waits)
    assert answer.state == "WAITING"
    return task


def send(clerk: Clerk, topic: str = "approval", **arguments: Any) -> Row[Any]:
    """The answer of send_signal; `payload` is any JSON value."""
    if "payload" in arguments:
        arguments["payload"] = call.Json(json.dumps(arguments["payload"]))
    return clerk.one("send_signal", topic=topic, **arguments)


def children(clerk: Clerk, task: Row[Any], *items: dict[str, Any], ordinal: int = 1, **changed: Any) -> list[UUID]:
    """What enqueue_children has enqueued for a held task."""
    write = {"task_id": task.task_id, "worker_id": "w1", "fencing_token": task.fencing_token} | changed
    write = {"branch": "", "ordinal": ordinal, "name": "children"} | write
    answer = clerk.rows("enqueue_children", **write, tasks=call.json_list(items or ({"task_type": "child"},)))
    return [row.task_id for row in answer]


def steps(clerk: Clerk, task_id: UUID) -> list[tuple[str, int, str, str, Any]]:
    """(branch, ordinal, kind, name, result) of every step, in order."""
    found = clerk.query("select * from celeriac.step where task_id = :id order by branch, ordinal", id=task_id)
    return [
        (row["branch"], row["ordinal"], row["kind"], row["name"], row["result"] and json.loads(row["result"]))
        for row in found
    ]


@contextmanager
def another(url: str) -> Iterator[Clerk]:
    """Somebody else, in a transaction that is rolled back at the end of the block, unless it was committed before."""
    engine = sync_engine(url, pool_size=1)
    with engine.connect() as connection:
        connection.exec_driver_sql("begin")
        yield Clerk(connection)
        connection.exec_driver_sql("rollback")
    engine.dispose()


def fire(clerk: Clerk, **arguments: Any) -> Row[Any]:
    return clerk.one("fire_timers", **arguments)
