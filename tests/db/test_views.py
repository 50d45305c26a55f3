"""Each view tells the truth on a small story."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from db.engine import sync_engine
from db.migrate import code_hash
from tests.clock import Clock
from tests.db.clerk import Clerk


class Story:
    """One task, a second from step to step: failed, lost, given back, failed for good, redriven, completed."""

    def __init__(self, clerk: Clerk, clock: Clock) -> None:
        self.at: dict[str, datetime] = {}
        self.tokens: list[int] = []
        self._clerk, self._clock = clerk, clock
        clock.freeze()
        self.task_id = self._tell(
            "enqueued", lambda: clerk.enqueue(retries=2, business_key="order-7", variables={"n": 1})
        )
        self._tell("failed", lambda: clerk.fail(self._fetch("w1"), retry_after_ms=0))
        self._tell("lost", lambda: self._lose("w2"))
        self._tell("released", lambda: clerk.release(self._fetch("w3"), worker_id="w3"))
        self._tell("dead", lambda: clerk.fail(self._fetch("w4"), worker_id="w4", error="broken", retry_after_ms=0))
        self._tell("redriven", lambda: clerk.one("redrive_task", task_id=self.task_id, principal="anna"))
        self._tell("completed", lambda: clerk.complete(self._fetch("w5"), worker_id="w5", variables={"m": 2}))

    def _tell(self, name: str, step: Callable[[], Any]) -> Any:
        self._clock.advance(1)
        result = step()
        self.at[name] = self._clock.now()
        return result

    def _fetch(self, worker_id: str) -> Any:
        (task,) = self._clerk.fetch(worker_id=worker_id, lock_duration_ms=1000)
        self.tokens.append(task.fencing_token)
        return task

    def _lose(self, worker_id: str) -> None:
        self._fetch(worker_id)
        self._clock.advance(1)
        self._clerk.one("expire_leases")


@pytest.fixture
def story(clerk: Clerk, clock: Clock) -> Story:
    return Story(clerk, clock)


def test_the_timeline_tells_what_was_out_of_the_ordinary(clerk: Clerk, story: Story) -> None:
    lines = clerk.query("select at, kind, worker_id, principal, fencing_token from celeriac.task_timeline order by at")
    tokens = story.tokens
    assert [tuple(line.values()) for line in lines] == [
        (story.at["failed"], "failed", "w1", "postgres", tokens[0]),
        (story.at["lost"], "lease_lost", "w2", "postgres", tokens[1]),
        (story.at["released"], "released", "w3", "postgres", tokens[2]),
        (story.at["dead"], "failed", "w4", "postgres", tokens[3]),
        (story.at["redriven"], "redriven", "w4", "anna", tokens[3]),
    ]


def test_the_attempts_tell_who_held_it_how_it_ended_and_how_long_it_took(clerk: Clerk, story: Story) -> None:
    rows = clerk.query("select * from celeriac.task_attempts order by started_at, ended_at")
    assert [(row["outcome"], row["worker_id"], row["attempt"], row["error"]) for row in rows] == [
        ("failed", "w1", 1, "no such mailbox"),
        ("lease_lost", "w2", 2, None),
        ("released", "w3", 3, None),
        ("failed", "w4", 3, "broken"),
        ("completed", "w5", 1, None),
    ]
    assert [row["fencing_token"] for row in rows] == story.tokens
    assert [row["ended_at"] for row in rows] == [
        story.at[name] for name in ("failed", "lost", "released", "dead", "completed")
    ]
    assert rows[1]["ended_at"] - rows[1]["started_at"] == timedelta(seconds=1)


def test_a_running_attempt_has_no_end(clerk: Clerk) -> None:
    task = clerk.held()
    (row,) = clerk.query("select * from celeriac.task_attempts")
    assert (row["outcome"], row["fencing_token"], row["ended_at"]) == ("running", task.fencing_token, None)
    assert row["started_at"] is not None


def test_a_canceled_task_has_an_attempt_only_when_it_was_held(clerk: Clerk) -> None:
    clerk.cancel(clerk.enqueue("idle"))
    held = clerk.held()
    clerk.cancel(held.task_id)
    (row,) = clerk.query("select * from celeriac.task_attempts")
    assert (row["task_id"], row["outcome"], row["worker_id"]) == (held.task_id, "canceled", "w1")


def test_one_task_in_detail(clerk: Clerk, story: Story) -> None:
    (row,) = clerk.query("select * from celeriac.task_detail")
    assert (row["task_id"], row["state"], row["redrives"], row["business_key"]) == (
        story.task_id,
        "COMPLETED",
        1,
        "order-7",
    )
    assert (row["worker_id"], row["principal"], row["fencing_token"]) == ("w5", "postgres", story.tokens[-1])
    assert (json.loads(row["variables"]), json.loads(row["result"])) == ({"n": 1}, {"m": 2})
    assert (row["created_at"], row["ended_at"]) == (story.at["enqueued"], story.at["completed"])
    assert (row["run_at"], row["lock_expires_at"], row["error"]) == (None, None, None)


def test_the_lists_show_open_work_as_it_stands(clerk: Clerk) -> None:
    """Case B02: who holds it, until when."""
    task = clerk.held(retries=5)
    for view in ("task_list", "open_task_list"):
        (row,) = clerk.query(f"select * from celeriac.{view}")
        assert (row["state"], row["worker_id"], row["retries"], row["attempts"]) == ("LOCKED", "w1", 5, 1)
        assert (row["lock_expires_at"], row["fencing_token"]) == (task.lock_expires_at, task.fencing_token)
    clerk.fail(task, retry_after_ms=60_000)
    for view in ("task_list", "open_task_list"):
        (row,) = clerk.query(f"select * from celeriac.{view}")
        assert (row["state"], row["worker_id"], row["retries"], row["lock_expires_at"]) == ("SCHEDULED", None, 4, None)


def test_a_task_that_was_never_handed_out_has_no_token(clerk: Clerk) -> None:
    clerk.enqueue()
    tokens = "select fencing_token from celeriac.task_list union all select fencing_token from celeriac.open_task_list"
    assert {row["fencing_token"] for row in clerk.query(tokens)} == {None}


def test_a_failed_task_has_no_retries_left(clerk: Clerk) -> None:
    clerk.dead(retries=3)
    assert clerk.scalar("select retries from celeriac.task_list") == 0


def test_depths_count_open_work_by_type_and_state(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 3 + [{"task_type": "mail", "delay_ms": 60_000}])
    clerk.fetch()
    clerk.done("bill")
    rows = clerk.query("select * from celeriac.depths order by task_type, state")
    assert [tuple(row.values()) for row in rows] == [
        ("mail", "LOCKED", 1),
        ("mail", "READY", 2),
        ("mail", "SCHEDULED", 1),
    ]


def test_the_oldest_ready_task_of_each_type_tells_how_long_it_has_waited(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    since = clock.now()
    clerk.enqueue_items([{"task_type": "mail"}, {"task_type": "bill", "version": 2}])
    clock.advance(5)
    clerk.enqueue_items([{"task_type": "mail"}, {"task_type": "mail", "version": 3}, {"task_type": "bill"}])
    clerk.held("held")
    rows = clerk.query("select * from celeriac.oldest_ready order by task_type")
    assert [tuple(row.values()) for row in rows] == [("bill", since, 5000), ("mail", since, 5000)]


def test_dead_letters_are_what_failed_and_say_why(clerk: Clerk, story: Story) -> None:
    assert clerk.query("select * from celeriac.dead_letters") == []
    task = clerk.dead("bill", business_key="order-8")
    (row,) = clerk.query("select * from celeriac.dead_letters")
    assert (row["task_id"], row["error"], row["attempts"], row["worker_id"]) == (
        task.task_id,
        "no such mailbox",
        1,
        "w1",
    )
    assert (row["business_key"], row["failed_at"]) == ("order-8", clerk.task(task.task_id)["ended_at"])
    clerk.one("redrive_task", task_id=task.task_id)
    assert clerk.query("select * from celeriac.dead_letters") == []


def test_the_outbox_tells_what_has_not_left(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    clerk.celery_type()
    clerk.enqueue()
    clock.advance(1)
    clerk.enqueue()
    clerk.run("update celeriac.outbox set parked_at = celeriac.now() where id = (select max(id) from celeriac.outbox)")
    assert clerk.query("select * from celeriac.outbox_depth") == [
        {"channel": "ring", "pending": 1, "parked": 1, "oldest_due_at": clock.now() - timedelta(seconds=1)}
    ]


def test_task_types_are_shown_as_registered(clerk: Clerk) -> None:
    row = clerk.one("register_task_type", name="mail", retries=9)
    assert clerk.query("select * from celeriac.task_types") == [dict(row._mapping)]


def test_refusals_are_counted(clerk: Clerk) -> None:
    task = clerk.done()
    assert clerk.scalar("select total from celeriac.refusals") == 0
    for _ in range(3):
        with pytest.raises(Exception, match="ended"):
            clerk.fail(task)
    assert clerk.scalar("select total from celeriac.refusals") == 3


def test_health_tells_what_runs_here_and_who_holds_an_old_snapshot(clerk: Clerk, database_url: str) -> None:
    """Case B44."""
    (row,) = clerk.query("select * from celeriac.health")
    assert (row["in_recovery"], row["read_only"], row["code_hash"]) == (False, False, code_hash())
    engine = sync_engine(database_url, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        connection.execute(text("select 1"))
        assert clerk.scalar("select oldest_snapshot_age_ms from celeriac.health") >= 0
    engine.dispose()


def test_health_turns_red_when_the_server_is_read_only(clerk: Clerk) -> None:
    clerk.run("set default_transaction_read_only = on")
    assert clerk.scalar("select read_only from celeriac.health") is True
    clerk.run("set default_transaction_read_only = off")


def test_an_unknown_task_is_no_row(clerk: Clerk) -> None:
    for view in ("task_list", "task_detail", "task_timeline", "task_attempts"):
        assert clerk.query(f"select * from celeriac.{view} where task_id = :id", id=UUID(int=7)) == []


def test_a_version_that_no_live_worker_runs_is_stuck(clerk: Clerk, clock: Clock) -> None:
    """Also when no worker was ever registered; a worker that names no versions runs all."""
    for version in (1, 1, 2, 3):
        clerk.enqueue(version=version)
    clerk.enqueue("scan")
    clerk.done("done", version=7)
    clerk.one("promote_due")

    def stuck() -> list[tuple[Any, ...]]:
        rows = clerk.query(
            "select task_type, version, open_tasks, waiting_tasks from celeriac.stuck_versions order by 1, 2"
        )
        return [tuple(row.values()) for row in rows]

    assert stuck() == [("mail", 1, 2, 0), ("mail", 2, 1, 0), ("mail", 3, 1, 0), ("scan", 1, 1, 0)]
    clerk.one("register_worker", worker_id="w1", task_types=["mail"], versions={"mail": [1, 3]})
    clerk.one("register_worker", worker_id="w2", task_types=["scan"])
    assert stuck() == [("mail", 2, 1, 0)]
    clerk.one("register_worker", worker_id="w2", task_types=["scan", "mail"], versions={"mail": [2]})
    assert stuck() == []
    clock.advance(31)
    clerk.one("register_worker", worker_id="w1", task_types=["mail"], versions={"mail": [1, 3]})
    assert stuck() == [("mail", 2, 1, 0), ("scan", 1, 1, 0)]


def test_a_stuck_version_tells_since_when(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    first = clock.now()
    clerk.held()
    clock.advance(60)
    clerk.enqueue()
    (row,) = clerk.query("select * from celeriac.stuck_versions")
    assert (row["open_tasks"], row["oldest_created_at"]) == (2, first)


def test_slots_tell_what_is_wrong_with_them(clerk: Clerk) -> None:
    clerk.one("register_task_type", name="mail", concurrency=1)
    held = clerk.held(concurrency_key="k")
    clerk.enqueue(concurrency_key="k")

    def faults() -> list[tuple[Any, ...]]:
        return [(row["fault"], row["key"]) for row in clerk.query("select * from celeriac.slot_faults")]

    assert faults() == []
    clerk.run("delete from celeriac.opening")
    assert faults() == []
    clerk.run("delete from celeriac.slot")
    assert sorted(faults()) == [("a blocked task although a slot is free", "k"), ("a held task without a slot", "k")]
    clerk.run("insert into celeriac.slot (task_type, key, number, task_id) values ('mail', 'k', 1, gen_random_uuid())")
    assert sorted(faults()) == [("a held task without a slot", "k"), ("a slot of a task that nobody holds", "k")]
    assert held
