"""An API on a fresh database: in this process where that is the same, as a real server where sockets matter."""

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from app.api.keys_auth import key_hash, make_key
from app.server.application import create
from app.server.serve import ApiServer
from app.settings import Settings
from db import call

ALL_VERBS = ["work", "enqueue", "read", "manage", "admin"]


@dataclass(frozen=True)
class Keys:
    """Makes API keys straight on the database."""

    conn: Connection

    def make(self, *verbs: str, types: tuple[str, ...] = ("*",), name: str = "tester", **fields: Any) -> str:
        key = make_key()
        call.one(
            self.conn,
            "create_api_key",
            name=name,
            key_hash=key_hash(key),
            principal_name=fields.pop("principal", name),
            verbs=list(verbs or ALL_VERBS),
            task_types=list(types),
            **fields,
        )
        return key


@pytest.fixture
def keys(conn: Connection) -> Keys:
    return Keys(conn)


@pytest.fixture
def key(keys: Keys) -> str:
    """A key that may do everything."""
    return keys.make()


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[FastAPI]:
    application = create(settings)
    async with application.router.lifespan_context(application):
        yield application


@pytest.fixture
async def api(app: FastAPI, key: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API in this process, with the key that may do everything."""
    async with client_of(app, key) as client:
        yield client


def client_of(app: FastAPI, key: str | None) -> httpx.AsyncClient:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    # raise_app_exceptions=False: a fault must come out as the 500 that a caller would see.
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers)


@dataclass(frozen=True)
class Served:
    """A real server on a loopback port, in a thread of this process: sockets, long polls and disconnects are real."""

    url: str
    application: FastAPI
    stop: Callable[[], None]

    def client(self, key: str, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=70, **options)

    def async_client(self, key: str, connections: int = 100) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=70, limits=limits)


@contextmanager
def serving(settings: Settings) -> Iterator[Served]:
    server = ApiServer(replace(settings, port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", server.application, lambda: setattr(server, "should_exit", True))
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def served(settings: Settings) -> Iterator[Served]:
    with serving(settings) as server:
        yield server


def wait_until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.005)
