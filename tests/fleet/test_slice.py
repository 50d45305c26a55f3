"""One slice in this process, without a worker: which calls it makes, and what it does when they go wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from sqlalchemy import Connection

from celeriac import Context, DurableTask, Fatal, task
from celeriac.celery import Fleet, install
from celeriac.durable._database import Database
from celeriac.errors import ConnectionFailed
from db import call
from tests.fleet.sights import enqueue, states
from tests.fleet.sights import task as sight

Handler = Callable[[Context], Any]
NODE = "here@test"


def fleet_of(url: str, *tasks: DurableTask, slice_tasks: int = 1000) -> Fleet:
    app = Celery("users", broker="redis://127.0.0.1:1/0", set_as_current=False)
    fleet = install(app, database_url=url, tasks=tasks, slice_tasks=slice_tasks, slice_seconds=60)
    for declared in tasks:
        fleet.authority.register_type(declared, "celery")
    return fleet


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that goes to Postgres, by the name of its function."""
    made: list[str] = []
    original = Database.rows

    def rows(self: Database, statement: Any, **values: Any) -> Any:
        made.append(statement.split("celeriac.")[1].split("(")[0])
        return original(self, statement, **values)

    monkeypatch.setattr(Database, "rows", rows)
    return made


def test_each_task_costs_one_call(fleet_url_db: str, conn: Connection, database_url: str, calls: list[str]) -> None:
    fleet = fleet_of(fleet_url_db, task("quiet")(lambda ctx: None))
    enqueue(database_url, "quiet", *[{}] * 10)
    del calls[:]
    fleet.hear("quiet", NODE)
    assert calls == ["complete_and_fetch"] * 11
    assert states(conn) == {"COMPLETED": 10}
    assert (fleet.stats.fetched, fleet.stats.completed) == (10, 10)


def test_a_slice_goes_on_with_single_tasks_when_no_more_are_taken_in_batches(
    fleet_url_db: str, conn: Connection, database_url: str
) -> None:
    fleet = fleet_of(
        fleet_url_db,
        task("tiny", batch=True)(lambda ctx: None),
        task("quiet")(lambda ctx: None),
    )
    enqueue(database_url, "tiny", {}, priority=9)
    enqueue(database_url, "quiet", *[{}] * 5)
    fleet.hear("tiny", NODE)
    assert states(conn) == {"COMPLETED": 6}


def test_a_slice_that_is_over_tells_its_last_completion_and_looks_for_more(
    fleet_url_db: str, conn: Connection, database_url: str, calls: list[str]
) -> None:
    fleet = fleet_of(fleet_url_db, task("quiet")(lambda ctx: None), slice_tasks=3)
    enqueue(database_url, "quiet", *[{}] * 5)
    del calls[:]
    fleet.hear("quiet", NODE)
    assert calls == ["complete_and_fetch"] * 4 + ["ready_types"]
    assert states(conn) == {"COMPLETED": 3, "READY": 2}


def test_a_completion_whose_answer_is_lost_is_told_again_and_holds(
    fleet_url_db: str, conn: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(fleet_url_db, task("quiet", lease=60)(lambda ctx: {"token": ctx.fencing_token}))
    ids = enqueue(database_url, "quiet", {}, {}, {})
    original, lost = Database.rows, []

    def rows(self: Database, statement: Any, **values: Any) -> Any:
        answer = original(self, statement, **values)
        if "complete_and_fetch" in statement and values["items"] != "[]" and not lost:
            lost.append(answer)
            raise ConnectionFailed("the answer was lost after the commit", sent=True)
        return answer

    monkeypatch.setattr(Database, "rows", rows)
    fleet.hear("quiet", NODE)
    # The task that was fetched with the lost answer waits for the end of its lease; the others are done, once each.
    assert states(conn) == {"COMPLETED": 2, "LOCKED": 1}
    assert {sight(conn, task_id).attempts for task_id in ids} == {1}
    assert fleet.stats.refused == 0


def test_one_refused_completion_keeps_neither_the_others_nor_the_slice_from_going_on(
    fleet_url_db: str, conn: Connection, database_url: str
) -> None:
    def cancel_first(ctx: Context) -> None:
        if ctx.variables.get("cancel"):
            call.one(conn, "cancel_task", task_id=ctx.task_id)

    fleet = fleet_of(fleet_url_db, task("odd", batch=True)(cancel_first))
    enqueue(database_url, "odd", {}, {}, {}, {"cancel": True}, {}, {}, {}, {})
    fleet.hear("odd", NODE)
    assert states(conn) == {"COMPLETED": 7, "CANCELED": 1}
    assert fleet.stats.refused == 1


def test_what_of_a_batch_has_not_begun_is_given_back_when_the_worker_stops(
    fleet_url_db: str, conn: Connection, database_url: str
) -> None:
    def stop(ctx: Context) -> None:
        if ctx.variables.get("stop"):
            fleet.stop()

    fleet = fleet_of(fleet_url_db, task("tiny", batch=True)(stop))
    ids = enqueue(database_url, "tiny", *[{}] * 7, {"stop": True}, *[{}] * 12)
    fleet.hear("tiny", NODE)  # batches of 1, 2, 4, 8: the eighth task is the first of its batch
    assert states(conn) == {"COMPLETED": 8, "READY": 12}
    assert {sight(conn, task_id).attempts for task_id in ids[8:]} == {0}
    assert fleet.stats.released == 7


def test_a_failure_in_a_batch_is_told_by_itself(
    fleet_url_db: str, conn: Connection, database_url: str, calls: list[str]
) -> None:
    def fail(ctx: Context) -> None:
        if ctx.variables.get("fail"):
            raise Fatal("never")

    fleet = fleet_of(fleet_url_db, task("tiny", batch=True)(fail))
    enqueue(database_url, "tiny", {}, {"fail": True}, {})
    del calls[:]
    fleet.hear("tiny", NODE)
    assert states(conn) == {"COMPLETED": 2, "FAILED": 1}
    assert calls.count("fail_tasks") == 1


def test_all_leases_of_a_process_are_extended_in_one_call(
    fleet_url_db: str, conn: Connection, database_url: str, calls: list[str]
) -> None:
    def wait(ctx: Context) -> None:
        while calls.count("extend_leases") < 3:
            ctx.check()

    fleet = fleet_of(fleet_url_db, task("tiny", batch=True, lease=1)(lambda ctx: None), task("slow", lease=1)(wait))
    enqueue(database_url, "tiny", *[{}] * 20)
    wanted = fleet.authority.turn_over(NODE, [], fleet._offer("celery").batched, 20).leases  # type: ignore[arg-type]
    fleet._tools.keeper.hold(wanted, NODE)
    ends = {lease: lease.ends_at for lease in wanted}
    enqueue(database_url, "slow", {})
    del calls[:]
    fleet.hear("slow", NODE)
    assert len(wanted) == 20
    assert all(lease.ends_at > ends[lease] and not lease.ended for lease in wanted)
    assert calls.count("extend_leases") < 10
    fleet._tools.keeper.drop(wanted)
