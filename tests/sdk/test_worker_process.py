"""Workers as processes that are killed, frozen, overworked and asked to leave."""

import signal
from collections.abc import Callable
from pathlib import Path

from app.dev.processes import Process
from app.dev.waiting import wait_until
from celeriac import Client, Policy
from tests.sdk.conftest import Book

StartProgram = Callable[..., Process]


def started(process: Process, times: int = 1) -> None:
    process.wait_for(lambda: process.output().count("started ") >= times, what="a handler to start")


def test_a_killed_worker_loses_its_lease_and_another_one_does_the_task(
    client: Client, start_program: StartProgram, book: Book, tmp_path: Path
) -> None:
    task_id = client.enqueue_task("copy", retries=1).task_id
    first = start_program("copier", behaviour="until_told", worker={"lease_seconds": 1})
    started(first)
    first.kill()
    second = start_program("copier", behaviour="until_told", worker={"lease_seconds": 5})
    (tmp_path / "go").touch()
    book.wait_for_state(task_id, "COMPLETED")
    second.stop()
    task = book.task(task_id)
    assert (task.attempts, task.expirations, task.retries) == (2, 1, 1)


def test_a_task_that_kills_its_workers_ends_as_a_dead_letter(
    client: Client, start_program: StartProgram, book: Book
) -> None:
    task_id = client.enqueue_task("copy", policy=Policy(expirations=2)).task_id
    for _ in range(10):
        if book.state(task_id) == "FAILED":
            break
        process = start_program("copier", behaviour="die", worker={"lease_seconds": 0.5, "wait_seconds": 1})
        wait_until(
            lambda p=process: not p.is_running or book.state(task_id) == "FAILED",  # type: ignore[misc]
            what="the task to kill its worker",
        )
        process.kill()
    assert book.state(task_id) == "FAILED"
    assert "lease" in book.task(task_id).error


def test_a_frozen_worker_is_told_when_it_wakes_and_its_late_result_changes_nothing(
    client: Client, start_program: StartProgram, book: Book, tmp_path: Path
) -> None:
    task_id = client.enqueue_task("copy").task_id
    sleeper = start_program("copier", behaviour="until_told", worker={"lease_seconds": 1})
    started(sleeper)
    token = book.task(task_id).fencing_token
    sleeper.freeze()
    wait_until(lambda: book.expire_leases().expired, what="the lease to run out")
    taken = client.fetch_tasks("taker", ["copy"], lock_duration_ms=60_000)[0]
    assert taken.fencing_token > token

    sleeper.thaw()
    sleeper.wait_for_output(f"lost {task_id}")
    (tmp_path / "go").touch()
    sleeper.wait_for_output(f"returned {task_id}")
    sleeper.send(signal.SIGTERM)
    assert sleeper.wait() == 0
    assert "refused=1" in sleeper.output()
    assert "completed=0" in sleeper.output()
    assert "failed=0" in sleeper.output()

    task = book.task(task_id)
    assert (task.state, task.worker_id, task.fencing_token) == ("LOCKED", "taker", taken.fencing_token)
    client.complete_task(task_id, worker_id="taker", fencing_token=taken.fencing_token, variables={"by": "taker"})
    assert book.result(task_id) == {"by": "taker"}


def test_a_worker_frozen_past_its_lease_stops_even_if_nobody_took_the_task(
    client: Client, start_program: StartProgram, book: Book, tmp_path: Path
) -> None:
    task_id = client.enqueue_task("copy").task_id
    sleeper = start_program("copier", behaviour="until_told", worker={"lease_seconds": 1})
    started(sleeper)
    sleeper.freeze()
    wait_until(lambda: book.expire_leases().expired, what="the lease to run out")
    sleeper.thaw()
    sleeper.wait_for_output(f"lost {task_id}")
    (tmp_path / "go").touch()
    # Its late result is refused; fetched again under a new lease the task is done.
    book.wait_for_state(task_id, "COMPLETED")
    assert book.task(task_id).attempts == 2


def test_a_worker_frozen_in_a_poll_does_not_begin_what_came_meanwhile(
    client: Client, start_program: StartProgram, book: Book
) -> None:
    options = {"lease_seconds": 1, "wait_seconds": 60, "worker_id": "sleeper"}
    sleeper = start_program("copier", behaviour="for_ever", worker=options)
    wait_until(lambda: "sleeper" in str(client.list_workers()), what="the worker to poll")
    sleeper.freeze()
    task_id = client.enqueue_task("copy").task_id
    wait_until(lambda: book.task(task_id).worker_id == "sleeper", what="the frozen poll to be answered")
    wait_until(lambda: book.expire_leases().expired, what="the lease to run out")
    client.fetch_tasks("taker", ["copy"], lock_duration_ms=60_000)
    sleeper.thaw()
    sleeper.wait_for_output(f"task {task_id} came when its lease was over")
    assert "started" not in sleeper.output()
    assert book.task(task_id).worker_id == "taker"


def test_a_lease_is_kept_while_handlers_burn_the_cpu(client: Client, start_program: StartProgram, book: Book) -> None:
    ids = [client.enqueue_task("copy").task_id for _ in range(2)]
    start_program("copier", behaviour="burn", seconds=7, worker={"lease_seconds": 3, "concurrency": 2})
    for task_id in ids:
        book.wait_for_state(task_id, "COMPLETED", seconds=60)
        task = book.task(task_id)
        assert (task.attempts, task.expirations) == (1, 0)
        assert book.result(task_id) == {"lost": False}


def test_sigterm_lets_a_running_handler_finish_and_exits_with_0(
    client: Client, start_program: StartProgram, book: Book, tmp_path: Path
) -> None:
    ids = [client.enqueue_task("copy").task_id]
    worker = start_program("copier", behaviour="until_told", worker={"concurrency": 2})
    started(worker)
    worker.send(signal.SIGTERM)
    worker.wait_for_output("stopping: 1 handlers")
    ids.append(client.enqueue_task("copy").task_id)
    (tmp_path / "go").touch()
    assert worker.wait() == 0
    assert sorted(book.state(task_id) for task_id in ids) == ["COMPLETED", "READY"]
    assert "completed=1" in worker.output()


def test_a_handler_that_hangs_is_left_behind_after_the_grace_and_its_task_is_given_back(
    client: Client, start_program: StartProgram, book: Book
) -> None:
    task_id = client.enqueue_task("copy").task_id
    worker = start_program("copier", behaviour="for_ever", worker={"grace_seconds": 0.3, "lease_seconds": 600})
    started(worker)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    task = book.task(task_id)
    assert (task.state, task.attempts, task.retries, task.expirations) == ("READY", 0, 3, 0)
    assert "released" in book.timeline(task_id)
    assert "released=1" in worker.output()


def test_a_second_signal_does_not_wait_for_the_grace(client: Client, start_program: StartProgram, book: Book) -> None:
    task_id = client.enqueue_task("copy").task_id
    worker = start_program("copier", behaviour="for_ever", worker={"grace_seconds": 3600})
    started(worker)
    worker.send(signal.SIGINT)
    worker.wait_for_output("stopping: 1 handlers")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert book.state(task_id) == "READY"


def test_an_idle_worker_leaves_at_once(client: Client, start_program: StartProgram) -> None:
    worker = start_program("copier", behaviour="for_ever", worker={"worker_id": "idle", "wait_seconds": 60})
    wait_until(lambda: "idle" in str(client.list_workers()), what="the worker")
    worker.send(signal.SIGTERM)
    assert worker.wait(10) == 0
