"""Why workers/kombu_patch.py exists, and that it does what it says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import kombu
import pytest
from celery import Celery

from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey
from workers import kombu_patch

WORKER = Path(__file__).with_name("late_ack_worker.py")
ROOT = Path(__file__).parents[2]
HOLD_SECONDS = 3
"""Long enough to lose the broker meanwhile; a dying worker waits for it."""


@pytest.fixture
def broker() -> Iterator[EmbeddedValkey]:
    """A server of its own: this test takes it away."""
    with EmbeddedValkey() as server:
        yield server


def start_worker(broker: EmbeddedValkey, kind: str, log: Path) -> Process:
    worker = Process([sys.executable, WORKER, broker.url(), kind], log, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    return worker.start()


def send(broker: EmbeddedValkey, task: str, *arguments: object) -> None:
    with Celery(broker=broker.url(), set_as_current=False) as app:
        app.send_task(task, arguments, retry=False)


@pytest.mark.skipif(kombu.__version__ != kombu_patch.BROKEN_VERSION, reason="kombu has mended it")
def test_without_the_patch_a_worker_ends_when_redis_refuses_connections(
    broker: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    worker = start_worker(broker, "plain", tmp_path_factory.mktemp("plain") / "log")
    try:
        send(broker, "hold", HOLD_SECONDS)
        worker.wait_for_output("holding")
        broker.stop()
        assert worker.wait(30) == 1
        assert "Unrecoverable error: AttributeError" in worker.output()
    finally:
        worker.kill()


def test_with_the_patch_the_worker_outlives_the_broker(
    broker: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    worker = start_worker(broker, "patched", tmp_path_factory.mktemp("patched") / "log")
    try:
        send(broker, "hold", HOLD_SECONDS)
        worker.wait_for_output("holding")
        broker.stop()
        worker.wait_for_output("Connection refused")
        broker.start()
        send(broker, "say", "hello")
        worker.wait_for_output("said hello", 60)
        assert worker.is_running
    finally:
        worker.kill()


def test_applying_it_twice_patches_once() -> None:
    assert kombu_patch.apply() == kombu_patch.apply()
