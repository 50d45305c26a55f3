"""A wake-up leaves after the commit, or not at all; and never in anybody's way."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from sqlalchemy import orm

from app.dev.waiting import wait_until
from celeriac import enqueue, ring_after_commit


@pytest.fixture
def sessions(database_url: str) -> Iterator[orm.sessionmaker[Any]]:
    engine = sa.create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    yield orm.sessionmaker(engine)
    engine.dispose()


class Ear:
    """Everything that was rung, in order."""

    def __init__(self, redis_url: str) -> None:
        self._subscription = redis.Redis.from_url(redis_url).pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        self._subscription.subscribe("celeriac:wake")
        self._subscription.get_message(timeout=5)
        self.heard: list[list[str]] = []

    def has_heard(self, task_types: list[str]) -> bool:
        while message := self._subscription.get_message(timeout=0.01):
            self.heard.append(json.loads(message["data"]))
        return task_types in self.heard


def test_a_commit_rings_for_what_it_enqueued_and_a_rollback_does_not(
    sessions: orm.sessionmaker[Any], redis_url: str
) -> None:
    ring_after_commit(sessions, redis_url)
    ear = Ear(redis_url)
    with sessions() as session:
        enqueue(session, "rolled.back")
        session.rollback()
        enqueue(session, "media.move")
        with session.begin_nested():
            enqueue(session, "media.copy")
        assert not ear.has_heard(["media.copy", "media.move"])
        session.commit()
        wait_until(lambda: ear.has_heard(["media.copy", "media.move"]), what="the wake-up")
        session.execute(sa.text("select 1"))
        session.commit()
        enqueue(session, "media.last")
        session.commit()
        wait_until(lambda: ear.has_heard(["media.last"]), what="the last wake-up")
    assert ear.heard == [["media.copy", "media.move"], ["media.last"]]


def test_a_redis_that_never_answers_holds_no_commit_up(sessions: orm.sessionmaker[Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        ring_after_commit(sessions, f"redis://127.0.0.1:{deaf.getsockname()[1]}")
        deaf.settimeout(10)
        ids = set()
        for _ in range(20):
            with sessions.begin() as session:
                ids.add(enqueue(session, "media.copy").task_id)
        connection, _ = deaf.accept()  # it did try
        connection.close()
    assert len(ids) == 20


def test_a_redis_that_is_gone_fails_no_commit(sessions: orm.sessionmaker[Any]) -> None:
    ring_after_commit(sessions, "redis://127.0.0.1:1")
    with sessions.begin() as session:
        enqueue(session, "media.copy")
    with sessions() as session:
        assert session.execute(sa.text("select count(*) from celeriac.task_list")).scalar_one() == 1
