"""Who hears a message or a kept signal: the place that it is for, once (cases B21, B22, B26)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from db.call import Json
from db.errors import NotFound
from tests.app.engine.conftest import Desk, flow, model, task

ROOTS = '<message id="M" name="m"/><signal id="S" name="s"/>'
BEGIN = '<startEvent id="s"/>'


def catch(name: str, kind: str = "message") -> str:
    definition = f'<{kind}EventDefinition {kind}Ref="{kind[0].upper()}"/>'
    return f'<intermediateCatchEvent id="{name}">{definition}</intermediateCatchEvent>'


def local(value: str) -> str:
    parameter = f'<camunda:inputParameter name="k">{value}</camunda:inputParameter>'
    return f"<extensionElements><camunda:inputOutput>{parameter}</camunda:inputOutput></extensionElements>"


def inside(value: str) -> str:
    """A subprocess that waits where `k` has this value."""
    nodes = f'<startEvent id="s_{value}"/>{catch(f"c_{value}")}<userTask id="u_{value}"/>'
    way = flow(f"s_{value}", f"c_{value}", f"u_{value}")
    return f'<subProcess id="in_{value}">{local(value)}{nodes}{way}</subProcess>'


def on(value: str) -> str:
    """A task with a message on it, where `k` has this value."""
    event = '<messageEventDefinition messageRef="M"/>'
    boundary = (
        f'<boundaryEvent id="c_{value}" attachedToRef="in_{value}">{event}</boundaryEvent><userTask id="u_{value}"/>'
    )
    return task(f"in_{value}", inside=local(value)) + boundary + flow(f"c_{value}", f"u_{value}")


def around(value: str) -> str:
    """A subprocess with a message on it, where `k` has this value."""
    return (
        on(value)
        .replace("serviceTask", "subProcess")
        .replace(
            "</subProcess>",
            f'<startEvent id="s_{value}"/><userTask id="w_{value}"/>{flow(f"s_{value}", f"w_{value}")}</subProcess>',
        )
    )


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("wanted", ["a", "b"])
@pytest.mark.parametrize("place", [inside, on, around])
def test_a_message_goes_where_its_variables_are_seen(desk: Desk, place: Any, wanted: str, early: bool) -> None:
    fork = '<parallelGateway id="f"/>' + place("a") + place("b")
    desk.deploy(model(BEGIN + fork + flow("s", "f", "in_a") + flow("f", "in_b"), ROOTS))
    other = Json(json.dumps({"k": "outside"}))
    if early:
        desk.event("message", "m", correlation=Json(json.dumps({"k": wanted})), ttl_ms=60_000)
    instance = desk.start(k="outside")
    if not early:
        with pytest.raises(NotFound):
            desk.event("message", "m", correlation=other)  # hidden by what is nearer
        desk.event("message", "m", correlation=Json(json.dumps({"k": wanted})))
    assert [node for node in desk.at(instance) if node.startswith("u_")] == [f"u_{wanted}"]


ALIKE = [
    (1, "1"), (True, 1), (True, "true"), (1, 1.5), ("a", "A"), ("a", "a "), ("\u00e9", "e\u0301"), (10**20, 10**20 + 1),
    ([1], [1, 2]), ({"a": 1}, {"a": 1, "b": 2}), (None, "null"), (None, 0),
]  # fmt: skip


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("one", "other"), ALIKE, ids=str)
def test_alike_is_not_equal(desk: Desk, one: Any, other: Any, early: bool) -> None:
    desk.deploy(model(BEGIN + catch("c") + flow("s", "c"), ROOTS))
    for sent, awaited in ((one, other), (other, one)):
        known = Json(json.dumps({"k": sent}))
        if early:
            desk.event("message", "m", correlation=known, ttl_ms=60_000)
        strangers = [desk.start(k=awaited), desk.start()]  # missing is not null either
        if not early:
            with pytest.raises(NotFound):
                desk.event("message", "m", correlation=known)
        assert [desk.status(stranger) for stranger in strangers] == ["ACTIVE", "ACTIVE"]
        meant = desk.start(k=sent)
        if not early:
            desk.event("message", "m", correlation=known)
        assert desk.status(meant) == "COMPLETED"
        for stranger in strangers:
            desk.one("select count(*) from celeriac.stop_instance(:id)", id=stranger)
            desk.advance(stranger)


ROUND = (
    BEGIN + '<exclusiveGateway id="j"/>{0}'
    '<scriptTask id="x" scriptFormat="cel" camunda:resultVariable="got"><script>got + [n]</script></scriptTask>'
    '<exclusiveGateway id="g" default="g-e"/><endEvent id="e"/>' + flow("s", "j", "c", "x", "g", "e")
    + '<sequenceFlow id="back" sourceRef="g" targetRef="j"><conditionExpression language="cel">size(got) &lt; 10'
    "</conditionExpression></sequenceFlow>"
)  # fmt: skip


def test_a_kept_signal_is_heard_once_by_each_instance_however_often_it_waits(desk: Desk) -> None:
    desk.deploy(model(ROUND.format(catch("c", "signal")), ROOTS))
    desk.event("signal", "s", ttl_ms=60_000, variables=Json('{"n": 1}'))
    instances = [desk.start(got=[]) for _ in range(2)]
    assert [desk.variables(instance)["got"] for instance in instances] == [[1], [1]]
    desk.event("signal", "s", variables=Json('{"n": 2}'))
    assert [desk.variables(instance)["got"] for instance in instances] == [[1, 2], [1, 2]]


def test_a_kept_signal_is_heard_by_all_waits_that_an_instance_opens_together(desk: Desk) -> None:
    fork = (
        '<parallelGateway id="f"/>'
        + catch("c", "signal")
        + catch("d", "signal")
        + '<userTask id="u"/><userTask id="v"/>'
    )
    desk.deploy(model(BEGIN + fork + flow("s", "f", "c", "u") + flow("f", "d", "v"), ROOTS))
    desk.event("signal", "s", ttl_ms=60_000)
    assert desk.at(desk.start()) == ["u", "v"]


def test_of_messages_that_come_as_instances_end_and_begin_none_is_lost_or_heard_twice(desk: Desk) -> None:
    desk.deploy(model(ROUND.format(catch("c")), ROOTS))
    instances = [desk.start(got=[])]
    for number in range(100):
        desk.event("message", "m", ttl_ms=60_000, variables=Json(json.dumps({"n": number})))
        if number % 7 == 3 and desk.status(instances[-1]) == "COMPLETED":
            instances.append(desk.start(got=[]))
    while desk.one("select count(*) from celeriac.kept_event"):
        instances.append(desk.start(got=[]))
    got = [number for instance in instances for number in desk.variables(instance)["got"]]
    assert sorted(got) == list(range(100))
    assert [desk.status(instance) for instance in instances].count("COMPLETED") == 10
