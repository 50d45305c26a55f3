"""set_variables and visible_variables: where a variable is set and dropped, and who sees which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from db import call
from db.engine import sync_engine
from db.errors import Invalid, NotFound, TooLarge
from tests.app.engine.conftest import Desk, flow, model, task

INPUT = (
    '<extensionElements><camunda:inputOutput><camunda:inputParameter name="{0}">{0}</camunda:inputParameter>'
    "</camunda:inputOutput></extensionElements>"
)
BOX = (
    f'<subProcess id="box">{INPUT.format("boxed")}<startEvent id="bs"/>' + task("a", inside=INPUT.format("local"))
    + '<endEvent id="be"/>' + flow("bs", "a", "be") + "</subProcess>"
)  # fmt: skip
MODEL = model('<startEvent id="s"/>' + BOX + '<endEvent id="e"/>' + flow("s", "box", "e"))


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    engine = sync_engine(database_url)
    with engine.connect() as connection:
        desk = Desk(connection)
        desk.deploy(MODEL)
        yield desk
    engine.dispose()


def places(desk: Desk, instance: str) -> tuple[str, str]:
    """The tokens at the task and at the subprocess around it."""
    statement = "select token_id from celeriac.instance_tokens where instance_id = :id and node = :node"
    return str(desk.one(statement, id=instance, node="a")), str(desk.one(statement, id=instance, node="box"))


def seen(desk: Desk, place: str, **more: Any) -> dict[str, Any]:
    rows = call.rows(desk.conn, "visible_variables", token_uids=[place], **more)
    return {row.name: json.loads(row.value) for row in rows}


def put(desk: Desk, instance: str, token: str | None = None, drop: tuple[str, ...] = (), **variables: Any) -> int:
    local = bool(variables.pop("local_only", False))
    return int(
        call.one(
            desk.conn, "set_variables", instance_id=instance, variables=variables, drop_names=list(drop),
            token_uid=token, local_only=local,
        )[0]
    )  # fmt: skip


def test_inner_ones_hide_outer_ones(desk: Desk) -> None:
    instance = desk.start(x=1, boxed="root", local="root")
    inner, box = places(desk, instance)
    assert seen(desk, instance) == {"x": 1, "boxed": "root", "local": "root"}
    assert seen(desk, box) == {"x": 1, "boxed": "boxed", "local": "root"}
    assert seen(desk, inner) == {"x": 1, "boxed": "boxed", "local": "local"}
    assert seen(desk, inner, local_only=True) == {"local": "local"}
    assert seen(desk, box, local_only=True) == {"boxed": "boxed"}
    assert seen(desk, inner, names=["x", "local", "none"]) == {"x": 1, "local": "local"}
    assert seen(desk, inner, names=[]) == {}


def test_many_places_are_asked_about_at_once(desk: Desk) -> None:
    first, second = desk.start(x=1), desk.start(x=2)
    asked = [*places(desk, first), *places(desk, second), first]
    rows = call.rows(desk.conn, "visible_variables", token_uids=asked, names=["x"])
    told = {str(row.token_uid): (json.loads(row.value), row.is_local) for row in rows}
    assert told == dict(zip(asked, [(1, False), (1, False), (2, False), (2, False), (1, True)], strict=True))


def test_each_is_set_where_it_is_else_at_the_root(desk: Desk) -> None:
    instance = desk.start(x=1)
    inner, box = places(desk, instance)
    assert put(desk, instance, inner, x=2, boxed=2, local=2, new=2) == 4
    assert seen(desk, instance) == {"x": 2, "new": 2}
    assert seen(desk, box, local_only=True) == {"boxed": 2}
    assert seen(desk, inner, local_only=True) == {"local": 2}
    assert put(desk, instance, box, x=3, local_only=True) == 1
    assert put(desk, instance, inner, x=4, local_only=True) == 1
    assert (seen(desk, instance)["x"], seen(desk, box)["x"], seen(desk, inner)["x"]) == (2, 3, 4)
    for x in (3, 2):
        put(desk, instance, inner, drop=("x",))
        assert seen(desk, inner)["x"] == x
    put(desk, instance, inner, drop=("x", "none"))
    assert "x" not in seen(desk, inner)


def test_without_a_token_they_are_those_of_the_root(desk: Desk) -> None:
    instance = desk.start(x=1)
    put(desk, instance, drop=("x",), boxed="root")
    assert seen(desk, instance) == {"boxed": "root"}


def test_what_is_not_there_or_too_large_is_refused(desk: Desk) -> None:
    instance, other = desk.start(), desk.start()
    with pytest.raises(NotFound, match="token"):
        put(desk, instance, places(desk, other)[0], x=1)
    with pytest.raises(TooLarge):
        put(desk, instance, x="x" * (1 << 20))
    with pytest.raises(Invalid, match="names"):
        put(desk, instance, **{"x" * 1025: 1})
    assert put(desk, instance, **{"ü" * 512: 1}) == 1
    call.one(desk.conn, "stop_instance", instance_id=instance)
    desk.advance(instance)
    with pytest.raises(NotFound, match="open instance"):
        put(desk, instance, x=1)


def test_what_an_instance_sees_grows_to_the_limit_and_no_further(desk: Desk) -> None:
    """Case B16: each write is small enough, and together they are more than a task can have. Less is always taken."""
    instance = desk.start(x="x" * 600_000)
    inner, _ = places(desk, instance)
    for token in (None, inner):
        with pytest.raises(TooLarge):
            put(desk, instance, token, y="y" * 600_000)
    assert put(desk, instance, y="y" * 400_000) == 1
    assert put(desk, instance, drop=("x",), y="y" * 900_000) == 1
    assert "x" not in seen(desk, instance)
    call.one(desk.conn, "set_variables", instance_id=instance, variables={"y": 1})
    # Beyond it already, by what workers said at the same time, say: it can only be made less.
    huge = (
        "insert into celeriac.variable (instance_id, scope, name, value)"
        " select s.instance_id, s.id, 'z', cast(:z as jsonb) from celeriac.scope s where s.parent is null"
    )
    desk.conn.execute(text(huge), {"z": json.dumps("z" * 1_100_000)})
    assert put(desk, instance, y=2) == 1
    with pytest.raises(TooLarge):
        put(desk, instance, y="more")
    assert put(desk, instance, z=0) == 1
