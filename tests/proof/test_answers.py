"""What the state machine and the interleavings found once, each as one small case."""

import pytest
from sqlalchemy import Connection

from db.call import json_list, one, rows
from tests.clock import Clock


def enqueued(conn: Connection, **item: object) -> str:
    return str(one(conn, "enqueue_tasks", tasks=json_list([{"task_type": "mail"} | item])).task_id)


def fetched(conn: Connection, worker_id: str = "w1", lease_ms: int = 1000) -> int:
    return int(
        one(
            conn, "fetch_tasks", worker_id=worker_id, task_types=["mail"], max_tasks=1, lock_duration_ms=lease_ms
        ).fencing_token
    )


@pytest.mark.parametrize("verb", ["complete_tasks", "fail_tasks"])
def test_a_batch_is_answered_in_the_order_of_its_items(conn: Connection, verb: str) -> None:
    items = [{"task_id": enqueued(conn)} for _ in range(20)][::-1]
    answer = rows(conn, verb, items=json_list(items), worker_id="w1")
    assert [str(row.task_id) for row in answer] == [item["task_id"] for item in items]
    assert [row.ordinal for row in answer] == list(range(20))


@pytest.mark.parametrize("verb", ["complete_tasks", "fail_tasks"])
def test_a_batch_with_a_stale_and_a_valid_write_for_a_task_takes_the_valid_one(
    conn: Connection, clock: Clock, verb: str
) -> None:
    task_id = enqueued(conn)
    stale = fetched(conn)
    clock.advance(2)
    valid = fetched(conn)
    items = [{"task_id": task_id, "fencing_token": token} for token in (stale, valid)]
    assert [row.code for row in rows(conn, verb, items=json_list(items), worker_id="w1")][1] is None


def test_a_release_that_is_sent_again_is_answered_as_the_first_time(conn: Connection) -> None:
    task_id = enqueued(conn)
    token = fetched(conn)
    first = one(conn, "release_task", task_id=task_id, worker_id="w1", fencing_token=token)
    fetched(conn, "w2")
    assert one(conn, "release_task", task_id=task_id, worker_id="w1", fencing_token=token) == first
