"""A wire between a worker and Postgres that can lose an answer: the server has done it, and nobody is told."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 65_536


class Relay:
    """Takes connections at `port` and passes them on to the server, by daemon threads of this process."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.lost = 0
        """How many answers were lost."""
        self._is_losing = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._start(self._accept)

    def lose_the_next_answer(self) -> None:
        """Whatever the server sends next is dropped, and its connection with it."""
        self._is_losing.set()

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            server = socket.create_connection(self._server)
            self._start(self._pass_on, client, server)
            self._start(self._answer, server, client)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while chunk := client.recv(CHUNK_BYTES):
                server.sendall(chunk)
        hang_up(client, server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while chunk := server.recv(CHUNK_BYTES):
                if self._is_losing.is_set():
                    self._is_losing.clear()
                    self.lost += 1
                    break
                client.sendall(chunk)
        hang_up(client, server)

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()


def hang_up(*connections: socket.socket) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
