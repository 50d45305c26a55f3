"""A TCP proxy that can stop forwarding without closing anything: the half-open connections of a dead middle box."""

import selectors
import socket
import threading
from types import TracebackType
from typing import Self


class TcpProxy:
    """Forwards connections from `port` to `target_port` on this machine, until `swallow` is called.

    Connections made before `swallow` stay open and carry nothing any more; later ones are forwarded.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._swallowed: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        for end in (*self._pairs, *self._swallowed, self._listener):
            end.close()
        self._selector.close()

    def swallow(self) -> int:
        """Stop forwarding on all present connections; says how many there were."""
        with self._lock:
            for end in self._pairs:
                self._selector.unregister(end)
            self._swallowed.extend(self._pairs)
            self._pairs.clear()
            return len(self._swallowed) // 2

    def _forward(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select(timeout=0.1):
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                        self._pass_on(key.fileobj)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._target_port), timeout=5)
        except OSError:
            near.close()
            return
        for end, other in ((near, far), (far, near)):
            self._pairs[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        other = self._pairs[end]
        try:
            data = end.recv(65536)
            if data:
                other.sendall(data)
                return
        except OSError:
            data = b""
        for closed in (end, other):
            del self._pairs[closed]
            self._selector.unregister(closed)
            closed.close()
