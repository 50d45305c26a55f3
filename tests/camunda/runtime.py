"""What tests of /engine-rest deploy, start and ask for."""

from __future__ import annotations

from typing import Any

import httpx

from tests.app.engine.conftest import flow, model, task

TWO = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))


async def create(
    camunda: httpx.AsyncClient, *files: tuple[str, bytes], name: str | None = "orders", **fields: str
) -> httpx.Response:
    """POST /deployment/create as most clients send it; `fields` with underscores for hyphens."""
    said = {key.replace("_", "-"): value for key, value in fields.items()}
    if name is not None:
        said["deployment-name"] = name
    parts = [(f"resource-{number}", file) for number, file in enumerate(files)]
    return await camunda.post("/deployment/create", data=said, files=parts)


async def deploy(camunda: httpx.AsyncClient, content: bytes = TWO, **fields: str) -> dict[str, Any]:
    """The one process of a file, as it was deployed."""
    answered = await create(camunda, ("model.bpmn", content), **fields)
    assert answered.status_code == 200, answered.text
    (deployed,) = answered.json()["deployedProcessDefinitions"].values()
    return dict(deployed)


async def start(camunda: httpx.AsyncClient, key: str = "p", **body: Any) -> dict[str, Any]:
    answered = await camunda.post(f"/process-definition/key/{key}/start", json=body)
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


async def at(camunda: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answered = await camunda.get(path, params=query)
    assert answered.status_code == 200, answered.text
    return answered.json()


def error(answered: httpx.Response) -> tuple[int, str, str]:
    """Status, type and message of a refusal, which has the three fields and the type that clients look for."""
    assert answered.headers["content-type"] == "application/json"
    body = answered.json()
    assert body.keys() >= {"type", "message", "code"}
    return answered.status_code, body["type"], body["message"]
