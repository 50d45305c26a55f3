"""A reverse proxy between a worker and its server that can misbehave on purpose."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


@dataclass
class Faults:
    """What goes wrong with calls whose path ends in a word; counts go down as it happens."""

    drop_answers: Counter[str] = field(default_factory=Counter)
    """The server has done the work, and the connection breaks before the answer."""
    swallow: Counter[str] = field(default_factory=Counter)
    """The request goes nowhere and the connection stays open and silent, like a half-open socket."""
    pages: Counter[str] = field(default_factory=Counter)
    """Answered by the proxy itself: 502 and a page."""
    seen: Counter[str] = field(default_factory=Counter)
    latency_seconds: float = 0.0
    """How much later every answer comes."""

    def take(self, which: str, word: str) -> bool:
        counts: Counter[str] = getattr(self, which)
        counts[word] -= 1
        return counts[word] >= 0


@dataclass(frozen=True)
class Proxy:
    url: str
    faults: Faults


@contextmanager
def proxy_to(target: str) -> Iterator[Proxy]:
    faults, closing = Faults(), threading.Event()
    upstream = httpx.Client(base_url=target, timeout=60)

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            word = self.path.rsplit("/", 1)[-1]
            faults.seen[word] += 1
            closing.wait(faults.latency_seconds)
            if faults.take("swallow", word):
                closing.wait(60)
                self.hang_up()
            elif faults.take("pages", word):
                self.answer(502, b"<html>bad gateway</html>", "text/html")
            else:
                answer = upstream.request(self.command, self.path, content=body, headers=dict(self.headers))
                if faults.take("drop_answers", word):
                    self.hang_up()
                else:
                    self.answer(answer.status_code, answer.content, answer.headers["content-type"])

        do_GET = do_POST = do_PUT = relay  # noqa: N815 - names that http.server looks for

        def answer(self, status: int, body: bytes, kind: str) -> None:
            try:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the client has gone

        def hang_up(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Proxy(f"http://127.0.0.1:{server.server_port}", faults)
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
        upstream.close()
