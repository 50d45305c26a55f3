"""Instances from start to end on Postgres: tokens, variables, events, timers, errors, undoing."""

import json

import pytest

from app.deployment import NotDeployable
from db import call
from db.call import Json
from db.errors import AlreadyEnded, Invalid, NotFound
from tests.app.engine.conftest import Desk, flow, model, task
from tests.clock import Clock

TWO = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))


def test_an_instance_goes_from_task_to_task_and_keeps_what_it_knows(desk: Desk) -> None:
    desk.deploy(TWO)
    instance = desk.start(business_key="B-1", x=1, big=2**70)
    fetched = desk.fetch("a")
    assert (str(fetched.instance_id), fetched.business_key, json.loads(fetched.variables)["big"]) == (
        instance,
        "B-1",
        2**70,
    )
    desk.conn.exec_driver_sql("select 1")
    call_complete(desk, fetched, y=2)
    assert (desk.at(instance), desk.ready()) == (["b"], ["b"])
    desk.complete("b")
    assert (desk.status(instance), desk.variables(instance)) == ("COMPLETED", {"x": 1, "big": 2**70, "y": 2})
    assert desk.at(instance) == []


def call_complete(desk: Desk, row: object, **variables: object) -> None:
    call.one(
        desk.conn, "complete_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token,  # type: ignore[attr-defined]
        variables=Json(json.dumps(variables)),
    )  # fmt: skip
    desk.advance(str(row.instance_id))  # type: ignore[attr-defined]


def test_the_same_bytes_make_no_new_version(desk: Desk) -> None:
    (first,) = desk.deploy(TWO)
    (again,) = desk.deploy(TWO)
    (other,) = desk.deploy(TWO.replace(b'id="e"', b'id="e" name="x"'))
    assert [(row.version, row.created) for row in (first, again, other)] == [(1, True), (1, False), (2, True)]
    assert again.definition_id == first.definition_id


def test_a_model_with_errors_is_not_deployed_and_all_of_them_are_told(desk: Desk) -> None:
    with pytest.raises(NotDeployable) as caught:
        desk.deploy(model('<startEvent id="s"/><serviceTask id="a"/><callActivity id="c"/>' + flow("s", "a", "x")))
    assert len([f for _, f in caught.value.findings if f.severity == "error"]) == 3
    assert desk.one("select count(*) from celeriac.deployments") == 0


def test_branches_that_complete_keep_each_others_variables(desk: Desk) -> None:
    """Case B41."""
    body = (
        '<startEvent id="s"/><parallelGateway id="f"/>'
        + task("a")
        + task("b")
        + '<parallelGateway id="j"/><endEvent id="e"/>'
    )
    desk.deploy(model(body + flow("s", "f", "a", "j", "e") + flow("f", "b", "j")))
    instance = desk.start(x=0, y=0)
    desk.complete("a", x=1)
    assert desk.at(instance) == ["b", "j"]
    desk.complete("b", y=1)
    assert (desk.status(instance), desk.variables(instance)) == ("COMPLETED", {"x": 1, "y": 1})


def test_an_error_of_the_model_is_an_incident_that_goes_on_when_it_is_retried(desk: Desk) -> None:
    body = (
        '<startEvent id="s"/>'
        + task("a")
        + '<exclusiveGateway id="g" default="g-e"/>'
        + task("b")
        + '<endEvent id="e"/>'
    )
    condition = '<sequenceFlow id="g-b" sourceRef="g" targetRef="b">'
    condition += "<conditionExpression>${missing &gt; 1}</conditionExpression></sequenceFlow>"
    desk.deploy(model(body + flow("s", "a", "g", "e") + condition + flow("b", "e")))
    instance = desk.start()
    desk.complete("a", x=1)
    assert desk.incidents(instance) == [("g", "expression")]
    token = desk.one("select token_id from celeriac.instance_tokens where instance_id = :id", id=instance)
    call.one(desk.conn, "complete_token", token_uid=token, again=True)
    desk.advance(instance)
    assert desk.incidents(instance) == [("g", "expression")]
    desk.conn.exec_driver_sql("select 1")
    assert desk.one("select celeriac.set_variables(:id, '{\"missing\": 2}')", id=instance) == 1
    call.one(desk.conn, "complete_token", token_uid=token, again=True)
    desk.advance(instance)
    assert (desk.incidents(instance), desk.ready()) == ([], ["b"])


def test_a_time_from_an_expression_that_the_calendar_does_not_have_is_an_incident_and_can_be_mended(desk: Desk) -> None:
    cycle = "<timerEventDefinition><timeCycle>${when}</timeCycle></timerEventDefinition>"
    boundary = f'<boundaryEvent id="b" attachedToRef="a" cancelActivity="false">{cycle}</boundaryEvent>'
    nodes = f'<startEvent id="s"/>{task("a")}{boundary}<endEvent id="e"/><endEvent id="f"/>'
    desk.deploy(model(nodes + flow("s", "a", "e") + flow("b", "f")))
    instance = desk.start(when="0 99 31 2 *")
    assert (desk.incidents(instance), desk.ready()) == ([("a", "expression")], [])
    call.one(desk.conn, "set_variables", instance_id=instance, variables=call.Json('{"when": "0 6 * * *"}'))
    token = desk.one("select token_id from celeriac.instance_tokens where instance_id = :id", id=instance)
    call.one(desk.conn, "complete_token", token_uid=token, again=True)
    desk.advance(instance)
    assert (desk.incidents(instance), desk.ready()) == ([], ["a"])
    assert desk.one("select due_at is not null from celeriac.instance_waits where instance_id = :id", id=instance)


def test_timers_fire_by_the_clock_of_the_database_and_cycles_come_again(desk: Desk, clock: Clock) -> None:
    timer = "<timerEventDefinition><timeCycle>R2/PT1H</timeCycle></timerEventDefinition>"
    body = '<startEvent id="s"/>' + task("a") + task("late") + '<endEvent id="e"/>'
    body += f'<boundaryEvent id="t" attachedToRef="a" cancelActivity="false">{timer}</boundaryEvent>'
    desk.deploy(model(body + flow("s", "a", "e") + flow("t", "late", "e")))
    instance = desk.start()
    for hours, expected in ((0.9, 0), (0.2, 1), (1, 2), (1, 2)):
        clock.advance(3600 * hours)
        call.rows(desk.conn, "fire_event_timers")
        desk.settle()
        assert desk.ready().count("late") == expected
    desk.complete("a")
    desk.complete("late")
    desk.complete("late")
    assert desk.status(instance) == "COMPLETED"


def test_a_business_error_is_caught_and_its_variables_are_there(desk: Desk) -> None:
    roots = '<error id="no" errorCode="NO"/>'
    body = '<startEvent id="s"/>' + task("a") + task("mend") + '<endEvent id="e"/>'
    definition = '<errorEventDefinition errorRef="no" camunda:errorMessageVariable="why"/>'
    body += f'<boundaryEvent id="c" attachedToRef="a">{definition}</boundaryEvent>'
    desk.deploy(model(body + flow("s", "a", "e") + flow("c", "mend", "e"), roots))
    instance = desk.start()
    desk.throw("a", "NO", told=True)
    assert (desk.ready(), desk.variables(instance)) == (["mend"], {"told": True, "why": "said so"})


def test_a_message_reaches_the_one_instance_that_it_fits(desk: Desk) -> None:
    roots = '<message id="m" name="paid"/>'
    catch = '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    desk.deploy(model(f'<startEvent id="s"/>{catch}<endEvent id="e"/>' + flow("s", "c", "e"), roots))
    first, second = desk.start(business_key="1", order=1), desk.start(business_key="2", order=2)
    with pytest.raises(Invalid):
        desk.event("message", "paid")
    with pytest.raises(NotFound):
        desk.event("message", "other")
    desk.event("message", "paid", business_key="2", variables=Json('{"sum": 3}'))
    assert (desk.status(first), desk.status(second)) == ("ACTIVE", "COMPLETED")
    desk.event("message", "paid", correlation=Json('{"order": 1}'))
    assert desk.status(first) == "COMPLETED"
    with pytest.raises(NotFound):
        desk.event("message", "paid")


def test_a_message_that_is_kept_reaches_who_waits_later_once(desk: Desk) -> None:
    roots = '<message id="m" name="paid"/>'
    catch = '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    desk.deploy(model(f'<startEvent id="s"/>{catch}<endEvent id="e"/>' + flow("s", "c", "e"), roots))
    assert desk.event("message", "paid", ttl_ms=60_000) == []
    first, second = desk.start(), desk.start()
    assert (desk.status(first), desk.status(second)) == ("COMPLETED", "ACTIVE")


def test_a_signal_reaches_all_and_starts_what_begins_with_it(desk: Desk) -> None:
    roots = '<signal id="g" name="alert"/>'
    catch = '<intermediateCatchEvent id="c"><signalEventDefinition signalRef="g"/></intermediateCatchEvent>'
    waiting = model(f'<startEvent id="s"/>{catch}<endEvent id="e"/>' + flow("s", "c", "e"), roots)
    starting = (
        '<startEvent id="s"><signalEventDefinition signalRef="g"/></startEvent>' + task("a") + '<endEvent id="e"/>'
    )
    definition = '<signalEventDefinition signalRef="g"/>'
    thrower = (
        f'<startEvent id="s"/><intermediateThrowEvent id="t">{definition}</intermediateThrowEvent><endEvent id="e"/>'
    )
    desk.deploy(waiting)
    desk.deploy(model(starting + flow("s", "a", "e"), roots, 'id="q" isExecutable="true"'))
    desk.deploy(model(thrower + flow("s", "t", "e"), roots, 'id="r" isExecutable="true"'))
    instances = [desk.start() for _ in range(3)]
    assert desk.status(desk.start("r")) == "COMPLETED"
    desk.settle()
    assert [desk.status(instance) for instance in instances] == ["COMPLETED"] * 3
    assert desk.ready() == ["a"]


def undoable(name: str) -> str:
    handler = task(f"undo_{name}", 'isForCompensation="true"')
    event = f'<boundaryEvent id="on_{name}" attachedToRef="{name}"><compensateEventDefinition/></boundaryEvent>'
    return task(name) + handler + event + f'<association id="as_{name}" sourceRef="on_{name}" targetRef="undo_{name}"/>'


ORDER = model(
    '<startEvent id="s"/>'
    + undoable("a")
    + undoable("b")
    + task("c")
    + '<endEvent id="e"/>'
    + flow("s", "a", "b", "c", "e")
)


@pytest.mark.parametrize("last", ["end", "throw"])
def test_a_compensation_that_the_model_throws_ends_with_the_way_on(desk: Desk, last: str) -> None:
    thrower = {
        "throw": '<intermediateThrowEvent id="t"><compensateEventDefinition/></intermediateThrowEvent>'
        + task("after")
        + '<endEvent id="e"/>'
        + flow("t", "after", "e"),
        "end": '<endEvent id="t"><compensateEventDefinition/></endEvent>',
    }
    start = '<startEvent id="s"/>' + undoable("a") + undoable("b")
    desk.deploy(model(start + thrower[last] + flow("s", "a", "b", "t")))
    instance = desk.start()
    desk.complete("a")
    desk.complete("b")
    assert desk.ready() == ["undo_b"]
    desk.complete("undo_b")
    assert (desk.ready(), desk.status(instance)) == (["undo_a"], "ACTIVE")
    desk.complete("undo_a")
    if last == "throw":
        assert (desk.at(instance), desk.status(instance)) == (["after"], "ACTIVE")
        desk.complete("after")
    assert (desk.ready(), desk.at(instance), desk.status(instance)) == ([], [], "COMPLETED")


def test_a_task_that_fails_for_good_undoes_what_was_done_newest_first(desk: Desk) -> None:
    desk.deploy(ORDER)
    instance = desk.start()
    desk.complete("a", paid=1)
    desk.complete("b")
    desk.fail("c")
    assert (desk.status(instance), desk.ready()) == ("COMPENSATING", ["undo_b"])
    desk.complete("undo_b")
    desk.fail("undo_a")
    assert (desk.incidents(instance), desk.ready(), desk.status(instance)) == (
        [("undo_a", "failed")],
        [],
        "COMPENSATING",
    )
    token = desk.one("select token_id from celeriac.instance_tokens where instance_id = :id", id=instance)
    call.one(desk.conn, "complete_token", token_uid=token, again=True)
    desk.advance(instance)
    desk.complete("undo_a")
    assert (desk.status(instance), desk.incidents(instance)) == ("FAILED_COMPENSATED", [])


@pytest.mark.parametrize("compensate", [True, False])
def test_canceling_drops_open_work_and_undoes_if_asked(desk: Desk, compensate: bool) -> None:
    desk.deploy(ORDER)
    instance = desk.start()
    desk.complete("a")
    assert desk.ready() == ["b"]
    call.one(desk.conn, "stop_instance", instance_id=instance, compensate=compensate)
    desk.advance(instance)
    assert desk.ready() == (["undo_a"] if compensate else [])
    if compensate:
        desk.complete("undo_a")
    assert desk.status(instance) == "CANCELED"


def test_advancing_twice_is_a_no_op_and_a_suspended_instance_stands_still(desk: Desk) -> None:
    from app.engine import advance

    desk.deploy(TWO)
    instance = desk.start()
    assert advance(desk.conn, instance) is None
    held = desk.fetch("a")
    call.one(desk.conn, "suspend_instance", instance_id=instance, suspended=True)
    call.one(desk.conn, "complete_task", task_id=held.task_id, worker_id="w", fencing_token=held.fencing_token)
    assert advance(desk.conn, instance) is None
    assert (desk.at(instance), desk.ready()) == (["a"], [])
    call.one(desk.conn, "suspend_instance", instance_id=instance, suspended=False)
    desk.settle()
    assert desk.ready() == ["b"]


def test_the_same_throw_again_holds_and_another_code_is_refused(desk: Desk) -> None:
    desk.deploy(ORDER)
    desk.start()
    row = desk.fetch("a")
    held = {"task_id": row.task_id, "worker_id": "w", "fencing_token": row.fencing_token, "variables": Json("{}")}
    for _ in range(2):
        assert call.one(desk.conn, "throw_task", error_code="FIRST", **held).state == "COMPLETED"
    with pytest.raises(AlreadyEnded):
        call.one(desk.conn, "throw_task", error_code="OTHER", **held)
