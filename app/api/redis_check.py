"""Whether Redis answers, for /health/ready: on a connection of its own, so that a dead one shows within a check."""

from __future__ import annotations

from typing import Final

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

_SECONDS: Final = 1.0


class RedisCheck:
    """`check` says ok, degraded or, without a URL, off; it never raises."""

    def __init__(self, redis_url: str | None) -> None:
        self._client = (
            None
            if redis_url is None
            else redis.asyncio.Redis.from_url(
                redis_url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS, retry=Retry(NoBackoff(), 0)
            )
        )

    async def check(self) -> str:
        if self._client is None:
            return "off"
        try:
            await self._client.ping()
        except (RedisError, OSError, TimeoutError):
            return "degraded"
        return "ok"

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
