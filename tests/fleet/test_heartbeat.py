"""What keeps a lease alive while its handler runs, and what does not."""

import pytest
from sqlalchemy import Connection

from tests.fleet.conftest import StartFleet
from tests.fleet.sights import all_completed, enqueue, started, task


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_handler_that_burns_the_processor_in_python_keeps_its_lease(
    pool: str, start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    start_fleet(pool, concurrency=1, FLEET_LEASE="2")
    [task_id] = enqueue(database_url, "busy", {"how": "in Python"})
    all_completed(conn, 1)
    assert (task(conn, task_id).attempts, task(conn, task_id).expirations) == (1, 0)


def test_a_handler_that_keeps_the_interpreter_in_c_loses_its_lease_and_its_result_is_refused(
    start_fleet: StartFleet, conn: Connection, database_url: str
) -> None:
    fleet = start_fleet("prefork", concurrency=2, FLEET_LEASE="1")
    [task_id] = enqueue(database_url, "busy", {"how": "in C"})
    first, second = started(conn, 2)[:2]
    assert second.fencing_token > first.fencing_token
    fleet.wait_for_output(f"the outcome of task {task_id} was refused")
    assert task(conn, task_id).expirations >= 1
