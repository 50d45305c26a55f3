"""Reading a request body: only JSON, only so many bytes, only so long."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from app.api.problems import Problem

LARGEST_BODY_BYTES: Final = 4 << 20
BODY_SECONDS: Final = 20.0


def has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def check_head(headers: Headers) -> None:
    """415 unless the body is plain JSON; 413 when it says itself that it is too large."""
    media_type, _, parameters = ", ".join(headers.getlist("content-type")).partition(";")
    if media_type.strip().lower() != "application/json":
        raise Problem(415, "the Content-Type must be application/json")
    charset = parameters.lower().replace(" ", "").replace('"', "")
    if "charset=" in charset and "charset=utf-8" not in charset:
        raise Problem(415, "JSON is always UTF-8")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "no Content-Encoding is accepted")
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise Problem(415, "no Transfer-Encoding but chunked is accepted")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 15:
        raise Problem(400, "the Content-Length is not a number")
    if int(length) > LARGEST_BODY_BYTES:
        raise _too_large(LARGEST_BODY_BYTES)


async def read_body(receive: Receive, most_bytes: int = LARGEST_BODY_BYTES) -> bytes:
    """The whole body, counted as it comes in; 413 past `most_bytes`, 408 after BODY_SECONDS."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_all(receive, most_bytes)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None


async def _read_all(receive: Receive, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > most_bytes:
            raise _too_large(most_bytes)
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(most_bytes: int) -> Problem:
    return Problem(413, f"the body must not be larger than {most_bytes} bytes")
