"""What people decide about work: they may complete what nobody else will do, and what is undone stays undone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.engine import advance
from db import call
from db.errors import AlreadyEnded, Invalid
from tests.app.engine.conftest import Desk, flow, model, task
from tests.app.engine.test_engine import ORDER
from tests.db.clerk import Clerk
from tests.db.overlap import overlap

BEGIN = '<startEvent id="s"/>'
BAD_INPUT = (
    '<extensionElements><camunda:inputOutput><camunda:inputParameter name="x">${nothing}</camunda:inputParameter>'
    "</camunda:inputOutput></extensionElements>"
)


def token(desk: Desk, instance: str, node: str) -> str:
    found = desk.one(
        "select token_id from celeriac.instance_tokens where instance_id = :id and node = :node", id=instance, node=node
    )
    return str(found)


def complete(desk: Desk, instance: str, node: str, **variables: Any) -> None:
    values = call.Json(json.dumps(variables))
    call.one(desk.conn, "complete_token", token_uid=token(desk, instance, node), variables=values)
    desk.advance(instance)


def incident(desk: Desk, instance: str) -> Any:
    return desk.one(
        "select id from celeriac.incident where instance_id = :id and resolved_at is null order by id desc", id=instance
    )


def failed(desk: Desk, topic: str) -> Any:
    return desk.one("select id from celeriac.task where task_type = :topic and state = 'FAILED'", topic=topic)


def test_what_nobody_does_is_completed_by_nobody(desk: Desk) -> None:
    nodes = {
        "c": '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>',
        "sub": f'<subProcess id="sub"><startEvent id="is"/><userTask id="u"/>{flow("is", "u")}</subProcess>',
        "x": '<scriptTask id="x" scriptFormat="juel"><script>${nothing}</script></scriptTask>',
        "bad": f'<userTask id="bad">{BAD_INPUT}</userTask>',
        "t": task("t"),
        "j": '<parallelGateway id="j"/><userTask id="other"/>' + flow("f", "other", "j"),
    }
    fork = '<parallelGateway id="f"/>' + "".join(nodes.values()) + "".join(flow("f", name) for name in nodes)
    desk.deploy(model(BEGIN + fork + flow("s", "f"), '<message id="M" name="m"/>'))
    instance = desk.start()
    before = desk.at(instance)
    for node in nodes:
        with pytest.raises(Invalid):
            complete(desk, instance, node)
    assert advance(desk.conn, instance) is None
    assert desk.at(instance) == before


@pytest.mark.parametrize("end", ["failed", "canceled"])
def test_work_that_no_worker_will_do_is_done_by_hand(desk: Desk, end: str) -> None:
    """Case B33, fourth part: the branch that somebody skips is not waited for any more."""
    body = (
        BEGIN + '<inclusiveGateway id="f"/>' + task("a") + task("b") + '<inclusiveGateway id="j"/>' + task("after")
        + flow("s", "f", "a", "j", "after") + flow("f", "b", "j")
    )  # fmt: skip
    desk.deploy(model(body))
    instance = desk.start()
    desk.complete("a")
    if end == "failed":
        desk.fail("b")
    else:
        call.one(desk.conn, "cancel_task", task_id=desk.fetch("b").task_id)
        desk.advance(instance)
    assert (desk.incidents(instance), desk.ready()) == ([("b", "failed")], [])
    complete(desk, instance, "b", x=1)
    assert (desk.incidents(instance), desk.ready(), desk.variables(instance)) == ([], ["after"], {"x": 1})
    desk.complete("after")
    assert desk.status(instance) == "COMPLETED"


def test_an_undo_that_always_fails_is_done_by_hand_and_the_next_one_follows(desk: Desk) -> None:
    """Case B35, second and sixth part."""
    desk.deploy(ORDER)
    instance = desk.start()
    desk.complete("a")
    desk.complete("b")
    desk.fail("c")
    desk.fail("undo_b")
    assert (desk.ready(), desk.incidents(instance)) == ([], [("undo_b", "failed")])
    complete(desk, instance, "undo_b")
    assert (desk.ready(), desk.incidents(instance)) == (["undo_a"], [])
    desk.complete("undo_a")
    assert desk.status(instance) == "FAILED_COMPENSATED"


@pytest.mark.parametrize("until", ["COMPENSATING", "FAILED_COMPENSATED"])
def test_what_was_undone_is_not_done_again(desk: Desk, until: str) -> None:
    desk.deploy(ORDER)
    instance = desk.start()
    desk.complete("a")
    desk.complete("b")
    desk.fail("c")
    if until == "FAILED_COMPENSATED":
        desk.complete("undo_b")
        desk.complete("undo_a")
    assert desk.status(instance) == until
    before = desk.ready()
    with pytest.raises(AlreadyEnded):
        call.one(desk.conn, "redrive_task", task_id=failed(desk, "c"))
    assert call.rows(desk.conn, "redrive_tasks") == []
    assert desk.ready() == before


@pytest.mark.parametrize("many", [False, True])
def test_redriving_the_task_of_an_incident_resolves_it_and_asks_for_the_work_once(desk: Desk, many: bool) -> None:
    desk.deploy(model(BEGIN + task("a") + flow("s", "a")))
    for late in (False, True):
        instance = desk.start()
        desk.fail("a")
        opened = incident(desk, instance)
        if late:  # both before the advance
            call.one(desk.conn, "resolve_incident", incident_id=opened, resolution="retry")
        if many:
            assert len(call.rows(desk.conn, "redrive_tasks")) == 1
        else:
            call.one(desk.conn, "redrive_task", task_id=failed(desk, "a"))
        call.one(desk.conn, "resolve_incident", incident_id=opened, resolution="retry")
        desk.advance(instance)
        assert (desk.incidents(instance), desk.ready()) == ([], ["a"])
        desk.complete("a")
        assert desk.status(instance) == "COMPLETED"


def test_tasks_with_an_instance_of_their_callers_own_are_redriven_with_the_others(desk: Desk) -> None:
    item = {"task_type": "mine", "instance_id": "00000000-0000-7000-8000-000000000001", "retries": 1}
    call.rows(desk.conn, "enqueue_tasks", tasks=call.Json(json.dumps([item])))
    row = desk.fetch("mine")
    held = {"task_id": row.task_id, "worker_id": "w", "fencing_token": row.fencing_token}
    call.one(desk.conn, "fail_task", **held, error="x", retries=0)
    assert len(call.rows(desk.conn, "redrive_tasks")) == 1


def test_two_who_try_an_incident_again_at_once_are_answered_alike(desk: Desk, database_url: str) -> None:
    script = '<scriptTask id="x" scriptFormat="juel"><script>${missing}</script></scriptTask>'
    desk.deploy(model('<startEvent id="s"/>' + script + flow("s", "x")))
    opened = incident(desk, desk.start())

    def retry(clerk: Clerk) -> Any:
        return clerk.one("resolve_incident", incident_id=opened, resolution="retry").incident_id

    assert overlap(database_url, retry, retry) == (opened, opened)
    assert desk.one("select count(*) from celeriac.fact") == 1
