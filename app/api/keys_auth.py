"""API keys: what they look like, and who stands behind one. Only the hash of a key ever leaves this module."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from app.api.rights import Principal

PREFIX: Final = "clrc_"
LOOKUP_SECONDS: Final = 2.0
"""How long a look-up is believed, and so how long a revoked key may still work."""
MOST_REMEMBERED: Final = 10_000

_SHAPE: Final = re.compile(r"clrc_[A-Za-z0-9_-]{22,128}")

FindKey = Callable[[bytes], Awaitable[Principal | None]]


def make_key() -> str:
    """A new key of 256 random bits, as it is shown to its owner once."""
    return PREFIX + secrets.token_urlsafe(32)


def key_hash(key: str) -> bytes:
    """What is stored of a key: SHA-256 needs no salt or stretching for 256 random bits."""
    return hashlib.sha256(key.encode()).digest()


def is_key(text: str) -> bool:
    return _SHAPE.fullmatch(text) is not None


@dataclass(frozen=True)
class _LookUp:
    until: float
    found: asyncio.Task[Principal | None]

    @property
    def is_usable(self) -> bool:
        """Still fresh, and not one that failed (the database was gone): that is asked again at once."""
        if self.until <= time.monotonic():
            return False
        return not self.found.done() or (not self.found.cancelled() and self.found.exception() is None)


class KeyRing:
    """Looks keys up by their hash; remembers answers, also "unknown", for LOOKUP_SECONDS.

    A thousand polls with the same key that arrive together cost one look-up.
    """

    def __init__(self, find: FindKey) -> None:
        self._find = find
        self._known: OrderedDict[bytes, _LookUp] = OrderedDict()

    async def principal(self, key: str) -> Principal | None:
        """Who holds this key; None when it is unknown, revoked or expired. Unavailable when nobody can tell."""
        digest = key_hash(key)
        look_up = self._known.get(digest)
        if look_up is None or not look_up.is_usable:
            look_up = self._start(digest)
        found = look_up.found.result() if look_up.found.done() else await asyncio.shield(look_up.found)
        if found is None or (found.expires_at is not None and found.expires_at <= time.time()):
            return None
        return found

    def _start(self, digest: bytes) -> _LookUp:
        look_up = _LookUp(time.monotonic() + LOOKUP_SECONDS, asyncio.ensure_future(self._ask(digest)))
        self._known[digest] = look_up
        self._known.move_to_end(digest)
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return look_up

    async def _ask(self, digest: bytes) -> Principal | None:
        return await self._find(digest)
