"""`celeriac` as a function: runs one command line in this process and says what came of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection

from app.cli.main import run
from db import call


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was written."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document that --json promises: one line, nothing around it."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


Celeriac = Callable[..., Outcome]
Enqueue = Callable[..., str]


@pytest.fixture
def celeriac(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database_url: str, redis_url: str
) -> Celeriac:
    """Runs `celeriac ARGUMENTS…` against the test's own database and Redis."""
    monkeypatch.setenv("CELERIAC_DATABASE_URL", database_url)
    monkeypatch.setenv("CELERIAC_REDIS_URL", redis_url)

    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(arguments)
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    return command


@pytest.fixture
def enqueue(conn: Connection) -> Enqueue:
    """Enqueues one task and returns its id."""

    def one(task_type: str = "mail", **fields: Any) -> str:
        item = {"task_type": task_type, **fields}
        return str(call.one(conn, "enqueue_tasks", tasks=call.json_list([item])).task_id)

    return one


def fetch(conn: Connection, task_type: str = "mail", worker_id: str = "w1") -> Any:
    return call.one(conn, "fetch_tasks", worker_id=worker_id, task_types=[task_type], max_tasks=1)


def fail_for_good(conn: Connection, task_type: str = "mail", error: str = "no such mailbox") -> None:
    """Fetch the next task of the type and fail it with no retry left."""
    task = fetch(conn, task_type)
    call.one(
        conn,
        "fail_task",
        task_id=task.task_id,
        worker_id="w1",
        fencing_token=task.fencing_token,
        error=error,
        retries=0,
    )
