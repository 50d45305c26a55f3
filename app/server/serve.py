"""Running the API until SIGTERM or SIGINT: polls are then answered at once with [], the rest is finished, exit 0."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Final

import uvicorn

from app.server.application import create
from app.server.protocol import BoundedProtocol
from app.settings import Settings

GRACE_SECONDS: Final = 20
KEEP_ALIVE_SECONDS: Final = 75
"""Longer than a long poll, so that a worker's connection outlives its waiting."""
BACKLOG: Final = 4096
RESTART_SECONDS: Final = 1.0
CANNOT_START: Final = 3

log = logging.getLogger(__name__)


class ApiServer(uvicorn.Server):
    """A server that, told to stop, first sends the waiting polls home."""

    def __init__(self, settings: Settings) -> None:
        self.application = create(settings)
        super().__init__(_configuration(settings, self.application))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.application.state.parts.hub.close()
        await super().shutdown(sockets)


def serve(settings: Settings) -> int:
    """Serve until told to stop. The exit code: 0 after a signal, CANNOT_START when the API could not start."""
    if settings.api_processes == 1:
        return _serve_here(settings, None)
    with _listen(settings) as shared:
        return _Family(settings, shared).run()


def _configuration(settings: Settings, application: object) -> uvicorn.Config:
    """uvicorn's settings; its own access log is off, since it writes query strings."""
    return uvicorn.Config(
        application,  # type: ignore[arg-type]
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level=settings.log_level,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


def _serve_here(settings: Settings, sockets: list[socket.socket] | None) -> int:
    logging.basicConfig(
        level=settings.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    server = ApiServer(settings)
    # For signals before uvicorn listens to them; and it raises them once more when it is done, which must not end us by
    # the signal instead of with 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    try:
        server.run(sockets)
    except SystemExit:
        # uvicorn's way to say that it cannot bind; it has logged why.
        return CANNOT_START
    return 0 if server.started else CANNOT_START


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)


@dataclass
class _Family:
    """Several processes that accept from one socket; one that dies is replaced, a signal to the parent stops all."""

    settings: Settings
    shared: socket.socket
    children: list[SpawnProcess] = field(default_factory=list)

    def run(self) -> int:
        told_to_stop, teller = multiprocessing.Pipe(duplex=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: teller.send(None))
        self.children = [self._start() for _ in range(self.settings.api_processes)]
        while told_to_stop not in wait([told_to_stop, *(child.sentinel for child in self.children)]):
            if any(child.exitcode == CANNOT_START for child in self.children):
                self._stop()
                return CANNOT_START
            if told_to_stop.poll(RESTART_SECONDS):
                break
            self._replace_dead()
        self._stop()
        return 0

    def _start(self) -> SpawnProcess:
        child = multiprocessing.get_context("spawn").Process(target=_serve_as_child, args=(self.settings, self.shared))
        child.start()
        return child

    def _replace_dead(self) -> None:
        for index, child in enumerate(self.children):
            if child.exitcode is not None:
                log.error("API process %s ended with %s and is replaced", child.pid, child.exitcode)
                self.children[index] = self._start()

    def _stop(self) -> None:
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.join()


def _serve_as_child(settings: Settings, shared: socket.socket) -> None:
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    sys.exit(_serve_here(settings, [shared]))


def _stop_with_parent() -> None:
    """However the parent ends, also by SIGKILL: nobody would stop us any more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
