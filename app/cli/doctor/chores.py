"""Checks of who does the chores: is a maintenance worker there, and a beat."""

from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, Severity

if TYPE_CHECKING:
    from app.settings import Settings

PING_SECONDS = 2.0


def maintenance_lives(settings: "Settings") -> list[Finding]:
    """By its sign of life on this machine, or else by asking over the broker, which reaches all machines."""
    from workers.health import check_maintenance

    if check_maintenance(settings) or maintenance_answers(settings):
        return []
    fix = "start celeriac maintenance"
    if settings.broker_url is None:
        what = "no maintenance worker runs on this machine, and without a broker others cannot be asked"
        return [Finding("maintenance_lives", what, "CELERIAC_STATE_DIR", fix, Severity.NOTE)]
    what = "no maintenance worker answers: leases do not expire on time, nothing leaves the outbox"
    return [Finding("maintenance_lives", what, "broker", fix)]


def maintenance_answers(settings: "Settings") -> bool:
    from kombu.exceptions import OperationalError
    from redis.exceptions import RedisError

    from workers.celery_app import make_app

    if settings.broker_url is None:
        return False
    app = make_app(settings)
    try:
        asked = app.control.inspect(timeout=PING_SECONDS, pattern="maintenance-*", matcher="glob", limit=1)
        return bool(asked.ping())
    except (OperationalError, RedisError, OSError):
        # The check of the broker says so in its own words.
        return False
    finally:
        app.close()


def beat_lives(settings: "Settings") -> list[Finding]:
    """A beat leaves its sign on its own machine only, and maintenance goes on without it: a note."""
    from workers.health import check_beat

    if check_beat(settings):
        return []
    what = "no beat runs on this machine (another may have one); without any, maintenance keeps the time by itself"
    return [Finding("beat_lives", what, "CELERIAC_STATE_DIR", "start celeriac beat somewhere", Severity.NOTE)]


CHECKS = [maintenance_lives, beat_lives]
