"""How tasks come to workers: long polls, several workers, workers that die, and who may ask at all."""

from __future__ import annotations

import httpx
import pytest

from app.dev.processes import Process
from app.settings import Settings
from tests.api.conftest import Keys
from tests.camunda_clients.conftest import KINDS, Employ, Engine, Kind
from tests.camunda_clients.models import one_task, only_task

every_kind = pytest.mark.parametrize("kind", KINDS)
ONE_AT_A_TIME = {"maxTasks": 1, "maxParallelExecutions": 1}
"""Else the client for JavaScript fetches its own task once more as soon as the lock has run out."""
NUMBERS = {"a": {"value": 1}, "b": {"value": 1}}


@every_kind
def test_a_waiting_worker_gets_a_task_as_soon_as_there_is_one(kind: Kind, engine: Engine, employ: Employ) -> None:
    """It waits in the one poll that it has sent: no answer is an empty one."""
    engine.deploy(one_task("complete"))
    worker = employ(kind, "complete", options={"asyncResponseTimeout": 120_000})
    for _ in range(3):
        let_it_begin(engine)
    worker.wait_for("ended", 3)
    if kind == "javascript":
        assert [line["tasks"] for line in worker.wait_for("polled", 3)] == [1, 1, 1]
    if kind == "python":
        assert len(worker.told("polling")) in (3, 4)
    assert worker.told("poll failed") == []


def test_a_poll_that_brings_nothing_is_followed_by_the_next(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("complete"))
    worker = employ("javascript", "complete", options={"asyncResponseTimeout": 50})
    worker.wait_for("polled", 3, tasks=0)
    instance = engine.start(NUMBERS)
    engine.wait_until_at(instance, "look")
    assert worker.told("poll failed") == []


def test_two_workers_share_one_topic_and_do_each_task_once(engine: Engine, employ: Employ) -> None:
    engine.deploy(only_task("hold"))
    options = {"maxTasks": 1}
    workers = [
        employ("javascript", "hold", options={**options, "maxParallelExecutions": 1}),
        employ("python", "hold", options=options),
    ]
    instances = [engine.start() for _ in range(30)]
    for worker in workers:
        worker.wait_for("holding")  # each has one of the first two
    for worker in workers:
        worker.open_gate()
    for instance in instances:
        engine.wait_until_ended(instance)
    begun = [line["instance"] for worker in workers for line in worker.told("began")]
    assert sorted(begun) == sorted(instances)
    assert [worker.told("refused") for worker in workers] == [[], []]


@every_kind
@pytest.mark.usefixtures("chores")
def test_the_task_of_a_killed_worker_is_done_by_another(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("hold"))
    instance = engine.start()
    options = {"lockDuration": 1000, **ONE_AT_A_TIME}
    first = employ(kind, "hold", name="first", options=options)
    [held] = first.wait_for("holding")
    first.kill()
    second = employ(kind, "hold", name="second", options={**options, "lockDuration": 60_000})
    [again] = second.wait_for("holding")
    assert again["task"] == held["task"]
    # A lost lock costs nothing: it is as new as it was.
    assert second.told("began")[0]["context"]["retries"] is None
    second.open_gate()
    engine.wait_until_at(instance, "look")
    assert engine.values(instance) == {"done_by": "second"}


@every_kind
@pytest.mark.usefixtures("chores")
def test_a_worker_that_wakes_up_too_late_is_refused(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("hold"))
    instance = engine.start()
    first = employ(kind, "hold", name="first", options={"lockDuration": 1000, **ONE_AT_A_TIME})
    first.wait_for("holding")
    first.process.freeze()
    second = employ(kind, "hold", name="second")
    second.wait_for("holding")
    first.open_gate()
    first.process.thaw()
    if kind == "javascript":
        [refused] = first.wait_for("refused")
        assert (refused["status"], refused["type"], refused["code"]) == (400, "RestException", 0)
        task = refused["task"]
        by = f"External Task {task} cannot be completed by worker 'first'. It is locked by worker 'second'."
        assert refused["engineMsg"] == by
    else:
        first.wait_for("poll failed" if kind == "python" else "giving up")
    second.open_gate()
    engine.wait_until_at(instance, "look")
    assert engine.values(instance) == {"done_by": "second"}


def test_a_lock_that_ran_out_unnoticed_is_still_good_for_its_worker(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("hold"))
    instance = engine.start()
    worker = employ("javascript", "hold", options={"lockDuration": 1, "maxParallelExecutions": 1})
    [held] = worker.wait_for("holding")
    assert engine.get(f"/external-task/{held['task']}")["workerId"] == "javascript"
    worker.open_gate()
    engine.wait_until_at(instance, "look")
    assert worker.told("refused") == []


@every_kind
def test_a_worker_shows_its_key_as_a_password(
    kind: Kind, camunda_settings: Settings, engine: Engine, employ: Employ, keys: Keys
) -> None:
    """The server is open to those who show nothing; a wrong password is wrong there as well."""
    engine.deploy(one_task("complete"))
    instance = engine.start(NUMBERS)
    stranger = employ(kind, "complete", name="stranger", key="wrong")
    stranger.wait_for("poll failed")
    employ(kind, "complete", name="known", key=keys.make("work", types=("complete",)))
    engine.wait_until_at(instance, "look")
    assert engine.values(instance)["done_by"] == "known"


@every_kind
def test_workers_go_on_when_the_server_was_away(
    kind: Kind, server: Process, camunda_settings: Settings, engine: Engine, employ: Employ
) -> None:
    engine.deploy(one_task("complete"))
    worker = employ(kind, "complete")
    let_it_begin(engine)
    server.stop()
    worker.wait_for("poll failed")
    server.start()
    url = f"http://127.0.0.1:{camunda_settings.port}/health/ready"
    server.wait_for(lambda: answers(url), 60, what="being ready")
    instance = engine.start(NUMBERS)
    engine.wait_until_at(instance, "look")


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def let_it_begin(engine: Engine) -> None:
    """One task is done, so the worker polls, or is about to."""
    engine.wait_until_at(engine.start(NUMBERS), "look")
