"""An API whose orders and tasks are committed together."""

from collections.abc import AsyncIterator
from types import ModuleType

import httpx
import pytest

from celeriac.testing import RunnerMaker, crash_at
from tests.examples import programs

NAME = "fastapi-outbox"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, celeriac_database_url: str) -> ModuleType:
    url = celeriac_database_url.replace("postgresql://", "postgresql+psycopg://", 1)
    monkeypatch.setenv("SHOP_DATABASE_URL", url)
    shop = programs.module(NAME, "shop", monkeypatch)
    with shop.sessions.begin() as session:
        shop.Model.metadata.create_all(session.connection())
        session.add(shop.Item(name="book", stock=1))
    return shop


@pytest.fixture
async def client(shop: ModuleType) -> AsyncIterator[httpx.AsyncClient]:
    # The app's lifespan is not entered, so no threads of its own run the tasks.
    transport = httpx.ASGITransport(app=shop.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client


async def label_of(client: httpx.AsyncClient, order_id: int) -> str | None:
    label: str | None = (await client.get(f"/orders/{order_id}")).json()["label"]
    return label


async def test_an_order_is_packed(client: httpx.AsyncClient, shop: ModuleType, celeriac_runner: RunnerMaker) -> None:
    placed = (await client.post("/orders", json={"item": "book"})).json()
    assert celeriac_runner(shop.pack).run() == 1
    assert await label_of(client, placed["id"]) == f"label {placed['id']}"


async def test_a_refused_order_leaves_no_task(
    client: httpx.AsyncClient, shop: ModuleType, celeriac_runner: RunnerMaker
) -> None:
    assert (await client.post("/orders", json={"item": "unicorn"})).status_code == 409
    assert celeriac_runner(shop.pack).run() == 0
    with shop.sessions() as session:
        assert session.query(shop.Order).count() == 0


async def test_a_worker_that_dies_with_the_label_in_its_hand_is_followed_by_another(
    client: httpx.AsyncClient, shop: ModuleType, celeriac_runner: RunnerMaker
) -> None:
    placed = (await client.post("/orders", json={"item": "book"})).json()
    runner = celeriac_runner(shop.pack)
    with crash_at("step:label"):
        runner.run()
    assert await label_of(client, placed["id"]) is None
    runner.run()
    assert await label_of(client, placed["id"]) == f"label {placed['id']}"


def test_its_command_shows_both() -> None:
    said = programs.run(NAME)
    assert "409 {'detail': 'no book left'}" in said
    assert "'label': 'label 1'" in said
    assert "in the database: 1 order" in said
