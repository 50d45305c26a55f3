import dataclasses

from app.settings import Settings
from workers.celery_app import make_app, transport_options
from workers.roster import CHORES


def test_messages_in_flight_are_kept_apart_from_those_of_the_fleets(settings: Settings) -> None:
    with make_app(settings) as app, app.connection_for_write() as connection:
        channel = connection.channel()
        assert channel.unacked_key == "celeriac.unacked"
        assert channel.unacked_index_key == "celeriac.unacked_index"
        assert channel.unacked_mutex_key == "celeriac.unacked_mutex"


def test_no_connection_to_redis_waits_for_ever(settings: Settings) -> None:
    with make_app(settings) as app, app.connection_for_write() as connection:
        assert connection.channel().socket_timeout == 5
        assert app.conf.broker_connection_max_retries is None


def test_a_broker_that_is_no_redis_gets_no_options_of_redis() -> None:
    assert transport_options("amqp://broker") == {}
    assert transport_options("rediss://broker")
    assert transport_options("redis+socket:///run/redis.sock")


def test_nothing_is_connected_before_it_is_used(settings: Settings) -> None:
    make_app(dataclasses.replace(settings, broker_url="redis://127.0.0.1:1/0"))


def test_each_chore_has_its_own_name_and_queue() -> None:
    assert len({chore.name for chore in CHORES}) == len({chore.queue for chore in CHORES}) == len(CHORES)
    assert all(chore.run.__name__ == chore.name for chore in CHORES)
