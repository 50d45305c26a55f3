"""The guards of external tasks and suspended instances: each is taken out of the shipped text; its check must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy.exc
from sqlalchemy import Connection

from app.engine import advance
from db.errors import Refused
from tests.app.engine.conftest import Desk
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.external_task.conftest import CAUGHT, MAIL, PAID, Bench
from tests.db.overlap import overlap
from tests.db.waits import for_signal, send, suspend
from tests.proof.shipped import install, replaced, shipped
from tests.proof.test_guards import Guard, Scene


def bench_of(scene: Scene) -> Bench:
    return Bench(Clerk(scene.connection), Desk(scene.connection))


def code(call: Callable[[], Any]) -> Any:
    """What a call answers, or the code of its refusal."""
    try:
        return call()
    except Refused as refusal:
        return refusal.code


def instance_of(bench: Bench, task_id: UUID) -> UUID:
    return UUID(str(bench.clerk.scalar("select instance_id from celeriac.task where id = :id", id=task_id)))


def another_worker_extends_nothing(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    assert code(lambda: bench.extend(task_id, "w2")) == "lease_lost"


def another_principal_extends_nothing(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    assert code(lambda: bench.extend(task_id, principal="another")) == "lease_lost"


def a_foreign_task_is_not_there(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    assert code(lambda: bench.unlock(task_id, only_types=["other"])) == "not_found"


def a_suspended_task_is_not_ended(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    bench.suspend(instance_of(bench, task_id))
    assert code(lambda: bench.complete(task_id)) == "suspended"


def taking_a_task_back_is_a_hand_over(scene: Scene) -> None:
    bench = bench_of(scene)
    bench.start()
    (row,) = bench.fetch(lock_ms=1000)
    scene.clock.advance(2)
    bench.lock(row.task_id)
    assert code(lambda: bench.clerk.complete(row)) == "stale_token"


def no_roll_back(scene: Scene) -> None:
    bench = bench_of(scene)
    instance = bench.start("paid")
    bench.complete(bench.fetch("pay")[0].task_id)
    bench.fail(bench.fetch("mail")[0].task_id, retries=0)
    assert bench.status(instance) == "ACTIVE"


def no_task_is_left_of_a_token_that_goes(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    bench.fail(task_id, retries=0)
    instance = instance_of(bench, task_id)
    bench.clerk.one("stop_instance", instance_id=instance)
    retry: Callable[[Clerk], Any] = lambda clerk: clerk.one(  # noqa: E731
        "fail_external_task", task_id=task_id, worker_id="w1", retries=1
    )
    overlap(scene.url, lambda clerk: advance(clerk.conn, str(instance)), retry)
    assert bench.clerk.query("select task_id from celeriac.queue") == []


def suspending(instance: UUID) -> Callable[[Clerk], Any]:
    return lambda clerk: clerk.one("suspend_instance", instance_id=instance, suspended=True)


def a_suspension_waits_for_who_is_at_a_task(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    overlap(scene.url, lambda clerk: clerk.one("release_task", task_id=task_id, worker_id="w1"),
            suspending(instance_of(bench, task_id)))  # fmt: skip
    assert bench.clerk.state(task_id) == "SCHEDULED"


def a_suspension_waits_for_who_redrives(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    bench.fail(task_id, retries=0)
    overlap(
        scene.url, lambda clerk: clerk.one("redrive_task", task_id=task_id), suspending(instance_of(bench, task_id))
    )
    assert bench.clerk.state(task_id) == "SCHEDULED"


def a_batch_waits_for_no_instance(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held()
    bench.fail(task_id, retries=0)
    with psycopg.connect(scene.url) as holder, psycopg.connect(scene.url) as other:
        holder.execute("select from celeriac.instance for update")
        other.execute("set statement_timeout = '1s'")
        assert other.execute("select * from celeriac.redrive_tasks()").fetchall() == []


def comes_back(how: Callable[[Bench, Scene, UUID], Any]) -> Callable[[Scene], None]:
    def check(scene: Scene) -> None:
        bench = bench_of(scene)
        bench.start()
        (row,) = bench.fetch(lock_ms=1000)
        if how is wakes:
            suspend(bench.clerk, row, for_signal("paid"))
        elif how is redrives:
            bench.fail(row.task_id, retries=0)
        bench.suspend(instance_of(bench, row.task_id))
        how(bench, scene, row.task_id)
        assert bench.clerk.state(row.task_id) == "SCHEDULED"

    return check


def fails(bench: Bench, scene: Scene, task_id: UUID) -> None:
    bench.clerk.one("fail_task", task_id=task_id, worker_id="w1", retry_after_ms=0)


def releases(bench: Bench, scene: Scene, task_id: UUID) -> None:
    bench.clerk.one("release_task", task_id=task_id, worker_id="w1")


def loses(bench: Bench, scene: Scene, task_id: UUID) -> None:
    scene.clock.advance(2)
    bench.clerk.one("expire_leases")


def redrives(bench: Bench, scene: Scene, task_id: UUID) -> None:
    bench.retries([task_id], 1)


def wakes(bench: Bench, scene: Scene, task_id: UUID) -> None:
    send(bench.clerk, "paid")


def choosing_waits_for_nobody(scene: Scene) -> None:
    bench = bench_of(scene)
    first, second = (bench.task_id(bench.start()) for _ in range(2))
    claim = "select task_id from celeriac.fetch_external_tasks('w', %s, 1)"
    asked = '[{"topic": "mail", "lock_ms": 1000, "process_keys": ["p"]}]'
    with psycopg.connect(scene.url) as one_worker, psycopg.connect(scene.url) as other_worker:
        other_worker.execute("set statement_timeout = '1s'")
        taken = [worker.execute(claim, [asked]).fetchall() for worker in (one_worker, other_worker)]
    assert [found[0][0] for found in taken] == [first, second]


def a_lock_that_ran_out_is_free_at_once(scene: Scene) -> None:
    bench = bench_of(scene)
    for chore in ("expire_leases", "promote_due", "fire_timers"):
        bench.clerk.one(chore)
    bench.held(lock_ms=1000)
    scene.clock.advance(2)
    bench.clerk.run("update celeriac.chore set ran_at = celeriac.now()")
    assert len(bench.fetch(worker="w2")) == 1


def a_lost_lock_is_free(scene: Scene) -> None:
    bench = bench_of(scene)
    task_id = bench.held(lock_ms=1000, on_loss="free")
    loses(bench, scene, task_id)
    assert bench.clerk.scalar("select expirations from celeriac.queue") == 0


def a_task_kept_still_makes_room_for_its_key(scene: Scene) -> None:
    bench = bench_of(scene)
    bench.clerk.one("register_task_type", name="mail", concurrency=1)
    instance = bench.start()
    bench.clerk.run("update celeriac.queue set concurrency_key = 'k'")
    other = bench.clerk.enqueue("mail", concurrency_key="k")
    bench.suspend(instance)
    assert [row.task_id for row in bench.fetch()] == [other]


STAYS = "perform celeriac.keep_still"
GUARDS = [
    Guard(4, "the worker", "is_held_by", "worker_id = coalesce(held.lease_owner, held.last_owner)", "true",
          another_worker_extends_nothing),
    Guard(4, "the principal", "is_held_by", "principal = coalesce(held.lease_principal, held.last_principal)", "true",
          another_principal_extends_nothing),
    Guard(4, "the types", "hold_external", " or not celeriac.may_touch(cold.task_type, only_types)", "",
          a_foreign_task_is_not_there),
    Guard(4, "not while suspended", "hold_to_end", "elsif celeriac.stands_still(task_id) then", "elsif false then",
          a_suspended_task_is_not_ended),
    Guard(1, "a new token", "take_over", "fencing_token = nextval('celeriac.fencing_token'), ", "",
          taking_a_task_back_is_a_hand_over),
    Guard(14, "no roll-back", "bury_task", "when undo then '{}'", "when true then '{}'", no_roll_back),
    Guard(8, "the instance first", "hold_external", "i.id = cold.instance_id for share", "i.id = cold.instance_id",
          no_task_is_left_of_a_token_that_goes),
    Guard(8, "a suspension waits", "let_stand", "q.task_id = one for update", "q.task_id = one",
          a_suspension_waits_for_who_is_at_a_task),
    Guard(8, "a redrive holds the instance", "redrive_task", "= redrive_task.task_id) for share",
          "= redrive_task.task_id)", a_suspension_waits_for_who_redrives),
    Guard(8, "a batch does not wait", "redrive_tasks", "for share skip locked", "for share",
          a_batch_waits_for_no_instance),
    Guard(15, "failed", "requeue_task", "not celeriac.keep_still(held.task_id) and ", "", comes_back(fails)),
    Guard(15, "released", "give_back", ", celeriac.keep_still(held.task_id)", "", comes_back(releases)),
    Guard(15, "lost", "end_lost", ", celeriac.keep_still(lost.task_id)", "", comes_back(loses)),
    Guard(15, "opened again", "redrive_task", "perform celeriac.keep_still(was.id)", "null", comes_back(redrives)),
    Guard(15, "woken", "rouse_task", "perform celeriac.keep_still(rouse_task.task_id)", "null", comes_back(wakes)),
    Guard(15, "room for others", "keep_still", "perform celeriac.free_slot(was);", "null;",
          a_task_kept_still_makes_room_for_its_key),
    Guard(8, "choosing skips", "choose_ready", "for update skip locked", "for update", choosing_waits_for_nobody),
    Guard(6, "free at once", "fetch_external_tasks", " and celeriac.free_due(100)", " and false",
          a_lock_that_ran_out_is_free_at_once),
    Guard(6, "a lost lock is free", "end_lost", "if lost.on_loss is null then", "if true then", a_lost_lock_is_free),
]  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"rule {guard.rule}, {guard.name}")
def test_a_check_holds_with_its_guard_and_fails_without(
    conn: Connection, clock: Clock, database_url: str, guard: Guard
) -> None:
    Desk(conn).deploy(MAIL, PAID, CAUGHT)
    guard.check(Scene(conn, clock, database_url, "with"))
    Clerk(conn).run("delete from celeriac.queue")
    Clerk(conn).run("delete from celeriac.task")
    install(conn, replaced(shipped(guard.function), guard.old, guard.new))
    with pytest.raises((AssertionError, AttributeError, sqlalchemy.exc.DBAPIError, psycopg.Error)):
        guard.check(Scene(conn, clock, database_url, "without"))
