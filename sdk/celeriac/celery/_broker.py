"""What a fleet needs of the user's broker: connections that do not hang, and a way to ring.

kombu 5.7.0 lets a worker exit when Redis refuses connections while a message is unacknowledged: closing the channel
restores the message, and that asks the closed connection for its parameters. `keep_worker_alive` turns the
AttributeError into the connection error that it is. The server's own processes carry the same few lines: neither
distribution may import the other.

Every version of it lets a worker exit when something that is no message lies in one of its Redis queues, and the next
worker meets the rest of it. `pass_over_garbage` logs and drops what cannot be read, as Celery does with a message that
it can read and not understand.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import kombu
from kombu.exceptions import OperationalError
from kombu.utils.uuid import uuid

log = logging.getLogger("celeriac.fleet")

RING_TASK: Final = "celeriac.ring"
BROKEN_KOMBU: Final = "5.7.0"

# Without time-outs a half-open connection to Redis hangs a worker for ever.
REDIS_OPTIONS: Final = {
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERYS_RETRIES: Final = 100


class RingFailed(Exception):
    """The broker did not take a ring."""


def ring(app: Any, queue: str, task_type: str, passed: int = 0) -> None:
    """Put one ring into a queue, past the app's routes: to where the dispatcher puts its own. Raises RingFailed.

    `passed` is how many workers had no code for what it stands for.
    """
    message = app.amqp.as_task_v2(uuid(), RING_TASK, args=(task_type, passed) if passed else (task_type,), kwargs={})
    try:
        with app.connection_or_acquire() as connection:
            # Celery's own way to a producer tries for seconds, and meanwhile the slot of the pool does nothing.
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, interval_max=0)
            app.amqp.Producer(connection, auto_declare=False).publish(
                message.body,
                headers=message.headers,
                exchange="",
                routing_key=queue,
                serializer="json",
                retry=False,
                **message.properties,
            )
    except _errors_of_broker(app) as error:
        raise RingFailed(f"{type(error).__name__}: {error}") from error


def _errors_of_broker(app: Any) -> tuple[type[Exception], ...]:
    connection = app.connection_for_write()
    return (OperationalError, OSError, *connection.connection_errors, *connection.channel_errors)


def prepare_broker(conf: Any) -> None:
    """Settings that keep a worker alive through trouble with its broker, where the user has not set them."""
    if str(conf.broker_read_url or conf.broker_url or "").startswith(("redis", "sentinel")):
        conf.broker_transport_options = {**REDIS_OPTIONS, **(conf.broker_transport_options or {})}
        # A Redis that is full, or only to be read after a failover, says so in its answers: no reason to end.
        if not conf.value_set_for("broker_channel_error_retry"):
            conf.broker_channel_error_retry = True
        keep_worker_alive()
        pass_over_garbage()
    # Celery's default ends a worker after so many attempts to reach its broker.
    if conf.broker_connection_max_retries == CELERYS_RETRIES:
        conf.broker_connection_max_retries = None


def keep_worker_alive() -> None:
    """Patch kombu's Redis channel, once, and only in the version that needs it."""
    if kombu.__version__ != BROKEN_KOMBU:
        return
    import redis.exceptions
    from kombu.transport import redis as transport

    channel: Any = transport.Channel
    original = channel._connparams
    if getattr(original, "checks_connection", False):
        return

    def _connparams(self: Any, asynchronous: bool = False) -> Any:
        if getattr(self.connection, "client", None) is None:
            raise redis.exceptions.ConnectionError("the broker connection is closed already")
        return original(self, asynchronous)

    _connparams.checks_connection = True  # type: ignore[attr-defined]
    channel._connparams = _connparams


def pass_over_garbage() -> None:
    """Patch kombu's Redis transport, once, so that what is no message in a queue costs a line in the log."""
    from kombu.transport import redis as transport

    channel: Any = transport.Channel
    whole: Any = transport.Transport
    read, deliver = channel._brpop_read, whole._deliver
    if getattr(read, "passes_over_garbage", False):
        return

    def _brpop_read(self: Any, **options: Any) -> Any:
        try:
            return read(self, **options)
        except ValueError as error:  # neither UTF-8 nor JSON; it is out of the queue already
            log.error("dropped what is no message from a queue: %s", error)
            return True

    def _deliver(self: Any, message: Any, queue: str) -> Any:
        if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
            log.error("dropped what is no message from the queue %s", queue)
            return None
        return deliver(self, message, queue)

    _brpop_read.passes_over_garbage = True  # type: ignore[attr-defined]
    channel._brpop_read = _brpop_read
    whole._deliver = _deliver
