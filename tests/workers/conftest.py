"""Maintenance workers and beats as real processes, each with a folder of its own for its sign of life."""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.dev.processes import Process
from app.settings import Settings
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
def ready(start: StartProcess) -> StartProcess:
    """Like `start`, and waits until a maintenance worker consumes ticks."""

    def start_and_wait(module: str, **options: Settings) -> Process:
        process = start(module, **options)
        process.wait_for_output("ready." if module == "maintenance" else "")
        return process

    return start_and_wait
