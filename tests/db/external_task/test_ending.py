"""Complete, failure and business error: who may still end a task, and what comes of it (camunda7.md 1.5 to 1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from db.errors import Invalid, LeaseLost, NotFound, Refused, Suspended, TooLarge
from tests.clock import Clock
from tests.db.external_task.conftest import Bench

ENDS = pytest.mark.parametrize("verb", ["complete", "throw"])
VERBS = pytest.mark.parametrize("verb", ["complete", "throw", "fail"])


def call(bench: Bench, verb: str, task_id: UUID, worker: str = "w1", **more: Any) -> Any:
    return getattr(bench, verb)(task_id, worker, **more)


def expired(bench: Bench, clock: Clock) -> UUID:
    task_id = bench.held(lock_ms=1000)
    clock.advance(2)
    return task_id


def reaped(bench: Bench, clock: Clock) -> UUID:
    task_id = expired(bench, clock)
    bench.clerk.one("expire_leases")
    return task_id


def resting(bench: Bench, clock: Clock) -> UUID:
    task_id = bench.held()
    bench.fail(task_id, retries=2, retry_after_ms=60_000)
    return task_id


def rested(bench: Bench, clock: Clock) -> UUID:
    task_id = resting(bench, clock)
    clock.advance(61)
    bench.clerk.one("promote_due")
    return task_id


def failed(bench: Bench, clock: Clock) -> UUID:
    task_id = bench.held()
    bench.fail(task_id, retries=0)
    return task_id


LAST_HELD = pytest.mark.parametrize("left", [expired, reaped, resting, rested, failed])


@VERBS
@LAST_HELD
def test_whoever_held_a_task_last_may_still_end_it(
    bench: Bench, clock: Clock, verb: str, left: Callable[[Bench, Clock], UUID]
) -> None:
    task_id = left(bench, clock)
    before = bench.clerk.scalar("select last_value from celeriac.fencing_token")
    answer = call(bench, verb, task_id)
    assert answer.state == ("FAILED" if verb == "fail" else "COMPLETED")
    (instance,) = bench.clerk.query("select instance_id from celeriac.task where id = :id", id=task_id)
    if verb == "fail":
        assert bench.shown(task_id)["worker_id"] == "w1"  # type: ignore[index]
        assert len(bench.incidents(instance["instance_id"])) == 1
    else:
        assert bench.shown(task_id) is None
        assert bench.status(instance["instance_id"]) == "COMPLETED"
        assert bench.incidents(instance["instance_id"]) == []
        assert bench.clerk.task(task_id)["fencing_token"] > before


@VERBS
@LAST_HELD
def test_nobody_else_may(bench: Bench, clock: Clock, verb: str, left: Callable[[Bench, Clock], UUID]) -> None:
    task_id = left(bench, clock)
    with bench.clerk.refuses(LeaseLost) as refused:
        call(bench, verb, task_id, "w2")
    assert refused.value.detail["held_by"] == "w1"
    with bench.clerk.refuses(LeaseLost):
        call(bench, verb, task_id, principal="another")


@VERBS
def test_not_when_another_has_taken_it(bench: Bench, clock: Clock, verb: str) -> None:
    task_id = expired(bench, clock)
    (row,) = bench.fetch(worker="w2")
    assert row.task_id == task_id
    with bench.clerk.refuses(LeaseLost) as refused:
        call(bench, verb, task_id)
    assert refused.value.detail["held_by"] == "w2"


@VERBS
def test_not_when_it_was_never_locked_or_was_unlocked(bench: Bench, clock: Clock, verb: str) -> None:
    instance = bench.start()
    task_id = bench.task_id(instance)
    with bench.clerk.refuses(LeaseLost) as refused:
        call(bench, verb, task_id)
    assert refused.value.detail["held_by"] is None
    bench.fetch()
    bench.unlock(task_id)
    with bench.clerk.refuses(LeaseLost):
        call(bench, verb, task_id)


@VERBS
def test_unknown_foreign_and_completed_ones_look_alike(bench: Bench, verb: str) -> None:
    """Case B10: a repeated completion is not found, as Camunda forgets what is done; case B66."""
    task_id = bench.held()
    with bench.clerk.refuses(NotFound):
        call(bench, verb, task_id, only_types=["other%"])
    with bench.clerk.refuses(NotFound):
        call(bench, verb, uuid4())
    bench.complete(task_id, variables={"n": 1})
    for sent in ({"n": 1}, {"n": 2}):
        with bench.clerk.refuses(NotFound):
            call(bench, verb, task_id, variables=sent)
        with bench.clerk.refuses(NotFound):
            call(bench, verb, task_id, "w2", variables=sent)


@VERBS
def test_a_suspended_instance_is_told_after_the_worker_was_looked_at(bench: Bench, verb: str) -> None:
    instance = bench.start()
    bench.fetch()
    task_id = bench.task_id(instance)
    bench.suspend(instance)
    with bench.clerk.refuses(LeaseLost):
        call(bench, verb, task_id, "w2")
    with bench.clerk.refuses(Suspended):
        call(bench, verb, task_id)
    bench.suspend(instance, False)
    call(bench, verb, task_id)


def test_a_completion_brings_its_variables_with_their_types(bench: Bench) -> None:
    instance = bench.start()
    bench.fetch()
    task_id = bench.task_id(instance)
    bench.clerk.one(
        "complete_external_task", task_id=task_id, worker_id="w1",
        variables={"day": "2024-01-01", "secret": 1}, types={"day": {"type": "Date"}, "secret": {"transient": True}},
        local_variables={"here": 1}, local_types={"here": {"type": "Long"}},
    )  # fmt: skip
    (fact,) = bench.clerk.query("select kind, payload from celeriac.fact")
    assert bench.clerk.task(task_id)["result"] == '{"day": "2024-01-01"}'
    assert fact["kind"] == "completed"
    assert fact["payload"] == (
        '{"types": {"day": {"type": "Date"}, "secret": {"transient": true}}, '
        '"variables": {"day": "2024-01-01", "secret": 1}, '
        '"local_types": {"here": {"type": "Long"}}, "local_variables": {"here": 1}}'
    )


def test_a_failure_brings_variables_too(bench: Bench) -> None:
    instance = bench.start()
    bench.fetch()
    row = bench.clerk.one(
        "fail_external_task", task_id=bench.task_id(instance), worker_id="w1", retries=0, variables={"n": 1},
        types={"n": {"type": "Long"}},
    )  # fmt: skip
    assert row.instance_id == instance
    facts = bench.clerk.query("select kind, payload from celeriac.fact order by id")
    assert [(fact["kind"], fact["payload"]) for fact in facts] == [
        ("changed", '{"types": {"n": {"type": "Long"}}, "variables": {"n": 1}}'),
        ("failed", '{"undo": false, "message": ""}'),
    ]


def test_numbers_stay_as_they_are(bench: Bench) -> None:
    """Case B17."""
    instance = bench.start()
    bench.fetch()
    exact = '{"big": 9223372036854775807, "money": 100000.10}'
    bench.clerk.run(
        "select celeriac.complete_external_task(:id, 'w1', cast(:variables as jsonb))",
        id=bench.task_id(instance), variables=exact,
    )  # fmt: skip
    assert bench.clerk.scalar("select payload -> 'variables' from celeriac.fact") == exact


@pytest.mark.parametrize("retries", [2, 1])
def test_a_failure_says_how_many_retries_are_left(bench: Bench, clock: Clock, retries: int) -> None:
    """Case B19: as sent, and sent twice it is no less."""
    task_id = bench.held()
    fresh = bench.shown(task_id)
    assert fresh is not None
    assert not fresh["retries_told"]
    for _ in range(2):
        answer = bench.fail(task_id, retries=retries, retry_after_ms=0)
        assert (answer.state, answer.retries) == ("READY", retries)
        shown = bench.shown(task_id)
        assert shown is not None
        assert (shown["retries"], shown["retries_told"], shown["worker_id"]) == (retries, True, "w1")
        assert bench.fetch()[0].retries == retries


def test_without_a_number_the_engine_counts(bench: Bench) -> None:
    task_id = bench.held()
    assert bench.fail(task_id, retries=None, retry_after_ms=None).retries == 2
    shown = bench.shown(task_id)
    assert shown is not None
    assert shown["lock_expires_at"] > bench.clerk.scalar("select celeriac.now()")


def test_a_rest_keeps_others_away_until_it_is_over(bench: Bench, clock: Clock) -> None:
    task_id = resting(bench, clock)
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["lock_expires_at"] - clock.now()).total_seconds() == 60
    assert bench.fetch(worker="w2") == []
    clock.advance(60)
    assert [row.task_id for row in bench.fetch(worker="w2")] == [task_id]


def test_no_retries_are_an_incident_and_no_roll_back(bench: Bench) -> None:
    """Case B19: not fetchable; what was done is not undone."""
    instance = bench.start("paid")
    bench.complete(bench.fetch("pay")[0].task_id)
    task_id = bench.fetch("mail")[0].task_id
    answer = bench.fail(task_id, retries=0, retry_after_ms=60_000, error_details="line 1\nline 2")
    assert (answer.state, answer.retries, answer.run_at, answer.instance_id) == ("FAILED", 0, None, instance)
    assert bench.status(instance) == "ACTIVE"
    (incident,) = bench.incidents(instance)
    assert (incident["kind"], incident["task_id"], incident["message"]) == ("failed", task_id, "broken")
    assert bench.fetch("mail", "refund") == []
    shown = bench.shown(task_id)
    assert shown is not None
    assert (shown["state"], shown["retries"], shown["worker_id"], shown["node"]) == ("FAILED", 0, "w1", "mail")
    assert bench.clerk.timeline(task_id)[-1]["detail"] == {
        "error": "broken", "details": "line 1\nline 2", "retries": 0, "run_at": None, "state": "FAILED",
    }  # fmt: skip


def test_the_native_face_still_rolls_back(bench: Bench) -> None:
    instance = bench.start("paid")
    bench.complete(bench.fetch("pay")[0].task_id)
    task = bench.fetch("mail")[0]
    bench.clerk.fail(task, retries=0)
    bench.advance(instance)
    assert bench.status(instance) == "COMPENSATING"
    assert len(bench.fetch("refund")) == 1
    assert bench.shown(task.task_id) is None


def test_a_failure_told_again_keeps_the_incident(bench: Bench) -> None:
    """Case B10: its answer was lost."""
    instance = bench.start()
    bench.fetch()
    task_id = bench.task_id(instance)
    bench.fail(task_id, retries=0)
    (incident,) = bench.incidents(instance)
    assert bench.fail(task_id, retries=0, error_message="still", variables={"n": 1}).state == "FAILED"
    assert [one["incident_id"] for one in bench.incidents(instance)] == [incident["incident_id"]]
    assert [line["detail"]["error"] for line in bench.clerk.timeline(task_id)] == ["broken", "still"]


def test_a_failure_with_retries_opens_a_failed_task_again(bench: Bench) -> None:
    instance = bench.start()
    bench.fetch()
    task_id = bench.task_id(instance)
    bench.fail(task_id, retries=0)
    answer = bench.fail(task_id, retries=3)
    assert (answer.state, answer.retries) == ("READY", 3)
    assert bench.incidents(instance) == []
    (again,) = bench.fetch(worker="w2")
    assert (again.task_id, again.retries) == (task_id, 3)
    bench.complete(task_id, "w2")
    assert bench.status(instance) == "COMPLETED"
    assert bench.clerk.scalar("select count(*) from celeriac.task") == 1


def test_what_is_told_before_anybody_advances_is_worked_in_in_its_order(bench: Bench) -> None:
    """Failed, opened again and failed again: one incident, and no second task."""
    instance = bench.start()
    bench.fetch()
    task_id = bench.task_id(instance)
    clerk = bench.clerk
    for retries in (0, 2, 0):
        clerk.one(
            "fail_external_task", task_id=task_id, worker_id="w1", retries=retries, error_message=f"left {retries}"
        )
    bench.advance(instance)
    assert [(one["task_id"], one["message"]) for one in bench.incidents(instance)] == [(task_id, "left 0")]
    assert clerk.scalar("select count(*) from celeriac.task") == 1
    bench.retries([task_id], 1)
    clerk.one("fail_external_task", task_id=bench.fetch()[0].task_id, worker_id="w1", retries=0)
    clerk.one("complete_external_task", task_id=task_id, worker_id="w1")
    bench.advance(instance)
    assert (bench.status(instance), bench.incidents(instance)) == ("COMPLETED", [])


@pytest.mark.parametrize(
    ("sent", "refusal", "field"),
    [
        ({"retries": -1}, Invalid, "retries"),
        ({"retry_after_ms": -1}, Invalid, "retry_after_ms"),
        ({"variables": {"x": "x" * 1048576}}, TooLarge, "task.variables"),
        ({"local_variables": {"x": "x" * 1048576}}, TooLarge, "local.variables"),
    ],
)
def test_what_a_failure_cannot_say_is_refused(
    bench: Bench, sent: dict[str, Any], refusal: type[Refused], field: str
) -> None:
    task_id = bench.held()
    with bench.clerk.refuses(refusal, field):
        bench.fail(task_id, **sent)


def test_a_business_error_takes_the_way_of_the_model(bench: Bench) -> None:
    instance = bench.start("caught")
    task_id = bench.fetch()[0].task_id
    bench.throw(task_id, error_code="E", error_message="said so", variables={"n": 1})
    assert [row.task_type for row in bench.fetch("other")] == ["other"]
    assert bench.variables(instance) == {"n": 1}
    assert bench.clerk.timeline(task_id)[-1]["detail"] == {"code": "E", "error": "said so"}


def test_a_task_that_is_being_undone_does_not_complete(bench: Bench) -> None:
    bench.clerk.enqueue("code")
    (task,) = bench.clerk.fetch("code")
    bench.clerk.one(
        "register_compensation", task_id=task.task_id, worker_id="w1", fencing_token=task.fencing_token, branch="",
        ordinal=1, name="undo",
    )  # fmt: skip
    assert bench.fail(task.task_id, retries=0).state == "READY"
    (undoing,) = bench.fetch("code")
    assert undoing.undoing
    with bench.clerk.refuses(Invalid):
        bench.complete(task.task_id)
    assert bench.fail(task.task_id, retries=1).state == "READY"
