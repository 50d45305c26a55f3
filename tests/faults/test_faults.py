"""Every task of the corpus, struck once at every point that it comes to: its worker is killed, or its sessions are
ended by the server, or the next answer of the server is lost on the way.

Then another worker takes over, and effects are counted. FAULTS=all strikes at every point (`make faults`). Without it,
each case is struck once at each kind of call that it is there for: its worker is killed after it, or its connection is
lost in it, by turns in the one way and the other.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

from app.cli.doctor.invariants import INVARIANTS
from celeriac import NewTask, enqueue_many
from celeriac.testing import Clock, Runner
from tests.faults.corpus import CORPUS, LEASE_SECONDS, TABLES, Case, Ended, paid
from tests.faults.nursery import PASSED, SAID, UNHARMED, Fault, Order
from tests.house.tree import ROOT, files

Connection = psycopg.Connection[Any]

MOST_LIVES = 4
# A worker that stops gives back what it has not begun: tests/fleet.
ELSEWHERE = {"release.before", "release.after"}
FINAL = {"COMPLETED", "FAILED", "CANCELED"}
STRIKE_EVERYWHERE = os.environ.get("FAULTS") == "all"
# What a task may leave nothing of when it has ended, whatever happened to it.
LEFT_OVER = {
    "open tasks": "select count(*) from celeriac.open_task_list",
    "waits": "select count(*) from celeriac.wait",
    "waiting tasks": "select count(*) from celeriac.waiting",
    "open operations": "select count(*) from celeriac.operation where state in ('STARTED', 'UNKNOWN')",
    "open incidents": "select count(*) from celeriac.incident where resolved_at is null",
    "open rollbacks": "select count(*) from celeriac.saga where ended_at is null",
    "slots": "select count(*) from celeriac.slot",
}


class Nursery:
    """The process that forks workers (nursery.py)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    def raise_worker(self, order: Order) -> int:
        """Run one worker to its end; its exit code, or minus the signal that ended it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order.to_line())
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


class Stage:
    """One database, in which the rounds of a case are played one after another."""

    def __init__(self, url: str, connection: Connection, clock: Clock, nursery: Nursery, folder: Path) -> None:
        self.url = url
        self.connection = connection
        self._clock = clock
        self._nursery = nursery
        self._folder = folder
        connection.execute(TABLES)

    def begin(self, case: Case, key: str) -> Order:
        """Enqueue a task, and make its outside world."""
        folder = self._folder / key
        folder.mkdir()
        inputs = [{"key": key, "number": str(number)} for number in range(case.count)]
        enqueue_many(self.connection, [NewTask(case.name, input, business_key=key) for input in inputs])
        return Order(self.url, case.name, key, str(folder))

    def strike(self, order: Order, fault: Fault, place: int) -> str:
        """Let a worker be struck at a place; the name of the point there."""
        code = self._nursery.raise_worker(replace(order, fault=fault, place=place))
        passed = self.passed(order)
        if len(passed) <= place:  # children may run in another order, and wake their parent less often
            assert code in (0, UNHARMED), self.said(order)
            return "the end"
        if code == UNHARMED:  # at the very end nothing more is asked for; before a call there is one
            assert not passed[place].partition(":")[0].endswith(".before"), f"no answer was lost after {passed[place]}"
        else:
            assert code == (-signal.SIGKILL if fault == "kill" else 0), self.said(order)
        return passed[place]

    def finish(self, order: Order) -> Ended:
        """Let other workers do what is left, and a person decide what nobody else can, as often as asked."""
        was_unknown = False
        for _ in range(MOST_LIVES):
            ended = self._ended(order, was_unknown)
            if ended.state in FINAL:
                return ended
            self._clock.advance(LEASE_SECONDS + 1)
            assert self._nursery.raise_worker(order) == 0, self.said(order)
            was_unknown |= self._decide_unknown(order)
        return self._ended(order, was_unknown)

    def _decide_unknown(self, order: Order) -> bool:
        rows = self.connection.execute(
            "select operation_id, plan from celeriac.operations where state = 'UNKNOWN' and plan ->> 'key' = %s",
            [order.key],
        ).fetchall()
        for operation_id, plan in rows:
            is_done = (Path(order.folder) / plan["what"]).exists()
            self.connection.execute(
                "select celeriac.resolve_operation(operation_id => %s, outcome => %s, result => %s, note => 'looked')",
                [
                    operation_id,
                    "DONE" if is_done else "NOT_DONE",
                    json.dumps(f"line of {order.key}") if is_done else None,
                ],
            )
        return bool(rows)

    def _ended(self, order: Order, unknown: bool) -> Ended:
        tasks = self.connection.execute(
            "select state, result, error from celeriac.task_detail where business_key = %s order by task_id",
            [order.key],
        ).fetchall()
        _, result, error = tasks[0]
        state = next((one[0] for one in tasks if one[0] not in FINAL), tasks[0][0])
        world = [path for path in Path(order.folder).iterdir() if path.name not in (PASSED, SAID)]
        done = {path.name: path.read_text().splitlines().count(order.key) for path in world}
        return Ended(order.key, state, result, error, paid(self.connection, order.key), done, unknown)

    def passed(self, order: Order) -> Sequence[str]:
        return (Path(order.folder) / PASSED).read_text().splitlines()

    def said(self, order: Order) -> str:
        return (Path(order.folder) / SAID).read_text()

    def assert_nothing_is_left(self) -> None:
        for what, count in LEFT_OVER.items():
            assert self.connection.execute(count).fetchone() == (0,), what
        for invariant in INVARIANTS:
            assert self.connection.execute(invariant.broken_by).fetchall() == [], invariant.name


@pytest.fixture
def stage(celeriac_database_url: str, celeriac_clock: Clock, nursery: Nursery, tmp_path: Path) -> Iterator[Stage]:
    with psycopg.connect(celeriac_database_url, autocommit=True) as connection:
        yield Stage(celeriac_database_url, connection, celeriac_clock, nursery, tmp_path)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", get_args(Fault))
@pytest.mark.parametrize("name", CORPUS)
def test_a_task_struck_at_any_point_has_its_effects_and_ends(name: str, fault: Fault, stage: Stage) -> None:
    case = CORPUS[name]
    Runner(stage.url, case.tasks).close()  # makes the task types known, as a worker does when it starts
    order = stage.begin(case, f"{name}-whole")
    judge(case, stage.finish(order), f"no fault\n{stage.said(order)}")
    for place in places(case, fault, stage.passed(order)):
        order = stage.begin(case, f"{name}-{fault}-{place}")
        where = stage.strike(order, fault, place)
        judge(case, stage.finish(order), f"{fault} at {where} (place {place})\n{stage.said(order)}")
    stage.assert_nothing_is_left()


def test_the_corpus_comes_to_every_point_that_the_sdk_names(stage: Stage) -> None:
    """So that a new point, or a new kind of call, does not go untested."""
    come_to: set[str] = set()
    for case in CORPUS.values():
        Runner(stage.url, case.tasks).close()
        order = stage.begin(case, case.name)
        if case.name == "operation":  # so that the next worker has something to reconcile
            stage.strike(order, "kill", place=3)
        judge(case, stage.finish(order), stage.said(order))
        come_to |= {point.partition(":")[0] for point in stage.passed(order)}
    assert named_points() - come_to == ELSEWHERE


def named_points() -> set[str]:
    """All names in the source, which have to be there as they are."""
    names: set[str] = set()
    for path in files(ROOT / "sdk/celeriac", "*.py"):
        source = path.read_text()
        names |= set(re.findall(r"\bpoint\(\"([a-z.]+)\"", source))
        names |= {
            f"{name}.{when}" for name in re.findall(r"_points\(\"([a-z.]+)\"", source) for when in ("before", "after")
        }
    return names


def judge(case: Case, ended: Ended, what_happened: str) -> None:
    for check in case.checks:
        try:
            check(ended)
        except AssertionError as error:
            raise AssertionError(f"{case.name}, {what_happened}: {error}\n{ended}") from error


def places(case: Case, fault: Fault, passed: Sequence[str]) -> Sequence[int]:
    """Where to strike, as numbers of points that the whole task came to."""
    if STRIKE_EVERYWHERE:
        return range(len(passed))
    names = [point.partition(":")[0] for point in passed]
    ours = [name for name in dict.fromkeys(names) if name.split(".")[0] in case.focus]
    # To be killed after one call is to be killed before the next. What happens to a connection, happens in a call.
    afters, befores = [[n for n in ours if n.endswith(".before") is is_before] for is_before in (False, True)]
    chosen = {"kill": afters, "cut": befores[::2], "mute": befores[1::2] or befores}[fault]
    return [names.index(name) for name in chosen]
