"""What somebody would try who means no good: bodies without end, credentials of any bytes, lists without measure."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.api import body as bodies
from app.server.application import create
from app.settings import Settings
from tests.api.conftest import client_of, serving
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, error, start
from tests.camunda.work import fetched

NOBODY = "00000000-0000-4000-8000-000000000000"
MORE = {"name": "x", "operator": "gt", "value": 1}
TAGGED = model(
    '<startEvent id="s"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e"),
    process='id="p" isExecutable="true" camunda:versionTag="1"',
)
DUE = model(
    '<startEvent id="s"/><userTask id="u" camunda:dueDate="${due}" camunda:followUpDate="${due}" '
    'camunda:assignee="${due}" camunda:candidateGroups="${due}" camunda:priority="${due}"/>' + flow("s", "u")
)


@pytest.fixture
def open_url(settings: Settings) -> Iterator[str]:
    """A real server that asks for no credentials."""
    with serving(replace(settings, camunda_open=True)) as server:
        yield server.url


async def count(camunda: httpx.AsyncClient) -> int:
    return int((await at(camunda, "/history/process-instance/count"))["count"])


@pytest.mark.parametrize(
    "authorization",
    [
        b"Basic", b"Basic ", b"Basic \xff\xfe", b"Basic =", b"Basic " + base64.b64encode(b"\xff:\xfe"),
        b"Basic " + base64.b64encode(b"no colon"), b"Basic " + base64.b64encode(b":\x00"), b"Basic " + b"A" * 20_000,
        b"Bearer \xff", b"Bearer ", b"Bearer a.b.c", b"\xff", b"",
    ],
    ids=lambda one: repr(one)[:24],
)  # fmt: skip
async def test_odd_credentials_are_wrong_credentials(settings: Settings, authorization: bytes) -> None:
    closed: FastAPI = create(settings)
    async with closed.router.lifespan_context(closed), client_of(closed, None) as client:
        answered = await client.get("/engine-rest/version", headers=[(b"Authorization", authorization)])
    assert (answered.status_code, answered.content) == (401, b"")
    assert answered.headers["www-authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize("engine", ["other", "", "%00", "..%2f..", "default%00", "x" * 3000, "ü", "default%2fx"])
async def test_an_engine_that_there_is_not(camunda: httpx.AsyncClient, engine: str) -> None:
    status, _, message = error(await camunda.get(f"/engine/{engine}/version"))
    assert status == 404
    assert len(message) < 300


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PROPFIND", "DELETE"])
async def test_a_method_that_an_address_does_not_know(camunda: httpx.AsyncClient, method: str) -> None:
    assert error(await camunda.request(method, "/version"))[:2] == (404, "NotFoundException")
    assert error(await camunda.request(method, "/engine/default/version"))[:2] == (404, "NotFoundException")
    assert (await camunda.head("/version")).status_code == 200


async def test_a_form_is_taken_where_one_is_read_and_nowhere_else(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    instance = await start(camunda)
    assert await count(camunda) == 1
    for address in ("/process-definition/key/p/start", "/message", "/external-task/fetchAndLock"):
        answered = await camunda.post(address, files={"f": ("f", b"{}")})
        assert error(answered)[:2] == (415, "RestException")
    assert error(await camunda.post("/deployment/create", json={}))[:2] == (415, "RestException")
    data = await camunda.post(f"/process-instance/{instance['id']}/variables/x/data", json={})
    assert error(data)[:2] == (415, "RestException")
    assert await count(camunda) == 1


async def test_a_packed_body_is_not_unpacked(camunda: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answered = await camunda.post("/message", content=b"{}", headers=headers)
    assert error(answered)[:2] == (415, "RestException")


async def test_a_start_whose_end_is_wrong_starts_nothing(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    answered = await camunda.post("/process-definition/key/p/start", json={"withVariablesInReturn": [1]})
    assert error(answered) == (400, "InvalidRequestException", "withVariablesInReturn must be true or false")
    assert await count(camunda) == 0


@pytest.mark.parametrize(
    ("method", "address", "name", "sent"),
    [
        ("POST", "/task", "orQueries", {"orQueries": [{}] * 21}),
        ("POST", "/task", "orQueries", {"orQueries": [{"processVariables": [MORE] * 11}] * 20}),
        ("POST", "/task", "processVariables", {"processVariables": [{"name": "x", "operator": "eq"}] * 201}),
        ("POST", "/process-instance", "sorting", {"sorting": [{"sortBy": "businessKey", "sortOrder": "asc"}] * 201}),
        ("POST", "/job", "dueDates", {"dueDates": "gt_2024-01-01," * 201}),
        ("POST", "/external-task/fetchAndLock", "topics", {
            "workerId": "w", "maxTasks": 1,
            "topics": [{"topicName": f"t{number}", "lockDuration": 1} for number in range(201)],
        }),
        ("POST", "/external-task/fetchAndLock", "processVariables", {
            "workerId": "w", "maxTasks": 1,
            "topics": [{"topicName": "t", "lockDuration": 1, "processVariables": {str(n): n for n in range(201)}}],
        }),
    ],
)  # fmt: skip
async def test_more_than_is_looked_at_is_refused(
    camunda: httpx.AsyncClient, method: str, address: str, name: str, sent: Any
) -> None:
    status, _, message = error(await camunda.request(method, address, json=sent))
    assert (status, message.startswith(f"{name} must have at most")) == (400, True), message


@pytest.mark.parametrize(
    ("address", "sent", "statuses"),
    [
        ("/process-instance", {"processInstanceIds": [NOBODY] * 10_000}, (200,)),
        ("/task", {"candidateGroups": list(map(str, range(70_000))), "orQueries": [{}] * 20}, (200,)),
        ("/task", {"orQueries": [{"processVariables": [MORE] * 10}] * 20}, (200,)),
        ("/task", {"processVariables": [MORE] * 200, "orQueries": [{"processVariables": [MORE] * 200}]}, (200,)),
        ("/external-task", {"sorting": [{"sortBy": "id", "sortOrder": "asc"}] * 200}, (200,)),
        ("/variable-instance", {"variableNameIn": ["x" * 1000] * 10_000}, (200,)),
        ("/external-task/retries-async", {"retries": 1, "externalTaskIds": [NOBODY] * 10_001}, (404,)),
        ("/external-task/retries-async", {"retries": 1, "externalTaskIds": [
            f"00000000-0000-4000-8000-{number:012}" for number in range(10_001)
        ]}, (400,)),
    ],
)  # fmt: skip
async def test_long_lists_are_answered(
    camunda: httpx.AsyncClient, address: str, sent: Any, statuses: tuple[int, ...]
) -> None:
    answered = await camunda.post(address, json=sent, timeout=60)
    assert answered.status_code in statuses, answered.text


async def test_a_form_of_very_many_parts_or_none(camunda: httpx.AsyncClient) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="f%d"; filename="f%d.bpmn"\r\n\r\n<a/>\r\n'
    head = {"Content-Type": "multipart/form-data; boundary=x"}
    for content in (
        b"".join(part % (number, number) for number in range(10_000)) + b"--x--\r\n", b"--x--\r\n", b"", b"--x\r\n",
        b"--x\r\n\r\n--x--\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\n--x--\r\n", part % (1, 1), b"x" * 1000,
        b'--x\r\nContent-Disposition: form-data; name="deployment-name"\r\n\r\n\xff\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="deployment-name"\r\n\r\na\x00b\r\n' + part % (1, 1)
        + b"--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="deployment-activation-time"\r\n\r\nsoon\r\n' + part % (1, 1)
        + b"--x--\r\n",
    ):  # fmt: skip
        status, _, message = error(await camunda.post("/deployment/create", content=content, headers=head))
        assert status == 400, message
        assert message
    assert await at(camunda, "/deployment/count") == {"count": 0}


@pytest.mark.parametrize(
    "content",
    [
        b"<" * 1000, b"<a>" * 100_000, b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', b"\xff\xfe",
        b"<a xmlns:" + b"x" * 1000,
    ],
    ids=range(5),
)  # fmt: skip
async def test_a_model_that_is_none(camunda: httpx.AsyncClient, content: bytes) -> None:
    answered = await camunda.post("/deployment/create", files={"f": ("f.bpmn", content)})
    assert error(answered)[:2] == (400, "ParseException")


@pytest.mark.parametrize("tag", ["\\", "a\\\\\\", "%\\", "\\\\"])
async def test_a_pattern_that_ends_in_the_middle(camunda: httpx.AsyncClient, tag: str) -> None:
    await deploy(camunda, TAGGED)
    await start(camunda)
    assert await fetched(camunda, processDefinitionVersionTag=tag) == []
    assert len(await fetched(camunda, processDefinitionVersionTag="1")) == 1


@pytest.mark.parametrize(
    "due",
    [
        "banana", "", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "294276-01-01", "infinity", "PT1S",
        "P9999999Y", "\\", "x" * 10_000, 5, 10**300, 1.5, True, None,
    ],
    ids=lambda due: str(due)[:30],
)  # fmt: skip
async def test_user_tasks_are_listed_whatever_their_expressions_gave(camunda: httpx.AsyncClient, due: Any) -> None:
    await deploy(camunda, DUE)
    instance = await start(camunda, variables={"due": {"value": due}})
    (found,) = await at(camunda, "/task", sortBy="dueDate", sortOrder="desc")
    assert found["processInstanceId"] == instance["id"]
    assert (await camunda.get("/task", params={"dueBefore": "2024-01-01", "maxPriority": "9"})).status_code == 200


async def test_numbers_that_only_the_database_takes_are_shown(camunda: httpx.AsyncClient, conn: Connection) -> None:
    await deploy(camunda)
    instance = await start(camunda)
    numbers = '{"long": 1e131000, "negative": -1e5000, "small": 1e-5000, "list": [1e5000]}'
    types = '{"long": {"type": "Double"}}'
    conn.execute(
        text("select celeriac.set_variables(:id, cast(:numbers as jsonb), types => cast(:types as jsonb))"),
        {"id": instance["id"], "numbers": numbers, "types": types},
    )
    for address in (
        f"/process-instance/{instance['id']}/variables",
        "/variable-instance",
        "/history/variable-instance",
    ):
        answered = await camunda.get(address)
        assert (answered.status_code, len(answered.content) > 131_000) == (200, True)
    topics = [{"topicName": topic, "lockDuration": 60_000} for topic in ("a", "b")]
    for topic in ("a", "b"):
        # Python's own reader of JSON takes no such numbers.
        answered = await camunda.post(
            "/external-task/fetchAndLock", json={"workerId": "w", "maxTasks": 1, "topics": topics}
        )
        assert (answered.status_code, len(answered.content) > 131_000) == (200, True)
        (task_,) = await at(camunda, "/external-task", topicName=topic)
        done = await camunda.post(f"/external-task/{task_['id']}/complete", json={"workerId": "w"})
        assert done.status_code == 204
    assert await at(camunda, "/process-instance/count") == {"count": 0}


async def test_a_file_brings_no_header_of_its_own(open_url: str) -> None:
    async with httpx.AsyncClient(base_url=f"{open_url}/engine-rest") as client:
        await deploy(client)
        instance = await start(client)
        address = f"/process-instance/{instance['id']}/variables/f"
        for mimetype in ("text/plain;\r\nSet-Cookie=x", "text/plain;\n x=y", "a/b\r\n\r\n<script>", "ü/ü", "/"):
            info = {"filename": 'a"\r\nb: c\u2028', "mimetype": mimetype, "encoding": "x\r\ny"}
            sent = {"value": "eA==", "type": "File", "valueInfo": info}
            assert (await client.put(address, json=sent)).status_code == 204
            data = await client.get(f"{address}/data")
            assert (data.status_code, data.content) == (200, b"x")
            assert not {"set-cookie", "b", "x"} & set(data.headers)
            assert data.headers["content-disposition"].startswith("attachment")


def test_a_body_without_an_end_is_not_waited_for(open_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    host, port = open_url.removeprefix("http://").split(":")
    head = b"POST /engine-rest/message HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for rest in (b"Transfer-Encoding: chunked\r\n\r\n5\r\n{    \r\n", b"Content-Length: 100\r\n\r\n{"):
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            sock.sendall(head + rest)
            assert sock.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


def test_a_body_or_an_address_that_is_too_large(open_url: str) -> None:
    with httpx.Client(base_url=f"{open_url}/engine-rest", timeout=60) as client:
        too_large = client.post("/message", json={"messageName": "x" * (17 << 20)})
        assert error(too_large)[0] == 413
        too_long = client.get("/task", params={"name": "x" * 10_000})
        assert error(too_long)[:2] == (414, "RestException")
        assert client.post("/message", content=iter([b'{"messageName":', b'"m"}'])).status_code == 415
