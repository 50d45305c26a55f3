"""A process of one task in the hands of workers of the Camunda face."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, Row

from app.engine import advance
from db import call
from tests.app.engine.conftest import Desk, flow, model, task
from tests.clock import Clock
from tests.db.clerk import Clerk

MAIL = model('<startEvent id="s"/>' + task("mail") + '<endEvent id="e"/>' + flow("s", "mail", "e"))
# The first task can be undone.
PAID = model(
    '<startEvent id="s"/>'
    + task("pay")
    + task("mail")
    + '<boundaryEvent id="b" attachedToRef="pay"><compensateEventDefinition/></boundaryEvent>'
    + task("refund", 'isForCompensation="true"')
    + '<endEvent id="e"/>'
    + flow("s", "pay", "mail", "e")
    + '<association id="a" sourceRef="b" targetRef="refund" associationDirection="One"/>',
    process='id="paid" isExecutable="true"',
)
CAUGHT = model(
    '<startEvent id="s"/>'
    + task("mail")
    + task("other")
    + '<endEvent id="e"/><endEvent id="f"/>'
    + '<boundaryEvent id="b" attachedToRef="mail"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    + flow("s", "mail", "e")
    + flow("b", "other", "f"),
    '<error id="E" errorCode="E"/>',
    process='id="caught" isExecutable="true"',
)


@dataclass(frozen=True)
class Bench:
    """Calls of the face: `w1` is whoever is not named."""

    clerk: Clerk
    desk: Desk

    def start(self, key: str = "p", business_key: str | None = None, **variables: Any) -> UUID:
        """The id of the instance that stands at its first task."""
        return UUID(self.desk.start(key, business_key, **variables))

    def task_id(self, instance: UUID) -> UUID:
        found = self.clerk.query("select id from celeriac.external_tasks where instance_id = :id", id=instance)
        return UUID(str(found[0]["id"]))

    def fetch(
        self, *topics: str, worker: str = "w1", most: int = 1, lock_ms: int = 10_000, **more: Any
    ) -> list[Row[Any]]:
        asked = [{"topic": topic, "lock_ms": lock_ms} for topic in topics or ("mail",)]
        return self.choose(asked, worker=worker, most=most, **more)

    def choose(self, asked: Sequence[dict[str, Any]], worker: str = "w1", most: int = 1, **more: Any) -> list[Row[Any]]:
        topics = call.json_list([{"lock_ms": 10_000} | one for one in asked])
        return self.clerk.rows("fetch_external_tasks", worker_id=worker, topics=topics, max_tasks=most, **more)

    def held(self, topic: str = "mail", **more: Any) -> UUID:
        """The id of a task of a new instance, that w1 holds."""
        self.start()
        (row,) = self.fetch(topic, **more)
        return UUID(str(row.task_id))

    def complete(self, task_id: UUID, worker: str = "w1", **more: Any) -> Row[Any]:
        return self._told("complete_external_task", task_id, worker, more)

    def fail(self, task_id: UUID, worker: str = "w1", **more: Any) -> Row[Any]:
        return self._told("fail_external_task", task_id, worker, {"error_message": "broken"} | more)

    def throw(self, task_id: UUID, worker: str = "w1", **more: Any) -> Row[Any]:
        return self._told("throw_external_task", task_id, worker, {"error_code": "E"} | more)

    def extend(self, task_id: UUID, worker: str = "w1", lock_ms: int = 10_000, **more: Any) -> Row[Any]:
        return self.clerk.one("extend_external_task", task_id=task_id, worker_id=worker, lock_ms=lock_ms, **more)

    def lock(self, task_id: UUID, worker: str = "w1", lock_ms: int = 10_000, **more: Any) -> Row[Any]:
        return self.clerk.one("lock_external_task", task_id=task_id, worker_id=worker, lock_ms=lock_ms, **more)

    def unlock(self, task_id: UUID, **more: Any) -> Row[Any]:
        return self.clerk.one("unlock_external_task", task_id=task_id, **more)

    def retries(self, task_ids: Sequence[UUID], retries: int, **more: Any) -> list[Row[Any]]:
        rows = self.clerk.rows("set_external_task_retries", task_ids=list(task_ids), retries=retries, **more)
        for row in rows:
            if row.instance_id is not None:
                self.advance(row.instance_id)
        return rows

    def suspend(self, instance: UUID, suspended: bool = True) -> None:
        self.clerk.one("suspend_instance", instance_id=instance, suspended=suspended)

    def advance(self, instance: UUID) -> None:
        advance(self.clerk.conn, str(instance))

    def shown(self, task_id: UUID) -> dict[str, Any] | None:
        """The row that lists of the face have of it."""
        found = self.clerk.query("select * from celeriac.external_tasks where id = :id", id=task_id)
        return found[0] if found else None

    def incidents(self, instance: UUID, state: str = "OPEN") -> list[dict[str, Any]]:
        return self.clerk.query(
            "select * from celeriac.incidents where instance_id = :id and state = :state", id=instance, state=state
        )

    def status(self, instance: UUID) -> str:
        return self.desk.status(str(instance))

    def variables(self, instance: UUID) -> dict[str, Any]:
        return self.desk.variables(str(instance))

    def _told(self, function: str, task_id: UUID, worker: str, more: dict[str, Any]) -> Row[Any]:
        sent = {
            name: call.Json(json.dumps(value)) if isinstance(value, dict) else value for name, value in more.items()
        }
        row = self.clerk.one(function, task_id=task_id, worker_id=worker, **sent)
        if row.instance_id is not None:
            self.advance(row.instance_id)
        return row


@pytest.fixture
def bench(clerk: Clerk) -> Bench:
    desk = Desk(clerk.conn)
    desk.deploy(MAIL, PAID, CAUGHT)
    return Bench(clerk, desk)


@pytest.fixture
def clock(conn: Connection) -> Clock:
    clock = Clock(conn)
    clock.freeze()
    return clock
