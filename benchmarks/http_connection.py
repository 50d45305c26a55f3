"""A client as lean as it gets: one kept connection, bytes out, bytes in. What is measured must be the server.

It reads answers with a Content-Length only, which is what the API sends.
"""

import socket
import time

from benchmarks.callers import Refused

RECEIVE_BYTES = 1 << 16
TIMEOUT_SECONDS = 90.0
# The API hangs up on connections that bring nothing for half a minute; ours is renewed before.
IDLE_SECONDS = 20.0
_HEAD_END = b"\r\n\r\n"


class HttpConnection:
    """One kept connection to 127.0.0.1. `send` and `receive` are apart, so that a long poll can be left waiting."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._socket = _connect(port)
        self._used_at = time.monotonic()
        self._headers = (
            f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        ).encode()

    def fileno(self) -> int:
        return self._socket.fileno()

    def post(self, path: str, body: bytes) -> bytes:
        """The body of a 200 or 201, nothing of a 204; Refused for any other status."""
        self.send("POST", path, body)
        return self.receive()

    def get(self, path: str) -> bytes:
        self.send("GET", path, b"")
        return self.receive()

    def send(self, method: str, path: str, body: bytes) -> None:
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._socket.close()
            self._socket = _connect(self._port)
        head = f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode()
        self._socket.sendall(b"".join((head, self._headers, b"\r\n", body)))

    def receive(self) -> bytes:
        received = self._socket.recv(RECEIVE_BYTES)
        while (end := received.find(_HEAD_END)) < 0:
            received += self._more()
        head, body = received[:end], bytearray(received[end + len(_HEAD_END) :])
        if head[9:12] == b"204":
            self._used_at = time.monotonic()
            return b""
        missing = _content_length(head) - len(body)
        while missing > 0:
            piece = self._more()
            body += piece
            missing -= len(piece)
        if head[9:12] not in (b"200", b"201"):
            raise Refused(f"{head[:40]!r} {bytes(body[:300])!r}")
        self._used_at = time.monotonic()
        return bytes(body)

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bytes:
        piece = self._socket.recv(RECEIVE_BYTES)
        if not piece:
            raise Refused("the server hung up in the middle of an answer")
        return piece


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _content_length(head: bytes) -> int:
    name = b"\r\ncontent-length: "
    start = head.lower().index(name) + len(name)
    return int(head[start : head.find(b"\r", start) if b"\r" in head[start:] else len(head)])
