"""The Camunda face: an API in this process that asks nobody who they are, unless a test wants that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from app.server.application import create
from app.settings import Settings
from tests.api.conftest import Keys, Served, client_of, key, keys, served, serving

__all__ = ["Keys", "Served", "client_of", "key", "keys", "served", "serving"]


@pytest.fixture
def camunda_settings(settings: Settings) -> Settings:
    return replace(settings, camunda_open=True)


@pytest.fixture
async def camunda_app(camunda_settings: Settings) -> AsyncIterator[FastAPI]:
    application = create(camunda_settings)
    async with application.router.lifespan_context(application):
        yield application


@pytest.fixture
async def camunda(camunda_app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of /engine-rest without credentials: addresses are those of Camunda's documentation."""
    transport = httpx.ASGITransport(app=camunda_app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api/engine-rest") as client:
        yield client
