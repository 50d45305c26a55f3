"""One hub a process: the long polls that wait, and which of them is woken when work arrives.

    hint(types) ──┐                      counts per type          oldest polls first, one per ready task
    tick, 1 s ────┴─► one `ready_types` query for all ─────────────► wake ─► the poll claims ─► settle(got)

A hint (a wake-up from Redis, or a write of this very process) says "look"; the counts in Postgres say how many polls
are woken. So 200 idle polls and one new task cost one count and one claim, and a lost hint costs at most a tick. With
nobody waiting there is no query at all.

Two things keep this honest. What a woken poll was promised is subtracted from the next counts until it has settled, so
that a second hint for the same task does not wake a second poll. And a poll that comes back empty although work was
ready (it registered other versions) makes its whole kind fruitless until the next hint or tick, and the next kind is
tried: work that nobody here can run costs one claim a kind and tick, and does not keep others from theirs.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

from db.errors import Unavailable

TICK_SECONDS: Final = 1.0
MOST_WAITING: Final = 10_000

log = logging.getLogger(__name__)

ReadyTypes = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]


class Place:
    """The place of one waiting poll: `room` is how many tasks it takes, `kind` what decides whether a task suits it.

    `picky`: ready work of its types may not suit it. `party`: those that have a limit of their own together.
    """

    def __init__(self, task_types: Sequence[str], room: int, kind: Hashable, picky: bool, party: str = "") -> None:
        self.task_types = task_types
        self.room = room
        self.kind = kind
        self.picky = picky
        self.party = party
        self.promised: str | None = None
        self.client_gone = False
        self._signal = asyncio.Event()

    async def woken(self, seconds: float) -> bool:
        """Wait for a wake-up, the client's leaving or the hub's closing; False when `seconds` passed first."""
        try:
            async with asyncio.timeout(seconds):
                await self._signal.wait()
        except TimeoutError:
            return False
        self._signal.clear()
        return True

    def leave(self) -> None:
        """The client has hung up."""
        self.client_gone = True
        self._signal.set()

    def wake(self) -> None:
        self._signal.set()


class Hub:
    """Who waits, for what, and since when. Belongs to one event loop; `run` must be running for polls to be woken."""

    def __init__(
        self, ready_types: ReadyTypes, most_waiting: int = MOST_WAITING, most_of: Mapping[str, int] | None = None
    ) -> None:
        self._ready_types = ready_types
        self._most_waiting = most_waiting
        self._most_of = most_of or {}
        self._places: dict[Place, None] = {}
        self._parties: Counter[str] = Counter()
        self._queues: dict[str, dict[Place, None]] = {}
        self._promised: Counter[str] = Counter()
        self._fruitless: set[Hashable] = set()
        self._hinted: set[str] | None = set()
        self._stirred = asyncio.Event()
        self._occupied = asyncio.Event()
        self.closed = False

    @property
    def waiting(self) -> int:
        return len(self._places)

    def enter(self, place: Place) -> bool:
        """Start to wait; False when the house is full, or has no more for this party. Oldest first, for each type."""
        most_of_party = self._most_of.get(place.party, self._most_waiting)
        if len(self._places) >= self._most_waiting or self._parties[place.party] >= most_of_party:
            return False
        self._places[place] = None
        self._parties[place.party] += 1
        self._line_up(place)
        self._occupied.set()
        return True

    def leave(self, place: Place) -> None:
        """Stop to wait. What was promised to it goes to the next."""
        if self._places.pop(place, 0) is None:
            self._parties[place.party] -= 1
        self._step_out(place)
        if place.promised is not None:
            self._fulfil(place)
            self._look_again()
        if not self._places:
            self._occupied.clear()

    def settle(self, place: Place, got: int) -> None:
        """A claim of this poll is over with `got` tasks; without any it waits on, at its place in the line."""
        was_promised = place.promised is not None
        self._fulfil(place)
        if was_promised and place.picky and not got:
            self._fruitless.add(place.kind)
            self._look_again()

    def hint(self, task_types: Iterable[str]) -> None:
        """Work of these types may be ready; of any type when there is none named."""
        named = set(task_types)
        if not named:
            self._hinted = None
        elif self._hinted is not None:
            self._hinted |= named
        self._fruitless.clear()
        self._stirred.set()

    def close(self) -> None:
        """Answer all polls now: the process is about to stop."""
        self.closed = True
        for place in list(self._places):
            place.wake()

    async def run(self) -> None:
        """Turn hints and ticks into wake-ups until cancelled; a lost database is waited out."""
        next_tick = time.monotonic()
        while True:
            await self._occupied.wait()
            if await self._stirred_before(next_tick):
                named = self._take_hints()
            else:
                next_tick = time.monotonic() + TICK_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311
                self._fruitless.clear()
                named = None
            try:
                await self._wake_for(named)
            except Unavailable as failure:
                log.warning("cannot look for ready work: %s", failure)
                await asyncio.sleep(TICK_SECONDS * random.uniform(0.2, 0.5))  # noqa: S311

    async def _stirred_before(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await self._stirred.wait()
        except TimeoutError:
            return False
        return True

    def _take_hints(self) -> set[str] | None:
        named, self._hinted = self._hinted, set()
        self._stirred.clear()
        return named

    def _look_again(self) -> None:
        """Another round, without forgetting what has just been found fruitless."""
        self._hinted = None
        self._stirred.set()

    async def _wake_for(self, named: set[str] | None) -> None:
        awaited = [name for name in (self._queues if named is None else named) if name in self._queues]
        if not awaited:
            return
        ready = await self._ready_types(awaited)
        for task_type, count in ready.items():
            self._wake_oldest(task_type, count - self._promised[task_type])

    def _wake_oldest(self, task_type: str, count: int) -> None:
        for place in self._queues.get(task_type, ()):
            if count <= 0:
                break
            if place.promised is None and place.kind not in self._fruitless:
                place.promised = task_type
                self._promised[task_type] += place.room
                place.wake()
                count -= place.room

    def _fulfil(self, place: Place) -> None:
        if place.promised is not None:
            self._promised[place.promised] -= place.room
            if self._promised[place.promised] <= 0:
                del self._promised[place.promised]
            place.promised = None

    def _line_up(self, place: Place) -> None:
        for task_type in place.task_types:
            self._queues.setdefault(task_type, {})[place] = None

    def _step_out(self, place: Place) -> None:
        for task_type in place.task_types:
            queue = self._queues.get(task_type)
            if queue is not None and queue.pop(place, 0) is None and not queue:
                del self._queues[task_type]
