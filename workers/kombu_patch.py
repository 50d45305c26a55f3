"""Keep a worker alive when Redis refuses connections: a fix for kombu 5.7.0 alone.

When a broker connection fails while a message is unacknowledged, kombu closes the channel, closing restores the
message, and restoring asks the closed connection for its parameters: an AttributeError that no one takes for a
connection error, so the worker exits ("Unrecoverable error … 'NoneType' object has no attribute 'hostname'"). With a
connection error in its place the worker does what it does for all of them: it reconnects.
tests/workers/test_kombu_patch.py shows both.
"""

from __future__ import annotations

from typing import Any, Final

import kombu
import kombu.transport.redis
import redis.exceptions

BROKEN_VERSION: Final = "5.7.0"


def apply() -> bool:
    """Patch kombu's Redis channel once; True when this version needs it."""
    if kombu.__version__ != BROKEN_VERSION:
        return False
    channel: Any = kombu.transport.redis.Channel
    original = channel._connparams
    if getattr(original, "checks_connection", False):
        return True

    def _connparams(self: Any, asynchronous: bool = False) -> Any:
        if getattr(self.connection, "client", None) is None:
            raise redis.exceptions.ConnectionError("the broker connection is closed already")
        return original(self, asynchronous)

    channel._connparams = _connparams
    channel._connparams.checks_connection = True
    return True
