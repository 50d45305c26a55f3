"""Every pair of transitions on one task in two sessions: whatever the order of their steps, the outcome is serial.

The second call comes when the first has done everything but commit, and when it stands at each of its barriers (after
each statement of each function that it calls). The answers and the rows left must be those of one of the two serial
orders. A call that leaves rows alone which others hold may also have found nothing. PROOF_WHOLE=1 stops the first call
at its barriers even where one of the two changes nothing.
"""

import os
import re
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from db.call import json_list
from db.engine import sync_engine
from tests.clock import Clock
from tests.proof.barriers import STOPPED, install_barriers
from tests.proof.sessions import Call, Outcome, Stage
from tests.proof.shipped import RAISES_A_FLOOR, replaced, shipped
from tests.proof.starts import TYPE, Makers, Start, Starts

WHOLE = bool(os.environ.get("PROOF_WHOLE"))
STATES = (
    "nothing",
    "ready",
    "due",
    "locked",
    "expired",
    "expired_for_the_last_time",
    "extended",
    "completed",
    "failed_once",
    "failed",
    "canceled",
)
W1 = {"worker_id": "w1", "principal": "p"}


def calls(start: Start) -> dict[str, Call]:
    """All transitions on the first task of a state, each as its worker or a person would make it."""
    task = {"task_id": start.ids[0]}
    held = task | W1 | {"fencing_token": start.tokens[0]}
    listed = [
        Call("enqueue", "enqueue_tasks", {"tasks": _items([{"idempotency_key": "k"}])}),
        Call("enqueue other input", "enqueue_tasks", {"tasks": _items([{"idempotency_key": "k", "version": 2}])}),
        Call("fetch", "fetch_tasks", W1 | {"task_types": [TYPE], "max_tasks": 2}, skips=True),
        Call("fetch by another", "fetch_tasks", {"worker_id": "w2", "task_types": [TYPE], "max_tasks": 2}, skips=True),
        Call("extend", "extend_lease", held | {"lock_duration_ms": 500}),
        Call("complete", "complete_task", held),
        Call("complete otherwise", "complete_task", held | {"variables": {"other": 1}}),
        Call("complete without token", "complete_task", task | W1),
        Call("fail", "fail_task", held | {"error": "boom"}),
        Call("fail for good", "fail_task", held | {"error": "boom", "retries": 0}),
        Call("fail without token", "fail_task", task | W1 | {"error": "boom", "retry_after_ms": 0}),
        Call("release", "release_task", held),
        Call("cancel", "cancel_task", task),
        Call("redrive", "redrive_task", task),
        Call("redrive by filter", "redrive_tasks", {"task_type": TYPE}, skips=True),
        Call("expire", "expire_leases", {"max_tasks": 10}, skips=True),
        Call("promote", "promote_due", {"max_tasks": 10}, skips=True),
        Call("purge", "purge_ended", {"older_than_ms": 0}, skips=True),
        Call("look", "ready_types", {"task_types": [TYPE]}, skips=True),
    ]
    return {call.name: call for call in listed}


def _items(items: list[dict[str, Any]]) -> Any:
    return json_list([{"task_type": TYPE, "retries": 2} | item for item in items])


NAMES = list(calls(Start([""], [0])))


class Theatre:
    """Plays two calls from a state in every order, and remembers what the serial orders came to."""

    def __init__(self, url: str, makers: type[Makers] = Makers, stopped: Collection[str] = STOPPED) -> None:
        self.engine = sync_engine(url, pool_size=4)
        self.stage = Stage(self.engine)
        self.keeper = self.engine.connect()
        self.starts = Starts(self.keeper, Clock(self.keeper), makers)
        # A claim that met many dead rows would raise a floor, which is chance and not a transition.
        never = replaced(shipped("claim_ready"), RAISES_A_FLOOR, "null;")
        install_barriers(self.keeper, {"claim_ready": never}, stopped)
        self._serial: dict[tuple[str, str, str], list[Outcome]] = {}
        self._untouched: dict[str, Outcome] = {}
        self._places: dict[tuple[str, str], int] = {}
        self._alone: dict[tuple[str, str], Outcome] = {}

    def close(self) -> None:
        self.stage.close()
        self.keeper.close()
        self.engine.dispose()

    def changes_something(self, state: str, call: Call) -> bool:
        if state not in self._untouched:
            self.starts.put_back(state)
            self._untouched[state] = self.stage.outcome(("", ""))
        return self.alone(state, call).left != self._untouched[state].left

    def alone(self, state: str, call: Call) -> Outcome:
        """The outcome of the call, and beside it what it answers when it finds nothing at all."""
        if (state, call.name) not in self._alone:
            self.starts.make("nothing")
            self.starts.put_back("nothing")
            idle = self.stage.a.answer(call)
            self.starts.put_back(state)
            answer = self.stage.a.answer(call)
            self._alone[state, call.name] = self.stage.outcome((answer, idle))
        return self._alone[state, call.name]

    def serial(self, state: str, first: Call, second: Call) -> list[Outcome]:
        """What the two orders come to, answers always in the order of the arguments."""
        if (state, first.name, second.name) not in self._serial:
            self.starts.put_back(state)
            forth = self.stage.outcome(self.stage.one_after_the_other(first, second))
            self.starts.put_back(state)
            answer_b, answer_a = self.stage.one_after_the_other(second, first)
            self._serial[state, first.name, second.name] = [forth, self.stage.outcome((answer_a, answer_b))]
        return self._serial[state, first.name, second.name]

    def allowed(self, state: str, first: Call, second: Call) -> list[Outcome]:
        outcomes = list(self.serial(state, first, second))
        alone, other_alone = self.alone(state, first), self.alone(state, second)
        if second.skips:
            outcomes.append(Outcome(alone.first, other_alone.second, alone.left))
        if first.skips:
            outcomes.append(Outcome(alone.second, other_alone.first, other_alone.left))
        return outcomes

    def places(self, state: str, call: Call) -> int:
        if (state, call.name) not in self._places:
            self.starts.put_back(state)
            self._places[state, call.name] = self.stage.places(call)
        return self._places[state, call.name]

    def plays(self, state: str, first: Call, second: Call, barriers: bool = True) -> Iterator[tuple[str, Outcome]]:
        self.starts.put_back(state)
        yield "uncommitted", self.stage.outcome(self.stage.second_while_first_is_uncommitted(first, second))
        # A call that changes nothing where it stands is worth its many plays only when there is time.
        both = barriers and self.changes_something(state, first) and self.changes_something(state, second)
        for place in range(1, self.places(state, first) + 1 if both or WHOLE else 1):
            self.starts.put_back(state)
            yield f"at {place}", self.stage.outcome(self.stage.second_at_a_barrier_of_first(first, second, place))

    def strange(self, state: str, first: Call, second: Call, barriers: bool = True) -> list[str]:
        """The plays whose outcome is none of the allowed ones; without `barriers`, of the uncommitted one alone."""
        allowed = self.allowed(state, first, second)
        return [
            f"{first}, then {second} {when}:\n  {outcome}\n  instead of\n" + "\n".join(f"  {one}" for one in allowed)
            for when, outcome in self.plays(state, first, second, barriers)
            if outcome not in allowed
        ]


@pytest.fixture(scope="module")
def theatre(proof_url: str) -> Iterator[Theatre]:
    theatre = Theatre(proof_url)
    yield theatre
    theatre.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("state", STATES)
def test_two_calls_at_once_are_as_one_after_the_other(theatre: Theatre, state: str, name: str) -> None:
    of_state = calls(theatre.starts.make(state))
    first = of_state[name]
    active = {one for one, call in of_state.items() if theatre.changes_something(state, call)}
    strange = [
        line
        for other, second in of_state.items()
        if {name, other} & active
        for line in theatre.strange(state, first, second)
    ]
    assert strange == [], "\n".join(strange)


def batches(start: Start) -> dict[str, list[Call]]:
    """By state, calls that take several rows, and in different orders."""
    one, two = (
        {"task_id": task_id, "fencing_token": token} for task_id, token in zip(start.ids, start.tokens, strict=True)
    )
    forth, back = [one, two], [two, one]
    return {
        "two_locked": [
            Call("complete both", "complete_tasks", W1 | {"items": json_list(forth)}),
            Call("complete both backwards", "complete_tasks", W1 | {"items": json_list(back)}),
            Call("fail both", "fail_tasks", W1 | {"items": json_list(forth)}),
            Call("fail both backwards", "fail_tasks", W1 | {"items": json_list(back)}),
            Call("cancel the second", "cancel_task", {"task_id": start.ids[1]}),
            Call("extend the second", "extend_lease", W1 | two | {"lock_duration_ms": 500}),
        ],
        "two_failed": [
            Call("redrive both", "redrive_tasks", {}, skips=True),
            Call("redrive the first", "redrive_task", {"task_id": start.ids[0]}),
            Call("redrive the second", "redrive_task", {"task_id": start.ids[1]}),
            Call("purge", "purge_ended", {"older_than_ms": 0}, skips=True),
        ],
    }


def enqueues(*orders: list[dict[str, Any]]) -> list[Call]:
    return [Call(f"enqueue {order}", "enqueue_tasks", {"tasks": _items(order)}) for order in orders]


KEYS = [{"idempotency_key": "k"}, {"idempotency_key": "l"}]
LINES = [{"fairness_key": "f", "idempotency_key": "k"}, {"fairness_key": "g", "idempotency_key": "l"}]
VERSIONS = [{"version": 1, "idempotency_key": "k"}, {"version": 2, "idempotency_key": "l"}]
RING = [
    Call("take", "take_outbox", {"channel": "ring", "max_rows": 5}, skips=True),
    Call("settle as published", "settle_outbox", {"published": [1]}),
    Call("settle as returned", "settle_outbox", {"returned": [1]}),
    Call("settle as rejected", "settle_outbox", {"rejected": json_list([{"id": 1, "error": "no"}])}),
    Call("resend", "resend_outbox", {}, skips=True),
]


@pytest.mark.parametrize("state", ["two_locked", "two_failed"])
def test_batches_that_overlap_never_deadlock(theatre: Theatre, state: str) -> None:
    assert_serial(theatre, state, batches(theatre.starts.make(state))[state])


@pytest.mark.parametrize("items", [KEYS, LINES, VERSIONS], ids=["keys", "fairness keys", "versions"])
def test_batches_with_the_same_keys_in_another_order_never_deadlock(
    theatre: Theatre, items: list[dict[str, Any]]
) -> None:
    theatre.starts.make("nothing")
    assert_serial(theatre, "nothing", enqueues(items, items[::-1]))


@pytest.mark.parametrize("state", ["ready", "ring_taken", "ring_parked"])
def test_dispatchers_at_once_are_as_one_after_the_other(theatre: Theatre, state: str) -> None:
    theatre.starts.make(state)
    assert_serial(theatre, state, RING)


def test_two_dispatchers_never_take_the_same_row(theatre: Theatre) -> None:
    theatre.starts.make("two_rings")
    take = RING[0]
    for _, outcome in theatre.plays("two_rings", take, take):
        taken = re.findall(r"\((\d), 'celery'", outcome.first + outcome.second)
        assert sorted(taken) == ["1", "2"]


def test_dispatchers_that_settle_the_same_rows_crosswise_never_deadlock(theatre: Theatre) -> None:
    """Each has one row published and the other rejected; somebody else keeps the first row from both for a while."""
    first, second = (
        Call(
            f"settle {good}",
            "settle_outbox",
            {"published": [good], "rejected": json_list([{"id": bad, "error": "no"}])},
        )
        for good, bad in ((1, 2), (2, 1))
    )
    theatre.starts.make("two_rings")
    theatre.starts.put_back("two_rings")
    stage = theatre.stage
    stage.watcher.exec_driver_sql("begin; select from celeriac.outbox where id = 1 for update")
    waiting = []
    for session, call in ((stage.a, first), (stage.b, second)):
        waiting.append(session.start(call))
        stage.wait_for(session, waiting[-1])
    stage.watcher.exec_driver_sql("rollback")
    answers = [one.result() for one in waiting]
    assert [published + rejected for ((published, _, rejected, _),) in answers] == [2, 1]


def assert_serial(theatre: Theatre, state: str, some: list[Call]) -> None:
    strange = [line for first in some for second in some for line in theatre.strange(state, first, second)]
    assert strange == [], "\n".join(strange)
