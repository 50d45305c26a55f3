"""Maintenance workers and beats as real processes, each with a folder of its own for its sign of life."""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process
from app.settings import Settings
from tests.workers.probes import until_ready
from tests.workers.tcp_proxy import TcpProxy
from workers import health
from workers.celery_app import make_app
from workers.chore import Tools
from workers.maintenance import close_tools, open_tools

START = "import os; from app.settings import Settings; from workers import {0}; {0}.run(Settings.from_env(os.environ))"

StartProcess = Callable[..., Process]


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return dataclasses.replace(settings, state_dir=str(tmp_path / "state"), log_level="info")


@pytest.fixture
def tools(settings: Settings) -> Iterator[Tools]:
    """What chores are given, for chores that a test runs by itself."""
    tools = open_tools(settings, make_app(settings))
    yield tools
    close_tools(tools)


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[StartProcess]:
    """`start("maintenance")`, `start("beat")`, `start("flower")`: a process of ours, with other settings if need be."""
    running: list[Process] = []

    def start_one(module: str, settings: Settings = settings) -> Process:
        name = f"{module}-{len(running)}"
        folder = tmp_path / name
        folder.mkdir()
        process = Process(
            [sys.executable, "-c", START.format(module)],
            tmp_path / f"{name}.log",
            name=name,
            env=settings.to_env(),
            cwd=folder,
        )
        running.append(process.start())
        return process

    yield start_one
    for process in running:
        process.kill()


@pytest.fixture
def maintenance(start: StartProcess) -> Process:
    return until_ready(start("maintenance"))


@pytest.fixture
def beat(start: StartProcess, settings: Settings) -> Process:
    process = start("beat")
    process.wait_for(lambda: health.check_beat(settings), what="a sign of life")
    return process


@pytest.fixture
def proxy(postgres: EmbeddedPostgres) -> Iterator[TcpProxy]:
    with TcpProxy(postgres.port) as proxy:
        yield proxy
