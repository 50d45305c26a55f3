"""Those whom a message is for are found from what is known of them, however many others wait or have the same value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from db.call import Json
from db.errors import Invalid, NotFound
from tests.app.engine.conftest import Desk, flow, model

WAITS = model(
    '<startEvent id="s"/><receiveTask id="r" messageRef="M"/><endEvent id="e"/>' + flow("s", "r", "e"),
    '<message id="M" name="m"/>',
)
OTHERS = """
    insert into celeriac.variable (instance_id, scope, name, value)
    select gen_random_uuid(), 1, 'country', '"NL"' from generate_series(1, 10001)"""
"""More than are looked through from this end."""


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"order": 2}, True), ({"country": "NL"}, "several"), ({"country": "NL", "order": 2}, True),
        ({"country": "NL", "order": 3}, False), ({"order": 2.0}, True), ({"order": "2"}, False),
        ({"missing": 2}, False), ({"basket": ["x" * 5000]}, "several"), ({"basket": ["x" * 5000], "order": 1}, True),
    ],
    ids=repr,
)  # fmt: skip
def test_by_variables_that_few_or_many_have(desk: Desk, asked: dict[str, Any], found: Any, strict: bool) -> None:
    desk.deploy(WAITS)
    desk.conn.exec_driver_sql(OTHERS)
    instances = [desk.start(order=n, country="NL", basket=["x" * 5000]) for n in (1, 2)]

    def throw() -> Any:
        return desk.event("message", "m", correlation=Json(json.dumps(asked)), strict=strict)

    if found == "several":
        with pytest.raises(Invalid):
            throw()
    elif not found:
        with pytest.raises(NotFound):
            throw()
    else:
        assert [str(row.instance_id) for row in throw()] == [instances[asked["order"] == 2]]


@pytest.mark.parametrize("strict", [False, True])
def test_by_business_key_and_instance(desk: Desk, strict: bool) -> None:
    desk.deploy(WAITS)
    a, b = desk.start(business_key="A"), desk.start(business_key="B")
    with pytest.raises(NotFound):
        desk.event("message", "m", business_key="B", instance_id=a, strict=strict)
    with pytest.raises(NotFound):
        desk.event("message", "m", business_key="C", strict=strict)
    assert [str(row.instance_id) for row in desk.event("message", "m", business_key="B", strict=strict)] == [b]
    with pytest.raises(NotFound):
        desk.event("message", "m", business_key="B", strict=strict)
    assert [str(row.instance_id) for row in desk.event("message", "m", instance_id=a, strict=strict)] == [a]
