"""What a worker's start does to the settings of the user's broker."""

from typing import Any

import pytest
import redis
from celery import Celery

from celeriac.celery._broker import RingFailed, prepare_broker, ring
from tests.workers.ring_rows import rung_types


def app(broker: str = "redis://127.0.0.1:1/0", **settings: Any) -> Celery:
    app = Celery("users", broker=broker, set_as_current=False)
    app.conf.update(settings)
    return app


def test_a_worker_gets_time_outs_and_reconnects_for_ever() -> None:
    conf = app().conf
    prepare_broker(conf)
    assert conf.broker_transport_options["socket_timeout"] == 10
    assert conf.broker_channel_error_retry
    assert conf.broker_connection_max_retries is None


def test_what_the_user_has_set_stays() -> None:
    conf = app(
        broker_transport_options={"socket_timeout": 3, "visibility_timeout": 60},
        broker_connection_max_retries=7,
        broker_channel_error_retry=False,
    ).conf
    prepare_broker(conf)
    assert conf.broker_transport_options["socket_timeout"] == 3
    assert conf.broker_transport_options["visibility_timeout"] == 60
    assert conf.broker_connection_max_retries == 7
    assert not conf.broker_channel_error_retry


def test_another_broker_gets_no_options_of_redis() -> None:
    conf = app("amqp://127.0.0.1:1//").conf
    prepare_broker(conf)
    assert conf.broker_transport_options == {}
    assert not conf.broker_channel_error_retry


def test_a_ring_goes_to_its_queue_whatever_the_routes_of_the_app(redis_url: str) -> None:
    routed = app(redis_url, task_routes={"*": "elsewhere"}, task_create_missing_queues=False)
    ring(routed, "fleet", "print")
    routed.close()
    assert rung_types(redis_url, "fleet") == ["print"]
    with redis.Redis.from_url(redis_url) as client:
        assert not client.exists("elsewhere")


def test_a_broker_that_is_away_is_said_so_at_once() -> None:
    with pytest.raises(RingFailed):
        ring(app(), "fleet", "print")
