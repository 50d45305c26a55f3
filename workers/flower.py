"""Flower, as safe as it can be: nobody looks without a password, nobody acts unless told so, no password is shown.

Flower sees Celery: fleets, their workers and what they run. Nothing of ours depends on it, and what it says is not the
truth about tasks; that is in Postgres.
"""

from __future__ import annotations

import logging
import signal
from typing import Any, Final

import tornado.web
from flower.app import Flower
from flower.options import options
from flower.urls import settings as flower_settings
from flower.views.monitor import Metrics

from app.settings import Settings, SettingsError
from workers.celery_app import make_app
from workers.logs import set_up_logging

FORGET_OFFLINE_SECONDS: Final = 3600

log = logging.getLogger(__name__)


class MetricsForUsers(Metrics):  # type: ignore[misc]
    """Flower's /metrics, which names workers and task types, for those who may log in."""

    @tornado.web.authenticated
    async def get(self) -> None:
        await super().get()


def run(settings: Settings) -> None:
    """Serve Flower on `settings.host` and `settings.flower_port` until SIGTERM or SIGINT.

    Raises SettingsError without a broker, and when everybody could look in and nobody said that this is wanted.
    """
    check(settings)
    set_up_logging(settings)
    logging.getLogger("tornado.access").setLevel(logging.WARNING)
    apply_options(settings)
    server = Flower(capp=make_app(settings), options=options, **flower_settings)
    # Handlers added later come first.
    server.add_handlers(".*", [(r"/metrics", MetricsForUsers)])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    port = server.start_http_server()
    log.info("flower listens on %s:%s, broker %s", settings.host, port, server.broker_uri)
    try:
        server.start()
    finally:
        server.stop()


def check(settings: Settings) -> None:
    """Refuse to serve what should not be served; raises SettingsError."""
    if settings.broker_url is None:
        raise SettingsError(["flower needs a broker: set CELERIAC_REDIS_URL or CELERIAC_BROKER_URL"])
    if settings.flower_basic_auth is None and not settings.flower_open:
        raise SettingsError(
            [
                "flower would be open to everybody: set CELERIAC_FLOWER_BASIC_AUTH to user:password,"
                " or CELERIAC_FLOWER_OPEN to true when a proxy in front of it checks who comes"
            ]
        )


def apply_options(settings: Settings) -> None:
    """Flower's options are one object of its process; we start one Flower in ours."""
    options.address = settings.host
    options.port = settings.flower_port
    options.basic_auth = settings.flower_basic_auth.split(",") if settings.flower_basic_auth else []
    options.read_only = not settings.flower_controls
    options.purge_offline_workers = FORGET_OFFLINE_SECONDS


def _end(_number: int, _frame: Any) -> None:
    raise SystemExit(0)
