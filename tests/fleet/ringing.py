"""Rings as the dispatcher sends them."""

import celery

from workers.broker import Broker, Message


def ring(redis_url: str, queue: str, *task_types: str) -> None:
    """Put a ring for each type into a Celery queue."""
    broker = Broker(celery.Celery("test", broker=redis_url, set_as_current=False))
    try:
        broker.publish([Message(queue, "celeriac.ring", (task_type,)) for task_type in task_types])
    finally:
        broker.close()
