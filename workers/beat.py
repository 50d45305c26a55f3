"""Beat: asks for each chore once in its period.

Celery's own beat is deaf for an hour when the clock is set back by one, leaves a schedule file where it is started,
piles up ticks while no worker runs, and ends when the broker is away at the wrong moment. This scheduler counts by
the monotonic clock, keeps nothing, sends no tick while the last one lies unconsumed, and drops the tick it cannot
send.

Any number of beats may run: a chore that is asked for twice finds nothing to do the second time.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

from app.settings import Settings, SettingsError
from workers.broker import Broker, BrokerDown, Message, MessageRejected
from workers.celery_app import make_app
from workers.health import BEAT, leave_sign
from workers.logs import set_up_logging
from workers.roster import CHORES

LONGEST_SLEEP_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Be a beat until SIGTERM or SIGINT. Raises SettingsError without a broker: maintenance then needs no beat."""
    if settings.broker_url is None:
        raise SettingsError(["beat needs a broker: set CELERIAC_REDIS_URL or CELERIAC_BROKER_URL"])
    set_up_logging(settings)
    app = make_app(settings)
    app.conf.beat_schedule = make_schedule(app)
    scheduler = partial(TickScheduler, settings=settings, broker=Broker(app))
    app.Beat(scheduler_cls=scheduler, max_interval=LONGEST_SLEEP_SECONDS, quiet=True).run()
    log.info("beat ended")


def make_schedule(app: Celery) -> dict[str, dict[str, Any]]:
    """One entry a chore. Ticks carry no expiry: it would be judged by another machine's clock (docs/decisions/0010)."""
    return {
        chore.name: {
            "task": chore.task_name,
            "schedule": schedule(chore.period_seconds, nowfun=monotonic_now, app=app),
            "options": {"queue": chore.queue},
        }
        for chore in CHORES
    }


_START: Final = datetime.now(UTC), time.monotonic()


def monotonic_now() -> datetime:
    """A time of day that was right when this process started and grows evenly since, whoever sets the clock."""
    started_at, reading = _START
    return started_at + timedelta(seconds=time.monotonic() - reading)


class TickScheduler(Scheduler):  # type: ignore[misc]
    """Celery's scheduler with another way to send, which never blocks for long and never raises."""

    producer = None  # Celery's would wait here until the broker is back

    def __init__(self, *args: Any, settings: Settings, broker: Broker, **kwargs: Any) -> None:
        self._settings = settings
        self._broker = broker
        self._signed_at = float("-inf")
        self._broker_is_down = False
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One round: send what is due; answers the seconds to sleep."""
        seconds: float = super().tick(*args, **kwargs)
        if time.monotonic() - self._signed_at >= LONGEST_SLEEP_SECONDS:
            self._signed_at = time.monotonic()
            self._leave_sign()
        return seconds

    def apply_entry(self, entry: ScheduleEntry, producer: None = None) -> None:
        """Send the tick of `entry`, unless the last one was not consumed yet."""
        queue = entry.options["queue"]
        try:
            if self._broker.queued(queue) == 0:
                self._broker.publish([Message(queue, entry.task)])
            if self._broker_is_down:
                log.warning("the broker is back")
            self._broker_is_down = False
        except (BrokerDown, MessageRejected) as failure:
            # Once per outage: maintenance goes on without ticks, there is nothing to do about it here.
            if not self._broker_is_down:
                log.warning("no ticks: %s", failure)
            self._broker_is_down = True

    def close(self) -> None:
        super().close()
        self._broker.close()

    def _leave_sign(self) -> None:
        try:
            leave_sign(self._settings, BEAT)
        except OSError as failure:
            log.warning("cannot leave a sign of life in %s: %s", self._settings.state_dir, failure)
