"""Wake-ups over Redis pub/sub: "there is new work of these task types", best effort.

Losing one costs latency and never work, since everybody who listens also polls. That is why ringing is allowed to
fail: it takes at most RING_SECONDS, never raises, and after a failure keeps quiet for a moment, so that a Redis which
hangs does not add a quarter of a second to every request. Listening is allowed to be late but not to be deaf: a
connection that looks open and is dead is found by a ping within LISTEN_IDLE_SECONDS + LISTEN_REPLY_SECONDS.

An empty list means "look at the database": what was rung while nobody listened is unknown after a (re)subscribe.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

CHANNEL: Final = "celeriac:wake"
RING_SECONDS: Final = 0.25
QUIET_SECONDS: Final = 1.0
LISTEN_IDLE_SECONDS: Final = 10.0
LISTEN_REPLY_SECONDS: Final = 5.0
MOST_TYPES: Final = 500
"""A message that would name more says "look at the database" instead."""

_FAILURES: Final = (RedisError, OSError, TimeoutError)

log = logging.getLogger(__name__)


class Bell:
    """The asynchronous bell: `ring` after a commit, `listen` for what others rang. Belongs to one event loop."""

    def __init__(self, redis_url: str | None) -> None:
        self._url = redis_url
        self._pending: set[str] = set()
        self._turn = asyncio.Lock()
        self._quiet_until = 0.0
        self._client = None if redis_url is None else redis.asyncio.Redis.from_url(redis_url, **_ring_options())

    async def ring(self, task_types: Iterable[str]) -> None:
        """Tell listeners that work of `task_types` may be ready; never raises, takes at most RING_SECONDS.

        Rings that come while another one is on its way travel together: one connection, however many requests.
        """
        self._pending.update(task_types)
        if self._client is None or not self._pending or time.monotonic() < self._quiet_until:
            self._pending.clear()
            return
        try:
            async with asyncio.timeout(RING_SECONDS), self._turn:
                if self._pending:
                    message = write_message(self._pending)
                    self._pending.clear()
                    await self._client.publish(CHANNEL, message)
        except _FAILURES as failure:
            self._quiet_until = time.monotonic() + QUIET_SECONDS
            log.warning("wake-up not sent: %r", failure)

    async def listen(self) -> AsyncIterator[list[str]]:
        """Yield the task types of each wake-up, and [] after every (re)subscribe. Ends at once without a redis_url."""
        if self._url is None:
            return
        failures = 0
        while True:
            client = redis.asyncio.Redis.from_url(self._url, **_listen_options())
            try:
                async for task_types in _subscription(client):
                    failures = 0
                    yield task_types
            except _FAILURES as failure:
                failures += 1
                log.warning("wake-ups cannot be heard, polling goes on: %r", failure)
            finally:
                await _close(client)
            await asyncio.sleep(min(5.0, 0.1 * 2 ** min(failures, 6)) * random.uniform(0.5, 1.0))  # noqa: S311

    async def aclose(self) -> None:
        if self._client is not None:
            await _close(self._client)


class SyncBell:
    """The bell of code without an event loop; it only rings. Threads may share it."""

    def __init__(self, redis_url: str | None) -> None:
        self._quiet_until = 0.0
        # Half the time a step: connect and publish together stay within RING_SECONDS.
        options = _ring_options() | {"socket_timeout": RING_SECONDS / 2, "socket_connect_timeout": RING_SECONDS / 2}
        self._client = None if redis_url is None else redis.Redis.from_url(redis_url, **options)

    def ring(self, task_types: Iterable[str]) -> None:
        """Tell listeners that work of `task_types` may be ready; never raises, takes about RING_SECONDS at most."""
        named = set(task_types)
        if self._client is None or not named or time.monotonic() < self._quiet_until:
            return
        try:
            self._client.publish(CHANNEL, write_message(named))
        except _FAILURES as failure:
            self._quiet_until = time.monotonic() + QUIET_SECONDS
            log.warning("wake-up not sent: %r", failure)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def write_message(task_types: Iterable[str]) -> str:
    """A wake-up as it travels: a JSON list of task types; too many to name become the empty list."""
    named = sorted(task_types)
    return json.dumps(named if len(named) <= MOST_TYPES else [])


def read_message(text: str | bytes) -> list[str]:
    """The task types of a wake-up; what cannot be read means "look at the database", like an empty list."""
    try:
        named = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(named, list) or not all(isinstance(task_type, str) for task_type in named):
        return []
    return named


async def _subscription(client: redis.asyncio.Redis) -> AsyncIterator[list[str]]:
    """The wake-ups of one connection until it fails; an idle one must answer a ping, or it counts as dead."""
    async with client.pubsub() as subscription:
        await subscription.subscribe(CHANNEL)
        asked = True  # the answer to SUBSCRIBE is due as well
        while True:
            seconds = LISTEN_REPLY_SECONDS if asked else LISTEN_IDLE_SECONDS
            message: dict[str, Any] | None = await subscription.get_message(timeout=seconds)
            if message is None and asked:
                raise TimeoutError("no answer from Redis, the connection is dead")
            if message is None:
                await subscription.ping()
            elif message["type"] == "subscribe":
                yield []
            elif message["type"] == "message":
                yield read_message(message["data"])
            asked = message is None


async def _close(client: redis.asyncio.Redis) -> None:
    try:
        await client.aclose()
    except _FAILURES as failure:
        log.debug("connection to Redis was gone before it was closed: %r", failure)


def _ring_options() -> dict[str, Any]:
    # One retry: the pooled connection may be one that Redis closed long ago. More would outlast the time box.
    return {
        "socket_timeout": RING_SECONDS,
        "socket_connect_timeout": RING_SECONDS,
        "retry": Retry(NoBackoff(), 1),
    }


def _listen_options() -> dict[str, Any]:
    # No read timeout, no retries of redis-py's own: `_subscription` decides when silence is death, `listen` retries.
    return {
        "socket_timeout": None,
        "socket_connect_timeout": LISTEN_REPLY_SECONDS,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
    }
