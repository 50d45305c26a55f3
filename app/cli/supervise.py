"""Keeps servers running: says when one dies, starts it again after a growing pause, stops all in order."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.dev.processes import Process

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# A server that ran this long was healthy: its next death starts with the first pause again.
HEALTHY_SECONDS = 60.0
LOOK_SECONDS = 0.2

Say = Callable[[str, str], None]


class Server(Protocol):
    """What can be watched: a child process, or an embedded Postgres or Valkey."""

    @property
    def is_running(self) -> bool: ...
    def start(self) -> object: ...
    def stop(self) -> object: ...


@dataclass
class Watched:
    """One server, how often it died in a row, and where in its log (if it is shown) we stand."""

    name: str
    server: Server
    log: Path | None = None
    deaths: int = 0
    started_at: float = field(default_factory=time.monotonic)
    start_again_at: float | None = None
    log_offset: int = 0
    unfinished_line: bytes = b""


def supervise(
    watched: Sequence[Watched], stopping: threading.Event, say: Say, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Run all until `stopping` is set, then stop them, last started first. `say(name, line)` gets every log line,
    `meanwhile` is called after each look at them."""
    try:
        for one in watched:
            if not one.server.is_running:
                start(one)
        while not stopping.wait(LOOK_SECONDS):
            for one in watched:
                look_after(one, say)
            meanwhile()
    finally:
        for one in reversed(watched):
            one.server.stop()
            pass_on(one, say)


def look_after(one: Watched, say: Say) -> None:
    """Pass on what the server wrote; when it has died, plan its next start, or do it when it is due."""
    pass_on(one, say)
    if one.server.is_running:
        return
    if one.start_again_at is None:
        healthy = time.monotonic() - one.started_at > HEALTHY_SECONDS
        one.deaths = 1 if healthy else one.deaths + 1
        plan_start(one, how_it_ended(one.server), say)
    elif time.monotonic() >= one.start_again_at:
        try:
            start(one)
        except (OSError, RuntimeError) as failure:
            one.deaths += 1
            plan_start(one, str(failure), say)
            return
        say(one.name, "started again")


def start(one: Watched) -> None:
    one.server.start()
    one.started_at = time.monotonic()
    one.start_again_at = None


def plan_start(one: Watched, why: str, say: Say) -> None:
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(one.deaths - 1, 10))
    one.start_again_at = time.monotonic() + pause
    say(one.name, f"is down ({why}); next start in {pause:g} s")


def how_it_ended(server: Server) -> str:
    """In words, since what a person looks for is whether it was killed."""
    code = server.exit_code if isinstance(server, Process) else None
    if code is None:
        return "it ended"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def pass_on(one: Watched, say: Say) -> None:
    for line in new_lines(one):
        say(one.name, line)


def new_lines(one: Watched) -> list[str]:
    """The whole lines that came into the log since the last call."""
    if one.log is None or not one.log.exists():
        return []
    with one.log.open("rb") as log:
        log.seek(one.log_offset)
        fresh = log.read()
    one.log_offset += len(fresh)
    *lines, one.unfinished_line = (one.unfinished_line + fresh).split(b"\n")
    return [line.decode(errors="replace") for line in lines]
