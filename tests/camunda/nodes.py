"""`celeriac api` as processes that share one database: what signals, restarts and several of them do is real."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from app.dev.ports import free_port
from app.dev.processes import Process, console_command
from app.settings import Settings


@dataclass(frozen=True)
class Node:
    """One API process."""

    process: Process
    port: int

    def client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}/engine-rest", timeout=70, **options)

    def wait_until_ready(self) -> None:
        self.process.wait_for(self._is_ready, 60, what="being ready")

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health/ready", timeout=2).is_success
        except httpx.TransportError:
            return False


@contextmanager
def node(settings: Settings, folder: Path, name: str = "api") -> Iterator[Node]:
    """An open Camunda face, ready."""
    port = free_port()
    settings = replace(settings, camunda_open=True, port=port, state_dir=str(folder / f"{name}.alive"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("CELERIAC_")} | settings.to_env()
    with Process([console_command("celeriac"), "api"], folder / f"{name}.log", name=name, env=env) as process:
        made = Node(process, port)
        made.wait_until_ready()
        yield made
