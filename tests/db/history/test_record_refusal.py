"""record_refusal: a refused stale write in the timeline of its task."""

from typing import Any
from uuid import UUID

from tests.db.clerk import Clerk


def record(clerk: Clerk, task_id: UUID, **changed: Any) -> int:
    arguments = {"verb": "complete", "code": "stale_token", "worker_id": "w1", "fencing_token": 7} | changed
    return clerk.rows("record_refusal", task_id=task_id, **arguments)[0][0]


def test_it_stands_in_the_timeline(clerk: Clerk) -> None:
    """Case B64: the zombie's late write is seen by a person."""
    task = clerk.held()
    assert record(clerk, task.task_id, principal="anna") == 1
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["worker_id"], line["principal"], line["fencing_token"]) == ("refused", "w1", "anna", 7)
    assert line["detail"] == {"verb": "complete", "code": "stale_token"}


def test_a_task_takes_a_hundred_so_nobody_can_flood_it(clerk: Clerk) -> None:
    task_id = clerk.enqueue()
    assert [record(clerk, task_id) for _ in range(103)] == [*range(1, 101), 100, 100, 100]
    assert len(clerk.timeline(task_id)) == 100


def test_what_is_written_is_bounded(clerk: Clerk) -> None:
    task_id = clerk.enqueue()
    record(clerk, task_id, verb="v" * 1000, code="c" * 1000, worker_id="w" * 1000)
    (line,) = clerk.timeline(task_id)
    assert (len(line["worker_id"]), len(line["detail"]["verb"]), len(line["detail"]["code"])) == (255, 40, 40)


def test_nothing_is_written_for_a_task_that_is_missing_or_not_the_callers(clerk: Clerk) -> None:
    """Case B66."""
    task_id = clerk.enqueue("pay")
    before = clerk.everything()
    assert record(clerk, UUID(int=7)) == 0
    assert record(clerk, task_id, only_types=["mail"]) == 0
    assert clerk.everything() == before


def test_it_is_no_attempt(clerk: Clerk) -> None:
    task_id = clerk.enqueue()
    record(clerk, task_id)
    assert clerk.query("select * from celeriac.task_attempts") == []
