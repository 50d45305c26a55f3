"""What the worker of a durable task writes down, with a test's defaults. A `task` is a row of fetch_tasks."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from db.call import Json, json_list
from tests.db.clerk import Clerk


def step(ordinal: int = 1, name: str = "plan", kind: str = "step", **more: Any) -> dict[str, Any]:
    """One item of record_steps."""
    return {"ordinal": ordinal, "name": name, "kind": kind, **more}


@dataclass(frozen=True)
class Ledger:
    """The calls under a lease; `changed` replaces what names the lease."""

    clerk: Clerk

    def record(self, task: Row[Any], *steps: Any, **changed: Any) -> int:
        return int(self.clerk.one("record_steps", **_lease(task, changed), steps=json_list(steps)).recorded)

    def steps(self, task: Row[Any], **asked: Any) -> list[Row[Any]]:
        return self.clerk.rows("read_steps", **_lease(task, asked))

    def begin(self, task: Row[Any], ordinal: int = 1, name: str = "copy", **more: Any) -> Row[Any]:
        return self.clerk.one(
            "begin_operation",
            **_lease(task, {"branch": "", "plan": Json('{"to": "b"}')} | more),
            ordinal=ordinal,
            name=name,
        )

    def settle(self, task: Row[Any], operation_id: UUID, outcome: str = "DONE", **more: Any) -> Row[Any]:
        return self.clerk.one("settle_operation", **_lease(task, more), operation_id=operation_id, outcome=outcome)

    def unknown(self, task: Row[Any], **more: Any) -> UUID:
        """An operation of this task that nobody can find out about; the task waits."""
        operation = self.begin(task, **more)
        self.settle(task, operation.operation_id, "UNKNOWN", error="the disk is gone")
        return UUID(str(operation.operation_id))

    def resolve(self, operation_id: UUID, outcome: str = "DONE", **more: Any) -> Row[Any]:
        return self.clerk.one("resolve_operation", operation_id=operation_id, outcome=outcome, **more)

    def incident(self, task: Row[Any], kind: str = "other_code", **more: Any) -> UUID:
        said = {"branch": "", "ordinal": 3, "name": "plan", "message": "expected plan, found copy"}
        row = self.clerk.one("raise_incident", **_lease(task, said | more), kind=kind)
        return UUID(str(row.incident_id))

    def decide(self, incident_id: UUID, resolution: str = "retry", **more: Any) -> Row[Any]:
        return self.clerk.one("resolve_incident", incident_id=incident_id, resolution=resolution, **more)

    def open_incidents(self) -> list[dict[str, Any]]:
        return self.clerk.query("select * from celeriac.incidents where state = 'OPEN' order by incident_id")

    def register(self, task: Row[Any], ordinal: int = 1, name: str = "refund", branch: str = "", **more: Any) -> int:
        row = self.clerk.one("register_compensation", **_lease(task, more), branch=branch, ordinal=ordinal, name=name)
        return int(row.number)

    def compensations(self, task: Row[Any], **changed: Any) -> list[Row[Any]]:
        return self.clerk.rows("read_compensations", **_lease(task, changed))

    def undone(self, task: Row[Any], number: int, **more: Any) -> str:
        return str(self.clerk.one("settle_compensation", **_lease(task, more), number=number).state)

    def finish(self, task: Row[Any], **changed: Any) -> str:
        return str(self.clerk.one("finish_undo", **_lease(task, changed)).state)

    def undoing(self, *names: str, task_type: str = "mail", **item: Any) -> Row[Any]:
        """A task that failed for good after it had registered these undos, fetched again to be undone."""
        task = self.clerk.held(task_type, **item)
        for ordinal, name in enumerate(names or ("refund",), start=1):
            self.register(task, ordinal, name)
        self.clerk.fail(task, retries=0, error="out of stock")
        return self.clerk.fetch(task_type)[0]


def _lease(task: Row[Any], changed: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": task.task_id, "worker_id": "w1", "fencing_token": task.fencing_token} | changed
