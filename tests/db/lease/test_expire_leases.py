"""expire_leases: LOCKED -> READY | FAILED."""

import threading
from datetime import timedelta

import pytest

from app.dev.postgres import EmbeddedPostgres
from app.dev.waiting import wait_until
from db import call
from db.engine import sync_engine
from db.errors import Invalid, Unavailable
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_a_lost_lease_puts_the_task_back_in_its_old_place(clerk: Clerk, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    held = clerk.queue(task.task_id)
    clock.advance(2)
    answer = clerk.one("expire_leases")
    assert (answer.expired, answer.failed, answer.rearmed, answer.task_types) == (1, 0, 0, ["mail"])
    assert held is not None
    assert clerk.queue(task.task_id) == held | {
        "state": "READY", "expirations": 1,
        "last_owner": "w1", "last_principal": "postgres", "last_until": held["lease_expires_at"],
        "lease_owner": None, "lease_principal": None, "leased_at": None, "lease_expires_at": None, "reap_at": None,
    }  # fmt: skip
    (again,) = clerk.fetch(worker_id="w2")
    assert (again.task_id, again.attempt, again.retries) == (task.task_id, 2, 3)


def test_it_stands_in_the_timeline(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(lock_duration_ms=1000)
    start = clock.now()
    clock.advance(2)
    clerk.one("expire_leases")
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["at"], line["started_at"]) == ("lease_lost", clock.now(), start)
    assert (line["worker_id"], line["principal"], line["fencing_token"]) == ("w1", "postgres", task.fencing_token)
    assert line["detail"] == {"expirations": 1, "for_good": False}


def test_a_lease_is_lost_at_its_very_end_and_not_before(clerk: Clerk, clock: Clock) -> None:
    """Case B05."""
    clock.freeze()
    clerk.held(lock_duration_ms=1000)
    clock.advance(0.999999)
    assert clerk.one("expire_leases").expired == 0
    clock.advance(0.000001)
    assert clerk.one("expire_leases").expired == 1


def test_a_clock_set_back_takes_no_lease_and_keeps_none_for_long(clerk: Clerk, clock: Clock) -> None:
    """Case B05: an hour back, then right again."""
    task = clerk.held(lock_duration_ms=60_000)
    clock.advance(-3600)
    assert clerk.one("expire_leases").expired == 0
    clerk.extend(task, 60_000)
    clock.advance(120)
    assert clerk.one("expire_leases").expired == 1


def test_a_lease_that_was_extended_is_looked_at_again_when_it_ends(clerk: Clerk, clock: Clock) -> None:
    task = clerk.held(lock_duration_ms=1000)
    end = clerk.extend(task, 10_000).lock_expires_at
    clock.advance(2)
    answer = clerk.one("expire_leases")
    assert (answer.expired, answer.rearmed, answer.task_types) == (0, 1, [])
    hot = clerk.queue(task.task_id)
    assert hot is not None
    assert (hot["state"], hot["reap_at"]) == ("LOCKED", end)
    assert clerk.one("expire_leases").rearmed == 0


def test_a_payload_that_kills_its_workers_is_given_up(clerk: Clerk, clock: Clock) -> None:
    """Case B11: more lost leases than the budget allows; the others of its type go on."""
    boom = clerk.enqueue(policy={"expirations": 2})
    for _ in range(3):
        assert clerk.fetch(lock_duration_ms=1000)[0].task_id == boom
        clock.advance(2)
        answer = clerk.one("expire_leases")
    assert (answer.expired, answer.failed, answer.task_types) == (1, 1, [])
    ended = clerk.task(boom)
    assert (ended["state"], ended["error"], ended["attempts"], ended["expirations"]) == ("FAILED", "lease_lost", 3, 3)
    assert clerk.queue(boom) is None
    assert [line["detail"]["for_good"] for line in clerk.timeline(boom)] == [False, False, True]
    assert clerk.fetch() == []
    clerk.done()


def test_five_lost_leases_are_forgiven_unless_said_otherwise(clerk: Clerk, clock: Clock) -> None:
    task_id = clerk.enqueue(retries=1)
    for _ in range(5):
        clerk.fetch(lock_duration_ms=1000)
        clock.advance(2)
    assert clerk.fetch(lock_duration_ms=1000)[0].attempt == 6
    clock.advance(2)
    clerk.one("expire_leases")
    assert clerk.state(task_id) == "FAILED"


def test_with_a_budget_of_none_the_first_lost_lease_ends_the_task_and_it_can_be_redriven(
    clerk: Clerk, clock: Clock
) -> None:
    """Case B19: one visible failure, resolvable."""
    clerk.one("register_task_type", name="mail", expirations=0)
    task = clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    clerk.one("expire_leases")
    assert [row["task_id"] for row in clerk.query("select * from celeriac.dead_letters")] == [task.task_id]
    clerk.one("redrive_task", task_id=task.task_id)
    assert len(clerk.fetch()) == 1


def test_a_doomed_task_can_be_canceled_while_its_worker_is_held(clerk: Clerk, clock: Clock) -> None:
    """Case B11: no further hand-out."""
    task = clerk.held(lock_duration_ms=1000)
    clerk.cancel(task.task_id)
    clock.advance(2)
    assert clerk.one("expire_leases").expired == 0
    assert clerk.fetch() == []


def test_a_sweep_is_bounded_and_the_longest_lost_come_first(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    tasks = [clerk.held(lock_duration_ms=1000 + number) for number in range(5)]
    clock.advance(5)
    assert clerk.one("expire_leases", max_tasks=3).expired == 3
    assert [clerk.state(task.task_id) for task in tasks] == ["READY"] * 3 + ["LOCKED"] * 2
    assert clerk.one("expire_leases", max_tasks=3).expired == 2


def test_a_row_that_someone_holds_is_left_for_the_next_sweep(clerk: Clerk, clock: Clock, database_url: str) -> None:
    """Case B45: skipped three times, then taken."""
    lost, other = clerk.held(lock_duration_ms=1000), clerk.held(lock_duration_ms=1000)
    clock.advance(2)
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        Clerk(connection).query("select 1 from celeriac.queue where task_id = :id for update", id=lost.task_id)
        assert [clerk.one("expire_leases").expired for _ in range(3)] == [1, 0, 0]
        assert (clerk.state(lost.task_id), clerk.state(other.task_id)) == ("LOCKED", "READY")
    engine.dispose()
    assert clerk.one("expire_leases").expired == 1


def test_two_sweeps_at_once_count_each_lease_once(clerk: Clerk, clock: Clock, database_url: str) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 200)
    clerk.fetch(max_tasks=200, lock_duration_ms=1000)
    clock.advance(2)
    engine = sync_engine(database_url)
    swept: list[int] = []

    def sweep() -> None:
        with engine.connect() as connection:
            swept.extend(Clerk(connection).one("expire_leases", max_tasks=20).expired for _ in range(20))

    sweepers = [threading.Thread(target=sweep) for _ in range(4)]
    for sweeper in sweepers:
        sweeper.start()
    for sweeper in sweepers:
        sweeper.join()
    engine.dispose()
    assert sum(swept) == 200
    assert clerk.scalar("select count(*) from celeriac.history where kind = 'lease_lost'") == 200
    assert clerk.scalar("select max(expirations) from celeriac.queue") == 1


def test_only_types_with_ready_work_again_ring(clerk: Clerk, clock: Clock) -> None:
    clerk.celery_type("mail", "a")
    clerk.celery_type("boom", "b")
    clerk.held("mail", lock_duration_ms=1000)
    clerk.held("mail", lock_duration_ms=1000)
    clerk.held("boom", lock_duration_ms=1000, policy={"expirations": 0})
    clerk.rings()
    clock.advance(2)
    clerk.one("expire_leases")
    assert clerk.rings() == [("a", "mail")]


@pytest.mark.parametrize("max_tasks", [0, 10_001, None])
def test_the_bound_has_bounds(clerk: Clerk, max_tasks: int | None) -> None:
    with clerk.refuses(Invalid, "max_tasks"):
        clerk.one("expire_leases", max_tasks=max_tasks)


def test_leases_of_a_dead_node_come_back_though_the_server_crashes_meanwhile(
    clerk: Clerk, clock: Clock, postgres: EmbeddedPostgres, database_url: str
) -> None:
    """Case B47: what is to be done stands in the rows, so whoever comes next does the rest."""
    clerk.enqueue_items([{"task_type": "mail"}] * 250)
    clerk.fetch(worker_id="node-a", max_tasks=250, lock_duration_ms=1000)
    clock.advance(2)
    engine = sync_engine(database_url)
    swept: list[int] = []
    crashed = threading.Event()

    def sweep() -> bool:
        try:
            with call.refusals(), engine.connect() as connection:
                swept.append(Clerk(connection).one("expire_leases", max_tasks=10).expired)
        except Unavailable:
            crashed.set()
        return crashed.is_set() and swept[-1] == 0

    sweep()
    crash = threading.Thread(target=postgres.restart, args=("immediate",))
    crash.start()
    wait_until(sweep, what="the end of the recovery", seconds=30)
    crash.join()
    with engine.connect() as connection:
        again = Clerk(connection).fetch(worker_id="node-b", max_tasks=1000)
    engine.dispose()
    assert len(again) == 250
    assert {task.attempt for task in again} == {2}


def test_history_and_row_tell_the_same_end(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(lock_duration_ms=1000, policy={"expirations": 0})
    clock.advance(5)
    clerk.one("expire_leases")
    ended = clerk.task(task.task_id)
    assert ended["ended_at"] == clock.now() == clerk.timeline(task.task_id)[0]["at"]
    assert ended["ended_at"] - ended["started_at"] == timedelta(seconds=5)
