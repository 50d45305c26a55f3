"""No statement on `queue` or `outbox` walks or sorts what a backlog made long, whatever shape the tables are in.

The plans are the real ones of the statements inside the functions, for the values at hand and for any (a plan that is
kept). A claim touches as many pages of a long queue as of a short one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.proof.plan_tree import Plan, PlanCollector
from tests.proof.shapes import SHAPES, build

TABLES = ("queue", "outbox", "task")
# Pages that a claim of one task may touch; measured by hand: 25 on a short queue, 45 on one of 200 000.
CLAIM_PAGES = 150


@pytest.fixture(scope="module")
def owner(proof_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(proof_url, autocommit=True) as connection:
        for name in ("bulk", "small"):
            connection.execute("select celeriac.register_task_type(%s, delivery => 'celery')", [name])
        yield connection


@pytest.fixture(scope="module", params=SHAPES)
def shape(request: pytest.FixtureRequest, owner: psycopg.Connection[Any]) -> str:
    name: str = request.param
    build(owner, name)
    return name


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_no_statement_walks_or_sorts_a_long_table(
    shape: str, mode: str, owner: psycopg.Connection[Any], proof_url: str
) -> None:
    oids = dict(
        _pairs(owner, "select oid::bigint, relname from pg_class where relnamespace = 'celeriac'::regnamespace")
    )
    tables = {oid: name for oid, name in oids.items() if name in TABLES}
    keys = {oid for oid, name in oids.items() if name in {f"{table}_pkey" for table in TABLES}}
    with psycopg.connect(proof_url) as connection:
        connection.execute(f"set plan_cache_mode = {mode}")
        collector = PlanCollector(connection, tables, keys)
        every_call(connection)
        connection.rollback()
    plans = collector.plans()
    assert {scan.table for plan in plans for scan in plan.scans} == set(TABLES)
    found = {complaint for plan in plans for complaint in complaints(plan)}
    assert not found, "\n".join(sorted(found))


def complaints(plan: Plan) -> list[str]:
    bad = [scan for scan in plan.scans if scan.way == "SEQSCAN" or (scan.table != "task" and scan.is_sorted_unbounded)]
    return [f"{scan.way} of {scan.table} under {scan.above} in {plan.statement}" for scan in bad]


def test_no_function_that_shuns_walks_is_compiled_for_the_price_of_one(owner: psycopg.Connection[Any]) -> None:
    """A walk that cannot be avoided, over a table of one page, counts as dear enough for the JIT compiler: 200 ms."""
    shuns = "select proname from pg_proc where 'enable_seqscan=off' = any (proconfig)"
    assert owner.execute(shuns).fetchall() != []
    assert owner.execute(f"{shuns} and not 'jit=off' = any (proconfig)").fetchall() == []


@pytest.mark.parametrize("types", [["small"], ["bulk", "small"]])
def test_a_claim_touches_few_pages(shape: str, types: list[str], proof_url: str) -> None:
    with psycopg.connect(proof_url) as connection:
        enqueue(connection, 20)
        claim = "explain (analyze, buffers, format json) select * from celeriac.fetch_tasks('w', %s, 1)"
        claims = [connection.execute(claim, [types]).fetchone() for _ in range(5)]
        connection.rollback()
    (warm,) = (claims[-1] or ())[0]
    assert warm["Plan"]["Shared Hit Blocks"] + warm["Plan"]["Shared Read Blocks"] <= CLAIM_PAGES


def enqueue(connection: psycopg.Connection[Any], count: int, **item: Any) -> list[str]:
    items = Jsonb([{"task_type": "small"} | item for _ in range(count)])
    return [
        str(task_id) for (task_id,) in connection.execute("select task_id from celeriac.enqueue_tasks(%s)", [items])
    ]


def every_call(connection: psycopg.Connection[Any]) -> None:
    """Every transition at least once, in ways that reach all of its statements; all in one transaction."""

    def call(function: str, *arguments: Any) -> list[Any]:
        places = ", ".join(["%s"] * len(arguments))
        return connection.execute(f"select * from celeriac.{function}({places})", arguments).fetchall()

    def leased(lease_ms: int = 60_000) -> tuple[str, int]:
        enqueue(connection, 1)
        (row,) = connection.execute(
            "select task_id, fencing_token from celeriac.fetch_tasks('w', '{small}', 1, %s)", [lease_ms]
        ).fetchall()
        return str(row[0]), row[1]

    enqueue(connection, 2, fairness_key="f", delay_ms=1)
    for _ in range(2):
        enqueue(connection, 1, idempotency_key="k")
    call("fetch_tasks", "w", ["bulk"], 10)
    call("fetch_tasks", "w", ["bulk", "small", "none"], 10)
    call("fetch_tasks", "w", ["none"], 1)
    call("extend_lease", leased()[0], "w", 1000)
    call("release_task", leased()[0], "w")
    call("cancel_task", leased()[0])
    for verb in ("complete", "fail"):
        call(f"{verb}_task", leased()[0], "w")
        many = [{"task_id": leased()[0]} for _ in range(3)]
        call(f"{verb}_tasks", Jsonb([*many, *many, {"task_id": "00000000-0000-7000-8000-000000000000"}]), "w")
    limited_calls(connection, call)
    failed = [leased()[0] for _ in range(3)]
    call("fail_tasks", Jsonb([{"task_id": one, "retries": 0} for one in failed]), "w")
    call("redrive_task", failed[0])
    call("redrive_tasks", "small")
    call("redrive_tasks")
    leased(lease_ms=1)
    enqueue(connection, 1, delay_ms=1)
    connection.execute("select pg_sleep(0.005)")
    call("fetch_tasks", "w", ["none"], 1)
    call("ready_types", ["bulk", "small"])
    call("expire_leases", 10)
    call("promote_due", 10)
    taken = [row[0] for row in call("take_outbox", "ring", 3)]
    call("settle_outbox", taken[:1], taken[1:2], Jsonb([{"id": one, "error": "no"} for one in taken[2:]]))
    call("resend_outbox")
    call("ring_stale", 0)
    call("purge_ended", 0)
    call("record_refusal", failed[0], "complete", "stale_token", "w")


def limited_calls(connection: psycopg.Connection[Any], call: Callable[..., list[Any]]) -> None:
    """The ways of tasks with a concurrency key, and of types with a rate."""
    limit = "select celeriac.register_task_type(%s, concurrency => %s, rate_tasks => %s, rate_ms => %s)"
    keyed = Jsonb([{"task_type": "keyed", "concurrency_key": key, "delay_ms": ms} for key in "kkkl" for ms in (0, 1)])
    call("enqueue_tasks", keyed)
    call("fetch_tasks", "k", ["keyed"], 1)
    for concurrency in (1, 3, 6):
        connection.execute(limit, ["keyed", concurrency, 100, 1000])
        call("enqueue_tasks", keyed)
        (one, *_) = call("fetch_tasks", "k", ["keyed", "small"], 5)
        call("complete_and_fetch", Jsonb([{"task_id": str(one[0])}]), "k", ["keyed"], 5)
        call("ready_types", ["keyed"])
    connection.execute(limit, ["keyed", 1, 1, 3_600_000])
    call("fetch_tasks", "k", ["keyed"], 1)
    connection.execute("select pg_sleep(0.005)")
    call("promote_due", 10)
    enqueue(connection, 2)
    leases = call("fetch_tasks", "k", ["small"], 2)
    call("extend_leases", Jsonb([{"task_id": str(one[0]), "lock_duration_ms": 60_000} for one in leases]), "k")
    call("release_leases", "k")
    connection.execute(limit, ["keyed", 0, 0, 0])


def _pairs(connection: psycopg.Connection[Any], query: str) -> Any:
    return connection.execute(query).fetchall()
