"""Variables of instances and executions over /engine-rest: round trips, places, files, refusals."""

from __future__ import annotations

import base64
import os
from typing import Any

import httpx
import hypothesis
import pytest
from fastapi import FastAPI
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from app.bpmn.options import Options
from app.camunda.values import TYPES
from db import call
from db.engine import sync_engine
from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import Desk, flow, model, task
from tests.camunda.runtime import error

LOCAL = (
    '<extensionElements><camunda:inputOutput><camunda:inputParameter name="local">${x}</camunda:inputParameter>'
    "</camunda:inputOutput></extensionElements>"
)
INSIDE = (
    '<subProcess id="box">' + LOCAL.replace('"local"', '"boxed"') + '<startEvent id="bs"/>' + task("a", inside=LOCAL)
    + '<endEvent id="be"/>' + flow("bs", "a", "be") + "</subProcess>"
)  # fmt: skip
MODEL = model('<startEvent id="s"/>' + INSIDE + task("b") + '<endEvent id="e"/>' + flow("s", "box", "b", "e"))


@pytest.fixture
def desk(database_url: str) -> Any:
    engine = sync_engine(database_url)
    with engine.connect() as connection:
        desk = Desk(connection)
        desk.deploy(MODEL, options=Options())
        yield desk
    engine.dispose()


PUT = "Cannot put process instance variable n"


def token_of(conn: Connection, instance: str, node: str) -> str:
    statement = "select token_id from celeriac.instance_tokens where instance_id = :id and node = :node"
    return str(conn.execute(text(statement), {"id": instance, "node": node}).scalar_one())


async def get(camunda: httpx.AsyncClient, path: str, **query: Any) -> Any:
    found = await camunda.get(path, params=query)
    assert found.status_code == 200, found.text
    return found.json()


def typed(value: Any, type_: str, **info: Any) -> dict[str, Any]:
    return {"value": value, "type": type_, "valueInfo": info}


DATE = "2024-01-02T03:04:05.678+0000"
VALUES = {
    "string": typed("ü😀\u2028", "String"), "integer": typed(-5, "Integer"), "short": typed(5, "Short"),
    "long": typed(2**53 + 1, "Long"), "small long": typed(1, "Long"), "double": typed(0.1, "Double"),
    "whole double": typed(3.0, "Double"), "huge double": typed(1e300, "Double"), "boolean": typed(True, "Boolean"),
    "date": typed(DATE, "Date"), "null": typed(None, "Null"),
    "typed null": typed(None, "String"), "bytes": typed("AAEC/w==", "Bytes"), "xml": typed("<a/>", "Xml"),
    "json": typed('{"b": [1.50, 1e2], "a": "ü"}', "Json"), "null json": typed("null", "Json"),
    "object": typed('{"id": 7}', "Object", objectTypeName="com.example.Order",
                    serializationDataFormat="application/json"),
}  # fmt: skip


async def test_every_type_comes_back_and_survives_what_the_engine_does(camunda: httpx.AsyncClient, desk: Desk) -> None:
    instance = desk.start(x=1)
    path = f"/process-instance/{instance}/variables"
    changed = await camunda.post(path, json={"modifications": VALUES, "deletions": ["x"]})
    assert (changed.status_code, changed.content) == (204, b"")
    assert await get(camunda, path, deserializeValues="false") == VALUES
    desk.complete("a", y=1)
    assert await get(camunda, path, deserializeValues="false") == VALUES | {"y": typed(1, "Integer")}
    parsed = await get(camunda, path)
    assert (parsed["object"]["value"], parsed["json"]["value"]) == ({"id": 7}, VALUES["json"]["value"])
    for name, value in VALUES.items():
        assert await get(camunda, f"{path}/{name}", deserializeValue="false") == value


async def test_one_is_put_and_read_and_deleted(camunda: httpx.AsyncClient, desk: Desk) -> None:
    path = f"/process-instance/{desk.start()}/variables/one"
    assert (await camunda.put(path, json={"value": 5, "type": "Long"})).status_code == 204
    assert await get(camunda, path) == typed(5, "Long")
    assert (await camunda.put(path, json={"value": "x"})).status_code == 204
    assert await get(camunda, path) == typed("x", "String")
    for _ in range(2):
        assert (await camunda.delete(path)).status_code == 204
    missing = (404, "InvalidRequestException", "process instance variable with name one does not exist")
    assert error(await camunda.get(path)) == missing
    assert error(await camunda.get(f"{path}/data")) == missing


async def test_an_execution_has_its_own_and_sees_those_around(camunda: httpx.AsyncClient, desk: Desk) -> None:
    instance = desk.start(x=1)
    inner, box = token_of(desk.conn, instance, "a"), token_of(desk.conn, instance, "box")
    names = {instance: {"x"}, box: {"boxed"}, inner: {"local"}}
    for place, local in names.items():
        assert set(await get(camunda, f"/execution/{place}/localVariables")) == local
    assert set(await get(camunda, f"/process-instance/{inner}/variables")) == {"x", "boxed", "local"}
    assert set(await get(camunda, f"/process-instance/{box}/variables")) == {"x", "boxed"}
    # What is set from inside is set where it is, a new one at the root; local ones stay.
    modifications = {name: {"value": name, "type": "Xml"} for name in ("x", "boxed", "local", "new")}
    path = f"/process-instance/{inner}/variables"
    assert (await camunda.post(path, json={"modifications": modifications})).status_code == 204
    for place, local in ({**names, instance: {"x", "new"}}).items():
        told = await get(camunda, f"/execution/{place}/localVariables")
        assert told == {name: typed(name, "Xml") for name in local}
    for place in (inner, box, instance):
        for name in ("x", "only"):
            path = f"/execution/{place}/localVariables/{name}"
            assert (await camunda.put(path, json={"value": place})).status_code == 204
    assert (await get(camunda, f"/process-instance/{inner}/variables/x"))["value"] == inner
    assert (await get(camunda, f"/process-instance/{box}/variables/x"))["value"] == box
    for name in ("x", "local"):
        assert (await camunda.delete(f"/execution/{inner}/localVariables/{name}")).status_code == 204
    assert (await get(camunda, f"/process-instance/{inner}/variables/x"))["value"] == box
    gone = await camunda.get(f"/execution/{inner}/localVariables/local")
    assert error(gone) == (404, "InvalidRequestException", "execution variable with name local does not exist")


async def test_a_file_is_stored_once_and_streamed(camunda: httpx.AsyncClient, desk: Desk) -> None:
    content = os.urandom(3_000_000)
    instance = desk.start(x=1)
    path = f"/process-instance/{instance}/variables/doc"
    info = {"filename": 'a "ü".bin', "mimetype": "application/x-thing", "encoding": "utf-8"}
    sent = {"value": base64.b64encode(content).decode(), "type": "File", "valueInfo": info}
    assert (await camunda.put(path, json=sent)).status_code == 204
    assert await get(camunda, path) == typed(None, "File", **info)
    for address in (path, f"/execution/{instance}/localVariables/doc"):
        data = await camunda.get(f"{address}/data")
        assert (data.status_code, data.content == content) == (200, True)
        assert data.headers["content-length"] == "3000000"
        assert data.headers["content-type"] == "application/x-thing; charset=utf-8"
        assert data.headers["content-disposition"] == (
            "attachment; filename=\"a ___.bin\"; filename*=UTF-8''a%20%22%C3%BC%22.bin"
        )
    # The engine hands it on, and the instance keeps it.
    desk.complete("a")
    assert (await camunda.get(f"{path}/data")).content == content
    assert desk.one("select count(*) from celeriac.file_use where instance_id = :id", id=instance) == 1


async def test_data_comes_in_as_a_form(camunda: httpx.AsyncClient, desk: Desk) -> None:
    path = f"/process-instance/{desk.start()}/variables"
    form: Any = {"data": ("ü.txt", b"hi\r\n", "text/plain; charset=UTF-8"), "valueType": (None, "File")}
    assert (await camunda.post(f"{path}/file/data", files=form)).status_code == 204
    assert await get(camunda, f"{path}/file") == typed(
        None, "File", filename="ü.txt", mimetype="text/plain", encoding="utf-8"
    )
    assert (await camunda.get(f"{path}/file/data")).content == b"hi\r\n"
    assert (await camunda.post(f"{path}/bytes/data", files={"data": ("x", b"\x00\xff")})).status_code == 204
    assert await get(camunda, f"{path}/bytes") == typed("AP8=", "Bytes")
    data = await camunda.get(f"{path}/bytes/data")
    assert (data.content, data.headers["content-type"]) == (b"\x00\xff", "application/octet-stream")
    form = {"data": (None, b'{"a":1}', "application/json"), "type": (None, "com.example.A")}
    assert (await camunda.post(f"{path}/object/data", files=form)).status_code == 204
    assert (await get(camunda, f"{path}/object"))["value"] == {"a": 1}
    refused = await camunda.get(f"{path}/object/data")
    assert error(refused) == (400, "InvalidRequestException", "Value of variable object is not a binary value")
    hopeless: tuple[Any, ...] = (
        {"valueType": (None, "File")}, {"data": (None, b"x"), "valueType": (None, "File")},
        {"data": ("x", b"x"), "valueType": (None, "Json")}, {"data": ("x", b"x"), "type": (None, "A")},
        {"data": ("x", b"{", "application/json"), "type": (None, "A")},
        {"data": ("x", b"\xff", "application/json"), "type": (None, "A")},
    )  # fmt: skip
    for bad in hopeless:
        assert (await camunda.post(f"{path}/bad/data", files=bad)).status_code == 400, bad
    assert (await camunda.post(f"{path}/bad/data", content=b"x")).status_code == 415


async def test_a_transient_value_is_not_kept(camunda: httpx.AsyncClient, desk: Desk) -> None:
    path = f"/process-instance/{desk.start()}/variables"
    sent = {"value": 1, "type": "Integer", "valueInfo": {"transient": True}}
    assert (await camunda.put(f"{path}/passing", json=sent)).status_code == 204
    assert await get(camunda, path) == {}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"value": "x", "type": "Number"}, 400, f"{PUT}: Unsupported value type 'Number'"),
        ({"value": "x", "type": "Integer"}, 400,
         f"{PUT}: Cannot convert value 'x' of type 'Integer' to java type java.lang.Integer"),
        ({"value": "x" * (1 << 20)}, 413, "instance.variables must not be over 1 MiB"),
    ],
)  # fmt: skip
async def test_refusals(camunda: httpx.AsyncClient, desk: Desk, body: Any, status: int, message: str) -> None:
    path = f"/process-instance/{desk.start()}/variables"
    told = error(await camunda.put(f"{path}/n", json=body))
    assert (told[0], told[2]) == (status, message)
    nul = await camunda.put(f"{path}/n", content=b'{"value": "\\u0000"}', headers={"content-type": "application/json"})
    assert nul.status_code == 400
    assert (await camunda.put(f"{path}/{'n' * 256}", json={"value": 1})).status_code == 400


async def test_what_is_not_there_is_404(camunda: httpx.AsyncClient, desk: Desk) -> None:
    ended = desk.start()
    call.one(desk.conn, "stop_instance", instance_id=ended)
    desk.advance(ended)
    for place in (ended, "0" * 36, "nothing", "00000000-0000-0000-0000-000000000000", "%00"):
        for path in (f"/process-instance/{place}/variables", f"/execution/{place}/localVariables"):
            for answered in (
                await camunda.get(path), await camunda.post(path, json={"modifications": {}}),
                await camunda.put(f"{path}/x", json={"value": 1}), await camunda.delete(f"{path}/x"),
                await camunda.get(f"{path}/x/data"),
            ):  # fmt: skip
                assert error(answered)[:2] == (404, "InvalidRequestException"), path


async def test_a_key_that_is_bound_to_types_sees_its_own_alone(camunda_app: FastAPI, keys: Keys, desk: Desk) -> None:
    instance = desk.start(x=1)
    path = f"/engine-rest/process-instance/{instance}/variables"
    for key, statuses in (
        (keys.make("read", types=("*",)), (200, 403)), (keys.make("read", "manage", types=("a", "b")), (200, 204)),
        (keys.make("read", "manage", types=("a",), name="other"), (404, 404)),
    ):  # fmt: skip
        async with client_of(camunda_app, key) as client:
            read, wrote = await client.get(path), await client.put(f"{path}/x", json={"value": 2})
            assert (read.status_code, wrote.status_code) == statuses


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from([*sorted(TYPES), "json", "JSON", "", "Number"]) | JSON
TOLD = st.fixed_dictionaries(
    {}, optional={
        "filename": JSON, "mimetype": JSON, "encoding": JSON, "objectTypeName": JSON, "transient": JSON,
        "serializationDataFormat": JSON | st.just("application/json"),
    },
)  # fmt: skip
TEXTS = st.text(max_size=30) | st.from_regex(r"-?[0-9.eE]{1,12}|[\[\]{}\":,0-9a ]{1,12}|[A-Za-z0-9+/=]{1,12}")
SENT = st.fixed_dictionaries({"value": JSON | TEXTS, "type": NAMES}, optional={"valueInfo": TOLD | JSON}) | JSON


@hypothesis.given(SENT)
@hypothesis.settings(
    max_examples=150, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
async def test_whatever_comes_is_kept_or_refused_and_can_be_read(
    camunda: httpx.AsyncClient, desk: Desk, sent: Any
) -> None:
    statement = "select instance_id from celeriac.instances limit 1"
    instance = desk.conn.execute(text(statement)).scalar() or desk.start(x=1)
    path = f"/process-instance/{instance}/variables"
    changed = await camunda.post(path, json={"modifications": {"any": sent}})
    assert changed.status_code in (204, 400), changed.text
    assert (await camunda.get(path)).status_code == 200
    one = await camunda.get(f"{path}/any", params={"deserializeValue": "false"})
    if one.status_code == 200 and one.json()["type"] != "File":
        # What was shown can be sent, and is shown again.
        again = await camunda.put(f"{path}/any", json=one.json())
        assert again.status_code == 204, (one.text, again.text)
        assert (await camunda.get(f"{path}/any", params={"deserializeValue": "false"})).text == one.text


async def test_workers_get_and_give_every_type_and_files(camunda: httpx.AsyncClient, desk: Desk) -> None:
    info = {"filename": "a.bin", "mimetype": "text/plain", "encoding": "utf-8"}
    file = {"value": "aGVsbG8=", "type": "File", "valueInfo": info}
    instance = desk.start(x=1)

    async def fetch(topic: str, **more: Any) -> Any:
        asked = {"topicName": topic, "lockDuration": 10_000, **more}
        fetched = await camunda.post(
            "/external-task/fetchAndLock", json={"workerId": "w", "maxTasks": 1, "topics": [asked]}
        )
        (one,) = fetched.json()
        return one

    first = await fetch("a")
    body: dict[str, Any] = {
        "workerId": "w",
        "variables": {**VALUES, "doc": file, "boxed": {"value": 5, "type": "Long"}},
    }
    assert (await camunda.post(f"/external-task/{first['id']}/complete", json=body)).status_code == 204
    second = await fetch("b")
    assert second["variables"] == VALUES | {"doc": typed(None, "File", **info), "x": typed(1, "Integer")}
    for path in (f"/execution/{instance}/localVariables", f"/process-instance/{second['executionId']}/variables"):
        assert (await camunda.get(f"{path}/doc/data")).content == b"hello"
    # A failure may tell something, too; the task stays.
    body = {
        "workerId": "w", "errorMessage": "broken", "retries": 1,
        "variables": {"x": {"value": DATE, "type": "Date"}}, "localVariables": {"own": {"value": 1, "type": "Long"}},
    }  # fmt: skip
    assert (await camunda.post(f"/external-task/{second['id']}/failure", json=body)).status_code == 204
    third = await fetch("b", variables=["x", "own", "none"])
    assert third["variables"] == {"x": typed(DATE, "Date"), "own": typed(1, "Long")}
    assert await get(camunda, f"/execution/{third['executionId']}/localVariables") == {"own": typed(1, "Long")}
