"""An API on a fresh database: in this process where that is the same, as a real server where sockets matter."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from app.api.application import create
from app.api.keys_auth import key_hash, make_key
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
