"""What is about to leave hears no second message: it would be told that it was heard, and be lost."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine import advance
from db import call
from db.errors import Invalid, NotFound
from tests.app.engine.conftest import Desk, flow, model, task
from tests.db.clerk import Clerk
from tests.db.overlap import overlap

ROOTS = '<message id="M" name="m"/><message id="N" name="n"/>'
MESSAGE = '<messageEventDefinition messageRef="{0}"/>'
BEGIN = '<startEvent id="s"/>'
GATE = (
    '<eventBasedGateway id="g"/>'
    f'<intermediateCatchEvent id="cm">{MESSAGE.format("M")}</intermediateCatchEvent>'
    f'<intermediateCatchEvent id="cn">{MESSAGE.format("N")}</intermediateCatchEvent>'
    '<userTask id="u"/>' + flow("s", "g", "cm", "u") + flow("g", "cn", "u")
)  # fmt: skip


def on(activity: str, *, interrupts: bool = True) -> str:
    said = str(interrupts).lower()
    event = f'<boundaryEvent id="b" attachedToRef="{activity}" cancelActivity="{said}">{MESSAGE.format("M")}'
    return event + '</boundaryEvent><userTask id="u"/>' + flow("b", "u")


INSIDE = (
    '<subProcess id="sub"><startEvent id="is"/>'
    f'<intermediateCatchEvent id="cn">{MESSAGE.format("N")}</intermediateCatchEvent>' + flow("is", "cn")
    + "</subProcess>" + flow("s", "sub")
)  # fmt: skip


def throw(desk: Desk, name: str, **more: Any) -> Any:
    """A message that nobody has worked in yet."""
    return call.rows(desk.conn, "throw_event", kind="message", name=name, **more)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("body", "first", "second"),
    [
        (GATE, "m", "m"), (GATE, "m", "n"), (task("a") + flow("s", "a") + on("a"), "m", "m"),
        (INSIDE + on("sub"), "m", "n"),
    ],
)  # fmt: skip
def test_a_second_message_finds_nobody(desk: Desk, body: str, first: str, second: str, strict: bool) -> None:
    desk.deploy(model(BEGIN + body, ROOTS))
    instance = desk.start()
    assert len(throw(desk, first, strict=strict)) == 1
    with pytest.raises(NotFound):
        throw(desk, second, strict=strict)
    assert throw(desk, second, ttl_ms=60_000) == []
    desk.advance(instance)
    assert desk.one("select string_agg(node, ' ') from celeriac.instance_tokens") == "u"


def test_one_that_interrupts_nothing_is_heard_again(desk: Desk) -> None:
    desk.deploy(model(BEGIN + task("a") + flow("s", "a") + on("a", interrupts=False), ROOTS))
    instance = desk.start()
    for _ in range(2):
        assert len(throw(desk, "m", strict=True)) == 1
    desk.advance(instance)
    assert desk.one("select string_agg(node, ' ' order by node) from celeriac.instance_tokens") == "a u u"


def test_a_person_who_is_done_is_not_reached_and_one_who_was_interrupted_is_not_done(desk: Desk) -> None:
    desk.deploy(model(BEGIN + '<userTask id="a"/>' + flow("s", "a") + on("a"), ROOTS))
    for first in ("person", "message"):
        instance = desk.start()
        token = desk.one("select token_id from celeriac.instance_tokens where instance_id = :id", id=instance)
        if first == "person":
            call.one(desk.conn, "complete_token", token_uid=token)
        else:
            assert len(throw(desk, "m")) == 1
        with pytest.raises(NotFound):
            throw(desk, "m")
        with pytest.raises(NotFound):
            call.one(desk.conn, "complete_token", token_uid=token)
        desk.advance(instance)


def test_one_that_is_stopped_is_not_reached(desk: Desk) -> None:
    desk.deploy(model(BEGIN + GATE, ROOTS))
    first, _ = desk.start(), desk.start()
    with pytest.raises(Invalid):
        throw(desk, "m")
    call.one(desk.conn, "stop_instance", instance_id=first)
    assert len(throw(desk, "m")) == 1


TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
LATE = '<userTask id="late"/>'
TOO_LATE = (
    '<eventBasedGateway id="g"/>'
    f'<intermediateCatchEvent id="c">{MESSAGE.format("M")}</intermediateCatchEvent>'
    f'<intermediateCatchEvent id="t">{TIMER}</intermediateCatchEvent>'
    f'<userTask id="u"/>{LATE}' + flow("s", "g", "c", "u") + flow("g", "t", "late")
)  # fmt: skip
OVERDUE = (
    f'<receiveTask id="c" messageRef="M"/><boundaryEvent id="t" attachedToRef="c">{TIMER}</boundaryEvent>'
    f'<userTask id="u"/>{LATE}' + flow("s", "c", "u") + flow("t", "late")
)


def heard(clerk: Clerk) -> Any:
    return len(clerk.rows("throw_event", kind="message", name="m"))


def fell_due(clerk: Clerk) -> Any:
    return len(clerk.rows("fire_event_timers"))


@pytest.mark.parametrize("body", [TOO_LATE, OVERDUE])
def test_of_a_message_and_a_timer_that_falls_due_one_comes_first(desk: Desk, database_url: str, body: str) -> None:
    """Case B21: whoever sent the message is told that it was heard only if it was."""
    desk.deploy(model(BEGIN + body, ROOTS))
    due = "update celeriac.event_wait set due_at = celeriac.now() where kind = 'timer'"
    instance = desk.start()
    desk.conn.exec_driver_sql(due)
    told, answer = overlap(database_url, fell_due, heard)
    assert (told, type(answer)) == (1, NotFound)
    desk.settle()
    assert desk.at(instance) == ["late"]
    instance = desk.start()
    desk.conn.exec_driver_sql(due)
    told, answer = overlap(database_url, heard, fell_due)
    assert (told, answer) == (1, 0)
    assert fell_due(Clerk(desk.conn)) == 1  # it is about nothing any more
    desk.settle()
    assert desk.at(instance) == ["u"]


@pytest.mark.parametrize("interrupts", [True, False])
def test_what_is_done_and_stands_at_its_commit_point_hears_nothing_more(desk: Desk, interrupts: bool) -> None:
    work = task("a", 'camunda:asyncAfter="true"') + flow("s", "a", "v") + on("a", interrupts=interrupts)
    desk.deploy(model(BEGIN + work + '<userTask id="v"/>', ROOTS))
    instance = desk.start()
    row = desk.fetch("a")
    call.one(desk.conn, "complete_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token)
    stopped = advance(desk.conn, instance)
    assert stopped is not None
    assert stopped.more
    with pytest.raises(NotFound):
        throw(desk, "m")
    desk.settle()
    assert desk.at(instance) == ["v"]


EVENTS = {
    "message": MESSAGE.format("N"), "timer": TIMER, "signal": '<signalEventDefinition signalRef="S"/>',
}  # fmt: skip
SIGNAL = ROOTS + '<signal id="S" name="s"/>'
OTHER = {
    "message": lambda clerk: len(clerk.rows("throw_event", kind="message", name="n")),
    "signal": lambda clerk: len(clerk.rows("throw_event", kind="signal", name="s")),
    "timer": fell_due,
}


def behind_a_gateway(event: str) -> str:
    catches = {"c": MESSAGE.format("M"), "d": event}
    caught = "".join(
        f'<intermediateCatchEvent id="{id_}">{said}</intermediateCatchEvent>' for id_, said in catches.items()
    )
    return f'<eventBasedGateway id="g"/>{caught}' + flow("s", "g", "c", "u") + flow("g", "d", "late")


def on_the_activity(event: str) -> str:
    receive = f'<receiveTask id="c" messageRef="M"/><boundaryEvent id="d" attachedToRef="c">{event}</boundaryEvent>'
    return receive + flow("s", "c", "u") + flow("d", "late")


def around_the_activity(event: str) -> str:
    inside = '<startEvent id="is"/><receiveTask id="c" messageRef="M"/><userTask id="inner"/>' + flow(
        "is", "c", "inner"
    )
    boundary = f'<boundaryEvent id="d" attachedToRef="sub">{event}</boundaryEvent>'
    return f'<subProcess id="sub">{inside}</subProcess>{boundary}' + flow("s", "sub", "u") + flow("d", "late")


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("place", [behind_a_gateway, on_the_activity, around_the_activity])
def test_a_message_that_comes_as_something_else_takes_its_waiter_away_is_not_heard(
    desk: Desk, database_url: str, place: Any, kind: str
) -> None:
    desk.deploy(model(BEGIN + place(EVENTS[kind]) + '<userTask id="u"/>' + LATE, SIGNAL))
    instance = desk.start()
    desk.conn.exec_driver_sql("update celeriac.event_wait set due_at = celeriac.now() where kind = 'timer'")
    told, answer = overlap(database_url, OTHER[kind], heard)
    assert (told, type(answer)) == (1, NotFound)
    desk.settle()
    assert desk.at(instance) == ["late"]
