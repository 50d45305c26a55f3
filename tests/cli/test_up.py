"""`celeriac up`: everything with one command, and nothing left when it ends."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from app.cli.up import folder_to_itself, prepare
from app.dev.ports import free_port
from app.dev.processes import Process, console_command
from app.dev.waiting import wait_until
from tests.cli.conftest import Celeriac


def started(folder: Path, **settings: str) -> Process:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}
    command = [console_command("celeriac"), "up", "--no-flower", f"--state={folder / 'state'}"]
    return Process(command, folder / "up.log", name="up", env=env | settings)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def up(open_folder: Path, port: int) -> Iterator[Process]:
    """Everything, embedded."""
    with started(open_folder, CELERIAC_PORT=str(port)) as process:
        process.wait_for(lambda: is_ready(port), 60, what="a ready API")
        yield process


def is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def first_key(output: str) -> str:
    (line,) = [line for line in output.splitlines() if "first API key" in line]
    return line.rsplit(" ", 1)[-1]


def told_to_export(output: str, command: str) -> str:
    """The command as a person runs it who does what `up` says: in a shell with the variables that it named."""
    (line,) = [line for line in output.splitlines() if line.startswith("for other commands: ")]
    return f"{line.removeprefix('for other commands: ')}; {console_command('python').parent}/{command}"


def server(up: Process, name: str) -> psutil.Process:
    (found,) = [child for child in psutil.Process(up.pid).children() if child.cmdline()[-1:] == [name]]
    return found


def test_the_address_that_up_tells_answers_at_once(open_folder: Path, port: int) -> None:
    with started(open_folder, CELERIAC_PORT=str(port)) as process:
        process.wait_for_output("API: http")
        assert is_ready(port)


def test_up_serves_restarts_what_dies_and_ends_cleanly(up: Process, port: int) -> None:
    headers = {"Authorization": f"Bearer {first_key(up.output())}"}
    task = {"task_type": "mail", "variables": {}}
    assert httpx.post(f"http://127.0.0.1:{port}/v1/tasks", json=task, headers=headers).status_code == 201

    server(up, "api").kill()
    up.wait_for_output("is down (killed by signal 9)")
    up.wait_for(lambda: is_ready(port), what="a ready API again")

    doctor = subprocess.run(told_to_export(up.output(), "celeriac doctor --json"), shell=True, capture_output=True)
    assert json.loads(doctor.stdout)["findings"] == []

    children = psutil.Process(up.pid).children(recursive=True)
    up.send(signal.SIGTERM)
    assert up.wait(60) == 0
    assert "all servers are stopped" in up.output()
    wait_until(lambda: not any(child.is_running() for child in children), what="the end of all servers")


def test_up_uses_the_servers_that_are_given(tmp_path: Path, port: int, database_url: str, redis_url: str) -> None:
    given = {"CELERIAC_PORT": str(port), "CELERIAC_DATABASE_URL": database_url, "CELERIAC_REDIS_URL": redis_url}
    with started(tmp_path, **given) as process:
        process.wait_for(lambda: is_ready(port), 60, what="a ready API")
        process.send(signal.SIGINT)
        assert process.wait(60) == 0
        assert "embedded" not in process.output()
        assert "first API key" in process.output()


def test_the_first_key_is_made_once(database_url: str, celeriac: Celeriac, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(database_url)
    assert "first API key" in capsys.readouterr().out
    prepare(database_url)
    assert capsys.readouterr().out == ""
    assert len(celeriac("keys", "list", "--json").json["keys"]) == 1


def test_up_refuses_a_taken_port_before_it_starts_anything(
    tmp_path: Path, celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("CELERIAC_PORT", str(taken.getsockname()[1]))
        refused = celeriac("up", "--state", str(tmp_path / "state"))
    assert refused.code == 1
    assert "CELERIAC_PORT" in refused.err
    assert not (tmp_path / "state").exists()


def test_up_refuses_a_taken_port_for_flower_unless_there_is_none(
    tmp_path: Path, port: int, celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERIAC_PORT", str(port))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("CELERIAC_FLOWER_PORT", str(taken.getsockname()[1]))
        refused = celeriac("up", "--state", str(tmp_path / "state"))
    assert refused.code == 1
    assert "CELERIAC_FLOWER_PORT" in refused.err


def test_two_cannot_use_one_folder(
    tmp_path: Path, port: int, celeriac: Celeriac, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERIAC_PORT", str(port))
    (tmp_path / "api.log").write_text("of the first one")
    with folder_to_itself(tmp_path):
        refused = celeriac("up", "--no-flower", "--state", str(tmp_path))
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert "--state" in refused.err
    assert (tmp_path / "api.log").read_text() == "of the first one"
