"""Thousands of tasks behind one key are no burden for the claims of others: no page more is read for them.

SLOT_BEHIND says how many (default 20 000).
"""

import json
import os
from typing import Any

import psycopg
import pytest

from tests.db.clerk import Clerk

BEHIND = int(os.environ.get("SLOT_BEHIND", "20000"))
# Pages that a claim of one task may touch, as in tests/proof/test_plans.py; measured: 36 with none behind the key,
# 41 with 20 000, 44 with 100 000; enqueuing one more touches 25. In a database that other tests have left in disorder
# it was 150 once; who looked at each of the 20 000 would touch as many.
CLAIM_PAGES = 400


@pytest.fixture
def crowded(clerk: Clerk, request: pytest.FixtureRequest) -> str:
    """One is held, all others are behind it; then come some of another key and some without. Answers with their type.

    A type of its own for each test: the database is shared, and dead rows of one test are in the way of the next.
    """
    name: str = request.node.name
    clerk.one("register_task_type", name=name, concurrency=1, lease_ms=3_600_000)
    clerk.held(name, concurrency_key="k", lock_duration_ms=3_600_000)
    for _ in range(BEHIND // 5000):
        clerk.enqueue_items([{"task_type": name, "concurrency_key": "k"}] * 5000)
    clerk.enqueue_items([{"task_type": name, "concurrency_key": f"l{n}"} for n in range(20)])
    clerk.enqueue_items([{"task_type": name}] * 20)
    return name


def pages(connection: psycopg.Connection[Any], call: str) -> int:
    (answer,) = (
        connection.execute(f"explain (analyze, buffers, format json) select * from celeriac.{call}").fetchone() or ()
    )
    return int(answer[0]["Plan"]["Shared Hit Blocks"] + answer[0]["Plan"]["Shared Read Blocks"])


def test_claims_and_completions_of_others_touch_few_pages(clerk: Clerk, crowded: str, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        counts = [pages(connection, f"fetch_tasks('w2', array['{crowded}'], 1)") for _ in range(12)]
    assert max(counts[2:]) <= CLAIM_PAGES
    assert clerk.scalar("select count(*) from celeriac.queue where state = 'BLOCKED'") == BEHIND


def test_letting_in_the_next_touches_few_pages_as_well(clerk: Clerk, crowded: str, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        counts = []
        for _ in range(8):
            held = clerk.query(
                "select task_id, lease_owner from celeriac.queue where state = 'LOCKED' and concurrency_key = 'k'"
            )
            clerk.one("complete_task", task_id=held[0]["task_id"], worker_id=held[0]["lease_owner"])
            counts.append(pages(connection, f"fetch_tasks('w1', array['{crowded}'], 1)"))
    assert max(counts[2:]) <= 2 * CLAIM_PAGES


def test_enqueuing_one_more_touches_few_pages(crowded: str, database_url: str) -> None:
    one = "enqueue_tasks('" + json.dumps([{"task_type": crowded, "concurrency_key": "k"}]) + "')"
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert max([pages(connection, one) for _ in range(5)][2:]) <= CLAIM_PAGES
