"""Types of values: how far the engine carries them, and where they end."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import text

from db import call
from tests.app.engine.conftest import Desk, flow, model, task
from tests.clock import Clock

INPUTS = (
    "<extensionElements><camunda:inputOutput>"
    '<camunda:inputParameter name="same">${date}</camunda:inputParameter>'
    '<camunda:inputParameter name="more">${long + 1}</camunda:inputParameter>'
    '<camunda:inputParameter name="inside">${json.list[1]}</camunda:inputParameter>'
    '<camunda:inputParameter name="passed">${passing}</camunda:inputParameter>'
    '<camunda:outputParameter name="kept">${same}</camunda:outputParameter>'
    "</camunda:inputOutput></extensionElements>"
)
ONE = model(
    '<startEvent id="s"/>' + task("a", inside=INPUTS) + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e")
)
DATE = "2024-01-02T03:04:05.678+0000"
VARIABLES = {
    "date": DATE, "long": 5, "whole": 7, "json": {"list": [1, "x"]}, "nothing": None, "flag": True, "passing": "secret",
    "double": 1, "list": [1],
}  # fmt: skip
TYPES: dict[str, Any] = {
    "date": {"type": "Date"}, "long": {"type": "Long"}, "json": {"type": "Json", "info": {"text": '{ "list":[1,"x"]}'}},
    "nothing": {"type": "String"}, "passing": {"transient": True}, "double": {"type": "Double"},
    "list": {"type": "Object", "info": {"objectTypeName": "a.B"}},
}  # fmt: skip


def begin(desk: Desk, variables: dict[str, Any] = VARIABLES, types: dict[str, Any] = TYPES) -> str:
    definition = desk.one("select definition_id from celeriac.definitions order by version desc limit 1")
    started = call.one(desk.conn, "start_instance", definition_id=definition, variables=variables, types=types)
    desk.advance(str(started.instance_id))
    return str(started.instance_id)


def kinds(desk: Desk, place: str) -> dict[str, Any]:
    """{name: (value, type, info)} of all that is seen from a place."""
    rows = call.rows(desk.conn, "visible_variables", token_uids=[place])
    return {
        row.name: (json.loads(row.value), row.type, None if row.info is None else json.loads(row.info)) for row in rows
    }


def token(desk: Desk, instance: str, node: str) -> str:
    statement = "select token_id from celeriac.instance_tokens where instance_id = :id and node = :node"
    return str(desk.one(statement, id=instance, node=node))


def kept() -> dict[str, Any]:
    return {
        name: (value, TYPES.get(name, {}).get("type"), TYPES.get(name, {}).get("info"))
        for name, value in VARIABLES.items()
        if name != "passing"
    }


def test_a_value_keeps_its_type_under_any_name_and_what_is_reckoned_has_the_one_of_juel(desk: Desk) -> None:
    desk.deploy(ONE)
    instance = begin(desk)
    assert kinds(desk, instance) == kept()
    local = {"same": (DATE, "Date", None), "more": (6, "Long", None), "inside": ("x", None, None)}
    assert kinds(desk, token(desk, instance, "a")) == kept() | local
    desk.complete("a", whole=8)
    assert kinds(desk, instance) == kept() | {"whole": (8, None, None), "kept": (DATE, "Date", None)}
    assert desk.status(instance) == "ACTIVE"


def test_what_is_transient_is_in_no_row(desk: Desk) -> None:
    desk.deploy(ONE)
    instance = begin(desk)
    rows = desk.conn.execute(
        text("select variables::text from celeriac.task_detail union all select value::text from celeriac.variable")
    )
    assert "secret" not in str(rows.all())
    assert "secret" not in desk.one("select string_agg(t::text, ' ') from celeriac.token t")
    assert "passing" not in kinds(desk, instance)


def test_a_completion_sets_types_and_takes_them_away(desk: Desk) -> None:
    desk.deploy(ONE)
    instance = begin(desk)
    row = desk.fetch("a")
    changed = {"date": "plain", "long": 5, "whole": None, "nothing": None, "flag": None}
    call.one(
        desk.conn, "complete_task", task_id=row.task_id, worker_id="w", fencing_token=row.fencing_token,
        variables=call.Json(json.dumps(changed)),
    )  # fmt: skip
    desk.conn.execute(
        text("update celeriac.fact set payload = payload || cast(:types as jsonb)"),
        {"types": json.dumps({"types": {"whole": {"type": "Date"}, "long": {"type": "Short"}}})},
    )
    desk.advance(instance)
    after = kinds(desk, instance)
    assert {name: after[name] for name in changed} == {
        "date": ("plain", None, None), "long": (5, "Short", None), "whole": (None, "Date", None),
        "nothing": (None, None, None), "flag": (None, None, None),
    }  # fmt: skip


def test_types_travel_with_a_signal(desk: Desk) -> None:
    catch = (
        '<startEvent id="s"/><intermediateCatchEvent id="c"><signalEventDefinition signalRef="sig"/>'
        "</intermediateCatchEvent>" + task("after") + '<endEvent id="e"/>' + flow("s", "c", "after", "e")
    )
    throw = (
        '<startEvent id="s"/><intermediateThrowEvent id="t"><signalEventDefinition signalRef="sig"/>'
        '</intermediateThrowEvent><endEvent id="e"/>' + flow("s", "t", "e")
    )
    root = '<signal id="sig" name="go"/>'
    desk.deploy(model(catch, root, 'id="catcher" isExecutable="true"'))
    desk.deploy(model(throw, root, 'id="thrower" isExecutable="true"'))
    waiting = desk.start("catcher")
    definition = desk.one("select definition_id from celeriac.definitions where key = 'thrower'")
    started = call.one(desk.conn, "start_instance", definition_id=definition, variables=VARIABLES, types=TYPES)
    desk.advance(str(started.instance_id))
    desk.settle()
    assert kinds(desk, waiting) == kept()


def test_a_change_moves_nothing_and_sets_what_is_local_at_the_activity(desk: Desk) -> None:
    desk.deploy(ONE)
    instance = begin(desk)
    place = token(desk, instance, "a")
    payload = {
        "variables": {"date": 1, "same": 2, "new": 3}, "types": {"new": {"type": "Long"}},
        "local_variables": {"mine": 4}, "local_types": {"mine": {"type": "Double"}},
    }  # fmt: skip
    call.one(desk.conn, "tell_instance", instance_id=instance, kind="changed", token_uid=place, payload=payload)
    desk.advance(instance)
    assert (desk.at(instance), desk.ready()) == (["a"], ["a"])
    root = kinds(desk, instance)
    assert (root["date"], root["new"]) == ((1, None, None), (3, "Long", None))
    assert not {"same", "mine"} & set(root)
    seen = kinds(desk, place)
    assert (seen["same"], seen["mine"]) == ((2, None, None), (4, "Double", None))


def test_expressions_use_typed_values_as_any_others(desk: Desk) -> None:
    conditions = [
        "${date lt '2024-06-01T00:00:00.000+0000' and date == '2024-01-02T03:04:05.678+0000'}",
        "${long == 5 and long * 2 == 10 and double + 0.5 == 1.5 and flag}",
        "${json.list[1] == 'x' and empty nothing and list[0] == 1}",
    ]
    cel = "json.list[1] == 'x' && long == 5 && date.startsWith('2024') && double == 1"
    script = '<scriptTask id="t" scriptFormat="cel" camunda:resultVariable="ok">'
    script += f"<script><![CDATA[{cel}]]></script></scriptTask>"
    inputs = "".join(
        f'<camunda:inputParameter name="c{number}">{condition}</camunda:inputParameter>'
        for number, condition in enumerate(conditions)
    )
    inputs = f"<extensionElements><camunda:inputOutput>{inputs}</camunda:inputOutput></extensionElements>"
    body = '<startEvent id="s"/>' + script + task("a", inside=inputs) + '<endEvent id="e"/>'
    desk.deploy(model(body + flow("s", "t", "a", "e")))
    instance = begin(desk)
    assert desk.incidents(instance) == []
    seen = kinds(desk, token(desk, instance, "a"))
    assert [seen[name] for name in ("ok", "c0", "c1", "c2")] == [(True, None, None)] * 4


def test_a_file_stays_as_long_as_an_instance_has_it(desk: Desk, clock: Clock) -> None:
    desk.deploy(ONE)
    stored = {name: str(call.one(desk.conn, "store_file", content=name.encode())[0]) for name in ("used", "unused")}
    doc = {"file": stored["used"], "filename": "a.txt"}
    instances = [begin(desk, {**VARIABLES, "doc": doc}, {**TYPES, "doc": {"type": "File"}}) for _ in range(2)]
    assert kinds(desk, instances[0])["doc"] == (doc, "File", None)

    def there() -> set[str]:
        rows = {name: call.rows(desk.conn, "read_file", file_id=one) for name, one in stored.items()}
        return {name for name, found in rows.items() if found and bytes(found[0].part) == name.encode()}

    def purge_after_end(instance: str) -> None:
        call.one(desk.conn, "stop_instance", instance_id=instance)
        desk.advance(instance)
        clock.advance(2 * 86_400)
        call.one(desk.conn, "purge_instances", older_than_ms=86_400_000)

    assert there() == {"used", "unused"}
    purge_after_end(instances[0])
    assert there() == {"used"}
    purge_after_end(instances[1])
    assert there() == set()


def test_a_file_is_read_in_parts(desk: Desk) -> None:
    one = call.one(desk.conn, "store_file", content=b"0123456789")[0]
    parts = [call.one(desk.conn, "read_file", file_id=one, first=at, most=4) for at in (0, 4, 8, 12)]
    assert [(bytes(part.part), part.length) for part in parts] == [(b"0123", 10), (b"4567", 10), (b"89", 10), (b"", 10)]


def test_work_that_cannot_be_a_task_is_an_incident_that_can_be_retried(desk: Desk) -> None:
    work = '<serviceTask id="a" camunda:type="external" camunda:topic="${topic}" camunda:taskPriority="${priority}"/>'
    desk.deploy(model('<startEvent id="s"/>' + work + '<endEvent id="e"/>' + flow("s", "a", "e")))
    fine: dict[str, Any] = {"topic": "t", "priority": 1}
    for bad in ({"topic": "x" * 300}, {"priority": 2**31}, {"priority": -(2**31)}):
        instance = desk.start(**{**fine, **bad})
        assert (desk.incidents(instance), desk.ready()) == ([("a", "model")], [])
        call.one(desk.conn, "set_variables", instance_id=instance, variables=fine)
        call.one(desk.conn, "complete_token", token_uid=token(desk, instance, "a"), again=True)
        desk.advance(instance)
        assert (desk.incidents(instance), desk.ready()) == ([], ["t"])
        desk.complete("t")
        assert desk.status(instance) == "COMPLETED"


def test_numbers_of_expressions_are_longs_and_doubles_whatever_they_were_made_of(desk: Desk) -> None:
    """As in JUEL: whole numbers are reckoned as Longs, a division gives a Double; what is handed on stays as it was."""
    made = {
        "literal": ("${5}", 5, "Long"), "sum": ("${whole + 1}", 8, "Long"), "rest": ("${whole % 4}", 3, "Long"),
        "half": ("${whole * 2 / 7}", 2, "Double"), "fraction": ("${whole + 0.5}", 7.5, None),
        "chosen": ("${flag ? whole : 1}", 7, None), "asked": ("${execution.getVariable('whole')}", 7, None),
        "taken": ("${list[0]}", 1, None), "other": ("${flag ? 3 : whole}", 3, "Long"),
        "true": ("${whole > 1}", True, None),
        "huge": ("${9223372036854775807 + 1}", 9223372036854775808, None), "text": ("n${whole + 1}", "n8", None),
    }  # fmt: skip
    inputs = "".join(
        f'<camunda:inputParameter name="{n}">{e.replace("<", "&lt;")}</camunda:inputParameter>'
        for n, (e, _, _) in made.items()
    )
    inside = f"<extensionElements><camunda:inputOutput>{inputs}</camunda:inputOutput></extensionElements>"
    desk.deploy(model('<startEvent id="s"/>' + task("a", inside=inside) + '<endEvent id="e"/>' + flow("s", "a", "e")))
    instance = begin(desk)
    seen = kinds(desk, token(desk, instance, "a"))
    assert {name: seen[name] for name in made} == {
        name: (value, type_, None) for name, (_, value, type_) in made.items()
    }
