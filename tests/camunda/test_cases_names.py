"""Case B75 at /engine-rest: names that climb, break lines or are code are refused, or kept as mere text."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.work import act, done, fetch

CLIMBING = (
    "../../../../tmp/celeriac-pwn.bpmn", "..\\..\\tmp\\celeriac-pwn.bpmn", "/tmp/celeriac-pwn.bpmn",
    "C:\\tmp\\celeriac-pwn.bpmn", "ok.bpmn/../../celeriac-pwn.bpmn", "%2e%2e%2fceleriac-pwn.bpmn",
    "..%252fceleriac-pwn.bpmn", "con.bpmn", ".", "..", "x" * 600 + ".bpmn", "\u202egnp.bpmn",
    "<img src=x onerror=alert(1)>.bpmn", 'a";filename="other.bpmn', "ü €.bpmn", "a;b,c.bpmn", "'.bpmn",
)  # fmt: skip
BREAKING = ("a\x00.bpmn", "", "new\r\nX-Evil: 1.bpmn", "\x1b[31m.bpmn")


def nothing_was_written() -> None:
    assert not Path("/tmp/celeriac-pwn.bpmn").exists()
    assert not Path("celeriac-pwn.bpmn").exists()


def said_name(answered: httpx.Response) -> str:
    """The name of a download, of which a header has one line and a browser saves one file."""
    disposition = answered.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="')
    plain = disposition.removeprefix('attachment; filename="').partition('"')[0]
    assert not set(plain) & set('/\\"<>\r\n\0'), plain
    assert disposition.isascii()
    return unquote(disposition.partition("filename*=UTF-8''")[2])


@pytest.mark.parametrize("name", CLIMBING)
async def test_a_resource_is_stored_by_an_id_under_its_name_as_text(camunda: httpx.AsyncClient, name: str) -> None:
    answered = await camunda.post("/deployment/create", files={"data": (name, TWO), "good": ("good.bpmn", OTHER)})
    nothing_was_written()
    if answered.status_code != 200:
        assert error(answered)[0] == 400
        assert await at(camunda, "/deployment/count") == {"count": 0}
        return
    path = f"/deployment/{answered.json()['id']}/resources"
    for one in await at(camunda, path):
        data = await camunda.get(f"{path}/{one['id']}/data")
        assert data.content in (TWO, OTHER)
        assert said_name(data) == one["name"]
        assert data.headers["x-content-type-options"] == "nosniff"
        assert "/" not in one["name"]
        assert "\\" not in one["name"]
    nothing_was_written()


OTHER = model('<startEvent id="s"/>' + task("o") + '<endEvent id="e"/>' + flow("s", "o", "e"),
              process='id="other" isExecutable="true"')  # fmt: skip


@pytest.mark.parametrize("name", BREAKING)
async def test_a_resource_whose_name_breaks_lines_is_refused(camunda: httpx.AsyncClient, name: str) -> None:
    head = f'--x\r\nContent-Disposition: form-data; name="d"; filename="{name}"\r\n\r\n'
    answered = await camunda.post(
        "/deployment/create", content=head.encode() + TWO + b"\r\n--x--\r\n",
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    )  # fmt: skip
    if answered.status_code == 200:
        (one,) = await at(camunda, f"/deployment/{answered.json()['id']}/resources")
        assert one["name"].isprintable()
    else:
        assert error(answered)[0] == 400
    assert "x-evil" not in answered.headers


@pytest.mark.parametrize("name", [*CLIMBING, "\x1b[31m.txt", "new\r\nX-Evil: 1.txt", "日本語/\\..pdf"])
async def test_a_file_of_a_variable_keeps_its_name_and_a_header_can_bear_it(
    camunda: httpx.AsyncClient, name: str
) -> None:
    await deploy(camunda)
    info = {"filename": name, "mimetype": 'text/html"\r\nX-Evil: 1', "encoding": "utf-8\r\nX-Evil: 1"}
    value = {"value": base64.b64encode(b"hello").decode(), "type": "File", "valueInfo": info}
    started = await camunda.post("/process-definition/key/p/start", json={"variables": {"doc": value}})
    if started.status_code != 200:
        assert error(started)[0] == 400
        return
    instance = started.json()["id"]
    found = await fetch(camunda)
    assert found["variables"]["doc"]["valueInfo"] == info
    for path in (
        f"/execution/{instance}/localVariables/doc",
        f"/process-instance/{found['executionId']}/variables/doc",
    ):
        data = await camunda.get(f"{path}/data")
        assert (data.content, said_name(data)) == (b"hello", name)
        assert "x-evil" not in data.headers
        assert data.headers["x-content-type-options"] == "nosniff"
        assert not data.headers["content-type"].startswith("text/html")
    nothing_was_written()


@pytest.mark.parametrize(
    "name", [*CLIMBING, *BREAKING, "a/b", "ü", "日本", " x ", "x y", "\u00e9", "e\u0301", "#?&", "count"]
)
async def test_a_variables_name_is_text_in_every_address(camunda: httpx.AsyncClient, name: str) -> None:
    await deploy(camunda)
    instance = (await start(camunda))["id"]
    base = f"/process-instance/{instance}/variables"
    put = await camunda.put(f"{base}/{quote(name, safe='')}", json={"value": name[:20].replace("\x00", "")})
    completed = await act(camunda, await fetch(camunda), "complete", variables={name: {"value": 1}})
    if put.status_code == 204:
        assert (await camunda.get(f"{base}/{quote(name, safe='')}")).status_code == 200
        if "/" not in name:
            assert completed.status_code == 204
            assert (await at(camunda, base))[name]["value"] == 1
    else:
        assert put.status_code in (307, 400, 404, 405), put.text
        assert completed.status_code in (204, 400)


@pytest.mark.parametrize("name", [*CLIMBING, *BREAKING])
async def test_ids_that_are_none_are_missing_everywhere(camunda: httpx.AsyncClient, name: str) -> None:
    await deploy(camunda)
    said = quote(name, safe="")
    for path in (
        f"/external-task/{said}", f"/external-task/{said}/errorDetails", f"/process-definition/{said}",
        f"/process-definition/key/{said}", f"/process-definition/key/{said}/xml", f"/process-instance/{said}",
        f"/deployment/{said}", f"/deployment/{said}/resources", f"/history/external-task-log/{said}",
        f"/execution/{said}", f"/task/{said}", f"/incident/{said}", f"/job/{said}",
    ):  # fmt: skip
        answered = await camunda.get(path)
        assert answered.status_code in (200, 307, 404), (path, answered.text)
        if answered.status_code == 404:
            assert "traceback" not in answered.text.lower()


async def test_a_topic_and_a_worker_may_look_like_a_path(camunda: httpx.AsyncClient) -> None:
    topic, worker = "../../etc/passwd", "<script>alert(1)</script>"
    work = f'<serviceTask id="a" camunda:type="external" camunda:topic="{topic}"/>'
    await deploy(camunda, model('<startEvent id="s"/>' + work + '<endEvent id="e"/>' + flow("s", "a", "e")))
    await start(camunda, businessKey=topic)
    found = await fetch(camunda, topic, worker)
    assert (found["topicName"], found["workerId"], found["businessKey"]) == (topic, worker, topic)
    listed: Any = await at(camunda, "/external-task", topicName=topic, workerId=worker)
    assert [one["id"] for one in listed] == [found["id"]]
    await done(camunda, found, worker=worker)
