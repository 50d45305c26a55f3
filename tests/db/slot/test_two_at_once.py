"""Two transactions at once, in both orders: none waits for the other, no slot is given twice, nobody is forgotten."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Row

from app.dev.waiting import wait_until
from tests.db.clerk import Clerk

Connection = psycopg.Connection[Any]
WAITING = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def pair(database_url: str) -> Iterator[tuple[Connection, Connection]]:
    """Two connections whose transactions the test commits; waiting for each other would be an error."""
    with psycopg.connect(database_url) as one, psycopg.connect(database_url) as other:
        for connection in (one, other):
            connection.execute("set lock_timeout = '2s'")
            connection.commit()
        yield one, other


def limit(clerk: Clerk, concurrency: int) -> None:
    clerk.one("register_task_type", name="mail", concurrency=concurrency)


def fetch(connection: Connection, want: int = 1) -> list[Any]:
    """The ids of the tasks that it now holds."""
    rows = connection.execute("select task_id from celeriac.fetch_tasks('w1', '{mail}', %s)", [want]).fetchall()
    return [row[0] for row in rows]


def complete(connection: Connection, task: Row[Any]) -> None:
    connection.execute("select celeriac.complete_task(%s, 'w1')", [task.task_id])


@pytest.mark.parametrize("first_to_commit", ["who completes", "who claims"])
@pytest.mark.parametrize("first_to_act", ["who completes", "who claims"])
def test_one_completes_while_another_claims(
    clerk: Clerk, pair: tuple[Connection, Connection], first_to_act: str, first_to_commit: str
) -> None:
    """The claim cannot see the slot that comes free, nor the completion the task that is blocked."""
    limit(clerk, 1)
    held = clerk.held(concurrency_key="k")
    following = clerk.enqueue(concurrency_key="k")
    clerk.run("update celeriac.queue set state = 'READY' where task_id = :id", id=following)
    completing, claiming = pair
    acts = {"who completes": lambda: complete(completing, held), "who claims": lambda: fetch(claiming)}
    connections = {"who completes": completing, "who claims": claiming}
    for name in sorted(acts, key=lambda name: name != first_to_act):
        acts[name]()
    for name in sorted(acts, key=lambda name: name != first_to_commit):
        connections[name].commit()
    assert clerk.state(following) == "BLOCKED"
    assert [task.task_id for task in clerk.fetch()] == [following]


@pytest.mark.parametrize("first_to_commit", [0, 1])
def test_one_completes_while_another_looks_at_an_opening(
    clerk: Clerk, pair: tuple[Connection, Connection], first_to_commit: int
) -> None:
    """The opening is that of the blocked task, and the look finds no slot: the completion leaves one of its own."""
    limit(clerk, 1)
    held = clerk.held(concurrency_key="k")
    following = clerk.enqueue(concurrency_key="k")
    completing, looking = pair
    complete(completing, held)
    assert fetch(looking) == []
    pair[first_to_commit].commit()
    pair[1 - first_to_commit].commit()
    assert [task.task_id for task in clerk.fetch()] == [following]


@pytest.mark.parametrize("first_to_end", [0, 1])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_claim_for_the_last_slot(
    clerk: Clerk, pair: tuple[Connection, Connection], first_to_end: int, end: str
) -> None:
    limit(clerk, 2)
    tasks = [clerk.enqueue(concurrency_key="k") for _ in range(4)]
    clerk.run("update celeriac.queue set state = 'READY'")
    assert fetch(pair[0], 1) == tasks[:1]
    assert fetch(pair[1], 3) == tasks[1:2]
    getattr(pair[first_to_end], end)()
    getattr(pair[1 - first_to_end], end)()
    assert len(clerk.fetch(max_tasks=4)) == (0 if end == "commit" else 2)
    assert clerk.scalar("select count(*) from celeriac.queue where state = 'LOCKED'") == 2


def test_a_limit_that_is_raised_waits_for_claims_in_flight_and_unblocks(
    clerk: Clerk, pair: tuple[Connection, Connection]
) -> None:
    limit(clerk, 1)
    tasks = [clerk.enqueue(concurrency_key="k") for _ in range(3)]
    clerk.run("update celeriac.queue set state = 'READY'")
    claiming, raising = pair
    assert fetch(claiming, 3) == tasks[:1]
    with ThreadPoolExecutor(1) as thread:
        raised = thread.submit(raising.execute, "select celeriac.register_task_type('mail', concurrency => 2)")
        wait_until(lambda: clerk.query(WAITING), what="the change to wait")
        claiming.commit()
        raised.result()
    assert fetch(claiming, 3) == []  # the new limit is not committed yet, and nobody waits for it
    claiming.commit()
    raising.commit()
    assert len(clerk.fetch(max_tasks=3)) == 1


def test_a_first_limit_counts_those_that_are_held_and_those_being_claimed(
    clerk: Clerk, pair: tuple[Connection, Connection]
) -> None:
    held = clerk.held(concurrency_key="k")
    tasks = [clerk.enqueue(concurrency_key="k") for _ in range(3)]
    claiming, limiting = pair
    assert fetch(claiming) == tasks[:1]
    with ThreadPoolExecutor(1) as thread:
        limited = thread.submit(limiting.execute, "select celeriac.register_task_type('mail', concurrency => 3)")
        wait_until(lambda: clerk.query(WAITING), what="the change to wait")
        claiming.commit()
        limited.result()
        limiting.commit()
    assert clerk.scalar("select count(*) from celeriac.slot") == 2
    assert len(clerk.fetch(max_tasks=3)) == 1
    clerk.complete(held)
    assert len(clerk.fetch(max_tasks=3)) == 1
    assert clerk.fetch(max_tasks=3) == []


def test_who_cancels_a_task_that_was_let_in_and_not_taken_lets_in_the_next(
    clerk: Clerk, pair: tuple[Connection, Connection]
) -> None:
    """Both orders: the look comes before, or after, the cancellation is committed."""
    for commit_first in (True, False):
        clerk.run("delete from celeriac.queue; delete from celeriac.task; delete from celeriac.opening; "
                  "delete from celeriac.slot; delete from celeriac.history")  # fmt: skip
        limit(clerk, 1)
        let_in, following = (clerk.enqueue(concurrency_key="k") for _ in range(2))
        canceling, looking = pair
        canceling.execute("select celeriac.cancel_task(%s)", [let_in])
        if commit_first:
            canceling.commit()
        assert fetch(looking) == ([following] if commit_first else [])
        canceling.commit()
        looking.commit()
        if not commit_first:
            assert [task.task_id for task in clerk.fetch()] == [following]


def test_one_that_completes_and_looks_itself_is_looked_after(clerk: Clerk, pair: tuple[Connection, Connection]) -> None:
    """It sees nobody behind its opening, since the blocked one is not committed, and that one sees no free slot."""
    limit(clerk, 1)
    held = clerk.held(concurrency_key="k")
    following = clerk.enqueue(concurrency_key="k")
    clerk.run("delete from celeriac.opening")
    clerk.run("update celeriac.queue set state = 'READY' where task_id = :id", id=following)
    completing, claiming = pair
    assert fetch(claiming) == []
    fused = "select * from celeriac.complete_and_fetch(%s, 'w1', '{mail}', 1)"
    completing.execute(fused, [json.dumps([{"task_id": str(held.task_id)}])])
    claiming.commit()
    assert fetch(claiming) == []
    claiming.commit()
    completing.commit()
    assert [task.task_id for task in clerk.fetch()] == [following]
