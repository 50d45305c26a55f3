"""Instances on a real database: models deployed from text, work done by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.bpmn.options import Options
from app.deployment import Resource, prepared
from app.engine import advance
from db import call
from db.engine import sync_engine

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:camunda="http://camunda.org/schema/1.0/bpmn"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
)


def model(body: str, roots: str = "", process: str = 'id="p" isExecutable="true"') -> bytes:
    """A BPMN file with one process."""
    return f"{HEAD}{roots}<process {process}>{body}</process></definitions>".encode()


def task(name: str, more: str = "", inside: str = "") -> str:
    return f'<serviceTask id="{name}" camunda:type="external" camunda:topic="{name}" {more}>{inside}</serviceTask>'


def flow(*stops: str) -> str:
    return "".join(f'<sequenceFlow id="{a}-{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in pairwise(stops))


@dataclass
class Desk:
    """Somebody who deploys, starts and works."""

    conn: Connection

    def deploy(self, *contents: bytes, options: Options | None = None) -> Any:
        resources = [Resource(f"m{number}.bpmn", content) for number, content in enumerate(contents)]
        return call.rows(
            self.conn, "deploy_models", **prepared("d", resources, options or Options(), datetime.now(UTC))
        )

    def start(self, key: str = "p", business_key: str | None = None, **variables: Any) -> str:
        definition = self.one(
            "select definition_id from celeriac.definitions where key = :key order by version desc limit 1", key=key
        )
        started = call.one(
            self.conn, "start_instance", definition_id=definition, business_key=business_key,
            variables=call.Json(json.dumps(variables)),
        )  # fmt: skip
        self.advance(str(started.instance_id))
        return str(started.instance_id)

    def advance(self, *instances: str) -> None:
        """Work in what has happened, also to instances that others have reached."""
        waiting = list(instances)
        while waiting:
            done = advance(self.conn, waiting.pop())
            waiting += done.reached if done else ()

    def settle(self) -> None:
        """Advance whatever there is to advance."""
        while due := call.rows(self.conn, "due_instances", older_than_ms=0):
            self.advance(*(str(row.instance_id) for row in due))

    def fetch(self, topic: str) -> Any:
        (row,) = call.rows(self.conn, "fetch_tasks", worker_id="w", task_types=[topic], max_tasks=1)
        return row

    def complete(self, topic: str, **variables: Any) -> None:
        row = self.fetch(topic)
        call.one(
            self.conn, "complete_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token,
            variables=call.Json(json.dumps(variables)),
        )  # fmt: skip
        self.advance(str(row.instance_id))

    def fail(self, topic: str) -> None:
        row = self.fetch(topic)
        call.one(
            self.conn, "fail_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token, error="broken",
            retries=0,
        )  # fmt: skip
        self.advance(str(row.instance_id))

    def throw(self, topic: str, code: str, **variables: Any) -> None:
        row = self.fetch(topic)
        call.one(
            self.conn, "throw_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token,
            error_code=code, error_message="said so", variables=call.Json(json.dumps(variables)),
        )  # fmt: skip
        self.advance(str(row.instance_id))

    def event(self, kind: str, name: str, **more: Any) -> Any:
        reached = call.rows(self.conn, "throw_event", kind=kind, name=name, **more)
        self.advance(*(str(row.instance_id) for row in reached))
        return reached

    def ready(self) -> list[str]:
        """The types of all open tasks."""
        return [row[0] for row in self.conn.execute(text("select task_type from celeriac.open_task_list order by 1"))]

    def status(self, instance: str) -> str:
        return str(self.one("select status from celeriac.instances where instance_id = :id", id=instance))

    def variables(self, instance: str) -> dict[str, Any]:
        rows = self.conn.execute(
            text("select name, value from celeriac.instance_variables where instance_id = :id and root"),
            {"id": instance},
        )
        return {name: json.loads(value) for name, value in rows}

    def at(self, instance: str) -> list[str]:
        rows = self.conn.execute(
            text("select node from celeriac.instance_tokens where instance_id = :id order by 1"), {"id": instance}
        )
        return [row[0] for row in rows]

    def incidents(self, instance: str) -> list[tuple[str, str]]:
        rows = self.conn.execute(
            text("select name, kind from celeriac.incident where resolved_at is null and instance_id = :id"),
            {"id": instance},
        )
        return [tuple(row) for row in rows]

    def one(self, statement: str, **values: Any) -> Any:
        return self.conn.execute(text(statement), values).scalar_one()


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    engine = sync_engine(database_url)
    with engine.connect() as connection:
        yield Desk(connection)
    engine.dispose()
