"""fetch_tasks: READY -> LOCKED."""

import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from db import call
from db.engine import sync_engine
from db.errors import Forbidden, Invalid
from tests.clock import Clock
from tests.db.clerk import Clerk


def test_a_worker_gets_all_it_needs_to_know(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    token_id, instance_id = uuid4(), uuid4()
    task_id = clerk.enqueue(
        version=4, priority=7, business_key="order-7", variables={"to": "ada"},
        token_id=str(token_id), instance_id=str(instance_id), retries=5,
    )  # fmt: skip
    (task,) = clerk.fetch(lock_duration_ms=60_000)
    assert (task.task_id, task.token_id, task.instance_id) == (task_id, token_id, instance_id)
    assert (task.task_type, task.version, task.priority, task.business_key) == ("mail", 4, 7, "order-7")
    assert (task.variables, task.retries, task.attempt, task.more) == ('{"to": "ada"}', 5, 1, False)
    assert (task.lock_duration_ms, task.lock_expires_at) == (60_000, clock.now() + timedelta(seconds=60))
    assert task.fencing_token > 0


def test_the_queue_holds_owner_principal_token_and_end_and_the_task_is_not_touched(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    cold = clerk.task(clerk.enqueue())
    (task,) = clerk.fetch(worker_id="w7", principal="anna")
    hot = clerk.queue(task.task_id)
    assert hot is not None
    assert (hot["state"], hot["lease_owner"], hot["lease_principal"]) == ("LOCKED", "w7", "anna")
    assert (hot["fencing_token"], hot["attempts"], hot["leased_at"]) == (task.fencing_token, 1, clock.now())
    assert hot["lease_expires_at"] == hot["reap_at"] == task.lock_expires_at
    assert clerk.task(task.task_id) == cold
    assert clerk.timeline(task.task_id) == []


def test_a_fresh_task_says_how_many_failures_are_left(clerk: Clerk) -> None:
    """Case B19: a number, never null."""
    assert clerk.held().retries == 3


def test_a_held_task_is_nobody_elses(clerk: Clerk) -> None:
    clerk.held()
    assert clerk.fetch(worker_id="w1") == clerk.fetch(worker_id="w2") == []


def test_tokens_grow_with_every_hand_over(clerk: Clerk) -> None:
    tokens = []
    clerk.enqueue()
    for _ in range(3):
        (task,) = clerk.fetch()
        tokens.append(task.fencing_token)
        clerk.release(task)
    assert tokens == sorted(set(tokens))


def test_the_lease_is_as_long_as_asked_else_of_the_task_else_of_the_type_else_30_seconds(clerk: Clerk) -> None:
    policy = {"lease_ms": 7000}
    assert clerk.held(lock_duration_ms=60_000, policy=policy).lock_duration_ms == 60_000
    clerk.enqueue("plain")
    assert clerk.fetch("plain")[0].lock_duration_ms == 30_000
    clerk.one("register_task_type", name="plain", lease_ms=9000)
    clerk.enqueue_items([{"task_type": "plain", "policy": policy}, {"task_type": "plain"}])
    assert [task.lock_duration_ms for task in clerk.fetch("plain", max_tasks=2)] == [7000, 9000]


def test_the_database_judges_time_whatever_the_session_thinks(clerk: Clerk) -> None:
    """Case B05."""
    clerk.run("set timezone to 'Pacific/Kiritimati'")
    task = clerk.held(lock_duration_ms=60_000)
    left = clerk.scalar("select extract(epoch from lease_expires_at - celeriac.now()) from celeriac.queue")
    assert 0 < left <= 60
    assert task.lock_expires_at == clerk.query("select lease_expires_at from celeriac.queue")[0]["lease_expires_at"]


def test_high_priority_goes_first_and_the_oldest_among_equals(clerk: Clerk) -> None:
    """Case B09."""
    low = [clerk.enqueue(priority=1) for _ in range(3)]
    high = clerk.enqueue(priority=2)
    assert [task.task_id for task in clerk.fetch(max_tasks=10)] == [high, *low]


def test_one_task_of_a_quiet_type_does_not_wait_behind_a_backlog_of_another(clerk: Clerk) -> None:
    """Case B09: types of equal priority take turns, so it is in the first answer with room for two."""
    clerk.enqueue_items([{"task_type": "busy"}] * 5000)
    clerk.enqueue("quiet")
    assert sorted({task.task_type for task in clerk.fetch("busy", "quiet", max_tasks=2)}) == ["busy", "quiet"]


def test_a_tenants_single_task_goes_before_the_backlog_of_another(clerk: Clerk, clock: Clock) -> None:
    """Case B09: the tasks of a fairness key line up a second apart; what comes ten seconds later is the eleventh."""
    clerk.enqueue_items([{"task_type": "mail", "fairness_key": "a"}] * 1000)
    clock.advance(10)
    late = clerk.enqueue(fairness_key="b")
    assert late in {task.task_id for task in clerk.fetch(max_tasks=15)}


def test_with_room_for_one_the_lot_decides_between_types(clerk: Clerk) -> None:
    """Case B09: within 100 draws both have come (a miss has a chance of 2 to the power of -99)."""
    clerk.enqueue_items([{"task_type": name} for name in ("busy", "quiet") for _ in range(100)])
    assert {clerk.fetch("busy", "quiet")[0].task_type for _ in range(100)} == {"busy", "quiet"}


def test_priority_outranks_the_turns_of_the_types(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "busy", "priority": 1}] * 3 + [{"task_type": "quiet"}])
    assert {task.task_type for task in clerk.fetch("busy", "quiet", max_tasks=3)} == {"busy"}


def test_no_answer_is_empty_while_there_is_work(clerk: Clerk, database_url: str) -> None:
    """Case B09: many workers do not fight over the same head row."""
    clerk.enqueue_items([{"task_type": "mail"}] * 400)
    engine = sync_engine(database_url, pool_size=8)
    taken: list[Any] = []
    empty: list[int] = []

    def work(number: int) -> None:
        with engine.connect() as connection:
            mine = Clerk(connection)
            for _ in range(40):
                got = mine.fetch(worker_id=f"w{number}")
                taken.extend(got)
                empty.extend([] if got else [number])

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    engine.dispose()
    assert empty == []
    assert len({task.task_id for task in taken}) == len({task.fencing_token for task in taken}) == 320


@pytest.mark.parametrize("floor", [0, 5], ids=["alone", "beside other priorities"])
def test_a_row_that_someone_is_changing_is_passed_by(clerk: Clerk, database_url: str, floor: int) -> None:
    """Case B45: a fetch waits for nobody."""
    held, free = clerk.enqueue(priority=floor), clerk.enqueue()
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        Clerk(connection).query("select 1 from celeriac.queue where task_id = :id for update", id=held)
        clerk.run("set lock_timeout = '2s'")
        assert [task.task_id for task in clerk.fetch(max_tasks=2)] == [free]
    engine.dispose()
    assert [task.task_id for task in clerk.fetch(max_tasks=2)] == [held]


def test_only_the_versions_that_a_worker_knows_are_served(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail", "version": version} for version in (1, 2, 3)])
    clerk.enqueue("bill", version=9)
    got = clerk.fetch("mail", "bill", max_tasks=10, versions={"mail": [1, 3, 8]})
    assert sorted((task.task_type, task.version) for task in got) == [("bill", 9), ("mail", 1), ("mail", 3)]
    assert clerk.fetch("mail", versions={"mail": []}) == []
    assert clerk.fetch("mail", versions={})[0].version == 2


def test_a_big_task_at_the_head_comes_alone_and_the_small_ones_follow(clerk: Clerk) -> None:
    """Case B16."""
    big = clerk.enqueue(variables={"blob": "x" * 10_000})
    small = [clerk.enqueue() for _ in range(100)]
    first = clerk.fetch(max_tasks=10, max_bytes=5_000)
    assert [task.task_id for task in first] == [big]
    assert first[0].more
    then = clerk.fetch(max_tasks=10, max_bytes=5_000)
    assert [task.task_id for task in then] == small[:10]
    assert not then[0].more


def test_an_answer_holds_as_many_as_fit_and_says_so_and_locks_no_others(clerk: Clerk) -> None:
    """Case B16."""
    clerk.enqueue_items([{"task_type": "mail", "variables": {"blob": "x" * 1000}}] * 20)
    got = clerk.fetch(max_tasks=20, max_bytes=5_500)
    assert len(got) == 5
    assert got[0].more
    assert clerk.scalar("select count(*) from celeriac.queue where state = 'LOCKED'") == 5


def test_an_answer_is_at_most_four_mebibytes_unless_asked_otherwise(clerk: Clerk) -> None:
    """Case B16."""
    for _ in range(6):
        clerk.enqueue(variables={"blob": "x" * 1_000_000})
    got = clerk.fetch(max_tasks=6)
    assert (len(got), got[0].more) == (4, True)


def test_an_answer_that_one_type_filled_says_that_the_other_had_more(clerk: Clerk) -> None:
    """Case B16."""
    clerk.enqueue("mail", variables={"blob": "x" * 1000})
    clerk.enqueue("bill", variables={"blob": "x" * 1000})
    got = clerk.fetch("mail", "bill", max_tasks=2, max_bytes=1000)
    assert (len(got), got[0].more) == (1, True)


def test_a_fetch_that_finds_too_little_takes_back_a_lost_lease_and_what_is_due(clerk: Clerk, clock: Clock) -> None:
    """Case B47: with beat dead, work goes on."""
    lost = clerk.held(lock_duration_ms=1000)
    due = clerk.enqueue(delay_ms=1000)
    assert clerk.fetch(worker_id="w2") == []
    clock.advance(2)
    assert sorted(task.task_id for task in clerk.fetch(worker_id="w2", max_tasks=2)) == sorted([lost.task_id, due])


def test_a_fetch_rings_for_nobody(clerk: Clerk) -> None:
    clerk.celery_type()
    clerk.enqueue()
    clerk.rings()
    clerk.fetch()
    assert clerk.rings() == []


def test_a_type_named_twice_is_served_once(clerk: Clerk) -> None:
    """Case B66."""
    clerk.enqueue()
    assert len(clerk.fetch("mail", "mail", max_tasks=5)) == 1


@pytest.mark.parametrize(
    "task_types", [["mail", "pay"], ["*"], ["MAIL"], ["%"], ["pay"], ["mai_"]], ids=lambda types: "+".join(types)
)
def test_what_is_not_the_callers_is_forbidden_and_the_rest_is_not_served_in_part(
    clerk: Clerk, task_types: list[str]
) -> None:
    """Case B66."""
    clerk.enqueue_items([{"task_type": name} for name in ("mail", "pay", "MAIL")])
    with clerk.refuses(Forbidden, "task_types"):
        clerk.fetch(*task_types, only_types=["mail"])


def test_a_caller_without_types_gets_nothing(clerk: Clerk) -> None:
    clerk.enqueue()
    with clerk.refuses(Forbidden, "task_types"):
        clerk.fetch(only_types=[])


def test_a_pattern_covers_the_types_that_it_matches(clerk: Clerk) -> None:
    clerk.enqueue("media.copy")
    assert len(clerk.fetch("media.copy", only_types=["mail", "media.%"])) == 1


BAD_ARGUMENTS: list[tuple[str, Any]] = [
    ("worker_id", ""),
    ("worker_id", "x" * 256),
    ("worker_id", "w\u00001"[:1] + "\n"),
    ("worker_id", None),
    ("max_tasks", 0),
    ("max_tasks", -1),
    ("max_tasks", 1001),
    ("max_tasks", None),
    ("lock_duration_ms", 0),
    ("lock_duration_ms", -1),
    ("lock_duration_ms", 2_592_000_001),
    ("lock_duration_ms", 2**63 - 1),
    ("task_types", ["mail\u200b"]),
    ("task_types", [""]),
    ("task_types", ["mail", None]),
    ("versions", call.Json("[1]")),
    ("versions", call.Json("1")),
]


@pytest.mark.parametrize("field, value", BAD_ARGUMENTS, ids=[f"{f}={v!r:.30}" for f, v in BAD_ARGUMENTS])
def test_a_bad_argument_is_named_and_nothing_is_taken(clerk: Clerk, field: str, value: Any) -> None:
    """Cases B18, B66."""
    clerk.enqueue()
    arguments = {"worker_id": "w1", "task_types": ["mail"], "max_tasks": 1} | {field: value}
    with clerk.refuses(Invalid, field):
        clerk.rows("fetch_tasks", **arguments)


@pytest.mark.parametrize("count", [0, 201, 10_000])
def test_one_to_two_hundred_types_may_be_asked_for(clerk: Clerk, count: int) -> None:
    """Case B66."""
    with clerk.refuses(Invalid, "number of task_types"):
        clerk.rows("fetch_tasks", worker_id="w1", task_types=[f"t{n}" for n in range(count)], max_tasks=1)


@pytest.mark.parametrize("max_tasks", [2**31, 2**63, 1.5], ids=str)
def test_a_number_beyond_its_type_is_invalid(clerk: Clerk, max_tasks: Any) -> None:
    """Case B18: not a fault of ours."""
    with clerk.refuses(Invalid):
        clerk.rows("fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=max_tasks)


def test_a_nul_in_the_worker_id_is_invalid(clerk: Clerk) -> None:
    """Case B13."""
    with clerk.refuses(Invalid):
        clerk.fetch(worker_id="w\0")


def test_a_thousand_tasks_are_the_most(clerk: Clerk) -> None:
    clerk.enqueue_items([{"task_type": "mail"}] * 1001)
    assert len(clerk.fetch(max_tasks=1000)) == 1000
