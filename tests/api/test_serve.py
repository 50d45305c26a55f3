"""The API as a process of its own: it stops when told, with 0, and its log tells no secrets."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from app.settings import Settings
from tests.api.conftest import Keys, wait_until

COMMAND = (
    "import os, sys; from app.server.serve import serve; from app.settings import Settings;"
    " sys.exit(serve(Settings.from_env(os.environ)))"
)
FETCH = "/v1/external-tasks/fetch-and-lock"


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def process(
    request: pytest.FixtureRequest, settings: Settings, port: int, tmp_path: Path
) -> Iterator[subprocess.Popen[bytes]]:
    settings = replace(settings, port=port, api_processes=request.param, log_level="debug")
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen([sys.executable, "-c", COMMAND], env=os.environ | settings.to_env(), stderr=log)
    try:
        wait_until(lambda: _is_ready(port))
        yield started
    finally:
        started.kill()
        started.wait()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_sigterm_ends_it_with_zero(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    wait_until(lambda: not any(child.is_running() for child in children))


def test_nothing_outlives_a_killed_parent(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    wait_until(lambda: not any(child.is_running() for child in children))


def test_the_log_has_no_keys_no_payloads_and_no_query_strings(
    process: subprocess.Popen[bytes], port: int, keys: Keys, tmp_path: Path, settings: Settings
) -> None:
    """Case B77, second part: at DEBUG, the loudest there is."""
    key, secret = keys.make(), "sk-TEST-abc"
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"X-API-Key": key}) as client:
        client.post("/v1/tasks", json={"task_type": "mail", "variables": {"password": secret}})
        client.post("/v1/tasks", json={"task_type": "mail", "priority": secret})
        client.get("/v1/tasks", params={"business_key": secret, "api_key": key})
        client.get("/v1/tasks", headers={"Authorization": f"Bearer {key[:-1]}"})
        task = client.post(FETCH, json={"worker_id": "w", "task_types": ["mail"]}).json()[0]
        held = {"worker_id": "w", "fencing_token": task["fencing_token"]}
        client.post(f"/v1/external-tasks/{task['task_id']}/fail", json=held | {"error": secret})
    process.send_signal(signal.SIGTERM)
    process.wait(20)
    log = (tmp_path / "log").read_text()
    assert "POST /v1/tasks 201" in log
    assert "principal='tester'" in log
    for hidden in (key, key[5:-1], secret):
        assert hidden not in log


def test_a_port_in_use_is_an_error_with_a_code(settings: Settings, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        taken = replace(settings, port=port)
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND], env=os.environ | taken.to_env(), capture_output=True, timeout=60
        )
    assert ended.returncode == 3
