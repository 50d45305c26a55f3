"""A durable task as its worker sees it, in SQL: what the faces show and decide about needs somebody who has done it."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row

from db import call


@dataclass(frozen=True)
class HeldTask:
    """A task that `worker_id` has just fetched; each method is one durable call of its handler."""

    conn: Connection
    task_id: UUID
    fencing_token: int
    worker_id: str = "w1"

    def record(self, ordinal: int, name: str, result: Any = None, branch: str = "") -> None:
        step = {"branch": branch, "ordinal": ordinal, "kind": "step", "name": name, "result": result}
        self._one("record_steps", steps=call.json_list([step]))

    def begin(self, ordinal: int, name: str, plan: Any = None) -> Row[Any]:
        return self._one("begin_operation", branch="", ordinal=ordinal, name=name, plan=call.Json(json.dumps(plan)))

    def settle(self, operation_id: UUID, outcome: str, error: str | None = None) -> Row[Any]:
        return self._one("settle_operation", operation_id=operation_id, outcome=outcome, error=error)

    def lose_track(self, ordinal: int, name: str, plan: Any = None) -> UUID:
        """Begin an operation and say that nobody can find out what came of it; its id. The task waits now."""
        operation_id: UUID = self.begin(ordinal, name, plan).operation_id
        self.settle(operation_id, "UNKNOWN", "the bank does not answer")
        return operation_id

    def meet_other_code(self) -> UUID:
        """Find that the code does not fit what was recorded; the incident's id. The task waits now."""
        raised = self._one(
            "raise_incident",
            kind="other_code",
            branch="",
            ordinal=1,
            name="charge",
            message="expected the step charge, found refund",
            detail={"expected": "charge", "found": "refund"},
        )
        return UUID(str(raised.incident_id))

    def promise_to_undo(self, ordinal: int, name: str) -> None:
        self._one("register_compensation", branch="", ordinal=ordinal, name=name)

    def wait_for(self, topic: str, key: str | None = None, ordinal: int = 1) -> None:
        """Wait for a signal; the task has no worker from now on, unless the signal is there already."""
        wait = {"branch": "", "ordinal": ordinal, "name": topic, "kind": "signal", "topic": topic, "key": key}
        self._one("suspend_task", waits=call.json_list([wait]))

    def fail(self) -> None:
        """For good."""
        self._one("fail_task", error="broken", retries=0)

    def _one(self, function: str, **arguments: Any) -> Row[Any]:
        held = {"task_id": self.task_id, "worker_id": self.worker_id, "fencing_token": self.fencing_token}
        return call.one(self.conn, function, **held, **arguments)


def fetch_held(conn: Connection, task_type: str = "mail", worker_id: str = "w1") -> HeldTask:
    """Fetch the next task of a type."""
    task = call.one(conn, "fetch_tasks", worker_id=worker_id, task_types=[task_type], max_tasks=1)
    return HeldTask(conn, task.task_id, task.fencing_token, worker_id)


def new_held(conn: Connection, task_type: str = "mail", worker_id: str = "w1", **item: Any) -> HeldTask:
    """Enqueue a task and fetch it."""
    call.one(conn, "enqueue_tasks", tasks=call.json_list([{"task_type": task_type} | item]))
    return fetch_held(conn, task_type, worker_id)
