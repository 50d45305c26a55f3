"""Every pair of transitions on a task that waits, or is about to, at once: the rows are those of a serial order.

That is so once what was left to follow is done, which the chore does.

Answers are not compared: whoever leaves rows alone that others hold may have found nothing yet (docs/decisions/0020).
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from db.call import json_list
from tests.proof.sessions import OUTCOME, Call, Outcome, Stage, by_order
from tests.proof.starts import TYPE, Start
from tests.proof.test_interleavings import Theatre

WAITING = OUTCOME | {
    "step": "select task_id, branch, ordinal, kind, name, result, error from celeriac.step",
    "waiting": "select * from celeriac.waiting",
    "wait": "select * from celeriac.wait",
    # What tells them apart comes first: two that were sent at the same moment have ids in any order.
    "signal": "select broadcast, taken_by is null, id, taken_by, taken_at, expires_at from celeriac.signal",
    "receipt": "select * from celeriac.signal_receipt",
    "child": "select * from celeriac.child",
    "follow_up": "select kind, subject from celeriac.follow_up",
}
# The last two are of two tasks, the first of which has asked for the second.
STATES = ("going_to_rest", "resting", "resting_too_long", "parent_going_to_rest", "parent_resting")


class SettlingStage(Stage):
    """A stage on which the chore comes by after each play."""

    def outcome(self, answers: tuple[Any, Any]) -> Outcome:
        for _ in range(2):
            self.watcher.exec_driver_sql("select celeriac.fire_timers()")
        left = [
            f"{table} {tuple(row)}" for table, query in WAITING.items() for row in self.watcher.exec_driver_sql(query)
        ]
        return by_order("", "", left)


@pytest.fixture(scope="module")
def theatre(proof_url: str) -> Iterator[Theatre]:
    theatre = Theatre(proof_url)
    theatre.stage.close()
    theatre.stage = SettlingStage(theatre.engine)
    theatre.starts.make("nothing")  # first: it sets the numbers of the outbox back
    yield theatre
    theatre.close()


def calls(start: Start) -> dict[str, Call]:
    """All that can be done to the first task, and to the second that it waits for, if there is one."""
    parent = {"task_id": start.ids[0]}
    held = parent | {"worker_id": "w1", "fencing_token": start.tokens[0]}
    child = {"task_id": start.ids[-1]}
    held_child = child | {"worker_id": "w1", "fencing_token": start.tokens[-1]}
    waits = [{"kind": "signal", "name": "go", "topic": "go", "ordinal": 1, "branch": "1.0"}]
    waits += [{"kind": "timer", "name": "sleep", "delay_ms": 3_600_000, "ordinal": 1, "branch": "1.1"}]
    waits += [{"kind": "task", "name": "c", "child_id": start.ids[-1], "ordinal": 1, "branch": "1.2"}] * (
        len(start.ids) - 1
    )
    more = {"branch": "", "ordinal": 2, "name": "more", "tasks": json_list([{"task_type": TYPE}])}
    listed = [
        Call("suspend", "suspend_task", held | {"waits": json_list(waits)}),
        Call("complete", "complete_task", held),
        Call("fail for good", "fail_task", held | {"error": "boom", "retries": 0}),
        Call("enqueue children", "enqueue_children", held | more),
        Call("cancel", "cancel_task", parent),
        Call("send", "send_signal", {"topic": "go"}),
        Call("broadcast", "send_signal", {"topic": "go", "broadcast": True}),
        Call("fire", "fire_timers", {}, skips=True),
        Call("fetch", "fetch_tasks", {"worker_id": "w2", "task_types": [TYPE], "max_tasks": 2}, skips=True),
        Call("expire", "expire_leases", {"max_tasks": 10}, skips=True),
    ]
    if len(start.ids) > 1:
        listed += [Call("complete child", "complete_task", held_child), Call("cancel child", "cancel_task", child)]
        listed += [Call("extend child", "extend_lease", held_child | {"lock_duration_ms": 90_000})]
    return {call.name: call for call in listed}


# A tree is not canceled in one moment: a child may end by itself while its parent is being canceled.
APART = {"cancel", "complete child"}
NAMES = list(calls(Start(["", ""], [0, 0])))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("state", STATES)
def test_two_calls_at_once_come_to_what_one_after_the_other_does(theatre: Theatre, state: str, name: str) -> None:
    of_state = calls(theatre.starts.make(state))
    if name not in of_state:
        return  # there is no child in this state
    first = of_state[name]
    active = {one for one, call in of_state.items() if theatre.changes_something(state, call)}
    strange = [
        line
        for other, second in of_state.items()
        if {name, other} & active and {name, other} != APART
        for line in theatre.strange(state, first, second)
    ]
    assert strange == [], "\n".join(strange)


@pytest.mark.parametrize("first", sorted(APART))
@pytest.mark.parametrize("state", ["parent_going_to_rest", "parent_resting"])
def test_a_child_that_ends_while_its_parent_is_canceled_ends_once_and_wakes_nobody(
    theatre: Theatre, state: str, first: str
) -> None:
    of_state = calls(theatre.starts.make(state))
    (second,) = APART - {first}
    for when, outcome in theatre.plays(state, of_state[first], of_state[second]):
        tables = [line.split(" ", 1)[0] for line in outcome.left]
        assert {"queue", "waiting", "wait", "follow_up"} & set(tables) == set(), (when, outcome)
        ends = sorted(re.findall(r"'(COMPLETED|CANCELED|FAILED)'", " ".join(outcome.left)))
        assert ends in (["CANCELED", "CANCELED"], ["CANCELED", "COMPLETED"]), (when, outcome)
