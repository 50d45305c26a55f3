"""An enqueue is part of the caller's transaction, which may stay open for long: it must not hold up those of others."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.db.clerk import Clerk

ITEM = '[{"task_type": "new.type", "version": 7, "fairness_key": "tenant", "variables": {"n": 1}}]'
ENQUEUE = "select task_id from celeriac.enqueue_tasks(%s::jsonb)"


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection]:
    """Another program's connection, which gives up a lock at once in place of waiting for it."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("set lock_timeout = '1ms'")
        yield connection


@pytest.fixture
def long_one(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as connection:
        connection.execute(ENQUEUE, (ITEM,))
        yield connection


def test_a_type_that_nobody_knows_yet_can_be_brought_by_two_open_transactions(
    clerk: Clerk, long_one: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute(ENQUEUE, (ITEM,))
    assert len(clerk.fetch("new.type", max_tasks=10)) == 1
    long_one.commit()
    assert len(clerk.fetch("new.type", max_tasks=10)) == 1


def test_a_known_fairness_key_can_be_used_by_two_open_transactions(
    clerk: Clerk, database_url: str, other: psycopg.Connection
) -> None:
    clerk.enqueue("new.type", fairness_key="tenant", version=7)
    with psycopg.connect(database_url) as long_one:
        long_one.execute(ENQUEUE, (ITEM,))
        other.execute(ENQUEUE, (ITEM,))
    assert len(clerk.fetch("new.type", max_tasks=10)) == 3


def test_a_type_whose_first_transaction_was_rolled_back_is_found_all_the_same(
    clerk: Clerk, long_one: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute(ENQUEUE, (ITEM,))
    long_one.rollback()
    clerk.one("promote_due")
    assert len(clerk.fetch("new.type", max_tasks=10, versions='{"new.type": [7]}')) == 1


def test_types_are_folded_once_and_leave_no_rest(clerk: Clerk) -> None:
    for _ in range(3):
        clerk.enqueue("new.type")
    assert clerk.scalar("select count(*) from celeriac.new_stream") == 3
    clerk.one("promote_due")
    clerk.enqueue("new.type")
    assert clerk.scalar("select count(*) from celeriac.new_stream") == 0
    assert len(clerk.fetch("new.type", max_tasks=10)) == 4
