import dataclasses
import functools
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis

from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from app.settings import Settings, SettingsError
from tests.workers.conftest import StartProcess
from workers import beat, health
from workers.beat import TickScheduler, make_schedule
from workers.broker import Broker
from workers.celery_app import make_app
from workers.roster import CHORES

SECONDLY = [chore for chore in CHORES if chore.period_seconds == 1]


@pytest.fixture
def broker(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def scheduler(settings: Settings) -> Iterator[TickScheduler]:
    scheduler = make_scheduler(settings)
    yield scheduler
    scheduler.close()


def make_scheduler(settings: Settings) -> TickScheduler:
    app = make_app(settings)
    app.conf.beat_schedule = make_schedule(app)
    return TickScheduler(app, settings=settings, broker=Broker(app), max_interval=1)


def ticks(broker: redis.Redis) -> dict[str, int]:
    return {chore.name: int(broker.llen(chore.queue)) for chore in CHORES}


def send_all(scheduler: TickScheduler) -> None:
    for entry in scheduler.schedule.values():
        scheduler.apply_entry(entry)


def test_ticks_do_not_pile_up_while_nobody_consumes_them(scheduler: TickScheduler, broker: redis.Redis) -> None:
    for _ in range(10):
        send_all(scheduler)
    assert set(ticks(broker).values()) == {1}


def test_a_second_beat_adds_nothing_to_what_lies_there(
    scheduler: TickScheduler, broker: redis.Redis, settings: Settings
) -> None:
    second = make_scheduler(settings)
    for _ in range(5):
        send_all(scheduler)
        send_all(second)
    second.close()
    assert set(ticks(broker).values()) == {1}


def test_a_consumed_tick_is_followed_by_another(scheduler: TickScheduler, broker: redis.Redis) -> None:
    send_all(scheduler)
    broker.delete(SECONDLY[0].queue)
    send_all(scheduler)
    assert ticks(broker)[SECONDLY[0].name] == 1


def test_ticks_survive_a_clock_that_is_set_back(
    scheduler: TickScheduler, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def an_hour_ago() -> datetime:
        return datetime.fromtimestamp(real_time(), UTC) - timedelta(hours=1)

    real_time = time.time
    run_until_ticked(scheduler, broker)
    monkeypatch.setattr("time.time", lambda: real_time() - 3600)
    monkeypatch.setattr(scheduler.app, "now", an_hour_ago)
    run_until_ticked(scheduler, broker)
    run_until_ticked(scheduler, broker)


def run_until_ticked(scheduler: TickScheduler, broker: redis.Redis) -> None:
    """Turn the scheduler as beat does, until it has sent the next tick of a chore."""
    queue = SECONDLY[0].queue
    broker.delete(queue)

    def tick() -> bool:
        scheduler.tick()
        return bool(broker.llen(queue))

    wait_until(tick, 10, what="the next tick")


def test_a_tick_carries_no_expiry_that_another_clock_would_judge(scheduler: TickScheduler, broker: redis.Redis) -> None:
    send_all(scheduler)
    assert b'"expires": null' in broker.lindex(SECONDLY[0].queue, 0)


def test_the_schedule_goes_on_when_ticks_cannot_be_sent(
    scheduler: TickScheduler, valkey: EmbeddedValkey, broker: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    send_all(scheduler)
    valkey.stop()
    send_all(scheduler)
    send_all(scheduler)
    assert caplog.text.count("no ticks") == 1, "said once an outage"
    valkey.start()
    send_all(scheduler)
    assert set(ticks(broker).values()) == {1}


def test_beat_lives_through_an_outage_of_the_broker(
    start: StartProcess, valkey: EmbeddedValkey, settings: Settings, broker: redis.Redis
) -> None:
    valkey.stop()
    process = start("beat")
    process.wait_for_output("no ticks")
    valkey.start()
    process.wait_for(lambda: all(ticks(broker)[chore.name] for chore in SECONDLY), what="ticks")
    valkey.stop()
    process.wait_for(lambda: process.output().count("no ticks") == 2, what="noticing the second outage")
    valkey.start()
    process.wait_for(lambda: all(ticks(broker)[chore.name] for chore in SECONDLY), what="ticks")
    assert process.stop() == 0


def test_beat_leaves_a_sign_of_life_and_no_file_where_it_was_started(
    start: StartProcess, settings: Settings, valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not health.check_beat(settings)
    process = start("beat")
    process.wait_for(lambda: health.check_beat(settings), what="a sign of life")
    assert process.cwd is not None
    assert list(process.cwd.iterdir()) == []
    process.freeze()
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.5)
    wait_until(lambda: not health.check_beat(settings), what="the sign to grow old")
    process.thaw()
    monkeypatch.undo()
    wait_until(functools.partial(health.check_beat, settings))


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_beat_ends_with_zero_when_asked(start: StartProcess, settings: Settings, stop: signal.Signals) -> None:
    process = start("beat")
    process.wait_for(lambda: health.check_beat(settings), what="a sign of life")
    process.send(stop)
    assert process.wait() == 0


def test_beat_without_a_broker_says_what_to_set(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="CELERIAC_REDIS_URL"):
        beat.run(dataclasses.replace(settings, redis_url=None, broker_url=None))


def test_a_sign_from_before_a_reboot_is_no_sign(settings: Settings) -> None:
    health.leave_sign(settings, health.BEAT)
    assert health.check_beat(settings)
    (Path(settings.state_dir) / "beat.alive").write_text(repr(time.monotonic() + 1000))
    assert not health.check_beat(settings)
    (Path(settings.state_dir) / "beat.alive").write_text("garbage")
    assert not health.check_beat(settings)
