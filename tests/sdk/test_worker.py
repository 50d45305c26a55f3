"""A worker in this process against a real API: what handlers get, and what becomes of what they return or raise."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.dev.waiting import wait_until
from celeriac import Canceled, Client, Fatal, LeaseLost, Retry, TaskContext, Worker, _clock
from tests.sdk.conftest import Book

MakeWorker = Callable[..., Worker]


def test_a_handler_gets_the_task_and_its_result_is_kept(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker, seen = make_worker(), list[TaskContext]()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> dict[str, Any]:
        seen.append(task)
        return {"size": task.variables["size"] * 2}

    enqueued = client.enqueue_task("media.copy", {"size": 2**60 + 1}, business_key="order-1")
    worker.start()
    book.wait_for_state(enqueued.task_id, "COMPLETED")

    assert book.result(enqueued.task_id) == {"size": 2 * (2**60 + 1)}
    task = seen[0]
    assert (task.task_id, task.task_type, task.business_key) == (enqueued.task_id, "media.copy", "order-1")
    assert (task.attempt, task.retries, task.version) == (1, 3, 1)
    assert task.fencing_token > 0


def test_a_coroutine_is_a_handler_too(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker = make_worker()

    @worker.task("media.copy")
    async def copy(task: TaskContext) -> None:
        await asyncio.sleep(0)

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    book.wait_for_state(task_id, "COMPLETED")
    assert book.task(task_id).result is None or book.result(task_id) == {}


def test_what_a_handler_raises_is_the_error_of_the_attempt(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker = make_worker()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        secret = task.variables["secret"]
        raise ValueError(f"no room for {len(secret)} letters")

    task_id = client.enqueue_task("media.copy", {"secret": "hunter2"}, retries=1).task_id
    worker.start()
    book.wait_for_state(task_id, "FAILED")
    error = book.task(task_id).error
    assert error.startswith("ValueError: no room for 7 letters\n  at ")
    assert "in copy: raise ValueError(" in error
    assert "hunter2" not in error


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, BaseException, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("flavour", ["plain", "async"])
def test_no_exception_of_a_handler_ends_the_worker(
    kind: type[BaseException], flavour: str, client: Client, make_worker: MakeWorker, book: Book
) -> None:
    worker = make_worker()

    if flavour == "plain":

        @worker.task("bad")
        def bad(task: TaskContext) -> None:
            raise kind("gone")
    else:

        @worker.task("bad")
        async def abad(task: TaskContext) -> None:
            raise kind("gone")

    @worker.task("good")
    async def good(task: TaskContext) -> None:
        return None

    first = client.enqueue_task("bad", retries=1).task_id
    worker.start()
    book.wait_for_state(first, "FAILED")
    assert book.task(first).error.splitlines()[0].endswith(f"{kind.__name__}: gone")
    second = client.enqueue_task("good").task_id
    book.wait_for_state(second, "COMPLETED")


def test_an_async_handler_may_start_tasks_that_try_to_end_the_process(
    client: Client, make_worker: MakeWorker, book: Book
) -> None:
    worker = make_worker()

    @worker.task("media.copy")
    async def copy(task: TaskContext) -> None:
        async def leave() -> None:
            raise SystemExit(3)

        await asyncio.wait({asyncio.ensure_future(leave())})

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    book.wait_for_state(task_id, "COMPLETED")


def test_a_handler_may_be_done_before_anybody_waits_for_it(
    client: Client, make_worker: MakeWorker, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Eager(queue.SimpleQueue[Any]):
        def put(self, attempt: Callable[[], None] | None, *_: Any) -> None:
            if attempt is None:
                return super().put(None)
            done, run = threading.Event(), attempt

            def run_and_tell() -> None:
                run()
                done.set()

            super().put(run_and_tell)
            assert done.wait(10)
            return None

    monkeypatch.setattr("celeriac._handlers.queue", SimpleNamespace(SimpleQueue=Eager))
    worker = make_worker()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        return None

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    book.wait_for_state(task_id, "COMPLETED")
    assert [attempt.attempt for attempt in book.attempts(task_id)] == [1]


def test_retry_waits_as_long_as_it_says_and_uses_one_retry(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker = make_worker()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        raise Retry("the disk is busy", after=3600)

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    book.wait_for_state(task_id, "SCHEDULED")
    task = book.task(task_id)
    assert (task.retries, task.attempts) == (2, 1)
    assert "the disk is busy" in book.attempts(task_id)[0].error


def test_fatal_fails_the_task_whatever_retries_are_left(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker = make_worker()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        raise Fatal("there is no such file")

    task_id = client.enqueue_task("media.copy", retries=100).task_id
    worker.start()
    book.wait_for_state(task_id, "FAILED")
    assert book.task(task_id).error == "Fatal: there is no such file"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"x": float("nan")}, "variables.x is nan, which JSON does not have"),
        ({"x": [1, "a\0b"]}, "variables.x[1] holds a NUL character"),
        ({"x": {1, 2}}, "variables.x is of type set, which JSON does not have"),
        ([1], "the handler returned list; a result is a dict or None"),
        ({"x": "y" * 1_100_000}, "the server refused the handler's result: TooLarge"),
        ({"x": "y" * 5_000_000}, "bytes of JSON are more than"),
    ],
)
def test_a_result_that_cannot_be_kept_fails_the_attempt_and_says_why(
    result: Any, reason: str, client: Client, make_worker: MakeWorker, book: Book
) -> None:
    worker = make_worker()
    worker.task("media.copy")(lambda task: result)
    task_id = client.enqueue_task("media.copy", retries=1).task_id
    worker.start()
    book.wait_for_state(task_id, "FAILED")
    assert reason in book.task(task_id).error
    wait_until(lambda: worker.stats.failed == 1, what="the failure to be counted")


def test_never_more_tasks_than_slots_are_held(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker, gate, most, running = make_worker(concurrency=3), threading.Semaphore(0), list[int](), set[str]()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        running.add(task.task_id)
        most.append(len(running))
        gate.acquire(timeout=30)
        running.discard(task.task_id)

    for _ in range(10):
        client.enqueue_task("media.copy")
    worker.start()
    for done in range(10):
        wait_until(lambda done=done: len(running) == min(3, 10 - done), what="full slots")  # type: ignore[misc]
        assert book.states("media.copy").get("LOCKED", 0) <= 3
        gate.release()
        wait_until(lambda done=done: worker.stats.completed == done + 1, what="a completion")  # type: ignore[misc]
    assert max(most) == 3
    assert worker.stats.fetched == 10


def test_a_canceled_task_is_told_to_its_handler(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker, started, told = make_worker(lease_seconds=1.5), threading.Event(), list[BaseException]()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        started.set()
        task.canceled.wait(20)
        try:
            task.check()
        except Canceled as error:
            told.append(error)
            raise

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    started.wait(20)
    client.cancel_task(task_id, reason="not wanted")
    wait_until(lambda: told and worker.stats.running == 0, what="the handler to hear of it")
    assert book.state(task_id) == "CANCELED"
    stats = worker.stats
    assert (stats.canceled, stats.failed, stats.refused) == (1, 0, 0)


def test_a_coroutine_is_cancelled_when_its_lease_is_lost(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker, started, told = make_worker(lease_seconds=1.5), threading.Event(), list[BaseException]()

    @worker.task("media.copy")
    async def copy(task: TaskContext) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            told.append(error)
            assert task.lease_lost.is_set()
            raise

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    started.wait(20)
    lease = book.task(task_id)
    client.release_task(task_id, worker_id=worker.worker_id, fencing_token=lease.fencing_token)
    wait_until(lambda: told, what="the handler to be cancelled")
    # It is READY again, so the same worker runs it once more under a new lease.
    wait_until(lambda: book.task(task_id).fencing_token > lease.fencing_token, what="the next lease")
    assert worker.stats.failed == 0


def test_a_result_that_comes_after_the_lease_was_lost_is_refused_and_counted(
    client: Client, make_worker: MakeWorker, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    worker, started, results = make_worker(lease_seconds=1.5, concurrency=2), threading.Event(), iter([1, 2])

    @worker.task("media.copy")
    def copy(task: TaskContext) -> dict[str, Any]:
        number = next(results)
        if number == 1:
            started.set()
            assert task.lease_lost.wait(20)
            with pytest.raises(LeaseLost):
                raise_with(task)
            wait_until(lambda: book.state(task.task_id) == "COMPLETED", what="the second attempt")
        return {"by": number}

    def raise_with(task: TaskContext) -> None:
        try:
            task.check()
        except Exception as error:
            raise LeaseLost(str(error)) from error

    task_id = client.enqueue_task("media.copy").task_id
    worker.start()
    started.wait(20)
    client.release_task(task_id, worker_id=worker.worker_id, fencing_token=book.task(task_id).fencing_token)
    with caplog.at_level(logging.WARNING, "celeriac.worker"):
        wait_until(lambda: worker.stats.refused == 1, what="the late result to be refused")
    assert book.result(task_id) == {"by": 2}
    assert (worker.stats.completed, worker.stats.failed) == (1, 0)
    assert f"the outcome of task {task_id} was refused" in caplog.text


def test_a_lost_lease_is_counted_also_when_its_handler_finds_out_first(
    client: Client, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, really = make_worker(lease_seconds=60), _clock.now

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        # As after a sleep of the machine: the next extension is due in 20 s of the event loop's time.
        monkeypatch.setattr(_clock, "now", lambda: really() + 61)
        task.check()

    task_id = client.enqueue_task("media.copy").task_id
    with caplog.at_level(logging.WARNING, "celeriac.worker"):
        worker.start()
        wait_until(lambda: worker.stats.leases_lost == 1, what="the lost lease to be counted")
    assert f"task {task_id} is no longer ours" in caplog.text


def test_the_log_of_a_task_names_it(
    client: Client, make_worker: MakeWorker, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    worker = make_worker()

    @worker.task("media.copy")
    def copy(task: TaskContext) -> None:
        task.log.info("copying %d files", 3)

    task_id = client.enqueue_task("media.copy").task_id
    with caplog.at_level(logging.INFO, "celeriac.task"):
        worker.start()
        book.wait_for_state(task_id, "COMPLETED")
    record = next(record for record in caplog.records if record.name == "celeriac.task")
    assert record.getMessage() == f"media.copy {task_id} attempt 1: copying 3 files"
    assert record.__dict__["task_id"] == task_id


def test_a_worker_is_seen_by_the_server(client: Client, make_worker: MakeWorker) -> None:
    worker = make_worker(worker_id="copier-1", concurrency=4)
    worker.task("media.copy", versions=[1, 2])(lambda task: None)
    worker.start()
    wait_until(lambda: "copier-1" in str(client.list_workers()), what="the registration")


def test_only_versions_with_a_handler_are_fetched(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker = make_worker()
    worker.task("media.copy", versions=[1])(lambda task: None)
    new = client.enqueue_task("media.copy", version=2).task_id
    old = client.enqueue_task("media.copy", version=1).task_id
    worker.start()
    book.wait_for_state(old, "COMPLETED")
    assert book.state(new) == "READY"


def test_work_that_comes_during_a_poll_starts_at_once(client: Client, make_worker: MakeWorker, book: Book) -> None:
    worker = make_worker(wait_seconds=30.0)
    worker.task("media.copy")(lambda task: None)
    worker.start()
    for _ in range(3):
        task_id = client.enqueue_task("media.copy").task_id
        book.wait_for_state(task_id, "COMPLETED", seconds=10)


def test_a_worker_is_made_once_and_for_something(server: Any) -> None:
    worker = Worker(server.url, server.key, concurrency=1)
    with pytest.raises(ValueError, match="no handler"):
        worker.start()
    worker.task("media.copy")(lambda task: None)
    with pytest.raises(ValueError, match="has a handler already"):
        worker.task("media.copy")(lambda task: None)
    with worker, pytest.raises(RuntimeError, match="started before"):
        worker.start()
    with pytest.raises(ValueError, match="concurrency"):
        Worker(server.url, concurrency=0)
    with pytest.raises(ValueError, match="http://"):
        Worker("localhost:8080")


def test_a_fetch_that_can_never_work_ends_the_worker_with_the_reason(server: Any) -> None:
    from celeriac import Invalid

    worker = Worker(server.url, server.key, wait_seconds=3600)
    worker.task("media.copy")(lambda task: None)
    with pytest.raises(Invalid, match="wait_ms"):
        worker.start().stop()
