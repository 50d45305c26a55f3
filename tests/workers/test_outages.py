"""Maintenance workers while what they stand on is taken away: the broker, the database, the far end of a socket."""

import dataclasses
import re
import signal
import time

import pytest
from sqlalchemy import Connection, text

from app.dev.postgres import EmbeddedPostgres
from app.dev.processes import Process
from app.dev.valkey import EmbeddedValkey
from app.dev.waiting import wait_until
from app.settings import Settings
from tests.workers.conftest import StartProcess
from tests.workers.probes import (
    answers,
    given_back,
    hold,
    losses,
    ready,
    ticks_are_consumed,
    ticks_are_run,
    until_ready,
)
from tests.workers.ring_rows import enqueue, register_fleet_type, rung_types
from tests.workers.tcp_proxy import TcpProxy
from workers import health


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


def test_half_open_connections_to_postgres_are_given_up(
    start: StartProcess, conn: Connection, settings: Settings, proxy: TcpProxy
) -> None:
    through_proxy = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{proxy.port}", settings.database_url)
    until_ready(start("maintenance", dataclasses.replace(settings, database_url=through_proxy)))
    given_back(conn)
    assert proxy.swallow() > 0
    given_back(conn, 30)


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
