"""An approval of thirty days, on the kit's clock."""

from collections.abc import Iterator
from types import ModuleType

import psycopg
import pytest

from celeriac.testing import Runner
from tests.examples import programs

NAME = "approval-30-days"


@pytest.fixture
def expenses(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return programs.module(NAME, "expenses", monkeypatch)


@pytest.fixture
def runner(expenses: ModuleType, celeriac_database_url: str) -> Iterator[Runner]:
    with psycopg.connect(celeriac_database_url) as connection:
        connection.execute(expenses.TABLE)
        connection.execute("insert into expense values ('A-1', 90, 'open')")
    with Runner(celeriac_database_url, [expenses.approve]) as runner:
        yield runner


def state(url: str) -> str:
    with psycopg.connect(url) as connection:
        [value] = connection.execute("select state from expense").fetchone() or [""]
    return str(value)


def test_silence_for_thirty_days_means_no(runner: Runner, expenses: ModuleType, celeriac_database_url: str) -> None:
    task_id = runner.enqueue(expenses.approve, expenses.Expense("A-1", 90, "Ada"))
    runner.run()
    runner.clock.advance(days=22)
    assert runner.run() == 0
    runner.clock.advance(days=1)
    assert runner.run() == 1
    assert runner.task(task_id).state == "WAITING"
    runner.clock.advance(days=7)
    runner.run()
    assert runner.result(task_id) == {"approved": False, "by": "nobody in 30 days"}
    assert state(celeriac_database_url) == "refused"


def test_an_answer_after_the_reminder_counts(runner: Runner, expenses: ModuleType, celeriac_database_url: str) -> None:
    task_id = runner.enqueue(expenses.approve, expenses.Expense("A-1", 90, "Ada"))
    runner.run()
    runner.clock.advance(days=29)
    runner.run()
    assert runner.signal(expenses.DECIDED, {"approved": True, "by": "Ada"}, key="A-1") == 1
    runner.run()
    assert runner.result(task_id) == {"approved": True, "by": "Ada"}
    assert state(celeriac_database_url) == "approved"


def test_an_answer_that_comes_before_the_question_is_kept(runner: Runner, expenses: ModuleType) -> None:
    assert runner.signal(expenses.DECIDED, {"approved": True, "by": "Ada"}, key="A-1") == 0
    task_id = runner.enqueue(expenses.approve, expenses.Expense("A-1", 90, "Ada"))
    assert runner.run() == 1
    assert runner.result(task_id) == {"approved": True, "by": "Ada"}


def test_its_command_tells_of_thirty_days() -> None:
    said = programs.run(NAME)
    assert "A-1 is approved" in said
    assert "A-2 is refused" in said
