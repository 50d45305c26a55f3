"""Telling others that work got ready: after the commit, own polls at once, other processes by Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from app.api.hub import Hub
from app.bell import Bell


class Announcer:
    """`announce` never waits; `run` rings the bell for what has gathered since the last ring, in one message."""

    def __init__(self, hub: Hub, bell: Bell) -> None:
        self._hub = hub
        self._bell = bell
        self._gathered: set[str] = set()
        self._some = asyncio.Event()

    def announce(self, task_types: Iterable[str]) -> None:
        """Work of these types is ready and committed."""
        named = set(task_types)
        if named:
            self._hub.hint(named)
            self._gathered |= named
            self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            named, self._gathered = self._gathered, set()
            await self._bell.ring(named)

    async def listen(self) -> None:
        """Pass on what other processes ring."""
        async for task_types in self._bell.listen():
            self._hub.hint(task_types)
