"""The Celery broker as beat and the chores see it: how much lies in a queue, and put these messages there.

Messages are hints, so nothing is retried here and nothing waits long: what cannot be sent now is sent by a later tick.
Messages go through the default exchange straight to the queue of their name. Queues are not declared: the workers that
consume them do that, with arguments of their own (RabbitMQ would refuse ours when they differ).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import kombu.exceptions
import redis.exceptions
from celery import Celery
from kombu.connection import Connection
from kombu.messaging import Producer
from kombu.utils.uuid import uuid

BATCH: Final = 200
LONGEST_QUEUE_NAME_BYTES: Final = 255  # AMQP's limit for a routing key; the same for all brokers
LARGEST_MESSAGE_BYTES: Final = 64 * 1024
AMQP_QUEUE_DECLARE: Final = (50, 10)
KEY_REFUSED: Final = re.compile(r"permissions to access (a|one of the) key")

log = logging.getLogger(__name__)


class BrokerDown(Exception):
    """The broker did not take the messages, or we do not know: not the messages' fault, send them again later."""


class MessageRejected(Exception):
    """This message can never be sent; the text says why."""


@dataclass(frozen=True)
class Message:
    """A Celery task message: `task` with `arguments`, for whoever consumes `queue`."""

    queue: str
    task: str
    arguments: tuple[Any, ...] = ()


class Broker:
    """One connection to the broker of `app`, opened when first needed and again after a failure.

    Used by one thread at a time.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Connection | None = None
        self._channel: Any = None

    def queued(self, queue: str) -> int:
        """How many messages lie in `queue` unconsumed; 0 for one that does not exist.

        Raises BrokerDown, and MessageRejected when this queue is none for us.
        """
        try:
            return int(self._open_channel().queue_declare(queue=queue, passive=True).message_count)
        except Exception as failure:
            if str(getattr(failure, "reply_code", getattr(failure, "code", ""))) == "404":
                self._channel = None  # an AMQP server closes the channel with this answer
                return 0
            raise self._failed(failure) from failure

    def publish(self, messages: Iterable[Message]) -> None:
        """Put all `messages` into their queues. Raises BrokerDown (none, some or all may be there), MessageRejected."""
        prepared = [(message, self.encode(message)) for message in messages]
        try:
            producer: Any = Producer(self._open_channel(), auto_declare=False)  # type: ignore[no-untyped-call]
            with producer.batch(BATCH):
                for message, task in prepared:
                    producer.publish(
                        task.body,
                        headers=task.headers,
                        exchange="",
                        routing_key=message.queue,
                        serializer="json",
                        **task.properties,
                    )
        except Exception as failure:
            raise self._failed(failure) from failure

    def encode(self, message: Message) -> Any:
        """`message` as Celery sends it. Raises MessageRejected for what no broker takes."""
        if not message.queue or len(message.queue.encode()) > LONGEST_QUEUE_NAME_BYTES:
            raise MessageRejected(f"a queue name has 1 to {LONGEST_QUEUE_NAME_BYTES} bytes")
        if not message.queue.isprintable():
            raise MessageRejected("a queue name has printable characters only")
        try:
            size = len(json.dumps(message.arguments))
        except (TypeError, ValueError) as wrong:
            raise MessageRejected(f"the arguments are not JSON: {wrong}") from wrong
        if size > LARGEST_MESSAGE_BYTES:
            raise MessageRejected(f"{size} bytes of arguments, but {LARGEST_MESSAGE_BYTES} are the limit")
        return self._app.amqp.as_task_v2(uuid(), message.task, args=message.arguments, kwargs={})

    def close(self) -> None:
        """Give the connection back; the next call opens a new one."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):  # kombu raises whatever its transport meets, and we are done with it
                connection.release()  # type: ignore[no-untyped-call]

    def _open_channel(self) -> Any:
        if self._connection is None:
            self._connection = self._app.connection_for_write(connect_timeout=5)
        if self._channel is None:
            # kombu's own connect() sleeps for 2 s between its two attempts.
            self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
            self._channel = self._connection.channel()
        return self._channel

    def _failed(self, failure: Exception) -> Exception:
        """The error to raise for `failure`; after either kind the connection is not trusted any more."""
        self.close()
        if is_fault_of_message(failure):
            return MessageRejected(describe(failure))
        return BrokerDown(describe(failure))


def is_fault_of_message(failure: BaseException) -> bool:
    """Whether sending again is of no use: every other failure is the broker's, and passes."""
    if isinstance(failure, kombu.exceptions.BatchPublishError) and failure.__cause__ is not None:
        failure = failure.__cause__
    unencodable = isinstance(failure, kombu.exceptions.EncodeError | redis.exceptions.DataError | UnicodeError)
    return unencodable or is_about_queue(failure)


def is_about_queue(failure: BaseException) -> bool:
    """Whether the broker refused this one queue; others may take their messages."""
    if isinstance(failure, redis.exceptions.NoPermissionError):
        return KEY_REFUSED.search(str(failure)) is not None  # not so when we may not use a command at all
    # WRONGTYPE: the name of the queue is taken in Redis by something that is not a list.
    # Not so when Redis is full, read-only, loading or wants a password: those are ResponseErrors as well.
    if isinstance(failure, redis.exceptions.ResponseError):
        return "WRONGTYPE" in str(failure)
    # An AMQP server says that it is another connection's own, or not for us to see.
    asked_for_queue = getattr(failure, "method_sig", None) == AMQP_QUEUE_DECLARE
    return asked_for_queue and getattr(failure, "code", None) in (403, 405, 406)


def describe(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure.__cause__ or failure}"


def one_by_one(broker: Broker, messages: Sequence[Message]) -> dict[int, str]:
    """Publish each message alone; the answer has the reason for each index that was rejected. Raises BrokerDown."""
    rejected: dict[int, str] = {}
    for index, message in enumerate(messages):
        try:
            broker.publish([message])
        except MessageRejected as reason:
            rejected[index] = str(reason)
    return rejected
