"""Case B17 and its kind: values that other parsers round, cut or turn into something else come out as they went in."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, error, start
from tests.camunda.work import act, done, fetch, fetched

NUMBERS = {
    "safe": "9007199254740993", "largest": "9223372036854775807", "smallest": "-9223372036854775808",
    "beyond": "9223372036854775808", "snowflake": "3544790567247868102", "money": "100000.10", "tiny": "1e-7",
    "digits": "0.1234567890123456789012345", "zero": "-0.0", "twin": '"3544790567247868102"', "int": "2147483648",
}  # fmt: skip
"""Name -> JSON text."""
SPELLED = {"tiny": "0.0000001"}
"""How the database spells what it was told."""


def sent(**more: str) -> bytes:
    """A body whose variables are untyped and written as they are here."""
    variables = ", ".join(f'"{name}": {{"value": {text}}}' for name, text in NUMBERS.items())
    others = "".join(f', "{name}": {text}' for name, text in more.items())
    return f'{{"variables": {{{variables}}}{others}}}'.encode()


def values(raw: bytes) -> dict[str, str]:
    """Name -> text of its value, of a JSON object of typed variables, unparsed."""
    numbers = json.loads(raw, parse_float=str, parse_int=str)
    found = numbers[0]["variables"] if isinstance(numbers, list) else numbers
    return {name: found[name]["value"] if name != "twin" else json.dumps(found[name]["value"]) for name in NUMBERS}


def exactly() -> dict[str, str]:
    return NUMBERS | SPELLED


async def post(camunda: httpx.AsyncClient, path: str, content: bytes) -> httpx.Response:
    answered = await camunda.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answered.is_success, answered.text
    return answered


async def fetch_raw(camunda: httpx.AsyncClient, topic: str) -> httpx.Response:
    body = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": topic, "lockDuration": 60_000,
                                                        "deserializeValues": True}]}  # fmt: skip
    return await camunda.post("/external-task/fetchAndLock", json=body)


GATE = (
    '<exclusiveGateway id="g" default="g-no"/><endEvent id="yes"/>'
    '<sequenceFlow id="g-yes" sourceRef="g" targetRef="yes">'
    "<conditionExpression>${largest == beyond}</conditionExpression></sequenceFlow>"
)
ROUND = model(
    '<startEvent id="s"/>' + task("a") + task("b")
    + '<receiveTask id="m" messageRef="M"/>' + task("c") + GATE + task("no") + '<endEvent id="e"/>'
    + flow("s", "a", "b", "m", "c", "g") + flow("g", "no", "e"),
    '<message id="M" name="go"/>',
)  # fmt: skip


async def test_numbers_are_the_same_text_all_the_way(camunda: httpx.AsyncClient) -> None:
    """Start, worker, completion, message, conditions, history and what is shown on the way."""
    await deploy(camunda, ROUND)
    started = await post(camunda, "/process-definition/key/p/start", sent(withVariablesInReturn="true"))
    instance = started.json()["id"]
    assert values(json.dumps(started.json()["variables"]).encode()).keys() == NUMBERS.keys()
    for topic in ("a", "b"):
        raw = await fetch_raw(camunda, topic)
        assert values(raw.content) == exactly()
        found = raw.json()[0]
        await post(camunda, f"/external-task/{found['id']}/complete", sent(workerId='"w"'))
    message = sent(messageName='"go"').replace(b'"variables"', b'"processVariables"')
    await post(camunda, "/message", message)
    raw = await fetch_raw(camunda, "c")
    assert values(raw.content) == exactly()
    shown = await camunda.get(f"/process-instance/{instance}/variables")
    assert values(shown.content) == exactly()
    await post(camunda, f"/process-instance/{instance}/variables",
               sent().replace(b'"variables"', b'"modifications"'))  # fmt: skip
    assert values((await camunda.get(f"/execution/{instance}/localVariables")).content) == exactly()
    await post(camunda, f"/external-task/{raw.json()[0]['id']}/complete", b'{"workerId": "w"}')
    # Neighbours beyond 2^53 are not equal.
    raw = await fetch_raw(camunda, "no")
    assert values(raw.content) == exactly()
    await post(camunda, f"/external-task/{raw.json()[0]['id']}/complete", sent(workerId='"w"'))
    listed = await camunda.get("/history/variable-instance", params={"processInstanceId": instance})
    found = {one["name"]: one["value"] for one in json.loads(listed.content, parse_float=str, parse_int=str)}
    assert found | {"twin": json.dumps(found["twin"])} == exactly()


async def test_types_say_what_the_digits_are(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    await post(camunda, "/process-definition/key/p/start", sent())
    types = {name: one["type"] for name, one in (await fetch(camunda))["variables"].items()}
    assert types == {
        "safe": "Long", "largest": "Long", "smallest": "Long", "beyond": "Object", "snowflake": "Long",
        "money": "Double", "tiny": "Double", "digits": "Double", "zero": "Double", "twin": "String", "int": "Long",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["1e400", "1e200000", "NaN", "Infinity", "-Infinity", '{"a": 1, "a": 2}', "9" * 5000, "1e-400", "01", "+1"]
)
@pytest.mark.parametrize("typed", ["", ', "type": "Double"', ', "type": "Json"'])
async def test_what_would_become_something_else_is_refused(camunda: httpx.AsyncClient, text: str, typed: str) -> None:
    await deploy(camunda)
    await start(camunda)
    found = await fetch(camunda)
    value = json.dumps(text) if "Json" in typed else text
    body = f'{{"workerId": "w", "variables": {{"v": {{"value": {value}{typed}}}}}}}'.encode()
    for path in ("/process-definition/key/p/start", f"/external-task/{found['id']}/complete",
                 f"/external-task/{found['id']}/failure"):  # fmt: skip
        answered = await camunda.post(path, content=body, headers={"Content-Type": "application/json"})
        assert error(answered)[0] == 400, path
    assert await at(camunda, "/process-instance/count") == {"count": 1}
    await done(camunda, found)


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        ("Long", 2**63 - 1, 2**63 - 1), ("Long", str(-(2**63)), -(2**63)), ("Integer", -(2**31), -(2**31)),
        ("Short", 32767, 32767), ("Date", "2024-03-31T02:30:00.000+0200", "2024-03-31T00:30:00.000+0000"),
        ("Date", "2024-02-29T23:59:59.999-1200", "2024-03-01T11:59:59.999+0000"),
        ("Date", "1969-12-31T23:59:59.001Z", "1969-12-31T23:59:59.001+0000"),
        ("String", "a\u2028\u00e9e\u0301😀", None), ("String", "", None), ("Boolean", False, False),
        ("Xml", "<?xml version='1.0'?>\n<a/>", None),
        ("Json", '{"n":9007199254740993.0, "d": 1.10}', None), ("Bytes", "", None),
    ],
)  # fmt: skip
async def test_typed_values_at_their_limits_go_round(
    camunda: httpx.AsyncClient, type_: str, value: Any, stored: Any
) -> None:
    await deploy(camunda)
    await start(camunda, variables={"v": {"value": value, "type": type_}})
    wanted = {"value": value if stored is None else stored, "type": type_, "valueInfo": {}}
    found = await fetch(camunda)
    assert found["variables"]["v"] == wanted
    await done(camunda, found, variables={"w": found["variables"]["v"]})
    assert (await fetch(camunda, "b"))["variables"] == {"v": wanted, "w": wanted}


@pytest.mark.parametrize(
    "type_", ["Long", "Date", "String", "Double", "Boolean", "Bytes", "Json", "Xml", "Object", "Null"]
)
async def test_nothing_keeps_its_type(camunda: httpx.AsyncClient, type_: str) -> None:
    await deploy(camunda)
    await start(camunda, variables={"v": {"value": None, "type": type_}})
    found = await fetch(camunda)
    assert (found["variables"]["v"]["value"], found["variables"]["v"]["type"]) == (None, type_)
    await done(camunda, found, variables={"v": found["variables"]["v"]})
    assert (await fetch(camunda, "b"))["variables"] == found["variables"]


async def test_what_is_transient_is_seen_once(camunda: httpx.AsyncClient) -> None:
    """By the engine while it works that completion in, and by nobody afterwards."""
    condition = "<conditionExpression>${passing == 2}</conditionExpression>"
    gate = '<exclusiveGateway id="g" default="g-e"/><sequenceFlow id="g-b" sourceRef="g" targetRef="b">'
    body = '<startEvent id="s"/>' + task("a") + f"{gate}{condition}</sequenceFlow>" + task("b") + '<endEvent id="e"/>'
    await deploy(camunda, model(body + flow("s", "a", "g", "e") + flow("b", "e")))
    instance = (await start(camunda))["id"]
    sent_ = {"passing": {"value": 2, "valueInfo": {"transient": True}}, "kept": {"value": 1}}
    await done(camunda, await fetch(camunda), variables=sent_)
    assert (await fetch(camunda, "b"))["variables"].keys() == {"kept"}
    assert (await at(camunda, f"/process-instance/{instance}/variables")).keys() == {"kept"}
    history = await at(camunda, "/history/variable-instance", processInstanceId=instance)
    assert [one["name"] for one in history] == ["kept"]


async def test_a_comparison_of_neighbours_in_filters_is_exact(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    await start(camunda, variables={"n": {"value": 2**53 + 1, "type": "Long"}})
    for number, found in ((2**53, 0), (2**53 + 1, 1), (2**53 + 2, 0)):
        assert len(await at(camunda, "/external-task", processVariables=f"n_eq_{number}")) == found
        assert len(await at(camunda, "/process-instance", variables=f"n_eq_{number}")) == found
        tasks = await fetched(camunda, processVariables={"n": number})
        assert len(tasks) == found
        for one in tasks:
            assert (await act(camunda, one, "unlock")).status_code == 204
