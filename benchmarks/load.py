"""Several clients at full speed for a while: how many tasks a second, and whose CPU it took."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import psutil

from benchmarks.callers import Caller, Worker

OneWorker = TypeVar("OneWorker", bound=Worker)
Work = Callable[[OneWorker, int], int]


@dataclass(frozen=True)
class Rate:
    """One stretch of load. `cpu_ms` is CPU time a task, by who spent it."""

    tasks: int
    seconds: float
    cpu_ms: Mapping[str, float]

    @property
    def per_second(self) -> float:
        return self.tasks / self.seconds


def whole_life(caller: Caller, batch: int) -> int:
    """Enqueue, fetch and complete."""
    caller.enqueue(batch)
    return fetch_and_complete(caller, batch)


def fetch_and_complete(caller: Worker, batch: int) -> int:
    """What a worker does; the tasks must be there already."""
    held = caller.fetch(batch)
    if held:
        caller.complete(held)
    return len(held)


def drive(
    callers: Sequence[OneWorker], work: Work[OneWorker], batch: int, seconds: float, servers: Mapping[str, int]
) -> Rate:
    """Let every caller (a thread each) work for `seconds`; `servers` are names and pids whose CPU time is noted.

    An error of one caller ends the stretch and is raised.
    """
    tallies = [0] * len(callers)
    errors: list[Exception] = []
    start = threading.Barrier(len(callers) + 1)

    def run(index: int) -> None:
        try:
            start.wait()
            deadline = time.perf_counter() + seconds
            while time.perf_counter() < deadline and not errors:
                tallies[index] += work(callers[index], batch)
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits for this one
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(callers))]
    for thread in threads:
        thread.start()
    before = _cpu_seconds(servers)
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    if errors:
        raise errors[0]
    return _rate(sum(tallies), elapsed, before, _cpu_seconds(servers))


def _rate(tasks: int, seconds: float, before: Mapping[str, float], after: Mapping[str, float]) -> Rate:
    if tasks == 0:
        raise RuntimeError("not a single task went through; there is nothing to divide by")
    return Rate(tasks, seconds, {name: 1000 * (after[name] - before[name]) / tasks for name in after})


def _cpu_seconds(servers: Mapping[str, int]) -> Mapping[str, float]:
    return {"client": _process_seconds(psutil.Process(os.getpid()))} | {
        name: _tree_seconds(pid) for name, pid in servers.items()
    }


def _tree_seconds(pid: int) -> float:
    process = psutil.Process(pid)
    return sum(_process_seconds(one) for one in [process, *process.children(recursive=True)])


def _process_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system
