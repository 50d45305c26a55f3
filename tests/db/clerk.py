"""The clerk: calls the functions of the schema with a test's defaults, and reads the tables as they are."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, Row, text

from db import call
from db.errors import Refused

# All that a refused call must leave as it was. (Sequences are not in it: a lost number harms nobody.)
TABLES = (
    "task", "queue", "idempotency", "history", "outbox", "task_type", "worker", "api_key",
    "step", "operation", "compensation", "saga", "incident", "waiting", "wait",
)  # fmt: skip


@dataclass(frozen=True)
class Clerk:
    """One connection and the shortest way to each transition. A `task` is a row of fetch_tasks."""

    conn: Connection

    def one(self, function: str, **arguments: Any) -> Row[Any]:
        return call.one(self.conn, function, **arguments)

    def rows(self, function: str, **arguments: Any) -> list[Row[Any]]:
        return list(call.rows(self.conn, function, **arguments))

    def enqueue(self, task_type: str = "mail", **item: Any) -> UUID:
        return self.enqueue_items([{"task_type": task_type, **item}])[0].task_id

    def enqueue_items(self, items: list[Any] | str, **caller: Any) -> list[Row[Any]]:
        tasks = call.Json(items) if isinstance(items, str) else call.json_list(items)
        return self.rows("enqueue_tasks", tasks=tasks, **caller)

    def fetch(self, *task_types: str, worker_id: str = "w1", max_tasks: int = 1, **arguments: Any) -> list[Row[Any]]:
        types = list(task_types) or ["mail"]
        return self.rows("fetch_tasks", worker_id=worker_id, task_types=types, max_tasks=max_tasks, **arguments)

    def held(self, task_type: str = "mail", *, lock_duration_ms: int = 30_000, **item: Any) -> Row[Any]:
        """A new task that w1 holds."""
        self.enqueue(task_type, **item)
        return self.fetch(task_type, lock_duration_ms=lock_duration_ms)[0]

    def extend(self, task: Row[Any], lock_duration_ms: int = 30_000, **changed: Any) -> Row[Any]:
        return self.one("extend_lease", **_write(task, changed), lock_duration_ms=lock_duration_ms)

    def complete(self, task: Row[Any], **changed: Any) -> Row[Any]:
        return self.one("complete_task", **_write(task, changed))

    def fail(self, task: Row[Any], **changed: Any) -> Row[Any]:
        return self.one("fail_task", **_write(task, {"error": "no such mailbox"} | changed))

    def release(self, task: Row[Any], **changed: Any) -> Row[Any]:
        return self.one("release_task", **_write(task, changed))

    def cancel(self, task_id: UUID, **arguments: Any) -> Row[Any]:
        return self.one("cancel_task", task_id=task_id, **arguments)

    def dead(self, task_type: str = "mail", **item: Any) -> Row[Any]:
        """A new task that w1 has failed for good."""
        task = self.held(task_type, **item)
        self.fail(task, retries=0)
        return task

    def done(self, task_type: str = "mail", **item: Any) -> Row[Any]:
        """A new task that w1 has completed with {}."""
        task = self.held(task_type, **item)
        self.complete(task)
        return task

    def celery_type(self, name: str = "mail", queue: str = "fleet") -> None:
        self.one("register_task_type", name=name, delivery="celery", queue=queue)

    def task(self, task_id: UUID) -> dict[str, Any]:
        """The cold row."""
        return self.query("select * from celeriac.task where id = :id", id=task_id)[0]

    def queue(self, task_id: UUID) -> dict[str, Any] | None:
        """The hot row; None when the task has left the queue."""
        found = self.query("select * from celeriac.queue where task_id = :id", id=task_id)
        return found[0] if found else None

    def state(self, task_id: UUID) -> str:
        return self.scalar("select state from celeriac.task_list where task_id = :id", id=task_id)

    def timeline(self, task_id: UUID) -> list[dict[str, Any]]:
        """Its lines, oldest first, details decoded."""
        lines = self.query("select * from celeriac.history where task_id = :id order by at", id=task_id)
        return [line | {"detail": json.loads(line["detail"])} for line in lines]

    def rings(self) -> list[tuple[str, str]]:
        """(queue, task type) of each ring in the outbox, in order; they are taken out."""
        statement = "with gone as (delete from celeriac.outbox returning *) select * from gone order by id"
        return [(row["key"], json.loads(row["payload"])["task_type"]) for row in self.query(statement)]

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table as text."""
        return {
            table: [row["line"] for row in self.query(f"select t::text as line from celeriac.{table} t order by 1")]
            for table in TABLES
        }

    def query(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        result = self.conn.execute(text(statement), values)
        return [dict(row) for row in result.mappings()]

    def run(self, statement: str, **values: Any) -> None:
        self.conn.execute(text(statement), values)

    def scalar(self, statement: str, **values: Any) -> Any:
        return self.conn.execute(text(statement), values).scalar_one()

    @contextmanager
    def refuses(self, refusal: type[Refused], field: str | None = None) -> Iterator[pytest.ExceptionInfo[Refused]]:
        """The block is refused with exactly this, about this field, and no row of ours has changed."""
        before = self.everything()
        with pytest.raises(Refused) as caught:
            yield caught
        assert type(caught.value) is refusal, repr(caught.value)
        assert caught.value.field == field
        assert self.everything() == before


def _write(task: Row[Any], changed: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": task.task_id, "worker_id": "w1", "fencing_token": task.fencing_token} | changed
