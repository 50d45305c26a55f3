"""What callers and probes see when Postgres or Redis is gone, read-only, restarted or not migrated; and metrics."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.api import database
from app.dev.postgres import EmbeddedPostgres
from app.dev.valkey import EmbeddedValkey
from app.server.application import create
from app.settings import Settings
from tests.api.conftest import client_of
from tests.workers.tcp_proxy import TcpProxy

FETCH = "/v1/external-tasks/fetch-and-lock"


async def until(holds: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Seconds bound what is promised (readiness within 10 s), not how fast a test machine is."""
    deadline = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.05)


async def is_ready(api: httpx.AsyncClient) -> bool:
    return (await api.get("/health/ready")).status_code == 200


async def is_not_ready(api: httpx.AsyncClient) -> bool:
    return not await is_ready(api)


async def test_a_healthy_process_is_live_and_ready_and_needs_no_key_to_say_so(app: FastAPI) -> None:
    async with client_of(app, None) as nobody:
        assert (await nobody.get("/health/live")).json() == {"status": "live"}
        assert (await nobody.get("/health/ready")).json() == {"status": "ready", "database": "ok", "redis": "ok"}


async def test_a_read_only_database_turns_readiness_red_and_calls_into_503(
    app: FastAPI, api: httpx.AsyncClient, conn: Connection, postgres: EmbeddedPostgres
) -> None:
    """Case B48: as after a fail-over; all is well again without a restart."""
    conn.execute(text("alter system set default_transaction_read_only = on"))
    try:
        conn.execute(text("select pg_reload_conf()"))
        await until(lambda: is_not_ready(api), 10)
        assert (await api.get("/health/ready")).json()["database"] == "read_only"
        for _ in range(3):
            refused = await api.post("/v1/tasks", json={"task_type": "mail"})
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert "retry-after" in refused.headers
            assert "transaction" not in refused.text
    finally:
        conn.execute(text("set default_transaction_read_only = off"))
        conn.execute(text("alter system reset default_transaction_read_only"))
        conn.execute(text("select pg_reload_conf()"))
    await until(lambda: is_ready(api), 10)
    assert (await api.post("/v1/tasks", json={"task_type": "mail"})).status_code == 201


async def test_a_restart_of_postgres_under_traffic_gives_503_and_never_500(
    app: FastAPI, api: httpx.AsyncClient, postgres: EmbeddedPostgres
) -> None:
    statuses: list[int] = []
    stop = asyncio.Event()

    async def traffic() -> None:
        while not stop.is_set():
            made = await api.post("/v1/tasks", json={"task_type": "mail"})
            taken = await api.post(FETCH, json={"worker_id": "w", "task_types": ["mail"], "wait_ms": 20})
            statuses.extend([made.status_code, taken.status_code])
            await asyncio.sleep(0.005)

    clients = [asyncio.create_task(traffic()) for _ in range(5)]
    await until(lambda: _has(statuses, 201), 10)
    await asyncio.to_thread(postgres.restart)
    statuses.clear()
    await until(lambda: _has(statuses, 201), 20)
    stop.set()
    await asyncio.gather(*clients)
    assert set(statuses) <= {200, 201, 503}


async def _has(statuses: list[int], status: int) -> bool:
    return status in statuses


async def test_postgres_gone_is_said_by_readiness_calls_and_metrics(
    app: FastAPI, api: httpx.AsyncClient, postgres: EmbeddedPostgres
) -> None:
    await asyncio.to_thread(postgres.kill)
    try:
        await until(lambda: is_not_ready(api), 10)
        assert (await api.get("/health/ready")).json()["database"] == "unavailable"
        assert (await api.get("/health/live")).status_code == 200
        assert (await api.get("/v1/tasks")).status_code == 503
    finally:
        await asyncio.to_thread(postgres.start)
    await until(lambda: is_ready(api), 10)
    assert (await api.get("/v1/tasks")).status_code == 200


async def test_connections_that_carry_nothing_any_more_are_given_up(
    settings: Settings, key: str, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case B51: half-open connections behind a proxy whose kernel still acknowledges. TCP itself never notices."""
    monkeypatch.setattr(database, "CALL_SECONDS", 1.0)
    with TcpProxy(postgres.port) as proxy:
        application = create(replace(settings, database_url=rerouted(settings.database_url, proxy.port)))
        async with application.router.lifespan_context(application), client_of(application, key) as api:
            made = await asyncio.gather(*(api.post("/v1/tasks", json={"task_type": "mail"}) for _ in range(20)))
            assert {answer.status_code for answer in made} == {201}
            assert proxy.swallow() > 1

            poll = {"worker_id": "w", "task_types": ["other"], "wait_ms": 8_000}
            async with asyncio.timeout(20):
                given_up = await asyncio.gather(
                    *(api.post("/v1/tasks", json={"task_type": "mail"}) for _ in range(3)), api.post(FETCH, json=poll)
                )
                assert {answer.status_code for answer in given_up} <= {200, 201, 503}
                await until(lambda: is_ready(api), 15)
                assert (await api.post("/v1/tasks", json={"task_type": "mail"})).status_code == 201
                assert (await api.post(FETCH, json=poll | {"task_types": ["mail"]})).status_code == 200


def rerouted(url: str, port: int) -> str:
    return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", url)


async def test_redis_gone_costs_nothing_but_speed(app: FastAPI, api: httpx.AsyncClient, valkey: EmbeddedValkey) -> None:
    """Case B57 where it concerns the API: calls take their usual way, work is found, readiness tells."""
    await asyncio.to_thread(valkey.stop)

    async def degraded() -> bool:
        return bool((await api.get("/health/ready")).json()["redis"] == "degraded")

    await until(degraded, 10)
    assert await is_ready(api)
    poll = asyncio.create_task(api.post(FETCH, json={"worker_id": "w", "task_types": ["mail"], "wait_ms": 20_000}))
    made = await asyncio.gather(*(api.post("/v1/tasks", json={"task_type": "mail"}) for _ in range(20)))
    assert {answer.status_code for answer in made} == {201}
    assert len((await poll).json()) == 1


async def test_a_redis_that_hangs_delays_nobody(app: FastAPI, api: httpx.AsyncClient, valkey: EmbeddedValkey) -> None:
    """Case B57, second part."""
    await asyncio.to_thread(valkey.freeze)
    made = await asyncio.gather(*(api.post("/v1/tasks", json={"task_type": "mail"}) for _ in range(20)))
    assert {answer.status_code for answer in made} == {201}


async def test_a_database_that_is_not_migrated_is_not_ready(empty_database_url: str) -> None:
    application = create(Settings(database_url=empty_database_url))
    async with application.router.lifespan_context(application), client_of(application, None) as nobody:
        answer = await nobody.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "database": "not_migrated", "redis": "off"}


async def test_metrics_show_the_queue_the_refusals_and_the_requests(app: FastAPI, api: httpx.AsyncClient) -> None:
    await api.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}] * 3})
    await api.put("/v1/workers/w1", json={"kind": "external", "task_types": ["mail"], "details": {"host": "h"}})
    await api.get("/v1/tasks", params={"business_key": "secret-key"})
    shown = (await api.get("/metrics")).text
    assert 'celeriac_tasks{state="READY",task_type="mail"} 3.0' in shown
    assert 'celeriac_oldest_ready_seconds{task_type="mail"}' in shown
    assert "celeriac_live_workers 1.0" in shown
    assert "celeriac_database_up 1.0" in shown
    assert "celeriac_waiting_polls 0.0" in shown
    assert 'celeriac_request_seconds_count{method="GET",route="/v1/tasks",status="200"} 1.0' in shown
    assert "secret-key" not in shown


class TestPublicMetrics:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return Settings.from_env(settings.to_env() | {"CELERIAC_METRICS_PUBLIC": "true"})

    async def test_may_be_read_by_everybody(self, app: FastAPI) -> None:
        async with client_of(app, None) as nobody:
            assert (await nobody.get("/metrics")).status_code == 200
            assert (await nobody.get("/v1/tasks")).status_code == 401
