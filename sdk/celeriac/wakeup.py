"""A wake-up after the commit, so that waiting workers hear of new tasks in milliseconds.

It needs Redis (`celeriac[redis]`) and SQLAlchemy, and it is only a hint: without it, or when Redis is down, workers
find the tasks at the server's next look at the database, about a second later. So a commit neither fails nor waits
because of it: the message leaves from a thread of its own, which gives up after a quarter of a second.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from celeriac._callers_connection import NEW_TYPES

if TYPE_CHECKING:
    from redis import Redis
    from sqlalchemy.orm import Session, sessionmaker

CHANNEL: Final = "celeriac:wake"
SECONDS: Final = 0.25
log = logging.getLogger("celeriac.wakeup")


def ring_after_commit(sessions: Session | sessionmaker[Any] | type[Session], redis_url: str) -> None:
    """From now on, each commit of these sessions that enqueued or woke tasks rings on `redis_url`.

    `sessions` is one Session, a sessionmaker or a Session class. For asyncio give `session.sync_session`, or a Session
    class of your own, which async_sessionmaker takes as `sync_session_class`.
    """
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
    from sqlalchemy import event

    client = Redis.from_url(
        redis_url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=Retry(NoBackoff(), 0)
    )
    ringing = _Ringing(client)

    def after_commit(session: Session) -> None:
        # The release of a savepoint is no commit yet.
        if not session.in_nested_transaction() and (task_types := session.info.pop(NEW_TYPES, None)):
            ringing.ring(task_types)

    def after_rollback(session: Session) -> None:
        if not session.in_nested_transaction():
            session.info.pop(NEW_TYPES, None)

    event.listen(sessions, "after_commit", after_commit)
    event.listen(sessions, "after_rollback", after_rollback)


class _Ringing:
    """At most one message is on its way; what comes meanwhile leaves together in the next one."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._pending: set[str] = set()
        self._busy = False
        self._turn = threading.Lock()

    def ring(self, task_types: Iterable[str]) -> None:
        with self._turn:
            self._pending.update(task_types)
            if self._busy:
                return
            self._busy = True
        threading.Thread(target=self._send_all, name="celeriac-wakeup", daemon=True).start()

    def _send_all(self) -> None:
        while task_types := self._next():
            self._send(task_types)

    def _next(self) -> list[str]:
        with self._turn:
            task_types, self._pending = sorted(self._pending), set()
            self._busy = bool(task_types)
            return task_types

    def _send(self, task_types: list[str]) -> None:
        from redis.exceptions import RedisError

        try:
            self._client.publish(CHANNEL, json.dumps(task_types))
        except (RedisError, OSError) as failure:
            log.info("wake-up not sent, workers will find the tasks by themselves: %s", failure)
