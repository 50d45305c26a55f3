"""Every pair of calls on one durable task in two sessions: as in test_interleavings.py, the outcome is serial.

What a worker records, settles and undoes, what a person decides, and what takes the task away, each stopped at each of
its statements while the other comes.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from db.call import Json, json_list
from tests.db.clerk import Clerk
from tests.db.ledger import Ledger, step
from tests.proof.sessions import Call
from tests.proof.starts import TYPE, Makers, Start
from tests.proof.test_interleavings import Theatre

STOPPED = ("lease", "task", "step", "operation", "saga", "incident", "wait")


class DurableMakers(Makers):
    """States of one durable task that w1 holds, or held."""

    @property
    def ledger(self) -> Ledger:
        return Ledger(Clerk(self.connection))

    def held(self, lease_ms: int = 60_000, **item: Any) -> Start:
        """It has done step 1, registered an undo for call 2 and begun the operation of call 2."""
        self._fetched(lease_ms, retries=2, **item)
        return self._start()

    def held_too_long(self) -> Start:
        return self.held(lease_ms=1000, policy={"expirations": 0})

    def undoing(self) -> Start:
        task = self._fetched(60_000)
        self.ledger.clerk.fail(task, retries=0)
        self.ledger.clerk.fetch(TYPE)
        return self._start()

    def undone(self) -> Start:
        start = self.undoing()
        self.ledger.undone(self._lease(), 1)
        return start

    def unknown(self) -> Start:
        task = self._fetched(60_000)
        self.ledger.settle(task, self._id("operation"), "UNKNOWN", error="who knows")
        return self._start()

    def other_code(self) -> Start:
        self.ledger.incident(self._fetched(60_000))
        return self._start()

    def undo_failed(self) -> Start:
        start = self.undoing()
        self.ledger.incident(self._lease(), "undo_failed", ordinal=1)
        return start

    def _fetched(self, lease_ms: int, **item: Any) -> Any:
        task = self.ledger.clerk.held(TYPE, lock_duration_ms=lease_ms, **item)
        self.ledger.record(task, step(1))
        self.ledger.register(task, 2)
        self.ledger.begin(task, 2)
        return task

    def _lease(self) -> Any:
        return self.connection.execute(text("select task_id, fencing_token from celeriac.queue")).one()

    def _start(self) -> Start:
        token = (
            "select coalesce((select fencing_token from celeriac.queue), (select fencing_token from celeriac.waiting))"
        )
        return Start([str(self._id("task"))], [self.connection.execute(text(token)).scalar_one()])

    def _id(self, table: str) -> Any:
        return self.connection.execute(text(f"select id from celeriac.{table}")).scalar_one()


@pytest.fixture(scope="module")
def theatre(proof_url: str) -> Iterator[Theatre]:
    theatre = Theatre(proof_url, DurableMakers, STOPPED)
    yield theatre
    theatre.close()


def calls(theatre: Theatre, start: Start) -> dict[str, Call]:
    """What the worker, people and chores can do to the task of a state."""
    ids = {
        table: theatre.keeper.execute(text(f"select id from celeriac.{table}")).scalar()
        for table in ("operation", "incident")
    }
    task = {"task_id": start.ids[0]}
    held = task | {"worker_id": "w1", "fencing_token": start.tokens[0]}
    operation = held | {"operation_id": ids["operation"]}
    place = {"branch": "", "ordinal": 2}
    listed = [
        Call("record", "record_steps", held | {"steps": json_list([step(3)])}),
        Call("begin", "begin_operation", held | {"branch": "", "ordinal": 3, "name": "move"}),
        Call("settle as done", "settle_operation", operation | {"outcome": "DONE", "result": Json("1")}),
        Call("settle as unknown", "settle_operation", operation | {"outcome": "UNKNOWN"}),
        Call("register", "register_compensation", held | {"branch": "", "ordinal": 3, "name": "unpack"}),
        Call("settle the undo", "settle_compensation", held | {"number": 1}),
        Call("finish the undo", "finish_undo", held),
        Call("raise other code", "raise_incident", held | place | {"kind": "other_code", "name": "x", "message": "y"}),
        Call("raise a failing undo", "raise_incident", held | {"kind": "undo_failed", "ordinal": 1, "message": "y"}),
        Call("complete", "complete_task", held),
        Call("fail for good", "fail_task", held | {"error": "boom", "retries": 0}),
        Call("release", "release_task", held),
        Call("resolve as done", "resolve_operation", {"operation_id": ids["operation"], "outcome": "DONE"}),
        Call("resolve as not done", "resolve_operation", {"operation_id": ids["operation"], "outcome": "NOT_DONE"}),
        Call("decide to retry", "resolve_incident", {"incident_id": ids["incident"], "resolution": "retry"}),
        Call("decide to fail", "resolve_incident", {"incident_id": ids["incident"], "resolution": "fail"}),
        Call("decide to skip", "resolve_incident", {"incident_id": ids["incident"], "resolution": "skip"}),
        Call("cancel", "cancel_task", task),
        Call("cancel with compensation", "cancel_task", task | {"compensate": True}),
        Call("expire", "expire_leases", {"max_tasks": 10}, skips=True),
        Call("redrive", "redrive_task", task),
        Call("fetch", "fetch_tasks", {"worker_id": "w2", "task_types": [TYPE], "max_tasks": 1}, skips=True),
    ]
    return {call.name: call for call in listed}


OF_THE_WORKER = {
    "record", "begin", "settle as done", "settle as unknown", "register", "settle the undo", "finish the undo",
    "raise other code", "raise a failing undo", "complete", "fail for good", "release",
}  # fmt: skip
STATES = ("held", "held_too_long", "undoing", "undone", "unknown", "other_code", "undo_failed")


@pytest.mark.parametrize("state", STATES)
def test_two_calls_at_once_are_as_one_after_the_other(theatre: Theatre, state: str) -> None:
    theatre.starts.make("nothing")
    start = theatre.starts.make(state)
    theatre.starts.put_back(state)
    of_state = calls(theatre, start)
    active = [call for call in of_state.values() if theatre.changes_something(state, call)]
    strange = [
        line
        for first in active
        for second in active
        # Two calls of the worker itself wait for each other at their first statement, and are played once.
        for line in theatre.strange(state, first, second, barriers=not {first.name, second.name} <= OF_THE_WORKER)
    ]
    assert strange == [], "\n".join(strange)
    assert len(active) >= 4, active
