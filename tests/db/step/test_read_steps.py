"""read_steps: what a task has done, page by page, for its replay."""

import json
from typing import Any

import psycopg
import pytest

from db.errors import Invalid
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step


def test_the_order_is_that_of_the_branches_and_their_calls(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    places = [("10.0", 1), ("2.0/1.1", 1), ("", 10), ("2.0", 2), ("", 9), ("2.0", 10)]
    ledger.record(task, *(step(ordinal, branch=branch) for branch, ordinal in places))
    assert [(row.branch, row.ordinal) for row in ledger.steps(task)] == sorted(places)


def test_a_task_without_steps_has_none_and_sees_no_others(clerk: Clerk, ledger: Ledger) -> None:
    other = clerk.held()
    ledger.record(other, step())
    assert ledger.steps(clerk.held()) == []


def pages(ledger: Ledger, task: Any, **asked: Any) -> list[list[tuple[str, int]]]:
    """Every page, each asked for beyond the last row of the one before."""
    read: list[list[tuple[str, int]]] = []
    after: dict[str, Any] = {}
    while rows := ledger.steps(task, **asked, **after):
        read.append([(row.branch, row.ordinal) for row in rows])
        after = {"after_branch": rows[-1].branch, "after_ordinal": rows[-1].ordinal}
    return read


def test_pages_hold_every_step_once(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    places = [(branch, ordinal) for branch in ("", "1.0", "1.1") for ordinal in range(1, 8)]
    ledger.record(task, *(step(ordinal, branch=branch) for branch, ordinal in places))
    read = pages(ledger, task, max_steps=5)
    assert [len(page) for page in read] == [5, 5, 5, 5, 1]
    assert [place for page in read for place in page] == places


def test_a_page_ends_where_its_bytes_end_but_holds_at_least_one(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    sizes = [10, 10, 100_000, 10, 10]
    ledger.record(task, *(step(n, result="x" * size) for n, size in enumerate(sizes, start=1)))
    assert [len(page) for page in pages(ledger, task, max_bytes=1000)] == [2, 1, 2]
    assert [len(page) for page in pages(ledger, task, max_bytes=1)] == [1] * 5


def test_errors_count_as_well(clerk: Clerk, ledger: Ledger) -> None:
    task = clerk.held()
    ledger.record(task, step(1, error="x" * 900), step(2, error="x" * 900))
    assert [len(page) for page in pages(ledger, task, max_bytes=1000)] == [1, 1]


@pytest.mark.parametrize(
    "field, asked",
    [
        ("max_steps", {"max_steps": 0}),
        ("max_steps", {"max_steps": 10_001}),
        ("max_bytes", {"max_bytes": 0}),
        ("max_bytes", {"max_bytes": 67_108_865}),
    ],
)
def test_out_of_range_is_refused_by_field(clerk: Clerk, ledger: Ledger, field: str, asked: dict[str, Any]) -> None:
    task = clerk.held()
    with clerk.refuses(Invalid, field):
        ledger.steps(task, **asked)


def test_a_reader_waits_for_nobody(clerk: Clerk, ledger: Ledger, database_url: str) -> None:
    task = clerk.held()
    ledger.record(task, step())
    with psycopg.connect(database_url) as holder:
        holder.execute("select from celeriac.queue for update")
        clerk.run("set lock_timeout = '1ms'")
        assert len(ledger.steps(task)) == 1


def test_ten_thousand_steps_are_read_page_by_page_and_each_page_touches_its_own_rows_only(
    clerk: Clerk, ledger: Ledger
) -> None:
    task = clerk.held()
    for start in range(1, 10_001, 1000):
        ledger.record(task, *(step(n, result={"n": n}) for n in range(start, start + 1000)))
    read = pages(ledger, task)
    assert [len(page) for page in read] == [1000] * 10
    assert read[-1][-1] == ("", 10_000)
    clerk.run("analyze celeriac.step")
    first, last = (_blocks(clerk, task, after) for after in (0, 9000))
    assert last <= first + 20


def _blocks(clerk: Clerk, task: Any, after: int) -> int:
    """How many blocks a page of a thousand steps looks at."""
    call = "explain (analyze, buffers, format json) select * from celeriac.read_steps(:t, 'w1', :f, '', :after)"
    (found,) = json.loads(clerk.scalar(call, t=task.task_id, f=task.fencing_token, after=after))
    return int(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])
