import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from app.bell import CHANNEL, MOST_TYPES, RING_SECONDS, Bell, SyncBell, read_message, write_message
from app.dev.valkey import EmbeddedValkey


@pytest.fixture
async def bell(redis_url: str) -> AsyncIterator[Bell]:
    bell = Bell(redis_url)
    yield bell
    await bell.aclose()


@pytest.fixture
def sync_bell(redis_url: str) -> Iterator[SyncBell]:
    bell = SyncBell(redis_url)
    yield bell
    bell.close()


@pytest.fixture
async def heard(bell: Bell) -> AsyncIterator["asyncio.Queue[list[str]]"]:
    """What a listener hears, from its first subscription on."""
    wake_ups: asyncio.Queue[list[str]] = asyncio.Queue()

    async def listen() -> None:
        async for task_types in bell.listen():
            wake_ups.put_nowait(task_types)

    listener = asyncio.create_task(listen())
    assert await next_of(wake_ups) == []
    yield wake_ups
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)


async def next_of(wake_ups: "asyncio.Queue[list[str]]", seconds: float = 20) -> list[str]:
    async with asyncio.timeout(seconds):
        return await wake_ups.get()


async def test_a_listener_hears_the_types_that_are_rung(bell: Bell, heard: "asyncio.Queue[list[str]]") -> None:
    await bell.ring(["media.copy", "mail", "mail"])
    assert await next_of(heard) == ["mail", "media.copy"]


async def test_the_synchronous_bell_rings_the_same_way(sync_bell: SyncBell, heard: "asyncio.Queue[list[str]]") -> None:
    sync_bell.ring(["mail"])
    assert await next_of(heard) == ["mail"]


async def test_a_thousand_rings_at_once_travel_together(bell: Bell, heard: "asyncio.Queue[list[str]]") -> None:
    await asyncio.gather(*(bell.ring([f"type-{number:04}"]) for number in range(400)))
    named: set[str] = set()
    messages = 0
    while len(named) < 400:
        named.update(await next_of(heard))
        messages += 1
    assert messages < 40


async def test_a_listener_comes_back_after_its_connection_is_killed(
    bell: Bell, heard: "asyncio.Queue[list[str]]", redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    assert await next_of(heard) == [], "look at the database: something may have been rung meanwhile"
    await bell.ring(["mail"])
    assert await next_of(heard) == ["mail"]


async def test_a_listener_comes_back_after_redis_does(
    bell: Bell, heard: "asyncio.Queue[list[str]]", valkey: EmbeddedValkey
) -> None:
    valkey.restart()
    assert await next_of(heard) == []
    await bell.ring(["mail"])
    assert await next_of(heard) == ["mail"]


async def test_a_listener_that_is_deaf_finds_out(
    bell: Bell,
    heard: "asyncio.Queue[list[str]]",
    valkey: EmbeddedValkey,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("app.bell.LISTEN_REPLY_SECONDS", 0.3)
    await bell.ring(["so that the next wait is a short one"])
    await next_of(heard)
    monkeypatch.setattr("app.bell.LISTEN_IDLE_SECONDS", 0.1)
    await bell.ring(["mail"])
    await next_of(heard)
    valkey.freeze()
    async with asyncio.timeout(20):
        while "the connection is dead" not in caplog.text:
            await asyncio.sleep(0.05)
    valkey.thaw()
    assert await next_of(heard) == []


async def test_ringing_a_redis_that_hangs_is_over_in_time_and_then_quiet(bell: Bell, valkey: EmbeddedValkey) -> None:
    await bell.ring(["mail"])
    valkey.freeze()
    start = time.monotonic()
    await asyncio.gather(*(bell.ring([f"type-{number}"]) for number in range(50)))
    await bell.ring(["mail"])
    assert time.monotonic() - start < 10 * RING_SECONDS  # 51 of them one after another would take 50 times as long


def test_the_synchronous_bell_does_not_wait_for_a_redis_that_hangs(sync_bell: SyncBell, valkey: EmbeddedValkey) -> None:
    sync_bell.ring(["mail"])
    valkey.freeze()
    start = time.monotonic()
    for _ in range(50):
        sync_bell.ring(["mail"])
    assert time.monotonic() - start < 10 * RING_SECONDS


async def test_ringing_without_a_redis_does_nothing() -> None:
    bell = Bell(None)
    await bell.ring(["mail"])
    assert [wake_up async for wake_up in bell.listen()] == []
    await bell.aclose()
    SyncBell(None).ring(["mail"])


async def test_ringing_a_redis_that_is_not_there_does_not_raise() -> None:
    bell = Bell("redis://127.0.0.1:1/0")
    await bell.ring(["mail"])
    await bell.aclose()
    SyncBell("redis://127.0.0.1:1/0").ring(["mail"])


async def test_garbage_on_the_channel_means_look_at_the_database(
    heard: "asyncio.Queue[list[str]]", redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for garbage in (b"\xff\xfe", b"{", b'{"a": 1}', b"[1]", b"[" * 100_000):
            client.publish(CHANNEL, garbage)
            assert await next_of(heard) == []


def test_a_message_names_its_types_unless_there_are_too_many() -> None:
    assert read_message(write_message({"b", "a"})) == ["a", "b"]
    assert read_message(write_message(f"type-{number}" for number in range(MOST_TYPES + 1))) == []
