"""Case B77 at /engine-rest: what callers send is in no log, whatever fails and however it is spelt."""

from __future__ import annotations

import base64
import html
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from app.camunda import external_tasks
from app.settings import Settings
from tests.api.conftest import Keys, client_of
from tests.camunda.nodes import node
from tests.camunda.runtime import TWO
from tests.camunda.test_door import basic

SECRET = "sk-TEST-abc'd\"e/+=="
SPELLINGS = (
    SECRET, json.dumps(SECRET)[1:-1], repr(SECRET)[1:-1], quote(SECRET, safe=""), html.escape(SECRET), "sk-TEST-abc",
    html.escape(SECRET, quote=False), base64.b64encode(SECRET.encode()).decode(),
)  # fmt: skip


async def make_everything_fail(client: httpx.AsyncClient) -> None:
    """Good calls and bad ones, with the secret wherever a text may be."""
    given = {"value": SECRET, "type": "String"}
    variables = {"password": given}
    await client.post("/deployment/create", files={"d": ("m.bpmn", TWO)}, data={"deployment-name": SECRET})
    await client.post("/deployment/create", files={"d": (f"{SECRET}.bpmn", SECRET.encode())})
    for body in (
        {"variables": variables, "businessKey": SECRET}, {"variables": {"p": given | {"type": "Integer"}}},
        {"variables": {"p": given | {"type": SECRET}}}, {"variables": {SECRET: 5}}, {"variables": SECRET},
    ):  # fmt: skip
        await client.post("/process-definition/key/p/start", json=body)
    await client.post(f"/process-definition/key/{quote(SECRET, safe='')}/start", json={})
    for topic in ("a", "nothing"):
        body = {"workerId": "w", "maxTasks": 5, "topics": [{"topicName": topic, "lockDuration": 1000}]}
        await client.post("/external-task/fetchAndLock", json=body)
    for listed in (await client.get("/external-task")).json():
        path = f"/external-task/{listed['id']}"
        await client.post(f"{path}/complete", json={"workerId": "other", "variables": variables})
        told = {"errorMessage": SECRET, "errorDetails": f"Traceback: {SECRET}", "variables": variables}
        await client.post(f"{path}/failure", json={"workerId": "w", **told})
        await client.post(f"{path}/bpmnError", json={"workerId": "w", "errorCode": SECRET, **told})
    for path in ("/external-task", "/process-instance", "/history/variable-instance", "/no-such-thing"):
        for asked in (
            {"sortBy": SECRET, "sortOrder": "asc"}, {"businessKey": SECRET}, {"firstResult": SECRET},
            {"processVariables": f"password_eq_{SECRET}"}, {"access_token": SECRET},
        ):  # fmt: skip
            await client.get(path, params=asked)
    await client.post("/message", json={"messageName": SECRET, "processVariables": variables})
    await client.post("/message", content=f'{{"x": "{SECRET}'.encode(), headers={"Content-Type": "application/json"})
    await client.get("/version", headers={"Authorization": f"Bearer {SECRET}"})
    await client.get("/version", headers=basic("demo", SECRET))
    await client.get("/version", headers={"Cookie": f"session={SECRET}"})


async def test_nothing_of_it_is_logged_at_the_loudest(settings: Settings, tmp_path: Path, keys: Keys) -> None:
    key = keys.make()
    with node(replace(settings, log_level="debug"), tmp_path) as api:
        async with api.client(headers=basic("demo", key)) as client:
            await make_everything_fail(client)
        api.process.stop()
        log = api.process.log.read_text()
    assert "POST /engine-rest/external-task/fetchAndLock 200" in log
    for hidden in (*SPELLINGS, key, key[5:-1], base64.b64encode(f"demo:{key}".encode()).decode()):
        assert hidden not in log, hidden


async def test_a_fault_of_ours_shows_neither_values_nor_code(
    camunda_app: FastAPI, keys: Keys, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says that something went wrong, the log says where, and neither says with what."""

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(external_tasks, "_written", broken)
    caplog.set_level(logging.DEBUG)
    task = "0b7a4d0e-5f51-4c0c-9d0b-4a4f5e1c9a11"
    async with client_of(camunda_app, keys.make()) as client:
        sent = {"workerId": "w", "variables": {"password": {"value": SECRET}}}
        answered = await client.post(f"/engine-rest/external-task/{task}/complete", json=sent)
    assert answered.status_code == 500
    assert set(answered.json()) == {"type", "message", "code"}
    for hidden in ("fault", "Traceback", "RuntimeError", *SPELLINGS):
        assert hidden not in answered.text
    assert "a fault" in caplog.text
    for hidden in SPELLINGS:
        assert hidden not in caplog.text
