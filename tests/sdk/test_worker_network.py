"""A worker whose network, proxy or server fails: nothing is lost, done twice, or made a noise about for nothing."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.dev.ports import free_port
from app.dev.processes import Process, console_command
from app.dev.waiting import wait_until
from app.settings import Settings
from celeriac import Client, TaskContext, Worker
from tests.sdk.conftest import Book, Server
from tests.sdk.proxy import Proxy, proxy_to

MakeWorker = Callable[..., Worker]


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with proxy_to(server.url) as running:
        yield running


@pytest.fixture
def behind(proxy: Proxy, server: Server) -> Iterator[Callable[..., Worker]]:
    """Makes workers that reach the server through the proxy."""
    made: list[Worker] = []

    def make(**options: Any) -> Worker:
        made.append(Worker(proxy.url, server.key, **({"wait_seconds": 2.0, "grace_seconds": 0.0} | options)))
        return made[-1]

    yield make
    for worker in made:
        worker.stop()


def test_a_completion_whose_answer_is_lost_is_repeated_and_counts_once(
    behind: MakeWorker, proxy: Proxy, client: Client, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    worker, runs = behind(), list[str]()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> dict[str, Any]:
        runs.append(task.task_id)
        return {"size": 1}

    task_id = client.enqueue_task("media.copy").task_id
    proxy.faults.drop_answers["complete"] = 2
    with caplog.at_level(logging.WARNING, "celeriac"):
        worker.start()
        wait_until(lambda: worker.stats.completed == 1, what="the completion")
    assert (runs, proxy.faults.seen["complete"], proxy.faults.seen["fail"]) == ([task_id], 3, 0)
    assert (book.state(task_id), book.result(task_id), book.task(task_id).attempts) == ("COMPLETED", {"size": 1}, 1)
    assert [record.getMessage() for record in caplog.records if record.name == "celeriac.worker"] == []


def test_an_extension_between_two_tries_of_a_completion_does_not_lose_it(
    behind: MakeWorker, proxy: Proxy, client: Client, book: Book
) -> None:
    worker = behind(lease_seconds=3)
    worker.task("media.copy")(lambda task: {"size": 1})
    task_id = client.enqueue_task("media.copy").task_id
    proxy.faults.drop_answers["complete"] = 10_000
    worker.start()
    wait_until(lambda: proxy.faults.seen["extend-lock"], what="an extension of a task that is completed already")
    proxy.faults.drop_answers["complete"] = 0
    wait_until(lambda: worker.stats.completed == 1, what="the completion")
    assert (worker.stats.leases_lost, worker.stats.refused, book.state(task_id)) == (0, 0, "COMPLETED")


def test_a_failure_whose_answer_is_lost_uses_one_retry(
    behind: MakeWorker, proxy: Proxy, client: Client, book: Book
) -> None:
    worker = behind()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        from celeriac import Retry

        raise Retry("later", after=3600)

    task_id = client.enqueue_task("media.copy").task_id
    proxy.faults.drop_answers["fail"] = 2
    worker.start()
    wait_until(lambda: worker.stats.failed == 1, what="the failure")
    assert (book.task(task_id).retries, book.state(task_id)) == (2, "SCHEDULED")


def test_a_lease_survives_lost_answers_pages_of_a_proxy_and_a_silent_connection(
    behind: MakeWorker, proxy: Proxy, client: Client, book: Book
) -> None:
    worker, gate = behind(lease_seconds=3), threading.Event()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> dict[str, bool]:
        gate.wait(60)
        return {"lost": task.lease_lost.is_set()}

    task_id = client.enqueue_task("media.copy").task_id
    proxy.faults.drop_answers["extend-lock"] = 1
    proxy.faults.pages["extend-lock"] = 1
    proxy.faults.swallow["extend-lock"] = 1
    worker.start()
    wait_until(lambda: worker.stats.extended >= 3, what="three extensions")
    gate.set()
    book.wait_for_state(task_id, "COMPLETED")
    assert book.result(task_id) == {"lost": False}
    assert worker.stats.leases_lost == 0


def test_ten_leases_are_kept_over_a_slow_link(behind: MakeWorker, proxy: Proxy, client: Client, book: Book) -> None:
    worker, gate = behind(lease_seconds=3, concurrency=10, wait_seconds=10), threading.Event()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        gate.wait(60)

    ids = [client.enqueue_task("media.copy").task_id for _ in range(10)]
    proxy.faults.latency_seconds = 0.3  # one after another they would take as long as the lease
    worker.start()
    wait_until(lambda: worker.stats.extended >= 25, what="extensions of all")
    gate.set()
    for task_id in ids:
        book.wait_for_state(task_id, "COMPLETED")
    assert {book.task(task_id).attempts for task_id in ids} == {1}
    assert worker.stats.leases_lost == 0


def test_a_lease_that_cannot_be_extended_is_lost_here_before_anybody_can_take_it(
    behind: MakeWorker, proxy: Proxy, client: Client, book: Book
) -> None:
    worker, still_held = behind(lease_seconds=1.5), list[bool]()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        assert task.lease_lost.wait(20)
        still_held.append(book.state(task.task_id) == "LOCKED")
        task.check()

    client.enqueue_task("media.copy")
    proxy.faults.pages["extend-lock"] = 1000
    worker.start()
    wait_until(lambda: worker.stats.leases_lost == 1, what="the lease to be lost")
    wait_until(lambda: still_held, what="the handler to hear of it")
    assert still_held[0]


def test_a_lost_fetch_is_not_repeated_and_its_task_comes_back_with_the_lease(
    behind: MakeWorker, proxy: Proxy, client: Client, book: Book
) -> None:
    worker = behind(lease_seconds=1)
    worker.task("media.copy")(lambda task: None)
    task_id = client.enqueue_task("media.copy", retries=1).task_id
    proxy.faults.drop_answers["fetch-and-lock"] = 1
    worker.start()
    book.wait_for_state(task_id, "COMPLETED")
    task = book.task(task_id)
    assert (task.expirations, task.retries) == (1, 1)


def test_what_a_poll_in_flight_still_brings_at_shutdown_is_given_back(
    server: Server, client: Client, book: Book, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("celeriac._work_loop.HANG_UP_SECONDS", 30)
    task_id = client.enqueue_task("media.copy", retries=1).task_id
    transport = SlowAnswer("/fetch-and-lock")
    worker = Worker(Client(server.url, server.key, transport=transport), lease_seconds=600)
    ran = list[str]()
    worker.task("media.copy")(lambda task: ran.append(task.task_id))
    worker.start()
    wait_until(transport.answered.is_set, what="the server's answer")
    with caplog.at_level(logging.INFO, "celeriac.worker"):
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        wait_until(lambda: "stopping" in caplog.text, what="the worker to hear it")
    transport.let_go.set()
    stopping.join()
    task = book.task(task_id)
    assert (task.state, task.attempts, task.retries, ran) == ("READY", 0, 1, [])
    assert (worker.stats.fetched, worker.stats.released) == (1, 1)


class SlowAnswer(httpx.AsyncBaseTransport):
    """Holds the server's answer to one path back until it is let go."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.answered = threading.Event()
        self.let_go = threading.Event()
        self._inner: httpx.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        import asyncio

        self._inner = self._inner or httpx.AsyncHTTPTransport()
        response = await self._inner.handle_async_request(request)
        if request.url.path.endswith(self.path):
            self.answered.set()
            await asyncio.to_thread(self.let_go.wait)
        return response

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()


def test_work_goes_on_after_a_restart_of_the_server(
    settings: Settings, key: str, client: Client, book: Book, tmp_path: Path
) -> None:
    port = free_port()
    env = {**os.environ, **settings.to_env(), "CELERIAC_PORT": str(port)}
    api = Process([console_command("celeriac"), "api"], tmp_path / "api.log", env=env)
    ids = [client.enqueue_task("media.copy").task_id for _ in range(6)]
    runs, gate = list[str](), threading.Semaphore(0)
    worker = Worker(f"http://127.0.0.1:{port}", key, concurrency=2, lease_seconds=30, wait_seconds=2)

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        runs.append(task.task_id)
        gate.acquire(timeout=60)

    with api:
        worker.start()
        api.wait_for(lambda: len(runs) == 2, what="two handlers")
        api.kill()
        gate.release(2)  # these two complete into a dead server
        api.start()
        gate.release(100)
        for task_id in ids:
            book.wait_for_state(task_id, "COMPLETED")
        worker.stop()
    assert sorted(runs) == sorted(ids)
    assert (worker.stats.completed, worker.stats.leases_lost) == (6, 0)
