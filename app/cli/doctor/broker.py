"""Checks of Redis and of Celery's broker: are they there, and do they answer."""

from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, Severity
from app.cli.failures import one_line

if TYPE_CHECKING:
    from app.settings import Settings

ANSWER_SECONDS = 3.0


def redis_answers(settings: "Settings") -> list[Finding]:
    from redis import Redis
    from redis.exceptions import RedisError

    if settings.redis_url is None:
        what = "no Redis is set: nothing is woken, waiting polls look once a second"
        return [Finding("redis_answers", what, "CELERIAC_REDIS_URL", "set it for quick wake-ups", Severity.NOTE)]
    options = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
    try:
        with Redis.from_url(settings.redis_url, **options) as client:
            client.ping()
    except (RedisError, OSError) as error:
        what = f"Redis does not answer ({one_line(error)}); nothing is lost, wake-ups wait for the next poll"
        return [Finding("redis_answers", what, "CELERIAC_REDIS_URL", "start Redis or mend the URL")]
    return []


def broker_answers(settings: "Settings") -> list[Finding]:
    """Only a broker of its own; the Redis of the wake-ups has answered already."""
    if settings.broker_url is None:
        what = "no broker is set: beat, Flower and Celery fleets cannot run; maintenance keeps the time by itself"
        fix = "set CELERIAC_BROKER_URL or CELERIAC_REDIS_URL to use them"
        return [Finding("broker_answers", what, "CELERIAC_BROKER_URL", fix, Severity.NOTE)]
    if settings.broker_url == settings.redis_url:
        return []
    from kombu.connection import Connection
    from kombu.exceptions import OperationalError

    try:
        with Connection(settings.broker_url, connect_timeout=ANSWER_SECONDS) as connection:  # type: ignore[no-untyped-call]
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=ANSWER_SECONDS)
    except (OperationalError, OSError) as error:
        what = f"the broker does not answer ({one_line(error)})"
        return [Finding("broker_answers", what, "CELERIAC_BROKER_URL", "start the broker or mend the URL")]
    return []


CHECKS = [redis_answers, broker_answers]
