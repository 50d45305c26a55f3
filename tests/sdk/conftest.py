"""A real API on a fresh database for the SDK, worker programs as processes, and a look at what the database knows."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import uvicorn
from sqlalchemy import Connection, text

from app.api.keys_auth import key_hash, make_key
from app.dev.processes import Process
from app.dev.waiting import wait_until
from app.server.application import create
from app.settings import Settings
from celeriac import Client, Worker
from db import call

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Server:
    """Where the API is, and a key that may do everything."""

    url: str
    key: str


@dataclass(frozen=True)
class Book:
    """What the database knows, read as its owner."""

    conn: Connection

    def task(self, task_id: str) -> Any:
        return self.conn.execute(text("select * from celeriac.task_detail where task_id = :id"), {"id": task_id}).one()

    def state(self, task_id: str) -> str:
        return str(self.task(task_id).state)

    def states(self, task_type: str) -> dict[str, int]:
        rows = self.conn.execute(
            text("select state, count(*) from celeriac.task_list where task_type = :type group by state"),
            {"type": task_type},
        )
        return dict(rows.all())

    def result(self, task_id: str) -> Any:
        return json.loads(self.task(task_id).result)

    def attempts(self, task_id: str) -> list[Any]:
        return list(
            self.conn.execute(
                text("select * from celeriac.task_attempts where task_id = :id order by attempt"), {"id": task_id}
            )
        )

    def timeline(self, task_id: str) -> list[str]:
        rows = self.conn.execute(
            text("select kind from celeriac.task_timeline where task_id = :id order by at"), {"id": task_id}
        )
        return [kind for (kind,) in rows]

    def expire_leases(self) -> Any:
        return call.one(self.conn, "expire_leases", max_tasks=100)

    def wait_for_state(self, task_id: str, state: str, seconds: float = 20) -> None:
        wait_until(lambda: self.state(task_id) == state, seconds, what=f"{state} of {task_id}")


@pytest.fixture
def book(conn: Connection) -> Book:
    return Book(conn)


@pytest.fixture
def key(conn: Connection) -> str:
    text_of_key = make_key()
    call.one(
        conn,
        "create_api_key",
        name="sdk",
        key_hash=key_hash(text_of_key),
        principal_name="sdk",
        verbs=["work", "enqueue", "read", "manage", "admin"],
        task_types=["*"],
        expires_at=None,
    )
    return text_of_key


@pytest.fixture
def server(settings: Settings, key: str) -> Iterator[Server]:
    """The API on a free port, in a thread of this process."""
    application = create(settings)
    config = uvicorn.Config(application, lifespan="on", log_config=None, timeout_graceful_shutdown=5)
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        try:
            wait_until(lambda: running.started or not thread.is_alive(), what="the API")
            yield Server(f"http://127.0.0.1:{listening.getsockname()[1]}", key)
        finally:
            application.state.parts.hub.close()  # polls are answered at once
            running.should_exit = True
            thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, server.key) as opened:
        yield opened


@pytest.fixture
def make_worker(server: Server) -> Iterator[Callable[..., Worker]]:
    """Makes workers of this server that are stopped at the end of the test."""
    made: list[Worker] = []

    def make(**options: Any) -> Worker:
        worker = Worker(server.url, server.key, **({"wait_seconds": 5.0, "grace_seconds": 0.0} | options))
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.stop()


@pytest.fixture
def start_program(tmp_path: Path, server: Server) -> Iterator[Callable[..., Process]]:
    """Starts tests/sdk/programs/<name>.py with the server's address and key, and arguments as JSON."""
    started: list[Process] = []

    def start(name: str, url: str = server.url, **arguments: Any) -> Process:
        command: list[str | Path] = [
            sys.executable,
            "-u",
            PROGRAMS / f"{name}.py",
            url,
            server.key,
            json.dumps(arguments),
        ]
        log = tmp_path / f"{name}-{len(started)}.log"
        process = Process(command, log, name=name, env=dict(os.environ), cwd=tmp_path)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def business_table(database_url: str) -> str:
    """The address of a database with a table of the caller's own beside Celeriac's."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create table business (name text)")
    return database_url
