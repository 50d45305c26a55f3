"""What never waits comes to an end, also where each advance is a transaction of its own (case B34)."""

from __future__ import annotations

import pytest

from app import engine
from app.engine import advance
from db import call
from tests.app.engine.conftest import Desk, flow, model

ROOTS = '<signal id="S" name="s"/><signal id="T" name="t"/>'


def signal(name: str) -> str:
    return f'<signalEventDefinition signalRef="{name}"/>'


def circle(inside: str) -> str:
    gateways = '<exclusiveGateway id="j"/><exclusiveGateway id="g" default="g-e"/>'
    back = "<conditionExpression>${n &gt; 0}</conditionExpression>"
    back = f'<sequenceFlow id="back" sourceRef="g" targetRef="j">{back}</sequenceFlow>'
    return f'<startEvent id="s"/>{gateways}{inside}<endEvent id="e"/>' + flow("s", "j", "x", "g", "e") + back


def go_on(desk: Desk, most: int = 100) -> int:
    """Advance what there is, until nothing moves."""
    for rounds in range(most):
        due = call.rows(desk.conn, "due_instances", older_than_ms=0)
        if not due:
            return rounds
        for row in due:
            advance(desk.conn, str(row.instance_id))
    raise AssertionError("it goes on for ever")


@pytest.fixture(autouse=True)
def few_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_HOPS", 20)


@pytest.mark.parametrize("point", ["asyncBefore", "asyncAfter"])
def test_commit_points_in_a_circle_are_an_incident_that_goes_on_when_it_is_retried(desk: Desk, point: str) -> None:
    desk.deploy(model(circle(f'<manualTask id="x" camunda:{point}="true"/>')))
    instance = desk.start(n=1)
    go_on(desk)
    assert desk.incidents(instance) == [("x", "loop")]
    call.one(desk.conn, "set_variables", instance_id=instance, variables=call.Json('{"n": 0}'))
    token = desk.one("select token_id from celeriac.instance_tokens where instance_id = :id", id=instance)
    call.one(desk.conn, "complete_token", token_uid=token, again=True)
    go_on(desk)
    assert (desk.status(instance), desk.incidents(instance)) == ("COMPLETED", [])


def test_a_process_that_its_own_signal_begins_ends_somewhere(desk: Desk) -> None:
    begin = f'<startEvent id="s">{signal("S")}</startEvent>'
    throw = f'<intermediateThrowEvent id="x">{signal("S")}</intermediateThrowEvent><endEvent id="e"/>'
    desk.deploy(model(begin + throw + flow("s", "x", "e"), ROOTS))
    call.rows(desk.conn, "throw_event", kind="signal", name="s")
    go_on(desk)
    assert desk.one("select count(*) from celeriac.instances") == 21
    assert desk.one("select count(*) from celeriac.incident where kind = 'loop' and resolved_at is null") == 1


def test_two_that_answer_each_other_come_to_rest(desk: Desk) -> None:
    for process, heard, said in (("p", "S", "T"), ("q", "T", "S")):
        catch = f'<intermediateCatchEvent id="c">{signal(heard)}</intermediateCatchEvent>'
        throw = f'<intermediateThrowEvent id="x">{signal(said)}</intermediateThrowEvent>'
        way = flow("s", "c", "x", "c")
        desk.deploy(model(f'<startEvent id="s"/>{catch}{throw}{way}', ROOTS, f'id="{process}" isExecutable="true"'))
    instances = [desk.start("p"), desk.start("q")]
    call.rows(desk.conn, "throw_event", kind="signal", name="s")
    go_on(desk)
    assert desk.incidents(instances[0]) + desk.incidents(instances[1]) == [("x", "loop")]


def test_who_waits_between_may_go_on_for_ever(desk: Desk) -> None:
    work = '<userTask id="x" camunda:asyncBefore="true" camunda:asyncAfter="true"/>'
    desk.deploy(model(circle(work)))
    instance = desk.start(n=1)
    for _ in range(30):
        go_on(desk)
        token = desk.one("select token_id from celeriac.instance_tokens where instance_id = :id", id=instance)
        call.one(desk.conn, "complete_token", token_uid=token)
        desk.advance(instance)
    go_on(desk)
    assert (desk.incidents(instance), desk.at(instance)) == ([], ["x"])
