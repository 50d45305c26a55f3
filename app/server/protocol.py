"""Limits before any request exists: how long one may take to arrive, and how large its head may be.

uvicorn's parser collects headers without an end and waits for them for ever; both are cheap ways to hold a server.
And where a request offers to go on in another protocol, as the HTTP clients of Java do, it leaves out the body.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.api.problems import Problem
from app.camunda.errors import from_problem
from app.camunda.face import BASE

LARGEST_HEAD_BYTES: Final = 32 << 10
MOST_HEADERS: Final = 100
LONGEST_URL: Final = 8 << 10
ARRIVAL_SECONDS: Final = 30.0


class BoundedProtocol(HttpToolsProtocol):
    """Answers 431 or 414 to heads that are too large, hangs up on requests that do not arrive in time, and takes no
    offer of another protocol: it reads such a request as if it made none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False  # uvicorn's would write query strings wherever the root logger has a handler
        self._head_bytes = 0
        self._refused = False
        self._arrival: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_arrival()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while not self._refused:
            try:
                self._feed(rest)
            except httptools.HttpParserUpgrade as offer:
                if self.parser.get_method() == b"CONNECT":
                    return
                head = self._head_without_offer()
                self.parser = httptools.HttpRequestParser(self)  # ours took the body for another protocol
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
                self._feed(head)
                rest = rest[offer.args[0] :]
            else:
                return

    def _feed(self, data: bytes | memoryview) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.send_400_response("")

    def _head_without_offer(self) -> bytes:
        """The head that was just read, as a client sends it that can nothing else."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                value = b",".join(token for token in value.split(b",") if token.strip().lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._expect_arrival()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_URL:
            self._refuse(414, "the address is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > LARGEST_HEAD_BYTES or len(self.headers) >= MOST_HEADERS:
            self._refuse(431, "the headers are too many or too large")
        if not self._refused:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._refused and not self._makes_offer():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._arrived()
        if not self._refused and not self._makes_offer():
            super().on_message_complete()

    def _makes_offer(self) -> bool:
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def _expect_arrival(self) -> None:
        self._arrived()
        self._arrival = self.loop.call_later(ARRIVAL_SECONDS, self._hang_up)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        if self._refused:
            return
        self._refused = True
        self._answer_and_close(Problem(status, detail, code="too_large"))

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls when the bytes are no HTTP; its own answer is plain text."""
        self._answer_and_close(Problem(400, "this is not HTTP that we take"))

    def _answer_and_close(self, problem: Problem) -> None:
        """In the shape of the face that was asked, as far as that is known."""
        is_camunda = bytes(getattr(self, "url", b"")).startswith(BASE.encode())
        answer = from_problem(problem).response() if is_camunda else problem.response()
        body, media_type = bytes(answer.body), answer.headers["content-type"].encode()
        head = b"content-type: %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (media_type, len(body))
        self.transport.write(STATUS_LINE[problem.status] + head + body)
        self.transport.close()
