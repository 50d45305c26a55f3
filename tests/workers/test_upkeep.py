import threading
from collections.abc import Callable, Iterator

import pytest
import redis

from app.bell import SyncBell
from app.dev.waiting import wait_until
from workers.chore import Chore, Counts, Tools
from workers.runner import Runner
from workers.upkeep import Upkeep

StartUpkeep = Callable[[Chore, list[Chore]], Runner]


@pytest.fixture
def start_upkeep(tools: Tools) -> Iterator[StartUpkeep]:
    """Start an upkeep whose wake-ups run the first chore."""
    started: list[Upkeep] = []

    def start(on_wake: Chore, others: list[Chore]) -> Runner:
        runner = Runner([on_wake, *others], tools)
        upkeep = Upkeep(tools.settings, runner, on_wake, tools.stopping)
        upkeep.start()
        started.append(upkeep)
        return runner

    yield start
    for upkeep in started:
        upkeep.stop()


class Counter:
    """A chore that counts its runs."""

    def __init__(self, name: str, period_seconds: float) -> None:
        self.runs = threading.Semaphore(0)
        self.chore = Chore(name, period_seconds, self.run)

    def run(self, tools: Tools) -> Counts:
        self.runs.release()
        return {}

    def wait(self) -> None:
        assert self.runs.acquire(timeout=10), f"{self.chore.name} did not run"


def test_a_wake_up_runs_the_dispatcher_at_once(start_upkeep: StartUpkeep, redis_url: str) -> None:
    dispatcher = Counter("dispatcher", 3600)
    runner = start_upkeep(dispatcher.chore, [])
    dispatcher.wait()  # nobody had run it before
    with redis.Redis.from_url(redis_url) as client:
        wait_until(lambda: client.pubsub_numsub("celeriac:wake")[0][1], what="the ear to listen")
    runner.tick(dispatcher.chore)
    dispatcher.wait()
    bell = SyncBell(redis_url)
    for _ in range(3):
        bell.ring(["mail"])
        dispatcher.wait()
    bell.close()


def test_chores_without_ticks_keep_their_period(start_upkeep: StartUpkeep) -> None:
    frequent, rare = Counter("frequent", 0.1), Counter("rare", 3600)
    start_upkeep(rare.chore, [frequent.chore])
    for _ in range(5):
        frequent.wait()
    rare.wait()
    assert not rare.runs.acquire(blocking=False)


def test_a_chore_that_takes_long_holds_up_no_other(start_upkeep: StartUpkeep, tools: Tools) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def run_long(tools: Tools) -> Counts:
        entered.set()
        go_on.wait(60)
        return {}

    frequent = Counter("frequent", 0.1)
    start_upkeep(Chore("long", 0.1, run_long), [frequent.chore])
    assert entered.wait(10)
    for _ in range(3):
        frequent.wait()
    go_on.set()


def test_a_stuck_chore_takes_the_sign_of_life_away(
    start_upkeep: StartUpkeep, tools: Tools, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("workers.runner.STUCK_SECONDS", 0.1)
    go_on = threading.Event()

    def hang(tools: Tools) -> Counts:
        go_on.wait(60)
        return {}

    start_upkeep(Chore("hanging", 3600, hang), [])
    wait_until(lambda: "stuck: hanging" in caplog.text)
    go_on.set()


def test_a_failing_round_does_not_end_the_upkeep(
    start_upkeep: StartUpkeep, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    frequent = Counter("frequent", 0.1)
    start_upkeep(frequent.chore, [])
    frequent.wait()
    with monkeypatch.context() as broken:
        broken.setattr("workers.upkeep.leave_sign", fail)
        wait_until(lambda: "a round of upkeep failed" in caplog.text)
    while frequent.runs.acquire(blocking=False):
        pass
    frequent.wait()
