"""Everybody at the same instances at once: nobody waits in a circle, nothing is left over, what was paid is undone."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from app.engine import advance
from db import call
from db.errors import Refused
from tests.app.engine.conftest import Desk, flow, model, task
from tests.db.clerk import Clerk
from tests.db.crowd import Part, let_loose

MOST = 150
TOPICS = ("pay", "pack", "ask", "refund", "late")
EVENT = '<boundaryEvent id="on-{0}" attachedToRef="{0}" {2}>{1}</boundaryEvent>' + task("late-{0}").replace(
    'topic="late-{0}"', 'topic="late"'
)
ROOTS = '<message id="M" name="m"/><message id="N" name="n"/><signal id="S" name="s"/>'
MESSAGE = '<messageEventDefinition messageRef="M"/>'
SIGNAL = '<signalEventDefinition signalRef="S"/>'
TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"


def events(host: str, definition: str, more: str = "") -> str:
    return EVENT.format(host, definition, more) + flow(f"on-{host}", f"late-{host}")


ORDER = model(
    '<startEvent id="s"/><subProcess id="sub"><startEvent id="is"/><parallelGateway id="f"/>'
    + task("pay")
    + '<boundaryEvent id="c" attachedToRef="pay"><compensateEventDefinition/></boundaryEvent>'
    + task("refund", 'isForCompensation="true"')
    + '<association id="o" sourceRef="c" targetRef="refund"/>'
    + task("pack")
    + events("pack", TIMER)
    + task("ask")
    + events("ask", SIGNAL)
    + '<parallelGateway id="j"/><intermediateThrowEvent id="tell">'
    + SIGNAL
    + "</intermediateThrowEvent>"
    + flow("is", "f", "pay", "j", "tell")
    + flow("f", "pack", "j")
    + flow("f", "ask", "j")
    + "</subProcess>"
    + events("sub", MESSAGE)
    + flow("s", "sub"),
    ROOTS,
)


def some(clerk: Clerk, chance: random.Random, statement: str) -> Any:
    found = clerk.query(statement)
    return chance.choice(found) if found else None


def starts(clerk: Clerk, chance: random.Random, _: str) -> None:
    if clerk.scalar("select count(*) from celeriac.instance") < MOST:
        definition = clerk.scalar("select definition_id from celeriac.definitions")
        clerk.one("start_instance", definition_id=definition, business_key=str(chance.randrange(20)))


def works(clerk: Clerk, chance: random.Random, me: str) -> None:
    for row in clerk.fetch(*TOPICS, worker_id=me, max_tasks=2):
        if row.task_type != "refund" and chance.random() < 0.1:
            clerk.one("fail_task", task_id=row.task_id, worker_id=me, error="broken", retries=0)
        elif row.task_type == "ask" and chance.random() < 0.3:
            clerk.one("throw_task", task_id=row.task_id, worker_id=me, error_code="E")
        else:
            clerk.one("complete_task", task_id=row.task_id, worker_id=me)


def works_in_batches(clerk: Clerk, chance: random.Random, me: str) -> None:
    rows = clerk.fetch(*TOPICS, worker_id=me, max_tasks=20)
    chance.shuffle(rows)
    items = call.json_list([{"task_id": str(row.task_id), "variables": {}} for row in rows])
    if rows:
        clerk.rows("complete_and_fetch", items=items, worker_id=me, task_types=[], max_tasks=0)


def works_as_in_camunda(clerk: Clerk, chance: random.Random, me: str) -> None:
    asked = call.json_list([{"topic": topic, "lock_ms": 60_000} for topic in TOPICS])
    for row in clerk.rows("fetch_external_tasks", worker_id=me, topics=asked, max_tasks=3):
        done = "throw_external_task" if row.task_type == "ask" and chance.random() < 0.3 else "complete_external_task"
        clerk.one(done, task_id=row.task_id, worker_id=me, **({"error_code": "E"} if done[0] == "t" else {}))


def tells(clerk: Clerk, chance: random.Random, _: str) -> None:
    if chance.random() < 0.8:
        one = some(clerk, chance, "select id from celeriac.instance where ended_at is null")
        if one is not None:
            clerk.rows("throw_event", kind="message", name="m", instance_id=one["id"], strict=chance.random() < 0.5)
    else:
        clerk.rows("throw_event", kind="signal", name="s")


def times(clerk: Clerk, chance: random.Random, _: str) -> None:
    one = some(clerk, chance, "select uid from celeriac.event_wait where kind = 'timer' and due_at is not null")
    if one is not None:
        clerk.one("move_event_timer", wait_uid=one["uid"], due_at=None)
        if chance.random() < 0.5:
            clerk.one("fire_event_timer", wait_uid=one["uid"])
    clerk.rows("fire_event_timers")
    clerk.one("fire_timers")


def stops(clerk: Clerk, chance: random.Random, _: str) -> None:
    one = some(clerk, chance, "select id from celeriac.instance where ended_at is null")
    if one is not None and chance.random() < 0.2:
        clerk.one("stop_instance", instance_id=one["id"], compensate=True)


def moves(clerk: Clerk, chance: random.Random, _: str) -> None:
    due = clerk.rows("due_instances", older_than_ms=0)
    for row in chance.sample(due, min(len(due), 5)):
        moved(clerk, row.instance_id)


def moved(clerk: Clerk, instance: UUID) -> None:
    clerk.conn.exec_driver_sql("begin")
    try:
        advance(clerk.conn, str(instance), skip=True)
    except Refused:
        clerk.conn.exec_driver_sql("rollback")
        raise
    clerk.conn.exec_driver_sql("commit")


def test_nobody_waits_in_a_circle_and_nothing_is_left_over(desk: Desk, database_url: str) -> None:
    desk.deploy(ORDER)
    clerk = Clerk(desk.conn)

    def all_ended() -> bool:
        return bool(
            clerk.scalar("select count(*) from celeriac.instance") == MOST
            and clerk.scalar("select count(*) from celeriac.instance where ended_at is null") == 0
        )

    parts: list[Part] = [
        starts, works, works, works_in_batches, works_in_batches, works_as_in_camunda,
        tells, times, stops, moves, moves,
    ]  # fmt: skip
    let_loose(clerk, database_url, parts, all_ended, seconds=120)
    left = "select count(*) from celeriac.{}"
    assert {name: clerk.scalar(left.format(name)) for name in ("token", "event_wait", "queue")} == {
        "token": 0, "event_wait": 0, "queue": 0,
    }  # fmt: skip
    unpaid = clerk.query("""
        select i.id
          from celeriac.instance i join celeriac.task t on t.instance_id = i.id and t.state = 'COMPLETED'
         where i.status in ('CANCELED', 'FAILED_COMPENSATED')
           and not exists (select from celeriac.instance_history h
                            where h.instance_id = i.id and h.what = 'happened' and h.node = 'on-sub')
         group by i.id
        having count(*) filter (where t.task_type = 'pay') <> count(*) filter (where t.task_type = 'refund')""")
    assert unpaid == []
