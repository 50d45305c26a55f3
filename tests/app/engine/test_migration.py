"""An open instance goes on in another version of its process, or is told what does not fit there."""

import pytest

from db import call
from db.errors import Invalid, NotFound
from tests.app.engine.conftest import Desk, flow, model, task

FIRST = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))
LONGER = model(
    '<startEvent id="s"/>'
    + task("a")
    + task("new")
    + task("b")
    + '<endEvent id="e"/>'
    + flow("s", "a", "new", "b", "e")
)


def migrate(desk: Desk, instance: str, version: int = 2, key: str = "p") -> None:
    definition = desk.one(
        "select definition_id from celeriac.definitions where key = :key and version = :version",
        key=key,
        version=version,
    )
    call.one(desk.conn, "migrate_instance", instance_id=instance, definition_id=definition)


def test_it_goes_on_from_where_it_stands_by_the_new_flows(desk: Desk) -> None:
    desk.deploy(FIRST)
    instance = desk.start(x=1)
    stays = desk.start()
    desk.deploy(LONGER)
    migrate(desk, instance)
    desk.complete("a", y=2)
    assert (desk.at(instance), desk.variables(instance)) == (["new"], {"x": 1, "y": 2})
    desk.complete("a")
    assert desk.at(stays) == ["b"]
    line = desk.one(
        "select node from celeriac.instance_timeline where what = 'migrated' and instance_id = :id", id=instance
    )
    assert line == "1 -> 2"


@pytest.mark.parametrize(
    "other, misfit",
    [
        (FIRST.replace(b'id="a"', b'id="z"').replace(b'"s-a"', b'"s-z"').replace(b'"a"', b'"z"'), "a is not there"),
        (
            FIRST.replace(
                b'<serviceTask id="a" camunda:type="external" camunda:topic="a" ></serviceTask>', b'<userTask id="a"/>'
            ),
            "a is something else there",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_changed(desk: Desk, other: bytes, misfit: str) -> None:
    desk.deploy(FIRST)
    instance = desk.start()
    desk.deploy(other)
    with pytest.raises(Invalid, match=misfit):
        migrate(desk, instance)
    desk.complete("a")
    assert desk.at(instance) == ["b"]


def test_a_join_keeps_who_waits_there_only_if_their_flow_still_leads_to_it(desk: Desk) -> None:
    body = (
        '<startEvent id="s"/><parallelGateway id="f"/>'
        + task("a")
        + task("b")
        + '<parallelGateway id="j"/><endEvent id="e"/>'
    )
    fork = model(body + flow("s", "f", "a", "j", "e") + flow("f", "b", "j"))
    desk.deploy(fork)
    instance = desk.start()
    desk.complete("a")
    desk.deploy(fork.replace(b'id="a-j"', b'id="other"'))
    with pytest.raises(Invalid, match="a-j is not there, or leads elsewhere"):
        migrate(desk, instance)
    desk.deploy(fork.replace(b'id="e"', b'id="e" name="end"'))
    migrate(desk, instance, version=3)
    desk.complete("b")
    assert desk.status(instance) == "COMPLETED"


def test_another_process_an_ended_instance_and_nobody_are_refused(desk: Desk) -> None:
    desk.deploy(FIRST)
    desk.deploy(FIRST.replace(b'id="p"', b'id="q"'))
    instance = desk.start()
    with pytest.raises(Invalid, match="another process"):
        migrate(desk, instance, version=1, key="q")
    desk.complete("a")
    desk.complete("b")
    with pytest.raises(NotFound):
        migrate(desk, instance, version=1)
