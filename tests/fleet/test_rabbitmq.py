"""The same fleet with RabbitMQ as its broker."""

import os
import signal
from collections.abc import Callable, Iterator

import kombu
import pytest
from sqlalchemy import Connection

from app.dev.processes import Process
from app.dev.waiting import wait_until
from tests.fleet.conftest import StartFleet
from tests.fleet.rabbit import find_rabbit, running_rabbit
from tests.fleet.ringing import ring
from tests.fleet.sights import all_completed, effects, enqueue, started, states, task
from tests.workers.ring_rows import outbox, write_ring

OpenGate = Callable[[str], None]


@pytest.fixture(scope="module")
def rabbit_url(no_process_is_left: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = find_rabbit()
    if script is None:
        pytest.skip("no RabbitMQ is installed on this machine (Debian: apt-get install rabbitmq-server)")
    with running_rabbit(script, tmp_path_factory.mktemp("rabbit")) as url:
        yield url


@pytest.fixture
def broker_url(rabbit_url: str) -> str:
    """What the dispatcher and the fleets of this file connect to, with an empty queue."""
    with kombu.Connection(rabbit_url) as connection:
        connection.default_channel.queue_delete("fleet")
    return rabbit_url


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_what_a_transaction_enqueues_runs_exactly_once(
    pool: str, start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet(pool, FLEET_SLICE_TASKS="5")
    ids = enqueue(database_url, "mark", *[{}] * 150)
    all_completed(conn, 150)
    assert effects(conn) == {task_id: task(conn, task_id).fencing_token for task_id in ids}
    assert {task(conn, task_id).attempts for task_id in ids} == {1}


def test_rings_are_bounded_and_lost_ones_are_rung_again(
    start_fleet: StartFleet, conn: Connection, database_url: str, rabbit_url: str
) -> None:
    fleet = start_fleet("prefork", concurrency=1)
    fleet.send(signal.SIGTERM)
    assert fleet.wait() == 0
    enqueue(database_url, "mark", *[{}] * 300)
    with kombu.Connection(rabbit_url) as connection:
        channel = connection.default_channel
        queued = lambda: channel.queue_declare("fleet", passive=True).message_count  # noqa: E731
        wait_until(lambda: queued() == 100, what="the dispatcher's hundred")
        channel.queue_purge("fleet")
    ring(rabbit_url, "fleet", *["mark", "stranger"] * 20)
    start_fleet("prefork", concurrency=1)
    all_completed(conn, 300)


def test_a_queue_of_another_connection_holds_up_no_other(
    start_fleet: StartFleet, dispatcher: Process, conn: Connection, database_url: str, rabbit_url: str
) -> None:
    """Case B58: what has no right to be a destination is tried, put off and parked; the others go out."""
    start_fleet("threads")
    with kombu.Connection(rabbit_url) as connection:
        connection.default_channel.queue_declare("private", exclusive=True)
        write_ring(conn, "private", {"task_type": "mark"})
        dispatcher.wait_for_output("1 rejected")
        enqueue(database_url, "mark", *[{}] * 5)
        all_completed(conn, 5)
        connection.default_channel.queue_delete("private")
    assert "RESOURCE_LOCKED" in outbox(conn)[0].error


def test_a_killed_child_costs_no_task(
    start_fleet: StartFleet, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    fleet = start_fleet("prefork", FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    [first] = started(conn)
    os.kill(first.pid, signal.SIGKILL)
    started(conn, 2)
    open_gate("open")
    all_completed(conn, 1)
    assert task(conn, task_id).expirations == 1
    assert fleet.is_running


def test_a_cold_shutdown_gives_back_what_is_held(start_fleet: StartFleet, conn: Connection, database_url: str) -> None:
    fleet = start_fleet("prefork", FLEET_LEASE="60")
    [task_id] = enqueue(database_url, "gated", {"gate": "never"})
    started(conn)
    fleet.send(signal.SIGQUIT)
    wait_until(lambda: states(conn) == {"READY": 1}, what="the task to be free again")
    fleet.wait()
    assert task(conn, task_id).attempts == 0
