"""purge_ended: ended long ago -> gone."""

import threading

import pytest

from db.engine import sync_engine
from db.errors import Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.waits import at_rest, children, for_signal, for_time, send, suspend

WORK = ("step", "operation", "compensation", "saga", "incident", "wait", "waiting", "child")
DAY_MS = 86_400_000


def test_what_ended_long_ago_goes_with_its_timeline(clerk: Clerk, clock: Clock) -> None:
    old = [clerk.done().task_id, clerk.dead().task_id, clerk.enqueue()]
    clerk.cancel(old[2])
    clock.advance(2 * 86_400)
    kept = clerk.dead().task_id
    answer = clerk.one("purge_ended", older_than_ms=DAY_MS)
    assert (answer.purged, answer.last_id) == (3, None)
    assert [row["task_id"] for row in clerk.query("select task_id from celeriac.task_list")] == [kept]
    assert {row["task_id"] for row in clerk.query("select task_id from celeriac.history")} == {kept}


def test_all_that_a_task_has_done_goes_with_it(clerk: Clerk, clock: Clock) -> None:
    lease = {"lock_duration_ms": 30 * DAY_MS}
    parent = clerk.held(**lease)
    write = {"task_id": parent.task_id, "worker_id": "w1", "fencing_token": parent.fencing_token}
    (child,) = children(clerk, parent)
    clerk.complete(clerk.fetch("child")[0])
    clerk.one("register_compensation", **write, branch="", ordinal=2, name="charge")
    clerk.one("begin_operation", **write, branch="", ordinal=2, name="charge", plan={})
    suspend(clerk, parent, for_time(branch="3.0"), for_signal(branch="3.1"))
    send(clerk)
    (parent,) = clerk.fetch(**lease)
    write["fencing_token"] = parent.fencing_token
    what = {"kind": "other_code", "name": "x", "message": "expected y, found x", "detail": {}}
    clerk.one("raise_incident", **write, branch="", ordinal=4, **what)
    clerk.cancel(parent.task_id)
    clock.advance(2 * 86_400)
    clerk.one("purge_ended", older_than_ms=DAY_MS)
    left = {table: clerk.scalar(f"select count(*) from celeriac.{table}") for table in WORK}
    assert left == dict.fromkeys(WORK, 0)
    assert clerk.query("select * from celeriac.task where id = :id", id=child) == []


def test_a_child_outlives_its_parent_and_the_work_of_others_stays(clerk: Clerk, clock: Clock) -> None:
    parent = clerk.held(lock_duration_ms=30 * DAY_MS)
    (child,) = children(clerk, parent)
    other = at_rest(clerk, for_time(30 * DAY_MS))
    clerk.complete(parent)
    clock.advance(2 * 86_400)
    assert clerk.one("purge_ended", older_than_ms=DAY_MS).purged == 1
    assert (clerk.state(child), clerk.state(other.task_id)) == ("READY", "WAITING")
    assert clerk.scalar("select count(*) from celeriac.child") == 0
    assert clerk.scalar("select count(*) from celeriac.wait where armed") == 1


def test_expired_signals_go_as_well(clerk: Clerk, clock: Clock) -> None:
    send(clerk, ttl_ms=1000), send(clerk)
    clock.advance(2)
    clerk.one("purge_ended", older_than_ms=DAY_MS)
    assert clerk.scalar("select count(*) from celeriac.signal") == 1


def test_open_work_is_never_purged_however_old(clerk: Clerk, clock: Clock) -> None:
    clerk.enqueue()
    clerk.enqueue("bill", delay_ms=3_155_760_000_000)
    clerk.held("held")
    clock.advance(1000 * 86_400)
    before = clerk.everything()
    assert clerk.one("purge_ended", older_than_ms=0).purged == 0
    assert clerk.everything() == before


def test_the_age_counts_from_the_end_not_from_the_beginning(clerk: Clerk, clock: Clock) -> None:
    clerk.enqueue()
    clock.advance(10 * 86_400)
    clerk.complete(clerk.fetch()[0])
    assert clerk.one("purge_ended", older_than_ms=DAY_MS).purged == 0
    clock.advance(2 * 86_400)
    assert clerk.one("purge_ended", older_than_ms=DAY_MS).purged == 1


def test_a_redriven_task_is_open_again(clerk: Clerk, clock: Clock) -> None:
    task = clerk.dead()
    clock.advance(2 * 86_400)
    clerk.one("redrive_task", task_id=task.task_id)
    assert clerk.one("purge_ended", older_than_ms=DAY_MS).purged == 0


def test_it_goes_on_step_by_step_from_where_it_was(clerk: Clerk, clock: Clock) -> None:
    clerk.enqueue("open")
    for _ in range(5):
        clerk.done()
    clock.advance(2 * 86_400)
    purged, last_id, steps = 0, None, 0
    while steps == 0 or last_id is not None:
        answer = clerk.one("purge_ended", older_than_ms=DAY_MS, after=last_id, max_tasks=2)
        purged, last_id, steps = purged + answer.purged, answer.last_id, steps + 1
    assert (purged, steps) == (5, 4)
    assert clerk.scalar("select count(*) from celeriac.task") == 1


def test_two_at_once_purge_each_task_once(clerk: Clerk, clock: Clock, database_url: str) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 200)
    for task in clerk.fetch(max_tasks=200):
        clerk.complete(task)
    clock.advance(2 * 86_400)
    engine = sync_engine(database_url)
    purged: list[int] = []

    def purge() -> None:
        with engine.connect() as connection:
            purged.append(Clerk(connection).one("purge_ended", older_than_ms=DAY_MS).purged)

    purgers = [threading.Thread(target=purge) for _ in range(2)]
    for purger in purgers:
        purger.start()
    for purger in purgers:
        purger.join()
    engine.dispose()
    assert sum(purged) == 200
    assert clerk.scalar("select count(*) from celeriac.task") == 0


def test_a_century_purges_nothing(clerk: Clerk, clock: Clock) -> None:
    clerk.done()
    clock.advance(86_400)
    assert clerk.one("purge_ended", older_than_ms=3_155_760_000_000).purged == 0


@pytest.mark.parametrize(
    "field, value",
    [
        ("older_than_ms", -1), ("older_than_ms", None), ("older_than_ms", 2**63 - 1),
        ("max_tasks", 0), ("max_tasks", 10_001), ("max_tasks", None),
    ],
)  # fmt: skip
def test_out_of_bounds_is_refused_by_field(clerk: Clerk, field: str, value: int | None) -> None:
    clerk.done()
    with clerk.refuses(Invalid, field):
        clerk.one("purge_ended", **({"older_than_ms": 0} | {field: value}))
