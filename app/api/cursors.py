"""Cursors of task lists: opaque to callers, and good only for the list they came from.

A cursor is the id that the last page ended with, and a checksum over it and the question (filters, order, rights). It
is no secret, since it only moves the start of a page within what the caller may see; the checksum finds mistakes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Hashable
from typing import Final
from uuid import UUID

from app.api.problems import Problem

_CHECK_BYTES: Final = 8


def write_cursor(last: UUID, question: Hashable) -> str:
    return base64.urlsafe_b64encode(last.bytes + _check(last, question)).decode()


def read_cursor(text: str, question: Hashable) -> UUID:
    """The id that the page before ended with; 422 when the cursor was changed or belongs to another list."""
    try:
        raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        last = UUID(bytes=raw[:16])
    except (ValueError, binascii.Error):
        raise _foreign() from None
    if raw[16:] != _check(last, question):
        raise _foreign()
    return last


def _check(last: UUID, question: Hashable) -> bytes:
    return hashlib.sha256(repr((last, question)).encode()).digest()[:_CHECK_BYTES]


def _foreign() -> Problem:
    return Problem(422, "this cursor does not belong to this list", field="cursor")
