"""Rings as the dispatcher sends them."""

import celery

from workers.broker import Broker, Message


def ring(broker_url: str, queue: str, *task_types: str) -> None:
    """Put a ring for each type into a Celery queue."""
    _publish(broker_url, [Message(queue, "celeriac.ring", (task_type,)) for task_type in task_types])


def send(broker_url: str, queue: str, task: str, *arguments: object) -> None:
    """Put a plain Celery task into a queue."""
    _publish(broker_url, [Message(queue, task, arguments)])


def _publish(broker_url: str, messages: list[Message]) -> None:
    broker = Broker(celery.Celery("test", broker=broker_url, set_as_current=False))
    try:
        broker.publish(messages)
    finally:
        broker.close()
