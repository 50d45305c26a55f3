"""Outbox rows and broker queues as the tests see them."""

import base64
import json
from typing import Any

import redis
from sqlalchemy import Connection, text

from db import call


def register_fleet_type(conn: Connection, task_type: str, queue: str) -> None:
    """A task type that a Celery fleet serves."""
    call.one(conn, "register_task_type", name=task_type, delivery="celery", queue=queue)


def enqueue(conn: Connection, *task_types: str) -> None:
    call.rows(conn, "enqueue_tasks", tasks=call.json_list([{"task_type": name} for name in task_types]))


def write_ring(conn: Connection, key: str, payload: object) -> None:
    """An outbox row as no function of ours would write it."""
    conn.execute(
        text(
            "insert into celeriac.outbox (channel, key, payload, due_at, created_at)"
            " values ('ring', :key, cast(:payload as jsonb), celeriac.now(), celeriac.now())"
        ),
        {"key": key, "payload": json.dumps(payload)},
    )


def outbox(conn: Connection) -> list[Any]:
    return list(conn.execute(text("select * from celeriac.outbox order by id")).all())


def rung_types(redis_url: str, queue: str) -> list[str]:
    """The task types named by the rings in a queue, in no order."""
    with redis.Redis.from_url(redis_url) as client:
        messages = [json.loads(message) for message in client.lrange(queue, 0, -1)]
    bodies = [json.loads(base64.b64decode(message["body"])) for message in messages]
    assert all(message["headers"]["task"] == "celeriac.ring" for message in messages)
    return sorted(body[0][0] for body in bodies)


def forget_holds(conn: Connection) -> None:
    """Let the time pass for which rows are held or put off."""
    conn.execute(text("update celeriac.outbox set due_at = created_at where parked_at is null"))
