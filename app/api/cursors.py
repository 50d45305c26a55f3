"""Cursors of lists: opaque to callers, and good only for the list they came from.

A cursor is where the last page ended (an id, or a place), and a checksum over it and the question (filters, order,
rights). It is no secret, since it only moves the start of a page within what the caller may see; the checksum finds
mistakes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Hashable
from typing import Final

from app.api.problems import Problem

_CHECK_BYTES: Final = 8


def write_cursor(last: bytes, question: Hashable) -> str:
    return base64.urlsafe_b64encode(_check(last, question) + last).decode()


def read_cursor(text: str, question: Hashable) -> bytes:
    """Where the page before ended; 422 when the cursor was changed or belongs to another list."""
    try:
        raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise _foreign() from None
    last = raw[_CHECK_BYTES:]
    if raw[:_CHECK_BYTES] != _check(last, question):
        raise _foreign()
    return last


def _check(last: bytes, question: Hashable) -> bytes:
    return hashlib.sha256(repr((last, question)).encode()).digest()[:_CHECK_BYTES]


def _foreign() -> Problem:
    return Problem(422, "this cursor does not belong to this list", field="cursor")
