"""enqueue_tasks: nothing -> READY | SCHEDULED."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from db import call
from db.engine import sync_engine
from db.errors import Forbidden, IdempotencyConflict, Invalid, TooLarge
from tests.clock import Clock
from tests.db.clerk import Clerk

MIB = 1_048_576
CENTURY_MS = 3_155_760_000_000


def test_a_task_is_ready_with_the_defaults(clerk: Clerk) -> None:
    (row,) = clerk.enqueue_items([{"task_type": "mail"}])
    assert (row.ordinal, row.task_type, row.state, row.created) == (0, "mail", "READY", True)
    cold, hot = clerk.task(row.task_id), clerk.queue(row.task_id)
    assert (cold["state"], cold["version"], cold["priority"], cold["retries"]) == ("OPEN", 1, 0, 3)
    assert (cold["variables"], cold["policy"], cold["result"], cold["idempotency_key"]) == ("{}", None, None, None)
    assert hot is not None
    assert (hot["state"], hot["fencing_token"], hot["retries"], hot["attempts"]) == ("READY", 0, 3, 0)
    assert hot["run_at"] == cold["created_at"]
    assert clerk.timeline(row.task_id) == []


def test_every_field_is_kept(clerk: Clerk) -> None:
    item = {
        "variables": {"to": "ada"},
        "version": 2**31 - 1,
        "priority": 2**31 - 1,
        "business_key": "order-7",
        "idempotency_key": "k1",
        "retries": 2**31 - 1,
        "policy": {"lease_ms": 1000, "expirations": 0, "backoff_factor": 1.5},
        "token_id": str(uuid4()),
        "instance_id": str(uuid4()),
    }
    cold = clerk.task(clerk.enqueue("mail", **item))
    assert {name: cold[name] for name in ("version", "priority", "business_key", "idempotency_key", "retries")} == {
        name: item[name] for name in ("version", "priority", "business_key", "idempotency_key", "retries")
    }
    assert (json.loads(cold["variables"]), json.loads(cold["policy"])) == (item["variables"], item["policy"])
    assert (str(cold["token_id"]), str(cold["instance_id"])) == (item["token_id"], item["instance_id"])


def test_a_type_gives_its_retries_to_tasks_that_do_not_say(clerk: Clerk) -> None:
    clerk.one("register_task_type", name="mail", retries=7)
    assert clerk.task(clerk.enqueue())["retries"] == 7
    assert clerk.task(clerk.enqueue(retries=1))["retries"] == 1


def test_a_delayed_task_is_scheduled_until_then(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    (row,) = clerk.enqueue_items([{"task_type": "mail", "delay_ms": 90_000}])
    hot = clerk.queue(row.task_id)
    assert hot is not None
    assert (row.state, hot["state"], hot["run_at"]) == ("SCHEDULED", "SCHEDULED", clock.now() + timedelta(seconds=90))
    assert clerk.fetch() == []


def test_no_delay_and_a_time_gone_by_are_ready_now(clerk: Clerk, clock: Clock) -> None:
    clock.freeze()
    rows = clerk.enqueue_items(
        [{"task_type": "mail", "delay_ms": 0}, {"task_type": "mail", "run_at": "1999-01-01T00:00:00Z"}]
    )
    assert [row.state for row in rows] == ["READY", "READY"]
    assert clerk.scalar("select count(*) from celeriac.queue where run_at = celeriac.now()") == 2


@pytest.mark.parametrize("zone", ["Z", "+00:00", "z"])
def test_run_at_is_the_moment_it_names_in_whatever_zone_the_session_lives(clerk: Clerk, zone: str) -> None:
    """Case B05."""
    clerk.run("set timezone to 'Pacific/Kiritimati'")
    moment = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    hot = clerk.queue(clerk.enqueue(run_at=moment.strftime("%Y-%m-%dT%H:%M:%S") + zone))
    assert hot is not None
    assert hot["run_at"] == moment


def test_the_longest_delay_can_be_stored_listed_and_promoted(clerk: Clerk, clock: Clock) -> None:
    """Case B18: whatever was stored, it can be read."""
    task_id = clerk.enqueue(delay_ms=CENTURY_MS)
    assert clerk.query("select run_at from celeriac.task_list")[0]["run_at"].year > 2100
    clock.advance(CENTURY_MS / 1000 + 1)
    assert clerk.one("promote_due").promoted == 1
    assert clerk.state(task_id) == "READY"


def test_a_batch_keeps_its_order_in_its_ids(clerk: Clerk) -> None:
    rows = clerk.enqueue_items([{"task_type": "mail", "variables": {"n": n}} for n in range(1000)])
    ids = [row.task_id for row in rows]
    assert [row.ordinal for row in rows] == list(range(1000))
    assert sorted(ids) == ids
    assert len(set(ids)) == 1000


BAD_FIELDS: list[tuple[str, Any]] = [
    ("task_type", None),
    ("task_type", ""),
    ("task_type", 7),
    ("task_type", "x" * 256),
    ("task_type", " mail"),
    ("task_type", "mail "),
    ("task_type", "mail*"),
    ("task_type", "ma\nil"),
    ("task_type", "mail\u200b"),
    ("task_type", "ma\u202eil"),
    ("version", 0),
    ("version", -1),
    ("version", 2**31),
    ("version", 1.5),
    ("version", "1"),
    ("version", True),
    ("priority", -1),
    ("priority", 2**31),
    ("priority", 10**30),
    ("retries", 0),
    ("retries", -1),
    ("retries", 2**31),
    ("retries", 1.5),
    ("retries", "3"),
    ("delay_ms", -1),
    ("delay_ms", CENTURY_MS + 1),
    ("delay_ms", 2**63 - 1),
    ("delay_ms", 2**63),
    ("delay_ms", 1.5),
    ("delay_ms", "60000"),
    ("run_at", "2030-01-01T00:00:00"),
    ("run_at", "2030-01-01"),
    ("run_at", "tomorrow"),
    ("run_at", "infinity"),
    ("run_at", "2030-02-31T00:00:00Z"),
    ("run_at", "9999-01-01T00:00:00Z"),
    ("run_at", 1_900_000_000),
    ("business_key", ""),
    ("business_key", "x" * 256),
    ("business_key", 7),
    ("idempotency_key", ""),
    ("idempotency_key", "x" * 256),
    ("idempotency_key", []),
    ("token_id", "7"),
    ("token_id", 7),
    ("instance_id", "{" + str(UUID(int=1)) + "}"),
    ("variables", []),
    ("variables", "{}"),
    ("variables", 1),
    ("policy", []),
    ("policy.lease_ms", 0),
    ("policy.lease_ms", 2_592_000_001),
    ("policy.lease_ms", 1.5),
    ("policy.backoff_first_ms", -1),
    ("policy.backoff_factor", 0.99),
    ("policy.backoff_factor", 101),
    ("policy.backoff_factor", "2"),
    ("policy.backoff_cap_ms", CENTURY_MS + 1),
    ("policy.backoff_jitter", -0.1),
    ("policy.backoff_jitter", 1.1),
    ("policy.expirations", -1),
    ("policy.retries", 3),
    ("topic", "mail"),
]


@pytest.mark.parametrize("field, value", BAD_FIELDS, ids=[f"{field}={value!r:.30}" for field, value in BAD_FIELDS])
def test_a_bad_field_is_named_and_nothing_of_the_batch_is_kept(clerk: Clerk, field: str, value: Any) -> None:
    """Cases B17, B18, B66."""
    outer, _, inner = field.partition(".")
    bad = {"task_type": "mail"} | {outer: {inner: value} if inner else value}
    with clerk.refuses(Invalid, f"tasks[1].{field}"):
        clerk.enqueue_items([{"task_type": "mail"}, bad])


@pytest.mark.parametrize("items", ["{}", '"mail"', "null", "[]", "7"])
def test_what_is_not_a_list_of_items_is_refused(clerk: Clerk, items: str) -> None:
    with clerk.refuses(Invalid, "length of tasks" if items == "[]" else "tasks"):
        clerk.enqueue_items(items)


@pytest.mark.parametrize("item", ["7", "null", '"mail"', "[]"])
def test_an_item_that_is_no_object_is_refused(clerk: Clerk, item: str) -> None:
    with clerk.refuses(Invalid, "tasks[1]"):
        clerk.enqueue_items('[{"task_type": "mail"}, ' + item + "]")


def test_delay_and_time_exclude_each_other(clerk: Clerk) -> None:
    with clerk.refuses(Invalid, "tasks[0].run_at"):
        clerk.enqueue(delay_ms=1, run_at="2030-01-01T00:00:00Z")


def test_five_thousand_items_are_a_batch_and_one_more_is_not(clerk: Clerk) -> None:
    """Case B50: no size of ours depends on a notification, which 8 000 bytes would break."""
    assert len(clerk.enqueue_items([{"task_type": "mail"}] * 5000)) == 5000
    with clerk.refuses(Invalid, "length of tasks"):
        clerk.enqueue_items([{"task_type": "mail"}] * 5001)


def test_the_longest_names_and_the_largest_payload_are_taken(clerk: Clerk) -> None:
    """Case B50."""
    overhead = len('{"blob": ""}')
    longest = "ü" * 255
    clerk.enqueue(longest, business_key=longest, idempotency_key=longest, variables={"blob": "x" * (MIB - overhead)})
    (task,) = clerk.fetch(longest)
    assert len(task.variables) == MIB


@pytest.mark.parametrize(
    "variables",
    [
        {"blob": "x" * MIB},
        {"blob": "ü" * (MIB // 2)},
        {"numbers": [1] * (MIB // 2)},
    ],
    ids=["one byte a character", "two bytes a character", "many values"],
)
def test_a_larger_payload_is_refused_by_its_bytes(clerk: Clerk, variables: Any) -> None:
    """Case B16."""
    with clerk.refuses(TooLarge, "tasks[0].variables"):
        clerk.enqueue_items(json.dumps([{"task_type": "mail", "variables": variables}], ensure_ascii=False))


def test_numbers_that_are_short_to_send_and_long_to_read_do_not_get_around_the_limit(clerk: Clerk) -> None:
    """Cases B16, B17: ten bytes on the wire, 131 kB when read back."""
    with clerk.refuses(TooLarge, "tasks[0].variables"):
        clerk.enqueue_items('[{"task_type": "mail", "variables": {"n": [' + "1e131000," * 10 + "0]}}]")


NUMBERS = (
    '{"tiny": 1e-7, "int64max": 9223372036854775807, "past_int64": 9223372036854775808, "cents": 250000.10, '
    '"digits": 0.12345678901234567890123, "past_double": 9007199254740993, "id": 2788123456789012345, '
    '"same_id": "2788123456789012345"}'
)


def test_numbers_come_out_digit_for_digit(clerk: Clerk) -> None:
    """Case B17: through enqueue, fetch, complete and the views."""
    clerk.enqueue_items('[{"task_type": "mail", "variables": ' + NUMBERS + "}]")
    (task,) = clerk.fetch()
    clerk.complete(task, variables=call.Json(task.variables))
    (seen,) = clerk.query("select variables, result from celeriac.task_detail")
    assert task.variables == seen["variables"] == seen["result"]
    for digits in ("9223372036854775807", "9223372036854775808", "250000.10,", "9007199254740993", "0.0000001,"):
        assert digits in task.variables
    assert ": 0.12345678901234567890123," in task.variables
    assert '"2788123456789012345"' in task.variables


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e200000", '"a\\u0000b"', '"\\ud800"', "[" * 50_000]
)
def test_json_that_cannot_be_stored_is_invalid(clerk: Clerk, value: str) -> None:
    """Cases B13, B17."""
    with clerk.refuses(Invalid):
        clerk.enqueue_items('[{"task_type": "mail", "variables": {"v": ' + value + "}}]")


def test_a_nul_in_the_name_of_a_variable_is_invalid(clerk: Clerk) -> None:
    """Case B13."""
    with clerk.refuses(Invalid):
        clerk.enqueue_items('[{"task_type": "mail", "variables": {"a\\u0000": 1}}]')


@pytest.mark.parametrize("field", ["task_type", "business_key", "idempotency_key", "run_at", "token_id"])
def test_a_nul_in_a_field_is_invalid(clerk: Clerk, field: str) -> None:
    """Case B13."""
    with clerk.refuses(Invalid):
        clerk.enqueue(**{"task_type": "mail", field: "a\0b"})


def test_of_a_doubled_name_the_last_value_counts(clerk: Clerk) -> None:
    """Case B17: documented rule."""
    clerk.enqueue_items('[{"task_type": "mail", "variables": {"a": 1, "a": 2}}]')
    assert clerk.fetch()[0].variables == '{"a": 2}'


def test_the_same_key_and_input_answer_with_the_first_task(clerk: Clerk) -> None:
    first = clerk.enqueue(idempotency_key="k", variables={"a": 1, "b": 2})
    before = clerk.everything()
    (again,) = clerk.enqueue_items([{"task_type": "mail", "idempotency_key": "k", "variables": {"b": 2, "a": 1}}])
    assert (again.task_id, again.state, again.created) == (first, "READY", False)
    assert clerk.everything() == before


@pytest.mark.parametrize("other", [{"variables": {"a": 2}}, {"version": 2}])
def test_the_same_key_with_another_input_is_refused_with_the_first_tasks_id(clerk: Clerk, other: Any) -> None:
    first = clerk.enqueue(idempotency_key="k", variables={"a": 1})
    with clerk.refuses(IdempotencyConflict, "tasks[1].idempotency_key") as caught:
        clerk.enqueue_items(
            [{"task_type": "mail"}, {"task_type": "mail", "idempotency_key": "k", "variables": {"a": 1}} | other]
        )
    assert caught.value.detail == {"task_id": str(first)}


def test_the_same_key_of_another_type_is_another_key(clerk: Clerk) -> None:
    assert clerk.enqueue("mail", idempotency_key="k") != clerk.enqueue("bill", idempotency_key="k")


def test_a_key_twice_in_one_batch_makes_one_task(clerk: Clerk) -> None:
    first, second = clerk.enqueue_items([{"task_type": "mail", "idempotency_key": "k"}] * 2)
    assert first.task_id == second.task_id
    assert (first.created, second.created) == (True, False)
    assert clerk.scalar("select count(*) from celeriac.queue") == 1


def test_a_key_twice_in_one_batch_with_two_inputs_is_refused(clerk: Clerk) -> None:
    item = {"task_type": "mail", "idempotency_key": "k"}
    with clerk.refuses(IdempotencyConflict, "tasks[1].idempotency_key"):
        clerk.enqueue_items([item, item | {"variables": {"a": 1}}])


def test_a_repeat_tells_what_became_of_the_task_also_after_it_was_purged(clerk: Clerk, clock: Clock) -> None:
    """A key is taken for ever: its tombstone outlives the task."""
    item = {"task_type": "mail", "idempotency_key": "k"}
    task = clerk.done(idempotency_key="k")
    (ended,) = clerk.enqueue_items([item])
    clock.advance(10)
    assert clerk.one("purge_ended", older_than_ms=1).purged == 1
    (purged,) = clerk.enqueue_items([item])
    assert (ended.task_id, ended.state, ended.created) == (task.task_id, "COMPLETED", False)
    assert (purged.task_id, purged.state, purged.created) == (task.task_id, "PURGED", False)
    with clerk.refuses(IdempotencyConflict, "tasks[0].idempotency_key"):
        clerk.enqueue_items([item | {"variables": {"a": 1}}])


def test_a_hundred_callers_at_once_with_one_key_make_one_task(clerk: Clerk, database_url: str) -> None:
    engine = sync_engine(database_url, pool_size=100)
    ready = threading.Barrier(100)
    answers: list[Any] = []

    def ask() -> None:
        with engine.connect() as connection:
            ready.wait()
            answers.append(Clerk(connection).enqueue_items([{"task_type": "mail", "idempotency_key": "k"}])[0])

    callers = [threading.Thread(target=ask) for _ in range(100)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    engine.dispose()
    assert len({answer.task_id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert len(answers) == 100
    assert clerk.scalar("select count(*) from celeriac.task") == 1


def test_it_joins_the_callers_transaction(clerk: Clerk, database_url: str) -> None:
    clerk.celery_type()
    clerk.run("create table business (id int)")
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    before = clerk.everything()
    with engine.connect() as connection:
        theirs = Clerk(connection)
        theirs.run("insert into business values (1)")
        task_id = theirs.enqueue(idempotency_key="k")
        assert clerk.everything() == before
        connection.rollback()
        assert clerk.everything() == before
        again = theirs.enqueue(idempotency_key="k")
        connection.commit()
    engine.dispose()
    assert again != task_id
    assert clerk.state(again) == "READY"
    assert clerk.rings() == [("fleet", "mail")]


def test_a_key_that_another_transaction_gives_up_is_free_again(clerk: Clerk, database_url: str) -> None:
    engine = sync_engine(database_url, isolation_level="READ COMMITTED")
    answers: list[Any] = []
    with engine.connect() as connection:
        Clerk(connection).enqueue(idempotency_key="k")
        waiting = threading.Thread(
            target=lambda: answers.extend(clerk.enqueue_items([{"task_type": "mail", "idempotency_key": "k"}]))
        )
        waiting.start()
        while not connection.execute(text("select count(*) from pg_locks where not granted")).scalar_one():
            assert waiting.is_alive()
        connection.rollback()
        waiting.join()
    engine.dispose()
    assert [answer.created for answer in answers] == [True]


def test_a_type_that_is_not_the_callers_is_forbidden_and_nothing_of_the_batch_is_kept(clerk: Clerk) -> None:
    """Case B66."""
    with clerk.refuses(Forbidden, "tasks[1].task_type"):
        clerk.enqueue_items([{"task_type": "mail.in"}, {"task_type": "pay"}], only_types=["mail.%"])
    with clerk.refuses(Forbidden, "tasks[0].task_type"):
        clerk.enqueue_items([{"task_type": "mail.in"}], only_types=[])
    assert len(clerk.enqueue_items([{"task_type": "mail.in"}], only_types=["pay", "mail.%"])) == 1


def test_a_batch_rings_once_for_each_celery_type_with_ready_work(clerk: Clerk) -> None:
    clerk.celery_type("mail", "a")
    clerk.celery_type("bill", "b")
    clerk.enqueue_items([{"task_type": name} for name in ("mail", "bill", "mail", "pull")])
    assert sorted(clerk.rings()) == [("a", "mail"), ("b", "bill")]


def test_a_delayed_or_repeated_task_rings_for_nobody(clerk: Clerk) -> None:
    clerk.celery_type()
    clerk.enqueue(idempotency_key="k")
    clerk.rings()
    clerk.enqueue(idempotency_key="k")
    clerk.enqueue(delay_ms=60_000)
    assert clerk.rings() == []
