"""Maintenance workers and beats as processes, while what they stand on is taken away."""

import dataclasses
import itertools
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest
import redis
from sqlalchemy import Connection, text

from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from app.settings import Settings
from db import call
from tests.workers.conftest import StartProcess
from tests.workers.ring_rows import enqueue, forget_holds, register_fleet_type, rung_types
from tests.workers.tcp_proxy import TcpProxy
from workers import health
from workers.celery_app import make_app
from workers.roster import CHORES

TYPE_NUMBERS = itertools.count(1)
"""A type for each probe: a task that loses its lease too often would fail."""


@pytest.fixture
def maintenance(start: StartProcess) -> Process:
    return until_ready(start("maintenance"))


@pytest.fixture
def beat(start: StartProcess, settings: Settings) -> Process:
    process = start("beat")
    process.wait_for(lambda: health.check_beat(settings), what="a sign of life")
    return process


def until_ready(process: Process) -> Process:
    process.wait_for_output("ready.")
    return process


def hold(conn: Connection, count: int = 1, lease_ms: int = 1) -> None:
    """New tasks whose leases are over at once, held by a worker that never comes back."""
    task_type = f"type-{next(TYPE_NUMBERS)}"
    enqueue(conn, *[task_type] * count)
    call.rows(conn, "fetch_tasks", worker_id="dead", task_types=[task_type], max_tasks=count, lock_duration_ms=lease_ms)


def ready(conn: Connection) -> int:
    return conn.execute(text("select count(*) from celeriac.queue where state = 'READY'")).scalar_one()


def given_back(conn: Connection, seconds: float = 30) -> None:
    """Hold a task and wait until some chore gives it back: the proof that chores run."""
    before = ready(conn)
    hold(conn)
    wait_until(lambda: ready(conn) > before, seconds, what="the lease to be given back")


def losses(conn: Connection) -> Counter[str]:
    """How often each task lost its lease, by its timeline."""
    rows = conn.execute(text("select task_id from celeriac.task_timeline where kind = 'lease_lost'"))
    return Counter(str(row.task_id) for row in rows)


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


def test_chores_do_not_need_a_broker(start: StartProcess, conn: Connection, settings: Settings) -> None:
    process = start("maintenance", dataclasses.replace(settings, redis_url=None, broker_url=None))
    for _ in range(3):
        given_back(conn)
    for number in (signal.SIGTERM, signal.SIGINT):
        process.send(number)
        assert process.wait() == 0
        if number is signal.SIGTERM:
            process.start()
            given_back(conn)


def test_a_flushed_redis_is_noticed_by_nobody(
    maintenance: Process, beat: Process, conn: Connection, valkey: EmbeddedValkey, redis_url: str
) -> None:
    register_fleet_type(conn, "print", "fleet")
    enqueue(conn, "print")
    wait_until(lambda: rung_types(redis_url, "fleet"), what="a ring")
    for _ in range(3):
        valkey.flush()
        given_back(conn)
    conn.execute(text("update celeriac.queue set run_at = run_at - interval '1 minute' where task_type = 'print'"))
    wait_until(lambda: rung_types(redis_url, "fleet"), what="the lost ring to be rung again")


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_the_worker_outlives_a_broker_that_stops(
    maintenance: Process, beat: Process, conn: Connection, valkey: EmbeddedValkey, redis_url: str, busy: bool
) -> None:
    register_fleet_type(conn, "print", "fleet")
    given_back(conn)
    valkey.stop()
    maintenance.wait_for_output("Connection refused")
    for _ in range(4):
        if busy:
            enqueue(conn, *["print"] * 10)
        given_back(conn)
    valkey.start()
    enqueue(conn, "print")
    wait_until(lambda: rung_types(redis_url, "fleet"), what="rings")
    wait_until(lambda: ticks_are_consumed(redis_url), what="ticks to be consumed again")
    assert maintenance.is_running
    assert beat.is_running


def ticks_are_consumed(redis_url: str) -> bool:
    """Whether a Celery worker listens to the ticks: it waits in BRPOP on their queues."""
    with redis.Redis.from_url(redis_url) as client:
        return any(entry["cmd"].lower() == "brpop" for entry in client.client_list())


def test_the_worker_outlives_a_redis_that_hangs(
    maintenance: Process, beat: Process, conn: Connection, valkey: EmbeddedValkey, redis_url: str, settings: Settings
) -> None:
    valkey.freeze()
    for _ in range(4):
        given_back(conn)
    maintenance.wait_for_output("Timeout", 60)
    assert health.check_maintenance(settings)
    valkey.thaw()
    wait_until(lambda: ticks_are_consumed(redis_url), 60, what="ticks to be consumed again")
    assert maintenance.is_running
    assert beat.is_running


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


def test_half_open_connections_to_the_broker_are_given_up(
    start: StartProcess, beat: Process, conn: Connection, settings: Settings, valkey: EmbeddedValkey
) -> None:
    with TcpProxy(valkey.port) as proxy:
        through_proxy = f"redis://127.0.0.1:{proxy.port}/0"
        process = start("maintenance", dataclasses.replace(settings, redis_url=through_proxy, broker_url=through_proxy))
        until_ready(process)
        assert proxy.swallow() > 0
        given_back(conn)
        wait_until(lambda: ticks_are_run(process, conn), 60, what="ticks to run chores again")
        process.kill()


def ticks_are_run(process: Process, conn: Connection) -> bool:
    so_far = process.output().count("ThreadPoolExecutor-0_")
    given_back(conn)
    return process.output().count("ThreadPoolExecutor-0_") > so_far


def test_nobody_who_reaches_the_broker_can_stop_or_starve_the_worker(
    maintenance: Process, conn: Connection, settings: Settings
) -> None:
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


@pytest.mark.parametrize("pause", [0.05, 0.5, 1.0])
def test_all_work_of_a_dead_worker_comes_back_though_postgres_restarts_meanwhile(
    maintenance: Process, beat: Process, conn: Connection, postgres: EmbeddedPostgres, database_url: str, pause: float
) -> None:
    hold(conn, 250, lease_ms=500)
    time.sleep(pause)  # the moment of the restart is what this test varies
    for _ in range(3):
        postgres.restart("immediate")
    wait_until(lambda: answers(conn) and ready(conn) == 250, what="all leases to be given back")
    assert set(losses(conn).values()) == {1}
    assert maintenance.is_running
    assert beat.is_running


def answers(conn: Connection) -> bool:
    try:
        conn.execute(text("select 1"))
    except Exception:
        conn.rollback()
        return False
    return True


def test_chores_wait_for_a_read_only_server_and_go_on_afterwards(
    maintenance: Process, beat: Process, conn: Connection
) -> None:
    enqueue(conn, "mail")
    conn.execute(text("alter system set default_transaction_read_only = on"))
    conn.execute(text("select pg_reload_conf()"))
    try:
        maintenance.wait_for_output("the database is not available")
    finally:
        conn.execute(text("set default_transaction_read_only = off"))
        conn.execute(text("alter system reset default_transaction_read_only"))
        conn.execute(text("select pg_reload_conf()"))
    given_back(conn)
    assert maintenance.is_running


@pytest.fixture
def proxy(postgres: EmbeddedPostgres) -> Iterator[TcpProxy]:
    with TcpProxy(postgres.port) as proxy:
        yield proxy


def test_half_open_connections_to_postgres_are_given_up(
    start: StartProcess, conn: Connection, settings: Settings, proxy: TcpProxy
) -> None:
    through_proxy = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{proxy.port}", settings.database_url)
    until_ready(start("maintenance", dataclasses.replace(settings, database_url=through_proxy)))
    given_back(conn)
    assert proxy.swallow() > 0
    given_back(conn, 30)


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
