"""A durable task of a process may end with a business error, which the model catches."""

import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, text

import celeriac
from app.bpmn.options import Options
from app.deployment import Resource, prepared
from app.engine import advance
from celeriac import BpmnError, Context
from db import call
from tests.app.engine.conftest import flow, model
from tests.app.engine.conftest import task as task_of
from tests.durable.carrier import Carrier

ERROR = '<boundaryEvent id="no" attachedToRef="a"><errorEventDefinition errorRef="E"/></boundaryEvent>'
NODES = '<startEvent id="s"/>' + task_of("a") + ERROR + task_of("b") + '<endEvent id="e"/>'
CATCHES = model(NODES + flow("s", "a", "e") + flow("no", "b", "e"), '<error id="E" errorCode="SOLD_OUT"/>')


@pytest.fixture
def instance(conn: Connection) -> str:
    """An instance that waits for a task of the type a."""
    arguments = prepared("d", [Resource("p.bpmn", CATCHES)], Options(), datetime.now(UTC))
    (deployed,) = call.rows(conn, "deploy_models", **arguments)
    started = call.one(conn, "start_instance", definition_id=deployed.definition_id)
    advance(conn, str(started.instance_id))
    return str(started.instance_id)


def test_a_business_error_takes_the_way_that_the_model_has_for_it(
    carrier: Carrier, conn: Connection, instance: str
) -> None:
    tried = []

    @celeriac.task("a")
    def reserve(ctx: Context) -> None:
        def ask() -> None:
            tried.append(1)
            raise BpmnError("SOLD_OUT", "none left", {"missing": 2})

        ctx.step("ask", ask)

    carrier.install(reserve)
    carrier.run()
    advance(conn, instance)
    at = conn.execute(text("select node from celeriac.instance_tokens")).scalars().all()
    ended = conn.execute(text("select state, result, error from celeriac.task_detail where task_type = 'a'")).one()
    assert (at, tried) == (["b"], [1])
    assert (ended.state, json.loads(ended.result), ended.error) == ("COMPLETED", {"missing": 2}, "none left")


def test_what_cannot_be_thrown_fails_the_attempt(carrier: Carrier, conn: Connection) -> None:
    @celeriac.task("mail", retry=celeriac.RetryPolicy(attempts=1))
    def send(ctx: Context) -> None:
        raise BpmnError("SOLD_OUT")

    task_id = carrier.start(send)
    ended = conn.execute(text("select state, error from celeriac.task_list where task_id = :id"), {"id": task_id}).one()
    assert ended.state == "FAILED"
    assert "only a task of a process" in ended.error
