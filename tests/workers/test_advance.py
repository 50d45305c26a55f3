"""The chore that advances what nobody has advanced."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.engine import advance as advance_instance
from tests.app.engine.conftest import Desk, flow, model, task
from tests.clock import Clock
from workers.advance import advance
from workers.chore import Tools

TWO = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))


@pytest.fixture
def desk(conn: Connection) -> Desk:
    return Desk(conn)


def complete(desk: Desk, topic: str) -> None:
    """As a fleet does: nobody advances."""
    row = desk.fetch(topic)
    desk.conn.execute(text("select celeriac.complete_task(:id, 'w')"), {"id": row.task_id})


def test_what_a_fleet_has_done_is_worked_in(desk: Desk, tools: Tools, clock: Clock) -> None:
    desk.deploy(TWO)
    instance = desk.start()
    complete(desk, "a")
    assert advance(tools)["advanced"] == 0
    clock.advance(1)
    assert advance(tools)["advanced"] == 1
    assert desk.at(instance) == ["b"]
    assert advance(tools)["advanced"] == 0


def test_one_that_cannot_be_advanced_keeps_nobody_else_from_it(
    desk: Desk, tools: Tools, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.advance.BATCH", 1)
    desk.deploy(TWO)
    broken, other = desk.start(), desk.start()
    for _ in range(2):
        complete(desk, "a")
        clock.advance(1)

    def fault(connection: Connection, instance: str, **more: Any) -> Any:
        if instance == broken:
            raise RuntimeError("a fault of ours")
        return advance_instance(connection, instance, **more)

    monkeypatch.setattr("workers.advance.advance_instance", fault)
    assert advance(tools)["failed"] == 1
    assert (desk.at(broken), desk.at(other)) == (["a"], ["b"])


def test_an_instance_goes_on_over_its_commit_points_in_one_run(desk: Desk, tools: Tools, clock: Clock) -> None:
    nodes = '<startEvent id="s"/>' + task("a", 'camunda:asyncAfter="true"') + task("b", 'camunda:asyncBefore="true"')
    desk.deploy(model(nodes + '<endEvent id="e"/>' + flow("s", "a", "b", "e")))
    instance = desk.start()
    complete(desk, "a")
    clock.advance(1)
    advance(tools)
    assert (desk.at(instance), desk.ready()) == (["b"], ["b"])
