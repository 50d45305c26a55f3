"""The Celery app of our own processes, with what a Celery worker needs to survive its broker.

`make_app` is a function of the settings: nothing is connected or read at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from celery import Celery
from kombu.entity import Queue

from app.settings import Settings
from workers import kombu_patch
from workers.roster import CHORES

NO_BROKER: Final = "memory://"
"""Stands for "there is none": our processes then send and consume nothing."""


def make_app(settings: Settings) -> Celery:
    """A Celery app on `settings.broker_url` that knows the queues of all chores."""
    kombu_patch.apply()
    app = Celery("celeriac", broker=settings.broker_url or NO_BROKER, set_as_current=False)
    app.conf.update(
        broker_transport_options=transport_options(settings.broker_url or NO_BROKER),
        broker_connection_timeout=5,
        # The default gives up after 100 attempts and ends the process.
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        # A Redis that is full, or only to be read after a failover, says so in its answers: that passes, too.
        broker_channel_error_retry=is_redis(settings.broker_url or NO_BROKER),
        # Late, with one message a thread: only so that no worker hoards ticks. Redelivery is the database's business.
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        task_ignore_result=True,
        result_backend=None,
        worker_disable_rate_limits=True,
        task_serializer="json",
        accept_content=["json"],
        enable_utc=True,
        timezone="UTC",
        # Logging is set up once, by us, for the whole process.
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        task_queues=[Queue(chore.queue) for chore in CHORES],  # type: ignore[no-untyped-call]
        task_create_missing_queues=False,
    )
    return app


def is_redis(broker_url: str) -> bool:
    return broker_url.startswith(("redis", "sentinel"))


def transport_options(broker_url: str) -> Mapping[str, Any]:
    """Options of kombu's transport. Without the time-outs a half-open connection to Redis hangs a process for ever."""
    if not is_redis(broker_url):
        return {}
    return {
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "visibility_timeout": 3600,
        "unacked_restore_throttle": 1,
        # Apart from the fleets' own: who shares these keys hands messages out again after *its* visibility timeout,
        # and a fleet's tasks may take longer than ours.
        "unacked_key": "celeriac.unacked",
        "unacked_index_key": "celeriac.unacked_index",
        "unacked_mutex_key": "celeriac.unacked_mutex",
        # Our messages have no priorities: one Redis key a queue in place of four.
        "priority_steps": [0],
    }
