"""The guards guard, and the tests would notice if they did not: each is taken out of the shipped text once.

A guard is a piece of a function; its check is a small case that holds with it. Without it the same check must fail.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc
from sqlalchemy import Connection, text

from db.call import json_list, one, rows
from db.errors import Refused
from tests.clock import Clock
from tests.proof.shipped import install, replaced, shipped


@dataclass(frozen=True)
class Scene:
    """A database with a movable clock; `task_type` is of this check alone."""

    connection: Connection
    clock: Clock
    url: str
    task_type: str

    def enqueue(self, **item: Any) -> str:
        return str(
            one(self.connection, "enqueue_tasks", tasks=json_list([{"task_type": self.task_type} | item])).task_id
        )

    def fetch(self, worker_id: str = "w1", lease_ms: int = 1000) -> Any:
        asked = {"task_types": [self.task_type], "max_tasks": 1, "lock_duration_ms": lease_ms}
        return one(self.connection, "fetch_tasks", worker_id=worker_id, **asked)

    def call(self, function: str, **arguments: Any) -> Any:
        """The first row of the answer, or the code of a refusal."""
        try:
            return rows(self.connection, function, **arguments)[0]
        except Refused as refusal:
            return refusal.code

    def write(self, function: str, lease: Any, **other: Any) -> Any:
        more: dict[str, Any] = {"lock_duration_ms": 1000} if function == "extend_lease" else {}
        named = {"task_id": lease.task_id, "worker_id": "w1", "fencing_token": lease.fencing_token}
        return self.call(function, **named | more | other)


Check = Callable[[Scene], None]


@dataclass(frozen=True)
class Guard:
    """What is taken out (`old`) and what stands there then (`new`)."""

    rule: int
    name: str
    function: str
    old: str
    new: str
    check: Check


# Where each verb of a worker has its guards.
WRITERS = {
    "extend_lease": "prolong_lease",
    "complete_task": "end_completed",
    "fail_task": "end_failed",
    "release_task": "release_task",
}


def stale_tokens_are_refused(verb: str) -> Check:
    def check(scene: Scene) -> None:
        scene.enqueue()
        stale = scene.fetch()
        scene.clock.advance(2)
        scene.fetch()
        assert scene.write(verb, stale) == "stale_token"

    return check


def other_workers_are_refused(verb: str) -> Check:
    def check(scene: Scene) -> None:
        scene.enqueue()
        lease = scene.fetch()
        assert scene.write(verb, lease, worker_id="w2") == "lease_lost"
        assert scene.write(verb, lease, principal="another") == "lease_lost"

    return check


def expired_leases_are_refused(verb: str) -> Check:
    def check(scene: Scene) -> None:
        scene.enqueue()
        lease = scene.fetch()
        scene.clock.advance(2)
        assert scene.write(verb, lease) == "lease_expired"

    return check


def a_hand_over_draws_a_new_token(scene: Scene) -> None:
    scene.enqueue()
    first = scene.fetch().fencing_token
    scene.clock.advance(2)
    assert scene.fetch().fencing_token > first > 0


def another_result_is_refused(scene: Scene) -> None:
    scene.enqueue()
    lease = scene.fetch()
    scene.write("complete_task", lease, variables={"n": 1})
    assert scene.write("complete_task", lease, variables={"n": 2}) == "already_ended"


def only_the_failed_are_redriven(scene: Scene) -> None:
    scene.enqueue()
    lease = scene.fetch()
    scene.write("complete_task", lease)
    assert scene.call("redrive_task", task_id=lease.task_id) == "already_ended"


def leases_end_by_the_clock_of_the_database(scene: Scene) -> None:
    scene.enqueue()
    lease = scene.fetch(lease_ms=3_600_000)
    scene.clock.advance(3601)
    assert scene.write("complete_task", lease) == "lease_expired"


def failures_use_up_the_retries(scene: Scene) -> None:
    scene.enqueue(retries=2)
    states = [scene.write("fail_task", scene.fetch(), error="boom", retry_after_ms=0).state for _ in range(2)]
    assert states == ["READY", "FAILED"]


def no_number_of_failures_overflows(scene: Scene) -> None:
    asked = "select celeriac.backoff_ms(gen_random_uuid(), 2147483647, 1000, 100, 300000, 0)"
    assert scene.connection.execute(text(asked)).scalar_one() == 300_000


def a_task_that_kills_its_workers_fails(scene: Scene) -> None:
    task_id = scene.enqueue(policy={"expirations": 1})
    for _ in range(2):
        scene.fetch()
        scene.clock.advance(2)
        scene.call("expire_leases")
    state = text("select state, error from celeriac.task_list where task_id = :id")
    assert scene.connection.execute(state, {"id": task_id}).one() == ("FAILED", "lease_lost")


def a_key_is_used_once(scene: Scene) -> None:
    assert scene.enqueue(idempotency_key="k") == scene.enqueue(idempotency_key="k")
    made = text("select count(*) from celeriac.task where task_type = :type")
    assert scene.connection.execute(made, {"type": scene.task_type}).scalar_one() == 1


def a_key_with_another_input_is_refused(scene: Scene) -> None:
    scene.enqueue(idempotency_key="k")
    other = [{"task_type": scene.task_type, "idempotency_key": "k", "variables": {"n": 2}}]
    assert scene.call("enqueue_tasks", tasks=json_list(other)) == "idempotency_conflict"


def claims_do_not_wait_for_each_other(scene: Scene) -> None:
    for _ in range(2):
        scene.enqueue()
    claim = "select task_id from celeriac.fetch_tasks('w', %s, 1)"
    with psycopg.connect(scene.url) as one_worker, psycopg.connect(scene.url) as other_worker:
        other_worker.execute("set statement_timeout = '1s'")
        taken = [worker.execute(claim, [[scene.task_type]]).fetchall() for worker in (one_worker, other_worker)]
    assert taken[0] != taken[1]
    assert [len(found) for found in taken] == [1, 1]


def a_claim_takes_no_more_than_it_may(scene: Scene) -> None:
    for _ in range(5):
        scene.enqueue()
    scene.fetch()
    ready = text("select count(*) from celeriac.queue where state = 'READY' and task_type = :type")
    assert scene.connection.execute(ready, {"type": scene.task_type}).scalar_one() == 4


def an_extended_lease_is_not_expired(scene: Scene) -> None:
    scene.enqueue()
    lease = scene.fetch()
    scene.write("extend_lease", lease, lock_duration_ms=60_000)
    scene.clock.advance(2)
    scene.call("expire_leases")
    assert scene.write("complete_task", lease).state == "COMPLETED"


def batches_lock_in_one_order(scene: Scene) -> None:
    """The first batch waits for its second task, then comes one with the same tasks the other way round."""
    ids = sorted(scene.enqueue() for _ in range(2))
    for _ in ids:
        scene.fetch(lease_ms=60_000)
    orders = [ids[::-1], ids]
    with ThreadPoolExecutor(2) as threads, psycopg.connect(scene.url) as holder:
        holder.execute("select from celeriac.queue where task_id = %s for update", [ids[1]])
        answers = []
        for place, order in enumerate(orders, start=1):
            answers.append(threads.submit(_complete, scene.url, order))
            _wait_for_waiting(scene, place)
        holder.rollback()
        assert sorted(code is None for answer in answers for code in answer.result()) == [True] * 4


def _complete(url: str, ids: list[str]) -> list[str | None]:
    complete = "select code from celeriac.complete_tasks(%s::jsonb, 'w1')"
    with psycopg.connect(url) as connection:
        connection.execute("set deadlock_timeout = '20ms'")
        items = json_list([{"task_id": task_id} for task_id in ids])
        return [code for (code,) in connection.execute(complete, [items])]


def _wait_for_waiting(scene: Scene, sessions: int) -> None:
    waiting = text(
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    while scene.connection.execute(waiting).scalar_one() < sessions:
        pass


def names_that_look_alike_are_refused(scene: Scene) -> None:
    assert scene.call("enqueue_tasks", tasks=json_list([{"task_type": f"{scene.task_type}\u200b"}])) == "invalid"


def big_payloads_are_refused(scene: Scene) -> None:
    item = {"task_type": scene.task_type, "variables": {"text": "x" * 1_048_576}}
    assert scene.call("enqueue_tasks", tasks=json_list([item])) == "too_large"


def error_texts_are_cut(scene: Scene) -> None:
    task_id = scene.enqueue(retries=1)
    scene.write("fail_task", scene.fetch(), error="é" * 10_000)
    error = text("select octet_length(error) from celeriac.task where id = :id")
    assert scene.connection.execute(error, {"id": task_id}).scalar_one() == 8192


def of_every_writer(rule: int, name: str, check: Callable[[str], Check], olds: dict[str, str]) -> list[Guard]:
    return [Guard(rule, f"{verb}: {name}", WRITERS[verb], old, "", check(verb)) for verb, old in olds.items()]


def lines(pattern: str) -> dict[str, str]:
    """The line of each writer that a pattern stands for: {0} is the function's name."""
    return {verb: pattern.format(function) for verb, function in WRITERS.items()}


def owner_line(verb: str) -> str:
    function = WRITERS[verb]
    principal = {
        "release_task": "me",
    }.get(verb, f"{function}.principal")
    return f"and q.lease_owner = {function}.worker_id and q.lease_principal = {principal}"


GUARDS = [
    *of_every_writer(
        1,
        "the token",
        stale_tokens_are_refused,
        lines("and q.fencing_token = coalesce({0}.fencing_token, q.fencing_token)"),
    ),
    Guard(
        1,
        "a new token at every hand-over",
        "claim_ready",
        "fencing_token = nextval('celeriac.fencing_token'), ",
        "",
        a_hand_over_draws_a_new_token,
    ),
    Guard(
        2,
        "the same result",
        "answer_completion",
        "\n        and t.result = answer_completion.result",
        "",
        another_result_is_refused,
    ),
    Guard(2, "only the failed", "redrive_task", "was.state <> 'FAILED'", "false", only_the_failed_are_redriven),
    Guard(
        3,
        "one clock",
        "end_completed",
        "celeriac.now()",
        "clock_timestamp()",
        leases_end_by_the_clock_of_the_database,
    ),
    *of_every_writer(4, "the owner", other_workers_are_refused, {verb: owner_line(verb) for verb in WRITERS}),
    *of_every_writer(4, "the end of the lease", expired_leases_are_refused, lines("and q.lease_expires_at > moment")),
    Guard(5, "one retry less", "end_failed", "held.retries - 1", "held.retries", failures_use_up_the_retries),
    Guard(
        5,
        "the exponent capped",
        "backoff_ms",
        "least(greatest(failures - 1, 0), 600 / nullif(ln(factor), 0))",
        "failures - 1",
        no_number_of_failures_overflows,
    ),
    Guard(
        6,
        "the budget of lost leases",
        "end_lost",
        "for_good := lost.expirations > budget;",
        "null;",
        a_task_that_kills_its_workers_fails,
    ),
    Guard(
        7,
        "the same input",
        "claim_keys",
        "i.input_hash <> celeriac.input_hash(a.version, a.variables)",
        "false",
        a_key_with_another_input_is_refused,
    ),
    Guard(
        7,
        "only who has the key",
        "insert_tasks",
        "unnest(asked) a where a.idempotency_key is null or a.ordinal = any (kept)\n",
        "unnest(asked) a\n",
        a_key_is_used_once,
    ),
    Guard(
        8,
        "skip what is locked",
        "pick_ready",
        "limit stream.slots for update skip locked) onward",
        "limit stream.slots) onward",
        claims_do_not_wait_for_each_other,
    ),
    Guard(
        8,
        "no more than asked",
        "streams",
        "'-infinity' end), want, ",
        "'-infinity' end), 1000, ",
        a_claim_takes_no_more_than_it_may,
    ),
    Guard(
        8,
        "a sweep judges what it locked",
        "reap_leases",
        "if due.lease_expires_at > moment then",
        "if false then",
        an_extended_lease_is_not_expired,
    ),
    Guard(
        9,
        "one order of locks",
        "complete_tasks",
        "order by w.task_id, w.ordinal",
        "order by w.ordinal",
        batches_lock_in_one_order,
    ),
    Guard(10, "names", "is_name", "and name !~ (", "and name !~ ('\\A\\Z' || ", names_that_look_alike_are_refused),
    Guard(
        10,
        "the size of a payload",
        "read_variables",
        "> 1048576 then",
        "> 1048576000 then",
        big_payloads_are_refused,
    ),
    Guard(10, "the length of an error", "cut_text", "octet_length(short) > bytes", "false", error_texts_are_cut),
]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"rule {guard.rule}, {guard.name}")
def test_a_check_holds_with_its_guard_and_fails_without(
    conn: Connection, clock: Clock, database_url: str, guard: Guard
) -> None:
    guard.check(Scene(conn, clock, database_url, "with"))
    install(conn, replaced(shipped(guard.function), guard.old, guard.new))
    with pytest.raises((AssertionError, AttributeError, sqlalchemy.exc.DBAPIError, psycopg.Error)):
        guard.check(Scene(conn, clock, database_url, "without"))
