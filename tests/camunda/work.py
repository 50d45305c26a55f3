"""What a worker of /engine-rest does."""

from __future__ import annotations

from typing import Any

import httpx


async def fetched(
    camunda: httpx.AsyncClient, topic: str = "a", worker: Any = "w", most: int = 1, more: Any = None, **of_topic: Any
) -> list[dict[str, Any]]:
    """Tasks of one topic, locked for a minute unless `of_topic` says something else; `more` is said beside."""
    topics = [{"topicName": topic, "lockDuration": 60_000, **of_topic}]
    body = {"workerId": worker, "maxTasks": most, "topics": topics, **(more or {})}
    answered = await camunda.post("/external-task/fetchAndLock", json=body)
    assert answered.status_code == 200, answered.text
    assert answered.headers["content-type"] == "application/json"
    return list(answered.json())


async def fetch(camunda: httpx.AsyncClient, topic: str = "a", worker: Any = "w", **of_topic: Any) -> dict[str, Any]:
    """The one task that there is."""
    (task,) = await fetched(camunda, topic, worker, 2, **of_topic)
    return task


async def act(camunda: httpx.AsyncClient, task: Any, verb: str, worker: Any = "w", **body: Any) -> httpx.Response:
    """complete, failure, bpmnError, lock, extendLock, unlock."""
    id_ = task["id"] if isinstance(task, dict) else task
    return await camunda.post(f"/external-task/{id_}/{verb}", json={"workerId": worker, **body})


async def done(camunda: httpx.AsyncClient, task: Any, verb: str = "complete", worker: Any = "w", **body: Any) -> None:
    """The same, and it has worked."""
    answered = await act(camunda, task, verb, worker, **body)
    assert (answered.status_code, answered.content) == (204, b""), answered.text


async def shown(camunda: httpx.AsyncClient, task: Any) -> dict[str, Any]:
    """GET of the task."""
    answered = await camunda.get(f"/external-task/{task['id']}")
    assert answered.status_code == 200, answered.text
    return dict(answered.json())
