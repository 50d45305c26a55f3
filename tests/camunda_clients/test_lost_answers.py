"""Case B10 with the real clients: a task is done, the answer is lost, and the client makes what it will of that."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from app.dev.processes import Process
from app.dev.waiting import wait_until
from app.settings import Settings
from tests.camunda_clients.conftest import Employ, Engine, Kind
from tests.camunda_clients.models import one_task
from tests.faults.relay import Relay


@pytest.fixture
def relay(server: Process, camunda_settings: Settings) -> Relay:
    return Relay("127.0.0.1", camunda_settings.port)


@pytest.fixture
def engine(relay: Relay, camunda_settings: Settings) -> Iterator[Engine]:
    """Workers go by the relay, and the test does not."""
    base = f"http://127.0.0.1:{camunda_settings.port}/engine-rest"
    with httpx.Client(base_url=base, timeout=30) as http:
        yield Engine(f"http://127.0.0.1:{relay.port}/engine-rest", http)


@pytest.mark.parametrize("kind", ["javascript", "python"])
def test_a_completion_whose_answer_is_lost_counts_once(
    kind: Kind, relay: Relay, engine: Engine, employ: Employ
) -> None:
    engine.deploy(one_task("hold"))
    instance = engine.start()
    # The JavaScript client does not poll while its hands are full, so the next answer is that of its completion.
    options = {"maxParallelExecutions": 1, "maxTasks": 1} if kind == "javascript" else {}
    worker = employ(kind, "hold", options=options)
    worker.wait_for("holding")
    relay.lose_the_next_answer()
    worker.open_gate()
    engine.wait_until_at(instance, "look")
    wait_until(lambda: relay.lost == 1, what="the answer to be lost")  # the engine may be seen before its answer comes
    # Whatever it tried next was refused, and it works on.
    following = engine.start()
    engine.wait_until_at(following, "look")
    engine.wait_until_at(instance, "look")
    assert engine.incidents(instance) == engine.incidents(following) == []
    assert [len(worker.told("holding", instance=one)) for one in (instance, following)] == [1, 1]


@pytest.mark.usefixtures("chores")
@pytest.mark.parametrize("kind", ["javascript", "python"])
def test_work_that_was_handed_to_a_frozen_worker_is_done_by_another(kind: Kind, engine: Engine, employ: Employ) -> None:
    """Case B02: its connection is open and nobody reads from it. What it does when it wakes up is too late."""
    engine.deploy(one_task("hold"))
    first = employ(kind, "hold", name="first", options={"lockDuration": 1000})
    first.open_gate()
    engine.wait_until_at(engine.start(), "look")
    first.process.freeze()
    instances = [engine.start() for _ in range(3)]
    second = employ(kind, "hold", name="second")
    second.open_gate()
    for instance in instances:
        engine.wait_until_at(instance, "look")
    first.process.thaw()
    following = engine.start()
    engine.wait_until_at(following, "look")
    for instance in instances:
        assert engine.stands_at(instance) == ["look"]
        assert engine.values(instance) == {"done_by": "second"}
        assert engine.incidents(instance) == []
