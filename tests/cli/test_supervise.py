"""Servers that die are started again after a growing pause; all are stopped in order."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from app.cli.supervise import FIRST_PAUSE_SECONDS, Watched, look_after, supervise
from app.dev.processes import Process
from app.dev.waiting import wait_until


class Mayfly:
    """A server whose life the test decides."""

    def __init__(self, fails_to_start: bool = False) -> None:
        self.is_running = False
        self.starts = 0
        self.fails_to_start = fails_to_start

    def start(self) -> None:
        self.starts += 1
        if self.fails_to_start:
            raise RuntimeError("no room")
        self.is_running = True

    def stop(self) -> None:
        self.is_running = False


def silent(name: str, line: str) -> None:
    return None


def pauses_after(server: Mayfly, deaths: int, live: Callable[[], None]) -> list[float]:
    """The planned pauses after so many deaths in a row; the clock is not waited for, the plan is brought forward."""
    watched = Watched("mayfly", server)
    said: list[str] = []
    for _ in range(deaths):
        live()
        look_after(watched, lambda _, line: said.append(line))
        watched.start_again_at = 0.0
        look_after(watched, silent)
    return [float(line.rsplit(" ", 2)[-2]) for line in said if "next start" in line]


def test_the_pause_before_a_start_doubles_with_every_death() -> None:
    server = Mayfly()
    pauses = pauses_after(server, 9, server.stop)
    assert pauses[:4] == [FIRST_PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert pauses[-1] == 30
    assert server.starts == 9


def test_a_server_that_was_healthy_for_long_starts_with_the_first_pause_again() -> None:
    server = Mayfly()
    watched = Watched("mayfly", server, deaths=8, started_at=-1e9)
    said: list[str] = []
    look_after(watched, lambda _, line: said.append(line))
    assert f"next start in {FIRST_PAUSE_SECONDS:g} s" in said[0]


def test_a_start_that_fails_is_tried_again_later() -> None:
    server = Mayfly(fails_to_start=True)
    watched = Watched("mayfly", server, start_again_at=0.0, deaths=1)
    said: list[str] = []
    look_after(watched, lambda _, line: said.append(line))
    assert "no room" in said[0]
    server.fails_to_start = False
    watched.start_again_at = 0.0
    look_after(watched, silent)
    assert server.is_running


def test_a_killed_process_runs_again_and_its_lines_are_passed_on(tmp_path: Path) -> None:
    script = "import os, time; print('here is', os.getpid(), flush=True); time.sleep(600)"
    process = Process([sys.executable, "-c", script], tmp_path / "log", name="sleeper")
    stopping, said = threading.Event(), list[str]()
    thread = threading.Thread(
        target=supervise, args=([Watched("sleeper", process, process.log)], stopping, lambda _, line: said.append(line))
    )
    thread.start()
    try:
        wait_until(lambda: any("here is" in line for line in said))
        first = process.pid
        process.send(9)  # type: ignore[arg-type]
        wait_until(lambda: "started again" in said)
        assert any("killed by signal 9" in line for line in said)
        wait_until(lambda: f"here is {process.pid}" in said)
        assert process.pid != first
    finally:
        stopping.set()
        thread.join()
    assert not process.is_running


def test_servers_stop_in_the_reverse_order_of_their_start(tmp_path: Path) -> None:
    stopped: list[str] = []

    class Named(Mayfly):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def stop(self) -> None:
            stopped.append(self.name)

    stopping = threading.Event()
    stopping.set()
    supervise([Watched(name, Named(name)) for name in ("store", "api", "beat")], stopping, silent)
    assert stopped == ["beat", "api", "store"]
