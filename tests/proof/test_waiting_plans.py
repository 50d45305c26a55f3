"""What 200 000 tasks wait for does not slow down who sends, waits, ends or cancels: no walk, no sort, few pages."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.proof.plan_tree import PlanCollector
from tests.proof.shapes import TASKS

TABLES = ("queue", "task", "waiting", "wait", "step", "signal", "signal_receipt", "child", "follow_up")
MANY = 200_000
# Pages that one call may touch, far fewer than the tables have; by hand: 20 to 140.
FEW_PAGES = 400
# Half of them wait for one and the same signal, the others for one each; all have a time-out, a step and a child. As
# many signals are kept, half of them under one topic and key.
SHAPE = [
    TASKS.format(state="'WAITING'", ended="null, null, null", count=MANY),
    """insert into celeriac.waiting (task_id, since, turn_at, version, priority, payload_bytes, retries, attempts,
                                  expirations, undoing, task_type, fencing_token)
       select id, now(), now(), 1, 0, 12, 3, 0, 0, false, 'bulk', 1 from celeriac.task""",
    """insert into celeriac.wait (task_id, since, until, ordinal, branch, kind, name, topic, key, armed)
       select id, created_at, now() + interval '1 day', 1, '', 'signal', 'go', 'go',
              case when row_number() over () % 2 = 0 then 'hot' else id::text end, true from celeriac.task""",
    """insert into celeriac.wait (task_id, since, child_id, ordinal, branch, kind, name, armed)
       select id, created_at, gen_random_uuid(), 2, '', 'task', 'child', true from celeriac.task""",
    """insert into celeriac.step (task_id, recorded_at, fencing_token, ordinal, branch, kind, name)
       select id, now(), 1, 3, '', 'step', 'plan' from celeriac.task""",
    "insert into celeriac.child (task_id, parent_id) select gen_random_uuid(), id from celeriac.task",
    """insert into celeriac.signal (id, sent_at, expires_at, broadcast, topic, key, sender)
       select id, now(), now() + interval '1 day', false, 'kept',
              case when row_number() over () % 2 = 0 then 'hot' else id::text end, 'p' from celeriac.task""",
    "vacuum analyze celeriac.task, celeriac.waiting, celeriac.wait, celeriac.step, celeriac.child, celeriac.signal",
]


@pytest.fixture(scope="module")
def url(proof_url: str) -> str:
    with psycopg.connect(proof_url, autocommit=True) as connection:
        for statement in SHAPE:
            connection.execute(statement)
    return proof_url


class Caller:
    """Calls functions in one transaction, and says how many pages each touches."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.pages: dict[str, int] = {}

    def call(self, what: str, function: str, *arguments: Any, measured: bool = False) -> list[Any]:
        statement = f"select * from celeriac.{function}({', '.join(['%s'] * len(arguments))})"
        if measured:
            answer = self.connection.execute(
                f"explain (analyze, buffers, format json) {statement}", arguments
            ).fetchone()
            plan = (answer or ())[0][0]["Plan"]
            self.pages[what] = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            return []
        return self.connection.execute(statement, arguments).fetchall()

    def held(self) -> tuple[Any, int]:
        self.call("", "enqueue_tasks", Jsonb([{"task_type": "small"}]))
        ((task_id, token),) = self.connection.execute(
            "select task_id, fencing_token from celeriac.fetch_tasks('w', '{small}', 1)"
        ).fetchall()
        return task_id, token

    def every_call(self, *, measured: bool) -> None:
        """Twice: the first time plans are made, which reads catalogs."""
        for counted in (False, measured):
            self.call("send to many", "send_signal", "go", "hot", measured=counted)
            self.call("send to nobody", "send_signal", "none", measured=counted)
            for wait in (
                {"kind": "signal", "topic": "kept", "key": "hot"},
                {"kind": "signal", "topic": "go", "key": "hot"},
                {"kind": "timer", "delay_ms": 1000},
                {"kind": "task", "child_id": str(self.held()[0])},
            ):
                what = f"suspend for {wait}"
                waits = Jsonb([wait | {"name": "n", "ordinal": 9}])
                self.call(what, "suspend_task", *self.as_worker(), waits, measured=counted)
            self.call(
                "children",
                "enqueue_children",
                *self.as_worker(),
                "",
                1,
                "c",
                Jsonb([{"task_type": "t"}]),
                measured=counted,
            )
            self.call("complete", "complete_task", *self.as_worker(), measured=counted)
            (parent,) = (
                self.connection.execute(
                    "select id from celeriac.task where state = 'WAITING' order by id limit 1"
                ).fetchone()
                or ()
            )
            self.call("cancel", "cancel_task", parent, measured=counted)
            self.call("nothing is due", "fire_timers", measured=counted)
            self.call("purge", "purge_ended", 0, None, 10, measured=False)

    def as_worker(self) -> tuple[Any, str, int]:
        task_id, token = self.held()
        return task_id, "w", token


def test_no_call_touches_more_than_a_few_pages(url: str) -> None:
    with psycopg.connect(url) as connection:
        caller = Caller(connection)
        caller.every_call(measured=True)
        connection.rollback()
    assert len(caller.pages) == 10
    assert {what: pages for what, pages in caller.pages.items() if pages > FEW_PAGES} == {}


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_no_statement_walks_or_sorts_what_is_long(url: str, mode: str) -> None:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select oid::bigint, relname from pg_class where relnamespace = 'celeriac'::regnamespace"
        )
        oids: dict[int, str] = dict(rows.fetchall())
        connection.execute(f"set plan_cache_mode = {mode}")
        keys = {oid for oid, name in oids.items() if name.endswith("_pkey")}
        collector = PlanCollector(connection, {oid: name for oid, name in oids.items() if name in TABLES}, keys)
        caller = Caller(connection)
        caller.every_call(measured=False)
        connection.rollback()
    plans = collector.plans()
    assert {scan.table for plan in plans for scan in plan.scans} >= set(TABLES) - {"signal_receipt"}
    found = {
        f"{scan.way} of {scan.table} under {scan.above} in {plan.statement}"
        for plan in plans
        for scan in plan.scans
        if scan.way == "SEQSCAN" or scan.is_sorted_unbounded
    }
    assert not found, "\n".join(sorted(found))
