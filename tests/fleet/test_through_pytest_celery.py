"""The fleet in the set-up that Celery's own test suite uses: brokers and workers as nodes of a cluster."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import kombu.pools
import pytest
from celery import Celery
from pytest_celery import (
    CeleryBrokerCluster,
    CeleryTestSetup,
    CeleryTestWorker,
    CeleryWorkerCluster,
    RedisTestBroker,
)
from sqlalchemy import Connection

from app.dev.processes import Process, console_command
from app.dev.valkey import EmbeddedValkey
from tests.fleet.celery_nodes import LocalContainer, LocalRedis, LocalWorker, RunningServer
from tests.fleet.conftest import BUSINESS
from tests.fleet.sights import all_completed, effects, enqueue, started, task

OpenGate = Callable[[str], None]


@pytest.fixture
def celery_broker_cluster(valkey: EmbeddedValkey) -> CeleryBrokerCluster:
    server = RunningServer("redis", valkey.data_dir / "server.log", valkey.port)
    return CeleryBrokerCluster(RedisTestBroker(LocalRedis(server)))


@pytest.fixture
def celery_backend_cluster() -> None:
    """Results of durable tasks are in Postgres."""


@pytest.fixture
def celery_setup_app(redis_url: str) -> Iterator[Celery]:
    kombu.pools.reset()  # one for all apps: its connections may be those of a broker that has restarted since
    app = Celery("setup", broker=redis_url, set_as_current=False)
    yield app
    app.close()


@pytest.fixture
def celery_worker_cluster(
    dispatcher: Process,
    conn: Connection,
    celery_setup_app: Celery,
    database_url: str,
    fleet_url_db: str,
    redis_url: str,
    tmp_path: Path,
) -> Iterator[CeleryWorkerCluster]:
    conn.exec_driver_sql(BUSINESS)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        "FLEET_DATABASE_URL": fleet_url_db,
        "FLEET_BUSINESS_URL": database_url,
        "FLEET_BROKER_URL": redis_url,
        "FLEET_LEASE": "2",
        "FLEET_SLICE_TASKS": "50",
        "FLEET_SLICE_SECONDS": "1",
    }
    nodes = []
    for name in ("one", "two"):
        options = ["--loglevel=INFO", "--concurrency=2", f"--hostname={name}@test", "--queues=fleet"]
        command = [console_command("celery"), "-A", "fleet_app", "worker", *options]
        container = LocalContainer(command, name, tmp_path, environment).start()
        node = CeleryTestWorker(LocalWorker(container), celery_setup_app)
        node.hostname = lambda name=name: f"{name}@test"
        nodes.append(node)
    for node in nodes:
        node.container._container.process.wait_for_output("ready.")
    yield CeleryWorkerCluster(*nodes)
    for node in nodes:
        node.teardown()


@pytest.fixture
def celery_setup(
    celery_worker_cluster: CeleryWorkerCluster, celery_broker_cluster: CeleryBrokerCluster, celery_setup_app: Celery
) -> CeleryTestSetup:
    return CeleryTestSetup(
        worker_cluster=celery_worker_cluster,
        broker_cluster=celery_broker_cluster,
        backend_cluster=None,
        app=celery_setup_app,
    )


def test_a_killed_worker_s_task_is_taken_over_and_the_worker_can_come_back(
    celery_setup: CeleryTestSetup, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    assert celery_setup.ready(ping=False, control=True, docker=True)
    assert len(celery_setup) == 3
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    started(conn)
    holder = task(conn, task_id).worker_id.split("@")[0]
    [victim] = [node for node in celery_setup.worker_cluster if node.hostname().startswith(holder)]
    victim.kill()
    assert victim.container.status == "exited"
    second = started(conn, 2)[1]
    open_gate("open")
    all_completed(conn, 1)
    assert effects(conn) == {task_id: second.fencing_token}
    victim.restart()
    victim.container._container.process.wait_for(lambda: victim.logs().count("ready.") == 2, what="the second start")
    ids = enqueue(database_url, "mark", *[{}] * 50)
    all_completed(conn, 51)
    assert set(ids) < set(effects(conn))


def test_a_killed_child_is_replaced_and_its_task_taken_over(
    celery_setup: CeleryTestSetup, conn: Connection, database_url: str, open_gate: OpenGate
) -> None:
    [task_id] = enqueue(database_url, "gated", {"gate": "open"})
    [first] = started(conn)
    holder = task(conn, task_id).worker_id.split("@")[0]
    [node] = [node for node in celery_setup.worker_cluster if node.hostname().startswith(holder)]
    os.kill(first.pid, signal.SIGKILL)
    node.assert_log_exists("WorkerLostError", timeout=20)
    started(conn, 2)
    open_gate("open")
    all_completed(conn, 1)
    assert task(conn, task_id).expirations == 1
