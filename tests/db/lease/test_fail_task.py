"""fail_task: LOCKED -> READY | SCHEDULED | FAILED. What it refuses of a lease: test_refused_writes.py."""

from datetime import timedelta
from typing import Any

import pytest

from db.errors import AlreadyEnded, Invalid, LeaseLost
from tests.clock import Clock
from tests.db.clerk import Clerk

CENTURY_MS = 3_155_760_000_000


def test_a_failure_puts_the_task_back_with_one_retry_less(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    before = clerk.queue(task.task_id)
    clock.advance(1)
    answer = clerk.fail(task, retry_after_ms=10_000)
    then = clock.now() + timedelta(seconds=10)
    assert (answer.task_id, answer.state, answer.retries, answer.run_at) == (task.task_id, "SCHEDULED", 2, then)
    assert before is not None
    assert clerk.queue(task.task_id) == before | {
        "state": "SCHEDULED", "run_at": then, "turn_at": then, "retries": 2, "retries_told": True,
        "last_owner": "w1", "last_principal": "postgres", "last_until": then,
        "lease_owner": None, "lease_principal": None, "leased_at": None, "lease_expires_at": None, "reap_at": None,
    }  # fmt: skip
    assert clerk.task(task.task_id)["state"] == "OPEN"


def test_it_stands_in_the_timeline(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held()
    start = clock.now()
    clock.advance(1)
    answer = clerk.fail(task, error="no such mailbox", retry_after_ms=0)
    (line,) = clerk.timeline(task.task_id)
    assert (line["kind"], line["at"], line["started_at"], line["attempt"]) == ("failed", clock.now(), start, 1)
    assert (line["worker_id"], line["principal"], line["fencing_token"]) == ("w1", "postgres", task.fencing_token)
    assert (line["detail"]["error"], line["detail"]["retries"]) == ("no such mailbox", 2)
    assert answer.state == "READY"


def test_without_a_rest_it_is_ready_at_once(clerk: Clerk) -> None:
    task = clerk.held()
    assert clerk.fail(task, retry_after_ms=0).state == "READY"
    (again,) = clerk.fetch(worker_id="w2")
    assert (again.task_id, again.attempt, again.retries) == (task.task_id, 2, 2)
    assert again.fencing_token > task.fencing_token


def test_three_retries_are_three_attempts(clerk: Clerk) -> None:
    clerk.enqueue(retries=3)
    states = []
    for _ in range(3):
        (task,) = clerk.fetch()
        states.append(clerk.fail(task, retry_after_ms=0).state)
    assert states == ["READY", "READY", "FAILED"]
    assert clerk.fetch() == []


def test_the_last_failure_ends_the_task_and_says_why(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    task = clerk.held(retries=1)
    before = clerk.task(task.task_id)
    start = clock.now()
    clock.advance(1)
    answer = clerk.fail(task, error="no such mailbox", retry_after_ms=60_000)
    assert (answer.state, answer.retries, answer.run_at) == ("FAILED", 0, None)
    assert clerk.queue(task.task_id) is None
    assert clerk.task(task.task_id) == before | {
        "state": "FAILED", "error": "no such mailbox", "started_at": start, "ended_at": clock.now(), "attempts": 1,
        "fencing_token": task.fencing_token, "worker_id": "w1", "principal": "postgres",
    }  # fmt: skip
    assert [line["kind"] for line in clerk.timeline(task.task_id)] == ["failed"]


def test_left_out_or_null_the_engine_counts_and_a_number_is_stored_as_sent(clerk: Clerk) -> None:
    """Case B19: left out, null, 2, 2 again (not lowered), then 0."""
    task = clerk.held(retries=9)
    sent: list[dict[str, Any]] = [{}, {"retries": None}, {"retries": 2}, {"retries": 2}, {"retries": 0}]
    seen = []
    for changed in sent:
        seen.append(clerk.fail(task, retry_after_ms=0, **changed).retries)
        task = next(iter(clerk.fetch()), task)
    assert seen == [8, 7, 2, 2, 0]
    assert clerk.state(task.task_id) == "FAILED"


def test_no_retries_left_means_failed_whatever_the_rest(clerk: Clerk) -> None:
    """Case B19."""
    task = clerk.held()
    answer = clerk.fail(task, retries=0, retry_after_ms=60_000)
    assert (answer.state, answer.run_at) == ("FAILED", None)
    assert clerk.fetch() == []


def test_a_worker_may_give_more_retries(clerk: Clerk) -> None:
    assert clerk.fail(clerk.held(retries=1), retries=2**31 - 1).retries == 2**31 - 1


def test_it_rests_longer_each_time_up_to_the_cap_of_its_policy(clerk: Clerk, clock: Clock) -> None:
    """Case B18."""
    clock.freeze()
    policy = {"backoff_first_ms": 1000, "backoff_factor": 2, "backoff_cap_ms": 5000, "backoff_jitter": 0}
    clerk.enqueue(retries=100, policy=policy)
    rests = []
    for _ in range(5):
        (task,) = clerk.fetch()
        rests.append((clerk.fail(task).run_at - clock.now()).total_seconds())
        clock.advance(rests[-1])
    assert rests == [1, 2, 4, 5, 5]


def test_the_type_gives_the_backoff_to_tasks_without_a_policy(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    clerk.one("register_task_type", name="mail", backoff_first_ms=7000, backoff_jitter=0.0)
    assert clerk.fail(clerk.held()).run_at == clock.now() + timedelta(seconds=7)


def test_without_any_settings_the_first_rest_is_a_second_less_a_tenth_at_most(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    rest = clerk.fail(clerk.held()).run_at - clock.now()
    assert timedelta(seconds=0.9) <= rest <= timedelta(seconds=1)


def test_a_hundred_failures_in_a_row_never_shorten_the_rest(clerk: Clerk, clock: Clock) -> None:
    """Case B18."""
    clock.freeze()
    clerk.enqueue(retries=1000)
    rests = []
    for _ in range(100):
        (task,) = clerk.fetch()
        rests.append(clerk.fail(task).run_at - clock.now())
        clock.advance(rests[-1].total_seconds())
    assert rests == sorted(rests)
    assert timedelta(0) < rests[0]
    assert rests[-1] <= timedelta(minutes=5)


def test_lost_leases_and_releases_do_not_lengthen_the_rest(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    clerk.held(lock_duration_ms=1000, policy={"backoff_jitter": 0})
    clock.advance(1)
    clerk.one("expire_leases")
    clerk.release(clerk.fetch()[0])
    assert clerk.fail(clerk.fetch()[0]).run_at == clock.now() + timedelta(seconds=1)


@pytest.mark.parametrize("number", ["1e-400", "0." + "0" * 500 + "1"])
def test_a_policy_with_a_number_too_small_for_a_double_can_be_failed(clerk: Clerk, number: str) -> None:
    """Cases B17, B18: what was let in must not break the batch that it is in."""
    clerk.enqueue_items('[{"task_type": "mail", "policy": {"backoff_jitter": ' + number + "}}]")
    assert clerk.fail(clerk.fetch()[0]).state == "SCHEDULED"


@pytest.mark.parametrize("retry_after_ms", [0, 1, 2**31 - 1, 2**31, CENTURY_MS])
def test_after_any_rest_in_range_everything_can_still_be_read_and_fetched(clerk: Clerk, retry_after_ms: int) -> None:
    """Case B18."""
    task = clerk.held()
    clerk.fail(task, retry_after_ms=retry_after_ms)
    other = clerk.enqueue()
    assert len(clerk.query("select * from celeriac.task_list")) == 2
    assert clerk.one("expire_leases").expired == 0
    assert other in {got.task_id for got in clerk.fetch(max_tasks=10)}


@pytest.mark.parametrize(
    "field, value",
    [
        ("retry_after_ms", -1),
        ("retry_after_ms", CENTURY_MS + 1),
        ("retry_after_ms", 86_400_000_000_000),
        ("retry_after_ms", 10**15),
        ("retry_after_ms", 2**63 - 1),
        ("retries", -1),
    ],
)
def test_out_of_range_is_refused_by_field(clerk: Clerk, field: str, value: int) -> None:
    """Case B18."""
    task = clerk.held()
    with clerk.refuses(Invalid, f"items[0].{field}"):
        clerk.fail(task, **{field: value})


@pytest.mark.parametrize(
    "changed", [{"retries": 2**31}, {"retries": 1.5}, {"retry_after_ms": 2**63}, {"retry_after_ms": 1.5}], ids=str
)
def test_what_its_type_cannot_hold_is_invalid(clerk: Clerk, changed: dict[str, Any]) -> None:
    """Case B18: never a fault of ours."""
    task = clerk.held()
    with clerk.refuses(Invalid):
        clerk.fail(task, **changed)


def test_the_same_failure_again_holds_and_changes_nothing(clerk: Clerk) -> None:
    """Case B10."""
    task = clerk.held()
    first = clerk.fail(task, retry_after_ms=60_000)
    before = clerk.everything()
    assert clerk.fail(task, retry_after_ms=60_000) == first
    assert clerk.everything() == before


def test_the_last_failure_again_holds_too(clerk: Clerk) -> None:
    task = clerk.held(retries=1)
    first = clerk.fail(task)
    before = clerk.everything()
    assert clerk.fail(task) == first
    assert clerk.everything() == before


def test_a_repeat_answers_as_the_first_did_though_another_worker_holds_the_task_by_now(clerk: Clerk) -> None:
    task = clerk.held()
    first = clerk.fail(task, retry_after_ms=0)
    clerk.fetch(worker_id="w2")
    before = clerk.everything()
    assert clerk.fail(task, retry_after_ms=0) == first
    assert clerk.everything() == before


def test_a_repeat_by_someone_else_or_without_the_token_is_refused(clerk: Clerk) -> None:
    task = clerk.held()
    clerk.fail(task, retry_after_ms=0)
    for changed in ({"worker_id": "w2"}, {"principal": "eve"}, {"fencing_token": None}):
        with clerk.refuses(LeaseLost):
            clerk.fail(task, **changed)


def test_a_failure_after_the_end_is_refused(clerk: Clerk) -> None:
    task = clerk.done()
    with clerk.refuses(AlreadyEnded):
        clerk.fail(task)


def test_an_error_text_is_cut_between_characters(clerk: Clerk) -> None:
    task = clerk.held(retries=1)
    clerk.fail(task, error="ü€😀" * 3000)
    error = clerk.task(task.task_id)["error"]
    assert len(error.encode()) in range(8192 - 3, 8193)
    assert ("ü€😀" * 3000).startswith(error)
    assert clerk.timeline(task.task_id)[0]["detail"]["error"] == error


def test_an_error_text_may_be_missing(clerk: Clerk) -> None:
    task = clerk.held(retries=1)
    clerk.fail(task, error=None)
    assert clerk.task(task.task_id)["error"] == ""


@pytest.mark.parametrize("error", ["a\0b", "\ud800"], ids=["NUL", "lone surrogate"])
def test_an_error_text_that_cannot_be_stored_is_invalid(clerk: Clerk, error: str) -> None:
    """Case B13."""
    task = clerk.held()
    with clerk.refuses(Invalid):
        clerk.fail(task, error=error)


def test_only_a_task_that_is_ready_again_rings(clerk: Clerk) -> None:
    clerk.celery_type()
    for changed, rings in (({"retry_after_ms": 0}, 1), ({"retry_after_ms": 1000}, 0), ({"retries": 0}, 0)):
        task = clerk.held()
        clerk.rings()
        clerk.fail(task, **changed)
        assert len(clerk.rings()) == rings, changed
        clerk.run("delete from celeriac.queue")
