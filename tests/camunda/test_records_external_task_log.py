"""/history/external-task-log: creations, failures, successes and deletions, as camunda7.md, section 1.4, has them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from db import call
from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.work import done, fetch

LOG = "/history/external-task-log"
KEYS = {
    "id", "timestamp", "removalTime", "externalTaskId", "topicName", "workerId", "priority", "retries", "errorMessage",
    "activityId", "activityInstanceId", "executionId", "processInstanceId", "processDefinitionId",
    "processDefinitionKey", "tenantId", "rootProcessInstanceId", "creationLog", "failureLog", "successLog",
    "deletionLog",
}  # fmt: skip
KINDS = ("creationLog", "failureLog", "successLog", "deletionLog")
ONE = model(
    '<startEvent id="s"/>' + task("c", 'camunda:taskPriority="5"') + '<endEvent id="e"/>' + flow("s", "c", "e"),
    process='id="q" isExecutable="true"',
)
CATCHES = model(
    '<startEvent id="s"/>' + task("a") + '<boundaryEvent id="b" attachedToRef="a"><errorEventDefinition/>'
    '</boundaryEvent><endEvent id="e"/><endEvent id="f"/>' + flow("s", "a", "e") + flow("b", "f")
)


def kind_of(line: dict[str, Any]) -> str:
    """The one kind that it says it is."""
    (kind,) = (name for name in KINDS if line[name] is True)
    return kind


async def kinds(camunda: httpx.AsyncClient, **filters: str) -> list[str]:
    return [kind_of(line) for line in await at(camunda, LOG, sortBy="timestamp", sortOrder="asc", **filters)]


@pytest.fixture
async def lines(camunda: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Of `a`: created, failed, completed; of `b` behind it and of `c` in a process of its own: created."""
    await deploy(camunda, TWO)
    await deploy(camunda, ONE)
    await start(camunda)
    failed = await fetch(camunda, worker="w1")
    await done(camunda, failed, "failure", "w1", retries=3, errorMessage="broken", errorDetails="at line 1\nand 2")
    await done(camunda, await fetch(camunda, worker="w2"), worker="w2")
    await start(camunda, key="q")
    listed = await at(camunda, LOG)
    return {f"{line['topicName']} {kind_of(line)}": line for line in listed}


async def test_a_task_from_its_creation_to_its_end(
    camunda: httpx.AsyncClient, lines: dict[str, dict[str, Any]]
) -> None:
    assert set(lines) == {"a creationLog", "a failureLog", "a successLog", "b creationLog", "c creationLog"}
    assert {frozenset(line) for line in lines.values()} == {frozenset(KEYS)}
    created, failed, completed = (lines[f"a {kind}"] for kind in KINDS[:3])
    for one in (created, failed, completed):
        assert (one["activityId"], one["activityInstanceId"]) == ("a", f"a:{one['executionId']}")
        assert (one["processDefinitionKey"], one["priority"], one["tenantId"]) == ("p", 0, None)
        assert one["rootProcessInstanceId"] == one["processInstanceId"] == created["processInstanceId"]
        assert one["processDefinitionId"].startswith("p:1:")
        assert one["externalTaskId"] == created["externalTaskId"]
    said = [(one["workerId"], one["retries"], one["errorMessage"]) for one in (created, failed, completed)]
    assert said == [(None, None, None), ("w1", 3, "broken"), ("w2", 3, None)]
    assert created["timestamp"] <= failed["timestamp"] <= completed["timestamp"]
    assert lines["c creationLog"]["priority"] == 5


async def test_one_line_and_its_error_details(camunda: httpx.AsyncClient, lines: dict[str, dict[str, Any]]) -> None:
    assert len({line["id"] for line in lines.values()}) == len(lines)
    for line in lines.values():
        assert await at(camunda, f"{LOG}/{line['id']}") == line
        assert await at(camunda, LOG, logId=line["id"]) == [line]
    details = await camunda.get(f"{LOG}/{lines['a failureLog']['id']}/error-details")
    assert (details.status_code, details.text) == (200, "at line 1\nand 2")
    assert details.headers["content-type"].startswith("text/plain")
    nothing = await camunda.get(f"{LOG}/{lines['a successLog']['id']}/error-details")
    assert (nothing.status_code, nothing.content) == (204, b"")
    for unknown in (str(uuid4()), "x", lines["a failureLog"]["id"] + "0", lines["a failureLog"]["externalTaskId"]):
        status, type_, message = error(await camunda.get(f"{LOG}/{unknown}"))
        assert (status, type_) == (404, "InvalidRequestException")
        assert message == f"Historic external task log with id {unknown} does not exist"
        status, type_, message = error(await camunda.get(f"{LOG}/{unknown}/error-details"))
        assert (status, type_) == (404, "InvalidRequestException")
        assert message.startswith(f"No historic external task log found with id {unknown}")


async def test_filters(camunda: httpx.AsyncClient, lines: dict[str, dict[str, Any]]) -> None:
    everything = set(lines)
    of_a = {name for name in everything if name.startswith("a ")}
    created = {name for name in everything if name.endswith("creationLog")}
    a, c = lines["a failureLog"], lines["c creationLog"]
    expected: list[tuple[dict[str, Any], set[str]]] = [
        ({}, everything),
        ({"logId": a["id"]}, {"a failureLog"}),
        ({"logId": "x"}, set()),
        ({"externalTaskId": a["externalTaskId"]}, of_a),
        ({"externalTaskId": "x"}, set()),
        ({"topicName": "a"}, of_a),
        ({"workerId": "w1"}, {"a failureLog"}),
        ({"errorMessage": "broken"}, {"a failureLog"}),
        ({"errorMessage": "brok"}, set()),
        ({"activityIdIn": ["a", "x"]}, of_a),
        ({"activityInstanceIdIn": [a["activityInstanceId"], c["activityInstanceId"]]}, {*of_a, "c creationLog"}),
        ({"executionIdIn": [c["executionId"]]}, {"c creationLog"}),
        ({"executionIdIn": ["x"]}, set()),
        ({"processInstanceId": c["processInstanceId"]}, {"c creationLog"}),
        ({"processDefinitionId": c["processDefinitionId"]}, {"c creationLog"}),
        ({"processDefinitionKey": "p"}, everything - {"c creationLog"}),
        ({"priorityHigherThanOrEquals": 5}, {"c creationLog"}),
        ({"priorityLowerThanOrEquals": 4}, everything - {"c creationLog"}),
        ({"creationLog": True}, created),
        ({"failureLog": True}, {"a failureLog"}),
        ({"successLog": True}, {"a successLog"}),
        ({"deletionLog": True}, set()),
        ({"creationLog": False}, everything),
        ({"creationLog": True, "successLog": True}, {"a successLog"}),
        ({"creationLog": True, "topicName": "b"}, {"b creationLog"}),
        ({"tenantIdIn": ["t"]}, set()),
        ({"unknownFilter": "x"}, everything),
    ]
    name_of = {line["id"]: name for name, line in lines.items()}
    for filters, wanted in expected:
        asked = {
            name: ",".join(value)
            if isinstance(value, list)
            else str(value).lower()
            if value in (True, False)
            else value
            for name, value in filters.items()
        }
        by_get = await at(camunda, LOG, **asked)
        assert {name_of[line["id"]] for line in by_get} == wanted, filters
        assert (await camunda.post(LOG, json=filters)).json() == by_get
        assert await at(camunda, f"{LOG}/count", **asked) == {"count": len(wanted)}
        assert (await camunda.post(f"{LOG}/count", json=filters)).json() == {"count": len(wanted)}


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    "by",
    [
        "timestamp", "externalTaskId", "topicName", "workerId", "retries", "priority", "activityId", "executionId",
        "activityInstanceId", "processInstanceId", "processDefinitionId", "processDefinitionKey", "tenantId",
    ],
)  # fmt: skip
async def test_sorting_and_pages(
    camunda: httpx.AsyncClient, lines: dict[str, dict[str, Any]], by: str, order: str
) -> None:
    whole = await at(camunda, LOG, sortBy=by, sortOrder=order)
    assert len(whole) == len(lines)
    if by not in ("activityInstanceId", "processDefinitionId", "tenantId"):
        values = [line[by] for line in whole if line[by] is not None]
        assert values == sorted(values, reverse=order == "desc")
    posted = await camunda.post(LOG, json={"sorting": [{"sortBy": by, "sortOrder": order}]})
    assert posted.json() == whole
    pages = [
        await at(camunda, LOG, sortBy=by, sortOrder=order, firstResult=first, maxResults=2) for first in range(0, 5, 2)
    ]
    assert [line for page in pages for line in page] == whole


async def test_what_is_refused(camunda: httpx.AsyncClient) -> None:
    for asked in ({"sortBy": "x", "sortOrder": "asc"}, {"sortBy": "timestamp"}, {"priorityLowerThanOrEquals": "low"}):
        status, type_, _ = error(await camunda.get(LOG, params=asked))
        assert (status, type_) == (400, "InvalidRequestException"), asked


async def test_what_went_without_being_completed_was_deleted(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, TWO)
    for failed in (False, True):
        instance = await start(camunda)
        if failed:
            await done(camunda, await fetch(camunda), "failure", errorMessage="never")
        assert (await camunda.delete(f"/process-instance/{instance['id']}")).status_code == 204
        found = await at(camunda, LOG, processInstanceId=instance["id"], deletionLog="true")
        assert [(one["activityId"], one["errorMessage"], one["topicName"]) for one in found] == [("a", None, "a")]
        wanted = ["creationLog", *(["failureLog"] if failed else []), "deletionLog"]
        assert await kinds(camunda, processInstanceId=instance["id"]) == wanted


async def test_a_business_error_is_no_success(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, CATCHES)
    await start(camunda)
    await done(camunda, await fetch(camunda), "bpmnError", errorCode="E")
    assert await kinds(camunda) == ["creationLog", "deletionLog"]
    (deleted,) = await at(camunda, LOG, deletionLog="true")
    assert (deleted["workerId"], deleted["activityId"]) == ("w", "a")


async def test_retries_that_are_set_are_no_failure(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, TWO)
    await start(camunda)
    (listed,) = await at(camunda, "/external-task")
    for retries in (0, 2):
        answered = await camunda.put(f"/external-task/{listed['id']}/retries", json={"retries": retries})
        assert answered.status_code == 204
    await done(camunda, await fetch(camunda), "failure")
    assert await kinds(camunda) == ["creationLog", "failureLog"]
    (failed,) = await at(camunda, LOG, failureLog="true")
    assert (failed["retries"], failed["errorMessage"]) == (0, None)
    await done(camunda, listed)
    assert await kinds(camunda, externalTaskId=listed["id"]) == ["creationLog", "failureLog", "successLog"]


async def test_work_of_no_process_is_shown_too(camunda: httpx.AsyncClient, conn: Connection) -> None:
    call.rows(conn, "enqueue_tasks", tasks=call.Json('[{"task_type": "mail", "variables": {}}]'))
    await done(camunda, await fetch(camunda, "mail"))
    assert await kinds(camunda, topicName="mail") == ["creationLog", "successLog"]
    (line,) = await at(camunda, LOG, successLog="true")
    names = ("processInstanceId", "processDefinitionId", "executionId", "activityId", "activityInstanceId")
    assert [line[name] for name in names] == [None] * len(names)


async def test_a_key_for_some_types_sees_their_lines(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys, lines: dict[str, dict[str, Any]]
) -> None:
    async with client_of(camunda_app, keys.make(types=("c",))) as mine:
        assert [line["topicName"] for line in await at(mine, f"/engine-rest{LOG}")] == ["c"]
        foreign = lines["a failureLog"]["id"]
        assert (await mine.get(f"/engine-rest{LOG}/{foreign}")).status_code == 404
        assert (await mine.get(f"/engine-rest{LOG}/{foreign}/error-details")).status_code == 404
