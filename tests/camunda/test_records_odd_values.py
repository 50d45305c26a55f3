"""Whatever a list is asked for, it answers or refuses; it never breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import getsource
from typing import Any

import httpx
import pytest

from app.camunda import activity_history, incident_history, instance_history, jobs, user_task_rows
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import deploy, start

LISTS = {
    "/job": jobs,
    "/task": user_task_rows,
    "/history/process-instance": instance_history,
    "/history/activity-instance": activity_history,
    "/history/incident": incident_history,
}
TEXTS = (
    "", "x", "\\", ",", "9" * 30, "n_eq_1", "n_like_\\", "gt_x", "lt_2024-01-01", "0001-01-01",
    "u:00000000-0000-4000-8000-000000000000", "a\x00b",
)  # fmt: skip
THINGS = (
    True, 2**70, 1.5, [[]], [None, 1, "x"], {"a": 1}, [{"name": "n"}],
    [{"name": "n", "operator": "eq", "value": {"a": [1]}}],
    [{"name": "n", "operator": "gt", "value": None}], [{"candidateUser": "x"}],
)  # fmt: skip


def names_in(module: Any) -> list[str]:
    """Every name that a filter of the module is called by, and those of all lists."""
    found = re.findall(r'\w+\((?:\w+\()?"([a-z]+[A-Za-z]*)"', getsource(module))
    return sorted({*found, "sortBy", "sortOrder", "sorting", "firstResult", "maxResults", "variableNamesIgnoreCase"})


def requests(path: str, module: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names_in(module):
        yield from (("GET", {"params": {name: text}}) for text in TEXTS)
        yield from (("POST", {"json": {name: thing}}) for thing in THINGS)


@pytest.mark.parametrize("path", LISTS)
async def test_odd_values_of_filters_are_answered_or_refused(camunda: httpx.AsyncClient, path: str) -> None:
    content = model(
        '<startEvent id="s"/><userTask id="u"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "u", "a", "e")
    )
    await deploy(camunda, content)
    await start(camunda, variables={"n": {"value": 1}})
    for method, request in requests(path, LISTS[path]):
        answered = await camunda.request(method, path, **request)
        assert answered.status_code in (200, 400), (method, request, answered.text)
