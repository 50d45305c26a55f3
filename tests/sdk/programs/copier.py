"""A worker as a process: `copier.py URL KEY {"worker": {…}, "behaviour": "…"}`. Prints what happens, one line each."""

# ruff: noqa: T201 - what it prints is what tests wait for

import json
import logging
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from celeriac import TaskContext, Worker

url, key, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
logging.basicConfig(level=logging.INFO)
worker = Worker(url, key, **({"wait_seconds": 5} | arguments.get("worker", {})))


@worker.task("copy")
def copy(task: TaskContext) -> dict[str, Any]:
    print("started", task.task_id, task.attempt, flush=True)
    result = globals()[arguments["behaviour"]](task)
    print("returned", task.task_id, flush=True)
    return result or {}


def until_told(task: TaskContext) -> None:
    """Work until a file appears, whatever happens to the lease."""
    while not Path("go").exists():
        if task.lease_lost.wait(0.01):
            print("lost", task.task_id, flush=True)
            while not Path("go").exists():
                time.sleep(0.01)


def for_ever(task: TaskContext) -> None:
    threading.Event().wait()


def burn(task: TaskContext) -> dict[str, Any]:
    """Burn CPU in pure Python, and count."""
    end, turns = time.monotonic() + arguments["seconds"], 0
    while time.monotonic() < end:
        turns += 1
    return {"lost": task.lease_lost.is_set()}


def die(task: TaskContext) -> None:
    signal.raise_signal(signal.SIGKILL)


worker.run()
print("stats", worker.stats, flush=True)
