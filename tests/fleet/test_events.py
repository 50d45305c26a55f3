"""What Flower, `celery events` and `celery inspect` see of durable tasks."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import Celery
from sqlalchemy import Connection

from app.dev.ports import free_port
from app.dev.processes import Process, console_command
from app.dev.waiting import wait_until
from db import call
from tests.fleet.conftest import StartFleet
from tests.fleet.sights import all_completed, enqueue, started, states

OpenGate = Callable[[str], None]


class Watcher:
    """Gathers events as `celery events` does."""

    def __init__(self, broker_url: str) -> None:
        self.app = Celery("watcher", broker=broker_url, set_as_current=False)
        self.events: list[dict[str, Any]] = []
        self._receiver: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._receiver is not None, what="the watcher")

    def of(self, task_id: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("uuid") == task_id]

    def kinds(self, task_id: str) -> list[str]:
        return [event["type"] for event in self.of(task_id)]

    def close(self) -> None:
        self._receiver.should_stop = True
        self._thread.join(10)
        self.app.close()

    def _run(self) -> None:
        with self.app.connection_for_read() as connection:
            receiver = self.app.events.Receiver(connection, handlers={"*": self.events.append})
            receiver.on_consume_ready = lambda *_, **__: setattr(self, "_receiver", receiver)
            receiver.capture(limit=None, timeout=None, wakeup=False)


@pytest.fixture
def watcher(redis_url: str) -> Iterator[Watcher]:
    watcher = Watcher(redis_url)
    yield watcher
    watcher.close()


def test_each_task_is_seen_by_its_own_id_and_type(
    start_fleet: StartFleet, conn: Connection, database_url: str, watcher: Watcher
) -> None:
    start_fleet("prefork", "--task-events")
    [mark] = enqueue(database_url, "mark", {"order": 7})
    [retried, failed] = enqueue(database_url, "moody", {"mood": "retry"}, {"mood": "fatal"})
    wait_until(lambda: states(conn) == {"COMPLETED": 2, "FAILED": 1}, what="all ends")
    ended = {mark: "task-succeeded", retried: "task-succeeded", failed: "task-failed"}
    wait_until(lambda: all(kind in watcher.kinds(task_id) for task_id, kind in ended.items()), what="the events")
    assert watcher.kinds(mark) == ["task-received", "task-started", "task-succeeded"]
    # The attempt before may have been another child's, whose events come by themselves.
    wait_until(lambda: "task-retried" in watcher.kinds(retried), what="the event of the first attempt")
    received, _, succeeded = watcher.of(mark)
    assert (received["name"], received["kwargs"], received["retries"]) == ("mark", "{'order': 7}", 0)
    assert received["hostname"] == "fleet1@test"
    assert succeeded["runtime"] >= 0
    assert "Fatal: never" in watcher.of(failed)[-1]["exception"]
    assert not [event for event in watcher.events if event.get("name") == "celeriac.ring"]


def test_secrets_are_masked(start_fleet: StartFleet, conn: Connection, database_url: str, watcher: Watcher) -> None:
    start_fleet("threads", "--task-events")
    [task_id] = enqueue(database_url, "login", {"user": "anna", "password": "s3cret"})
    wait_until(lambda: "task-succeeded" in watcher.kinds(task_id), what="the events")
    assert "s3cret" not in str(watcher.events)
    assert watcher.of(task_id)[0]["kwargs"] == "{'user': 'anna', 'password': '***'}"


def test_a_canceled_task_is_seen_as_revoked(
    start_fleet: StartFleet, conn: Connection, database_url: str, watcher: Watcher
) -> None:
    start_fleet("gevent", "--task-events", FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "gated", {"gate": "never"})
    started(conn)
    call.one(conn, "cancel_task", task_id=task_id)
    wait_until(lambda: "task-revoked" in watcher.kinds(task_id), what="the event")


def test_a_task_is_seen_as_failed_when_all_is_undone(
    start_fleet: StartFleet, conn: Connection, database_url: str, watcher: Watcher
) -> None:
    start_fleet("threads", "--task-events")
    [task_id] = enqueue(database_url, "regret", {})
    wait_until(lambda: states(conn) == {"FAILED": 1}, what="the undo")
    wait_until(lambda: "task-failed" in watcher.kinds(task_id), what="the event")
    assert "task-waiting" not in watcher.kinds(task_id)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_an_attempt_that_is_ended_by_force_is_seen_as_failed(
    pool: str, start_fleet: StartFleet, conn: Connection, database_url: str, watcher: Watcher
) -> None:
    start_fleet(pool, "--task-events")
    [task_id] = enqueue(database_url, "endless", {"gate": "never"})
    wait_until(lambda: "task-failed" in watcher.kinds(task_id), what="the event")
    assert "hard time limit" in watcher.of(task_id)[-1]["exception"]


@pytest.mark.parametrize("way", ["nobody watches", "the option is off"])
def test_no_events_are_sent_when_nobody_wants_them(
    way: str, start_fleet: StartFleet, conn: Connection, database_url: str, watcher: Watcher
) -> None:
    if way == "nobody watches":
        start_fleet("threads")
    else:
        start_fleet("threads", "--task-events", FLEET_EVENTS="off")
    enqueue(database_url, "mark", *[{}] * 3)
    all_completed(conn, 3)
    wait_until(lambda: "worker-heartbeat" in [event["type"] for event in watcher.events], what="a later event")
    assert not [event for event in watcher.events if event["type"].startswith("task-")]


def test_flower_shows_durable_tasks_and_turns_their_events_on(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    start_fleet("prefork", concurrency=1)
    port = free_port()
    command = [console_command("celery"), f"--broker={redis_url}", "flower", f"--port={port}", "--address=127.0.0.1"]
    environment = {**os.environ, "FLOWER_UNAUTHENTICATED_API": "true"}
    with Process(command, tmp_path / "flower.log", name="flower", env=environment, cwd=tmp_path) as flower:
        tasks: dict[str, Any] = {}

        def shown() -> bool:
            """One more task, until Flower has told the worker that it watches."""
            enqueue(database_url, "mark", {"order": 7})
            try:
                tasks.update(httpx.get(f"http://127.0.0.1:{port}/api/tasks", timeout=5).json())
            except httpx.TransportError:
                return False
            return any(task["state"] == "SUCCESS" for task in tasks.values())

        flower.wait_for(shown, 60, what="a task that succeeded")
        known = {str(row.task_id) for row in conn.exec_driver_sql("select task_id from celeriac.task_list")}
        seen = next(task for task in tasks.values() if task["state"] == "SUCCESS")
        assert seen["uuid"] in known
        assert (seen["name"], seen["kwargs"], seen["worker"]) == ("mark", "{'order': 7}", "fleet1@test")
        assert seen["runtime"] is not None
        assert "celeriac.ring" not in {task["name"] for task in tasks.values()}


def test_inspect_lists_the_leases_that_a_worker_holds(
    start_fleet: StartFleet, conn: Connection, database_url: str, redis_url: str, open_gate: OpenGate
) -> None:
    fleet = start_fleet("prefork")
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    [start] = started(conn)
    answer = subprocess.run(
        [str(console_command("celery")), "-A", "fleet_app", "inspect", "durable", "--json"],
        cwd=Path(__file__).parent,
        env=dict(fleet.env or {}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'"task_id": "{task_id}"' in answer.stdout
    assert f'"fencing_token": {start.fencing_token}' in answer.stdout
    open_gate("open")
    all_completed(conn, 1)
