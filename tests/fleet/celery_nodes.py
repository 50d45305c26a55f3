"""Nodes of pytest-celery that are local processes: it wants containers of Docker, and takes what answers like one."""

import os
import shlex
import signal as signals
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pytest_celery import CeleryWorkerContainer, RedisContainer

from app.dev.processes import Process


class LocalContainer:
    """What pytest-celery uses of a container of Docker, for one process with its children."""

    def __init__(
        self, command: Sequence[str | Path], name: str, cwd: Path, env: Mapping[str, str], port: int | None = None
    ) -> None:
        self.id = uuid4().hex
        self.name = name
        self.port = port
        self._env = {**os.environ, **env}
        self.process = Process(command, cwd / f"{name}.log", name=name, cwd=cwd, env=self._env)

    @property
    def status(self) -> str:
        return "running" if self.process.is_running else "exited"

    @property
    def attrs(self) -> dict[str, Any]:
        ports = {f"{self.port}/tcp": [{"HostPort": str(self.port)}]} if self.port else {}
        return {
            "Config": {"Hostname": "localhost", "Env": [f"{name}={value}" for name, value in self._env.items()]},
            "NetworkSettings": {"Networks": {"host": {"IPAddress": "127.0.0.1"}}, "Ports": ports},
            "HostConfig": {"PortBindings": ports},
        }

    def start(self) -> "LocalContainer":
        self.process.start()
        return self

    def reload(self) -> None:
        """A process has no state that would have to be fetched."""

    def logs(self) -> bytes:
        return self.process.output().encode()

    def exec_run(self, command: str, **_: Any) -> tuple[int, bytes]:
        """Run a command beside the process, on the same machine."""
        answer = subprocess.run(shlex.split(command), capture_output=True, env=self._env, check=False)
        return answer.returncode, answer.stdout + answer.stderr

    def kill(self, signal: str | int | None = None) -> None:
        """Like Docker: SIGKILL ends all processes of the container, another signal goes to the first one."""
        number = getattr(signals, signal) if isinstance(signal, str) else signal
        if number in (None, signals.SIGKILL):
            self.process.kill()
        else:
            self.process.send(signals.Signals(number))

    def restart(self, timeout: float = 10) -> None:
        self.process.stop(timeout)
        self.process.start()

    def stop(self, timeout: float = 10) -> None:
        self.process.stop(timeout)


class RunningServer(LocalContainer):
    """A server that somebody else has started and will stop."""

    def __init__(self, name: str, log: Path, port: int) -> None:
        super().__init__(["true"], name, log.parent, {}, port)
        self._log = log

    @property
    def status(self) -> str:
        return "running"

    def logs(self) -> bytes:
        return self._log.read_bytes()


class LocalRedis(RedisContainer):  # type: ignore[misc]
    """A Redis that runs already."""

    @property
    def port(self) -> int:
        return int(self._container.port)

    @property
    def hostname(self) -> str:
        return f"localhost:{self._container.port}"

    def teardown(self) -> None:
        """It belongs to somebody else."""


class LocalWorker(CeleryWorkerContainer):  # type: ignore[misc]
    """`celery worker` as a process."""

    def teardown(self) -> None:
        self._container.stop()
