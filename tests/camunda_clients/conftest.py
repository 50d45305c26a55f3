"""Workers on the clients that Camunda's users have, as processes, against `celeriac api` as a process.

The clients are fetched once, by examples/camunda7/clients.py; a machine without Node skips what is for JavaScript.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import httpx
import pytest

from app.dev.ports import free_port
from app.dev.processes import Process, console_command
from app.dev.waiting import wait_until
from app.settings import Settings
from tests.api.conftest import keys
from tests.examples import programs

__all__ = ["keys"]

PROGRAMS: Final = Path(__file__).parent / "programs"
KINDS: Final = ("javascript", "python", "python-async")
Kind = Literal["javascript", "python", "python-async"]
Variables = Mapping[str, Any]


@dataclass(frozen=True)
class Engine:
    """What a user of Camunda does at the engine, over HTTP."""

    url: str
    http: httpx.Client

    def get(self, path: str, **asked: Any) -> Any:
        return self.http.get(path, params=asked).raise_for_status().json()

    def post(self, path: str, sent: Any) -> Any:
        answer = self.http.post(path, json=sent)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def put(self, path: str, sent: Any) -> None:
        answer = self.http.put(path, json=sent)
        assert answer.status_code == 204, answer.text

    def deploy(self, content: bytes) -> None:
        answer = self.http.post("/deployment/create", files={"data": ("model.bpmn", content)})
        assert answer.status_code == 200, answer.text

    def start(self, variables: Variables | None = None, business_key: str | None = None, key: str = "p") -> str:
        """The id of a new instance; variables as Camunda types them."""
        sent = {"variables": variables or {}, "businessKey": business_key}
        return str(self.post(f"/process-definition/key/{key}/start", sent)["id"])

    def variables(self, instance: str) -> dict[str, Any]:
        """Of an open instance."""
        found: dict[str, Any] = self.get(f"/process-instance/{instance}/variables", deserializeValues="false")
        return found

    def values(self, instance: str) -> dict[str, Any]:
        return {name: typed["value"] for name, typed in self.variables(instance).items()}

    def stands_at(self, instance: str) -> list[str]:
        """The activities where an instance stands; none of an ended one."""
        answer = self.http.get(f"/process-instance/{instance}/activity-instances")
        return [] if answer.status_code in (404, 500) else [leaf["activityId"] for leaf in _leaves(answer.json())]

    def wait_until_at(self, instance: str, *activities: str) -> None:
        try:
            wait_until(lambda: self.stands_at(instance) == list(activities), 60)
        except TimeoutError:
            raise AssertionError(f"stands at {self.stands_at(instance)}, not at {activities}") from None

    def wait_until_ended(self, instance: str) -> None:
        path = f"/history/process-instance/{instance}"
        wait_until(lambda: self.get(path)["state"] == "COMPLETED", 60, what=f"the end of {instance}")

    def tasks(self, instance: str) -> list[dict[str, Any]]:
        """The open external tasks of an instance."""
        found: list[dict[str, Any]] = self.get("/external-task", processInstanceId=instance)
        return found

    def incidents(self, instance: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/incident", processInstanceId=instance)
        return found


def _leaves(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node["childActivityInstances"]:
        yield from _leaves(child) if child["childActivityInstances"] else [child]


@dataclass
class Program:
    """A worker program, and what it tells."""

    name: str
    kind: Kind
    process: Process
    gate: Path

    def told(self, what: str, **like: Any) -> list[dict[str, Any]]:
        """All that it has told so far of one sort."""
        lines = [json.loads(line) for line in self.process.output().splitlines() if line.startswith('{"what"')]
        return [
            line
            for line in lines
            if line["what"] == what and all(line.get(name) == value for name, value in like.items())
        ]

    def wait_for(self, what: str, count: int = 1, **like: Any) -> list[dict[str, Any]]:
        self.process.wait_for(lambda: len(self.told(what, **like)) >= count, 60, what=f"{count} × {what} {like}")
        return self.told(what, **like)

    def open_gate(self) -> None:
        """Let those go on that wait."""
        self.gate.touch()

    def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        self.process.wait()


class Employ(Protocol):
    def __call__(
        self,
        kind: Kind,
        *topics: str,
        name: str = "",
        options: Mapping[str, Any] | None = None,
        subscriptions: Mapping[str, Mapping[str, Any]] | None = None,
        key: str = "",
        ready: bool = True,
    ) -> Program:
        """Start a worker that serves these topics. `subscriptions`: what JavaScript says of each of them."""


@pytest.fixture
def camunda_settings(settings: Settings, tmp_path: Path) -> Settings:
    return replace(settings, camunda_open=True, port=free_port(), state_dir=str(tmp_path / "alive"))


@pytest.fixture
def server(camunda_settings: Settings, tmp_path: Path) -> Iterator[Process]:
    """`celeriac api`."""
    env = _outside() | camunda_settings.to_env()
    with Process([console_command("celeriac"), "api"], tmp_path / "api.log", name="api", env=env) as process:
        process.wait_for(lambda: _is_ready(camunda_settings.port), 60, what="being ready")
        yield process


@pytest.fixture
def chores(server: Process, camunda_settings: Settings, tmp_path: Path) -> Iterator[None]:
    """`celeriac maintenance`: it takes lost leases back, so that a waiting poll hears of them."""
    env = _outside() | camunda_settings.to_env()
    with Process([console_command("celeriac"), "maintenance"], tmp_path / "maintenance.log", env=env):
        yield


@pytest.fixture
def engine(server: Process, camunda_settings: Settings) -> Iterator[Engine]:
    url = f"http://127.0.0.1:{camunda_settings.port}/engine-rest"
    with httpx.Client(base_url=url, timeout=30) as http:
        yield Engine(url, http)


@pytest.fixture
def employ(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Employ]:
    clients = programs.module("camunda7", "clients", monkeypatch)
    with ExitStack() as running:

        def start(
            kind: Kind,
            *topics: str,
            name: str = "",
            options: Mapping[str, Any] | None = None,
            subscriptions: Mapping[str, Mapping[str, Any]] | None = None,
            key: str = "",
            ready: bool = True,
        ) -> Program:
            name = name or kind
            try:
                if kind == "javascript":
                    command = clients.javascript(PROGRAMS / "worker.mjs", tmp_path)
                else:
                    command = clients.python(PROGRAMS / "worker.py")
            except clients.Missing as missing:
                pytest.skip(str(missing))
            gate = tmp_path / f"{name}.gate"
            told = {
                "ENGINE_REST": engine.url, "WORKER": name, "TOPICS": ",".join(topics), "GATE": str(gate), "KEY": key,
                "OPTIONS": json.dumps(options or {}), "MODE": kind.rpartition("-")[2],
            }  # fmt: skip
            said = {f"TOPIC_{topic}": json.dumps(more) for topic, more in (subscriptions or {}).items()}
            process = Process(command, tmp_path / f"{name}.log", name=name, env=_outside() | told | said, cwd=tmp_path)
            program = Program(name, kind, running.enter_context(process), gate)
            if ready:
                program.wait_for("ready")
            return program

        yield start


def _outside() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")}


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
