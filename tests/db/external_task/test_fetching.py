"""fetchAndLock: which tasks, how many, in which order, for how long (camunda7.md 1.2)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from db import call
from db.errors import Forbidden, Invalid
from tests.app.engine.conftest import flow, model, task
from tests.clock import Clock
from tests.db.clerk import Clerk
from tests.db.crowd import let_loose
from tests.db.external_task.conftest import MAIL, Bench


def test_each_topic_has_a_lock_time_of_its_own(bench: Bench, clock: Clock) -> None:
    first, second = bench.clerk.enqueue("a"), bench.clerk.enqueue("b")
    asked = [{"topic": "a", "lock_ms": 1000}, {"topic": "b", "lock_ms": 5000}]
    rows = {row.task_id: row for row in bench.choose(asked, most=5)}
    assert rows[first].lock_expires_at == clock.now() + timedelta(seconds=1)
    assert rows[second].lock_expires_at == clock.now() + timedelta(seconds=5)
    assert (rows[second].lock_duration_ms, rows[second].attempt, rows[second].retries) == (5000, 1, 3)


def test_of_a_topic_that_is_named_twice_the_last_counts(bench: Bench) -> None:
    bench.clerk.enqueue("a")
    (row,) = bench.choose([{"topic": "a", "lock_ms": 1000}, {"topic": "a", "lock_ms": 5000}], most=5)
    assert row.lock_duration_ms == 5000


def test_none_and_no_topics_are_nothing(bench: Bench) -> None:
    bench.start()
    assert bench.fetch(most=0) == []
    assert bench.choose([], most=5) == []


@pytest.mark.parametrize("more", [{}, {"sorting": "asc"}, {"sorting": "desc"}])
def test_the_most_urgent_come_first_then_by_time(bench: Bench, more: dict[str, Any]) -> None:
    ids = [bench.clerk.enqueue("mail", priority=priority) for priority in (1, 5, 1)]
    order = [ids[1], ids[2], ids[0]] if more == {"sorting": "desc"} else [ids[1], ids[0], ids[2]]
    assert [row.task_id for row in bench.fetch(most=5, **more)] == order


@pytest.mark.parametrize("sorting", ["asc", "desc"])
def test_or_by_time_alone_over_all_topics(bench: Bench, sorting: str) -> None:
    ids = [bench.clerk.enqueue(topic, priority=n) for n, topic in enumerate(("a", "b", "a", "b"))]
    order = ids if sorting == "asc" else ids[::-1]
    rows = bench.fetch("a", "b", most=3, sorting=sorting, use_priority=False)
    assert [row.task_id for row in rows] == order[:3]


@pytest.mark.parametrize("use_priority", [True, False])
@pytest.mark.parametrize("sorting", ["asc", "desc"])
def test_or_what_few_fit_among_many(bench: Bench, sorting: str, use_priority: bool) -> None:
    """Beyond the first look: more are looked at a time until enough fit."""
    fitting: list[tuple[int, UUID]] = []
    for n in range(60):
        instance = bench.start(n=n if n % 15 == 7 else -1)
        bench.clerk.one("set_external_task_priority", task_id=bench.task_id(instance), priority=n // 15 % 2)
        if n % 15 == 7:
            fitting.append((n // 15 % 2, instance))
    asked = [{"topic": "mail", "process_variables": [["n", "Integer", n] for n in (7, 22, 37, 52)]}]
    order = [instance for _, instance in (fitting if sorting == "asc" else fitting[::-1])]
    if use_priority:
        priority = {instance: of_it for of_it, instance in fitting}
        order.sort(key=lambda instance: -priority[instance])
    found = []
    for most in (1, 2, 5):
        rows = bench.choose(asked, most=most, sorting=sorting, use_priority=use_priority)
        found += [row.instance_id for row in rows]
    assert found == order


def ids(rows: list[Any]) -> set[UUID]:
    return {row.instance_id for row in rows}


def test_by_business_key(bench: Bench) -> None:
    mine, other = bench.start(business_key="A"), bench.start(business_key="B")
    bench.start()
    assert ids(bench.choose([{"topic": "mail", "business_key": "B"}], most=5)) == {other}
    assert bench.choose([{"topic": "mail", "business_key": "B"}], most=5, worker="w2") == []
    assert ids(bench.choose([{"topic": "mail", "business_key": "A"}], most=5)) == {mine}


def test_by_definition(bench: Bench) -> None:
    old = bench.start()
    bench.desk.deploy(MAIL.replace(b'id="p"', b'id="p" camunda:versionTag="v2.1"'))
    new, other = bench.start(), bench.start("caught")
    row = {instance["id"]: instance for instance in bench.clerk.query("select * from celeriac.instance")}
    wanted: list[tuple[dict[str, Any], set[UUID]]] = [
        ({"definition_ids": [str(row[old]["definition_id"])]}, {old}),
        ({"definition_ids": [str(row[old]["definition_id"]), str(row[new]["definition_id"])]}, {old, new}),
        ({"process_keys": ["p"]}, {old, new}),
        ({"process_keys": ["p", "caught"], "version_tag": "v2%"}, {new}),
        ({"version_tag": "v2"}, set()),
        ({"process_keys": []}, set()),
        ({"process_keys": None, "business_key": None}, {old, new, other}),
    ]
    for asked, expected in wanted:
        rows = bench.choose([{"topic": "mail"} | asked], most=5)
        assert ids(rows) == expected, asked
        for one in rows:
            bench.unlock(one.task_id)


@pytest.mark.parametrize(
    ("stored", "type_", "asked", "fits"),
    [
        ("1", None, ["v", None, 1], True),
        ("1", None, ["v", "Integer", 1], True),
        ("1", "Long", ["v", None, 1], False),
        ("3000000000", None, ["v", "Long", 3_000_000_000], True),
        ("1.5", None, ["v", None, 1.5], True),
        ('"x"', None, ["v", None, "x"], True),
        ('"x"', None, ["v", None, "y"], False),
        ('"2024-01-01"', "Date", ["v", None, "2024-01-01"], False),
        ("true", None, ["v", None, True], True),
        ("null", None, ["v", None, None], True),
        ('"x"', None, ["w", None, "x"], False),
    ],
)
def test_by_a_variable_of_the_instance(bench: Bench, stored: str, type_: str | None, asked: Any, fits: bool) -> None:
    instance = bench.start(v=json.loads(stored))
    bench.clerk.run("update celeriac.variable set type = cast(:type as text)", type=type_)
    expected = {instance} if fits else set()
    assert ids(bench.choose([{"topic": "mail", "process_variables": [asked, ["none", None, 1]]}])) == expected


def test_no_variables_are_no_filter(bench: Bench) -> None:
    instance = bench.start()
    assert ids(bench.choose([{"topic": "mail", "process_variables": []}])) == {instance}


def test_each_topic_chooses_for_itself(bench: Bench) -> None:
    plain, mine = bench.clerk.enqueue("a"), bench.start(business_key="A")
    bench.start(business_key="B")
    rows = bench.choose([{"topic": "a"}, {"topic": "mail", "business_key": "A"}], most=5)
    assert {row.task_id for row in rows} == {plain, bench.task_id(mine)}


@pytest.mark.parametrize("asked", [{}, {"process_keys": ["p"]}, {"business_key": "A"}])
def test_one_that_fits_is_found_behind_very_many_that_do_not(bench: Bench, asked: dict[str, Any]) -> None:
    bench.clerk.enqueue_items([{"task_type": "mail"} for _ in range(900)])
    bench.clerk.enqueue_items([{"task_type": "mail"} for _ in range(900)])
    instance = bench.start(business_key="A")
    rows = bench.choose([{"topic": "mail"} | (asked or {"version_tag": "%"})], most=3)
    assert ids(rows) == (set() if not asked else {instance})
    assert bench.clerk.scalar("select count(*) from celeriac.queue where state = 'LOCKED'") == len(rows)


@pytest.mark.parametrize("sorting", [None, "asc", "desc"])
def test_those_of_a_process_come_in_order_and_once_before_and_behind_very_many_others(
    bench: Bench, sorting: str | None
) -> None:
    """Those ahead are found in the topic, those behind by the open instances of the process."""
    ahead = [bench.start() for _ in range(2)]
    for _ in range(3):
        bench.clerk.enqueue_items([{"task_type": "mail"} for _ in range(900)])
    order = ahead + [bench.start() for _ in range(3)]
    if sorting == "desc":
        order.reverse()
    asked = [{"topic": "mail", "process_keys": ["p"]}]
    found = [bench.choose(asked, most=most, sorting=sorting) for most in (1, 3, 5)]
    assert [row.instance_id for rows in found for row in rows] == order
    assert [len(rows) for rows in found] == [1, 3, 1]


def test_a_claim_takes_exactly_what_it_returns(bench: Bench) -> None:
    for _ in range(6):
        bench.start(business_key="A")
    assert len(bench.choose([{"topic": "mail", "business_key": "A"}], most=4)) == 4
    assert bench.clerk.scalar("select count(*) from celeriac.queue where state = 'LOCKED'") == 4


def test_a_lock_that_has_run_out_is_free_at_once(bench: Bench, clock: Clock) -> None:
    """Not only when the chore has come by."""
    for chore in ("expire_leases", "promote_due", "fire_timers"):
        bench.clerk.one(chore)
    task_id = bench.held(lock_ms=1000)
    resting = bench.held()
    bench.fail(resting, retries=1, retry_after_ms=1000)
    assert bench.fetch(worker="w2", most=5) == []
    clock.advance(1)
    bench.clerk.run("update celeriac.chore set ran_at = celeriac.now()")
    assert {row.task_id for row in bench.fetch(worker="w2", most=5)} == {task_id, resting}


def test_limits_hold_for_what_is_chosen(bench: Bench) -> None:
    bench.desk.deploy(
        model(
            '<startEvent id="s"/>' + task("slow") + '<endEvent id="e"/>' + flow("s", "slow", "e"),
            process='id="q" isExecutable="true"',
        )
    )
    bench.clerk.one("register_task_type", name="slow", rate_tasks=2, rate_ms=60_000)
    for _ in range(4):
        bench.start("q", business_key="A")
    assert len(bench.choose([{"topic": "slow", "business_key": "A"}], most=4)) == 2
    bench.clerk.one("register_task_type", name="mail", concurrency=1)
    keyed = [bench.clerk.enqueue("mail", concurrency_key="k") for _ in range(3)]
    assert [row.task_id for row in bench.fetch(most=3, sorting="asc")] == keyed[:1]


def test_a_big_task_is_served_alone(bench: Bench) -> None:
    """Case B16."""
    big = [bench.clerk.enqueue("mail", variables={"x": "x" * 1_000_000}) for _ in range(6)]
    small = bench.clerk.enqueue("mail")
    rows = bench.fetch(most=10)
    assert [row.task_id for row in rows] == big[:4]
    assert rows[0].more
    assert bench.clerk.scalar("select count(*) from celeriac.queue where state = 'LOCKED'") == 4
    assert [row.task_id for row in bench.fetch(most=10)] == [*big[4:], small]


@pytest.mark.parametrize(
    ("topics", "field"),
    [
        ({}, "topics"),
        ([1], "topics[0]"),
        ([{"lock_ms": 1}], "topics[0].topic"),
        ([{"topic": "a"}], "topics[0].lock_ms"),
        ([{"topic": "a", "lock_ms": 0}], "topics[0].lock_ms"),
        ([{"topic": "a", "lock_ms": 1, "business_key": 1}], "topics[0].business_key"),
        ([{"topic": "a", "lock_ms": 1, "process_keys": "a"}], "topics[0]"),
    ],
)
def test_topics_that_cannot_be_read_are_refused(bench: Bench, topics: Any, field: str) -> None:
    with bench.clerk.refuses(Invalid, field):
        bench.clerk.rows("fetch_external_tasks", worker_id="w", topics=call.Json(json.dumps(topics)), max_tasks=1)


def test_other_things_that_cannot_be_are_refused(bench: Bench) -> None:
    with bench.clerk.refuses(Invalid, "max_tasks"):
        bench.fetch(most=-1)
    with bench.clerk.refuses(Invalid, "worker_id"):
        bench.fetch(worker="")
    with bench.clerk.refuses(Invalid, "sorting"):
        bench.fetch(sorting="up")


@pytest.mark.parametrize("topic", ["payroll", "MAIL", "%", "mail2"])
def test_a_foreign_topic_is_refused_as_a_whole(bench: Bench, topic: str) -> None:
    """Case B66."""
    bench.start()
    with bench.clerk.refuses(Forbidden, "task_types"):
        bench.fetch("mail", topic, only_types=["mail"])
    with bench.clerk.refuses(Invalid, "topics[0].topic"):
        bench.fetch("mail\u200b", only_types=["mail"])
    assert len(bench.fetch(only_types=["mail"])) == 1


@pytest.mark.parametrize("asked", [{}, {"process_keys": ["p"]}])
def test_no_poller_is_sent_away_empty_while_tasks_are_free(
    bench: Bench, database_url: str, asked: dict[str, Any]
) -> None:
    """The top complaint of camunda7.md 9.2: 20 pollers on one topic."""
    clerk, tasks = bench.clerk, 600
    instance = bench.start()
    clerk.run("update celeriac.queue set state = 'SCHEDULED', run_at = celeriac.now() + interval '1 day'")
    items = [{"task_type": "mail", "instance_id": str(instance)} for _ in range(tasks)]
    clerk.enqueue_items(items)
    short: list[int] = []
    taken: list[UUID] = []

    def poll(poller: Clerk, chance: Any, name: str) -> None:
        before = poller.scalar("select count(*) from celeriac.queue where state = 'READY'")
        got = Bench(poller, bench.desk).choose([{"topic": "mail"} | asked], worker=name, most=5)
        taken.extend(row.task_id for row in got)
        # What was free after the claim must have been more than it lacked.
        if len(got) < 5 and poller.scalar("select count(*) from celeriac.queue where state = 'READY'") >= 5 * 20:
            short.append(before)

    let_loose(clerk, database_url, [poll] * 20, lambda: len(taken) >= tasks, seconds=60)
    assert short == []
    assert len(taken) == len(set(taken)) == tasks
