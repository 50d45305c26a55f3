"""Maintenance workers and beats as processes."""

import signal
import time

import kombu.pools
import psutil
import pytest
import redis
from sqlalchemy import Connection, text

from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from app.settings import Settings
from tests.workers.conftest import StartProcess
from tests.workers.probes import given_back, hold, losses, ready, ticks_are_consumed, until_ready
from tests.workers.ring_rows import enqueue, forget_holds, register_fleet_type, rung_types
from workers import health
from workers.celery_app import make_app
from workers.roster import CHORES


def test_two_workers_and_two_beats_double_nothing(
    start: StartProcess, conn: Connection, redis_url: str, settings: Settings
) -> None:
    workers = [start("maintenance"), start("maintenance")]
    beats = [start("beat"), start("beat")]
    for worker in workers:
        until_ready(worker)
    register_fleet_type(conn, "print", "fleet")
    hold(conn, 500)
    for _ in range(10):
        enqueue(conn, "print")
    wait_until(lambda: ready(conn) == 510 and rung_types(redis_url, "fleet"), what="all leases and rings")
    assert set(losses(conn).values()) == {1}
    assert len(losses(conn)) == 500
    wait_until(lambda: not conn.execute(text("select from celeriac.outbox")).all(), what="an empty outbox")
    assert all(process.is_running for process in (*workers, *beats))


def test_chores_go_on_when_beat_is_killed(maintenance: Process, beat: Process, conn: Connection) -> None:
    given_back(conn)
    beat.kill()
    for _ in range(3):
        given_back(conn)


def test_garbage_in_its_queue_does_not_end_the_chores(maintenance: Process, conn: Connection, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for garbage in ("not json", "{}", "[]", '{"body": "x", "headers": {}, "properties": {}}'):
            client.lpush(CHORES[0].queue, garbage)
            wait_until(lambda: not client.llen(CHORES[0].queue), what="the garbage to be taken")
            given_back(conn)
    wait_until(lambda: ticks_are_consumed(redis_url), what="ticks to be consumed again")
    assert maintenance.is_running


def test_ticks_of_beat_run_the_chores(maintenance: Process, beat: Process, conn: Connection) -> None:
    def one_ran_in_a_thread_of_celery() -> bool:
        given_back(conn)
        return "ThreadPoolExecutor-0_" in maintenance.output()

    wait_until(one_ran_in_a_thread_of_celery, what="a tick to give a lease back")


def test_nobody_who_reaches_the_broker_can_stop_or_starve_the_worker(
    maintenance: Process, conn: Connection, settings: Settings
) -> None:
    kombu.pools.reset()  # of connections by address: those that an earlier test left may be dead
    with make_app(settings) as app:
        for command in ("shutdown", "pool_shrink", "cancel_consumer", "add_consumer", "rate_limit", "revoke"):
            app.control.broadcast(command)
        answers = app.control.ping(timeout=5, limit=1)
    assert list(answers[0].values()) == [{"ok": "pong"}]
    given_back(conn)
    assert maintenance.is_running


def test_dispatchers_that_are_killed_lose_no_ring(start: StartProcess, conn: Connection, redis_url: str) -> None:
    names = [f"type-{number:02}" for number in range(50)]
    for name in names:
        register_fleet_type(conn, name, "fleet")
    for batch in range(5):
        enqueue(conn, *names[10 * batch : 10 * batch + 10])
        worker = start("maintenance")
        worker.wait_for(lambda batch=batch: len(rung_types(redis_url, "fleet")) > 10 * batch, what="some rings")
        worker.kill()
        forget_holds(conn)
    until_ready(start("maintenance"))
    wait_until(lambda: not conn.execute(text("select from celeriac.outbox")).all(), what="an empty outbox")
    assert set(rung_types(redis_url, "fleet")) == set(names)


def test_a_frozen_worker_does_no_harm_when_it_wakes(start: StartProcess, conn: Connection) -> None:
    frozen = until_ready(start("maintenance"))
    given_back(conn)
    frozen.freeze()
    other = until_ready(start("maintenance"))
    hold(conn, 100)
    wait_until(lambda: ready(conn) == 101)
    frozen.thaw()
    given_back(conn)
    other.kill()
    given_back(conn)
    assert losses(conn).total() == 1 + 100 + 1 + 1
    assert set(losses(conn).values()) == {1}


@pytest.mark.parametrize("without_broker", [False, True], ids=["broker up", "broker down"])
def test_the_worker_ends_with_zero_when_asked(
    maintenance: Process, valkey: EmbeddedValkey, without_broker: bool
) -> None:
    if without_broker:
        valkey.stop()
        maintenance.wait_for_output("Connection refused")
    maintenance.send(signal.SIGTERM)
    assert maintenance.wait() == 0


def test_the_worker_leaves_a_sign_of_life_and_no_file_where_it_was_started(
    maintenance: Process, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance.wait_for(lambda: health.check_maintenance(settings))
    assert maintenance.cwd is not None
    assert list(maintenance.cwd.iterdir()) == []
    maintenance.freeze()
    monkeypatch.setattr(health, "FRESH_SECONDS", 0.5)
    wait_until(lambda: not health.check_maintenance(settings), what="the sign to grow old")


def test_a_storm_of_wake_ups_does_not_become_a_storm_of_queries(
    maintenance: Process, conn: Connection, redis_url: str
) -> None:
    def transactions() -> int:
        conn.execute(text("select pg_stat_clear_snapshot()"))
        return conn.execute(
            text("select xact_commit from pg_stat_database where datname = current_database()")
        ).scalar_one()

    before, started = transactions(), time.monotonic()
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(10_000):
            client.publish("celeriac:wake", '["mail"]')
    seconds = time.monotonic() - started
    given_back(conn)
    assert psutil.Process(maintenance.pid).num_threads() < 40
    assert transactions() - before < 100 * (seconds + 10)
