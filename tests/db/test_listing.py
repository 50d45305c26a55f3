"""Pages of tasks."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection

from db.listing import STATES, task_page, view_rows
from tests.db.clerk import Clerk


def page(conn: Connection, **filters: Any) -> list[UUID]:
    return [row.task_id for row in conn.execute(task_page(**filters))]


def test_pages_follow_each_other_without_gap_or_double_in_both_directions(conn: Connection, clerk: Clerk) -> None:
    ids = [row.task_id for row in clerk.enqueue_items([{"task_type": "mail"}] * 25)]
    for newest_first, expected in ((False, ids), (True, ids[::-1])):
        seen: list[UUID] = []
        while found := page(
            conn, task_type="mail", newest_first=newest_first, limit=10, after=seen[-1] if seen else None
        ):
            assert len(found) <= 10
            seen += found
            if newest_first:
                clerk.enqueue()  # made meanwhile: newer than what is still to come, so on no page
        assert seen == expected


def test_each_state_lists_its_own(conn: Connection, clerk: Clerk) -> None:
    expected = {
        "READY": clerk.enqueue("a"),
        "SCHEDULED": clerk.enqueue("b", delay_ms=60_000),
        "LOCKED": clerk.held("c").task_id,
        "BLOCKED": clerk.enqueue("h"),
        "WAITING": clerk.enqueue("d"),
        "COMPLETED": clerk.done("e").task_id,
        "FAILED": clerk.dead("f").task_id,
        "CANCELED": clerk.cancel(clerk.enqueue("g")).task_id,
    }
    blocked = "update celeriac.queue set state = 'BLOCKED', concurrency_key = 'k' where task_id = :id"
    clerk.run(blocked, id=expected["BLOCKED"])
    let_wait(clerk, expected["WAITING"])
    assert {state: page(conn, state=state) for state in STATES} == {
        state: [task_id] for state, task_id in expected.items()
    }
    assert len(page(conn)) == len(STATES)


def let_wait(clerk: Clerk, task_id: UUID) -> None:
    """Put the rows of a ready task as they are when it waits, having failed once."""
    clerk.run(
        "insert into celeriac.waiting (task_id, since, turn_at, version, priority, payload_bytes, retries, attempts,"
        " expirations, undoing, task_type, fencing_token)"
        " select task_id, run_at, turn_at, version, priority, payload_bytes, retries - 1, 1, 0, false, task_type, 1"
        " from celeriac.queue where task_id = :id",
        id=task_id,
    )
    clerk.run("delete from celeriac.queue where task_id = :id", id=task_id)
    clerk.run("update celeriac.task set state = 'WAITING' where id = :id", id=task_id)


def test_a_task_that_waits_shows_the_counters_that_it_will_go_on_with(conn: Connection, clerk: Clerk) -> None:
    task_id = clerk.enqueue(retries=5)
    let_wait(clerk, task_id)
    for state in (None, "WAITING"):
        (row,) = conn.execute(task_page(state=state))
        assert (row.state, row.retries, row.attempts, row.undoing) == ("WAITING", 4, 1, False)
    (row,) = conn.execute(view_rows("depths"))
    assert (row.task_type, row.state, row.tasks) == ("mail", "WAITING", 1)


@pytest.mark.parametrize("name", ["task_type", "business_key", "idempotency_key"])
@pytest.mark.parametrize("state", [None, "READY"])
def test_filters_are_exact(conn: Connection, clerk: Clerk, name: str, state: str | None) -> None:
    wanted = clerk.enqueue(**({"task_type": "mail"} | {name: "50%_\\'x"}))
    clerk.enqueue(**({"task_type": "mail"} | {name: "50"}))
    assert page(conn, state=state, **{name: "50%_\\'x"}) == [wanted]
    assert page(conn, state=state, **{name: "50%"}) == []


def test_a_caller_sees_only_its_types(conn: Connection, clerk: Clerk) -> None:
    """Case B66."""
    mail, pay = clerk.enqueue("mail.in"), clerk.enqueue("pay")
    assert page(conn, only_types=["mail.%"]) == [mail]
    assert page(conn, only_types=["mail.%", "p%"]) == [pay, mail]
    assert page(conn, only_types=[]) == page(conn, task_type="pay", only_types=["mail.%"]) == []


def test_rows_of_a_view_by_equality(conn: Connection, clerk: Clerk) -> None:
    clerk.enqueue("a")
    clerk.enqueue("b")
    (row,) = conn.execute(view_rows("depths", task_type="a"))
    assert (row.state, row.tasks) == ("READY", 1)
    assert len(conn.execute(view_rows("depths")).all()) == 2
