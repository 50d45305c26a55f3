"""Lists, counts and single looks at external tasks, and retries of many: camunda7.md, section 1.4."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import Connection

from app.camunda.moments import shown as date
from db import call
from tests.app.engine.conftest import Desk, flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.work import done, fetch, fetched, shown
from tests.clock import Clock

ONE = model(
    '<startEvent id="s"/>' + task("c", 'camunda:taskPriority="5"') + '<endEvent id="e"/>' + flow("s", "c", "e"),
    process='id="q" name="Shipping" isExecutable="true" camunda:versionTag="v7"',
)
LISTED = {
    "activityId", "activityInstanceId", "errorMessage", "executionId", "id", "lockExpirationTime", "createTime",
    "processDefinitionId", "processDefinitionKey", "processDefinitionVersionTag", "processInstanceId", "retries",
    "suspended", "workerId", "topicName", "tenantId", "priority", "businessKey",
}  # fmt: skip


@pytest.fixture
async def crowd(camunda: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Five tasks: free, held (until long from now), resting, failed, and one of another process."""
    await deploy(camunda, TWO)
    await deploy(camunda, ONE)
    found: dict[str, dict[str, Any]] = {}
    await start(camunda, businessKey="held")
    found["held"] = await fetch(camunda, worker="holder", lockDuration=3_600_000)
    await start(camunda, businessKey="resting")
    found["resting"] = await fetch(camunda, worker="failer")
    await done(camunda, found["resting"], "failure", "failer", retries=2, retryTimeout=600_000, errorMessage="later")
    await start(camunda, businessKey="failed")
    found["failed"] = await fetch(camunda, worker="failer")
    await done(camunda, found["failed"], "failure", "failer", errorMessage="never", errorDetails="at all")
    variables = {"n": {"value": 7}, "s": {"value": "Abc"}, "b": {"value": True}}
    free = await start(camunda, businessKey="free", variables=variables)
    other = await start(camunda, key="q", businessKey="other")
    listed = {one["processInstanceId"]: one for one in await at(camunda, "/external-task")}
    found["free"], found["other"] = listed[free["id"]], listed[other["id"]]
    return found


async def names(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]], **filters: Any) -> set[str]:
    """Which of them a query finds: by GET, by POST, and as many by count."""
    name_of = {one["id"]: name for name, one in crowd.items()}
    asked = {
        name: ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else value
        for name, value in filters.items()
    }
    by_get = await at(camunda, "/external-task", **asked)
    by_post = await camunda.post("/external-task", json=filters)
    assert by_post.status_code == 200, by_post.text
    assert by_post.json() == by_get
    counts = [await at(camunda, "/external-task/count", **asked)]
    counts.append((await camunda.post("/external-task/count", json=filters)).json())
    assert counts == [{"count": len(by_get)}] * 2
    return {name_of[one["id"]] for one in by_get}


async def test_a_listed_task_has_every_key(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
    free, failed = await shown(camunda, crowd["free"]), await shown(camunda, crowd["failed"])
    assert free.keys() == failed.keys() == LISTED
    assert free == crowd["free"]
    assert (free["workerId"], free["lockExpirationTime"], free["retries"], free["errorMessage"]) == (None,) * 4
    assert (failed["retries"], failed["errorMessage"], failed["suspended"]) == (0, "never", False)
    other = crowd["other"]
    assert (other["processDefinitionKey"], other["processDefinitionVersionTag"], other["priority"]) == ("q", "v7", 5)
    assert other["activityInstanceId"] == f"c:{other['executionId']}"


async def test_filters(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]], clock: Clock) -> None:
    everything = set(crowd)
    free, other = crowd["free"], crowd["other"]
    soon = date(datetime.now(UTC) + timedelta(minutes=30))
    expected: list[tuple[dict[str, Any], set[str]]] = [
        ({}, everything),
        ({"externalTaskId": free["id"]}, {"free"}),
        ({"externalTaskId": "no-uuid"}, set()),
        ({"externalTaskIdIn": [free["id"], other["id"], str(uuid4())]}, {"free", "other"}),
        ({"topicName": "c"}, {"other"}),
        ({"workerId": "failer"}, {"resting", "failed"}),
        ({"locked": True}, {"held", "resting"}),
        ({"locked": False}, everything),
        ({"notLocked": True}, {"free", "failed", "other"}),
        ({"notLocked": True, "withRetriesLeft": True}, {"free", "other"}),
        ({"withRetriesLeft": True}, everything - {"failed"}),
        ({"noRetriesLeft": True}, {"failed"}),
        ({"lockExpirationAfter": soon}, {"held"}),
        ({"lockExpirationBefore": soon}, {"resting", "failed"}),
        ({"activityId": "c"}, {"other"}),
        ({"activityIdIn": ["c", "b"]}, {"other"}),
        ({"executionId": free["executionId"]}, {"free"}),
        ({"processInstanceId": free["processInstanceId"]}, {"free"}),
        ({"processInstanceIdIn": [free["processInstanceId"], other["processInstanceId"]]}, {"free", "other"}),
        ({"processDefinitionId": other["processDefinitionId"]}, {"other"}),
        ({"processDefinitionId": other["processDefinitionId"].rpartition(":")[2]}, {"other"}),
        ({"processDefinitionKey": "q"}, {"other"}),
        ({"processDefinitionKeyIn": ["q", "p"]}, everything),
        ({"processDefinitionName": "Shipping"}, {"other"}),
        ({"processDefinitionNameLike": "%ship%"}, set()),
        ({"processDefinitionNameLike": "%hipp%"}, {"other"}),
        ({"tenantIdIn": ["t"]}, set()),
        ({"active": True}, everything),
        ({"suspended": True}, set()),
        ({"priorityHigherThanOrEquals": 5}, {"other"}),
        ({"priorityLowerThanOrEquals": 4}, everything - {"other"}),
        ({"unknownFilter": "x"}, everything),
    ]
    for filters, found in expected:
        assert await names(camunda, crowd, **filters) == found, filters


async def test_variables_are_filtered(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
    for asked, found in (("s_eq_Abc", 1), ("s_eq_abc", 0), ("s_like_A%", 1), ("s_neq_x", 1), ("s_eq_Abc,n_eq_8", 0)):
        assert len(await at(camunda, "/external-task", processVariables=asked)) == found, asked
    assert len(await at(camunda, "/external-task", processVariables="S_eq_aBC", variableNamesIgnoreCase="true",
                        variableValuesIgnoreCase="true")) == 1  # fmt: skip
    for operator, value, found in (("eq", 7, 1), ("gt", 6, 1), ("gt", 7, 0), ("lteq", 7, 1), ("eq", "7", 0)):
        body = {"processVariables": [{"name": "n", "operator": operator, "value": value}]}
        assert len((await camunda.post("/external-task", json=body)).json()) == found, (operator, value)


async def test_oddities_of_fastbpmn(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
    """It sends 1 for true, and asks for nothing but what it could lock, most urgent first."""
    body = {"withRetriesLeft": 1, "notLocked": 1, "sorting": [{"sortBy": "taskPriority", "sortOrder": "desc"}]}
    found = (await camunda.post("/external-task", json=body)).json()
    assert [one["id"] for one in found] == [crowd["other"]["id"], crowd["free"]["id"]]
    assert (await camunda.post("/external-task", json=body | {"tenantIdIn": ["t"]})).json() == []


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("id", "id"), ("lockExpirationTime", "lockExpirationTime"), ("processInstanceId", "processInstanceId"),
        ("processDefinitionKey", "processDefinitionKey"), ("taskPriority", "priority"), ("createTime", "createTime"),
        ("processDefinitionId", None), ("tenantId", None),
    ],
)  # fmt: skip
async def test_sorting(
    camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]], by: str, key: str | None, order: str
) -> None:
    found = await at(camunda, "/external-task", sortBy=by, sortOrder=order)
    posted = await camunda.post("/external-task", json={"sorting": [{"sortBy": by, "sortOrder": order}]})
    assert posted.json() == found
    assert len(found) == 5
    if key is not None:
        values = [one[key] for one in found if one[key] is not None]
        assert values == sorted(values, reverse=order == "desc")


@pytest.mark.parametrize(
    "asked",
    [
        {"sortBy": "x", "sortOrder": "asc"}, {"sortBy": "id", "sortOrder": "up"}, {"sortBy": "id"},
        {"sortOrder": "asc"}, {"lockExpirationAfter": "yesterday"}, {"priorityHigherThanOrEquals": "high"},
        {"firstResult": "x"}, {"processVariables": "a"}, {"processVariables": "a_is_b"},
    ],
)  # fmt: skip
async def test_what_is_refused(camunda: httpx.AsyncClient, asked: dict[str, str]) -> None:
    status, type_, message = error(await camunda.get("/external-task", params=asked))
    assert (status, type_) == (400, "InvalidRequestException")
    assert message


@pytest.mark.parametrize("sorting", [{}, {"sortBy": "taskPriority", "sortOrder": "desc"}])
@pytest.mark.parametrize("filters", [{}, {"notLocked": "true"}, {"withRetriesLeft": "true"}, {"topicName": "a"}])
async def test_pages_make_the_whole(
    camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]], sorting: dict[str, str], filters: dict[str, str]
) -> None:
    whole = await at(camunda, "/external-task", **sorting, **filters)
    pages = [
        await at(camunda, "/external-task", firstResult=first, maxResults=2, **sorting, **filters)
        for first in range(0, 6, 2)
    ]
    assert [one for page in pages for one in page] == whole
    # The page of a POST is in the address, too.
    posted = await camunda.post("/external-task", params={"firstResult": 1, "maxResults": 1}, json={})
    assert len(posted.json()) == 1
    assert await at(camunda, "/external-task", maxResults=0) == []


async def test_topic_names(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
    async def of(**asked: str) -> Any:
        return await at(camunda, "/external-task/topic-names", **asked)

    assert await of() == ["a", "c"]
    assert await of(withLockedTasks="true") == ["a"]
    assert await of(withUnlockedTasks="true") == ["a", "c"]
    assert await of(withRetriesLeft="true", withUnlockedTasks="true") == ["a", "c"]
    await fetch(camunda, "c")
    assert await of(withUnlockedTasks="true") == ["a"]


async def test_one_task_and_its_error_details(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
    address = f"/external-task/{crowd['failed']['id']}/errorDetails"
    details = await camunda.get(address)
    assert (details.status_code, details.text) == (200, "at all")
    nothing = await camunda.get(f"/external-task/{crowd['free']['id']}/errorDetails")
    assert (nothing.status_code, nothing.content) == (204, b"")
    for unknown in (str(uuid4()), "x"):
        message = f"External task with id {unknown} does not exist"
        missing = await camunda.get(f"/external-task/{unknown}")
        assert error(missing) == (404, "RestException", message)
        assert missing.json()["code"] is None
        assert error(await camunda.get(f"/external-task/{unknown}/errorDetails")) == (404, "RestException", message)


async def test_a_task_that_was_completed_is_gone(camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
    await done(camunda, crowd["held"], worker="holder")
    assert (await camunda.get(f"/external-task/{crowd['held']['id']}")).status_code == 404
    answered = await camunda.delete(f"/process-instance/{crowd['failed']['processInstanceId']}")
    assert answered.status_code == 204
    assert (await camunda.get(f"/external-task/{crowd['failed']['id']}")).status_code == 404
    assert await at(camunda, "/external-task/count", noRetriesLeft="true") == {"count": 0}


async def test_work_of_no_process_is_served_and_shown_too(camunda: httpx.AsyncClient, conn: Connection) -> None:
    made = call.Json('[{"task_type": "mail", "variables": {"to": "x", "n": 1}, "business_key": "B"}]')
    task_id = str(call.rows(conn, "enqueue_tasks", tasks=made)[0].task_id)
    (listed,) = await at(camunda, "/external-task")
    assert (listed["id"], listed["topicName"], listed["processInstanceId"]) == (task_id, "mail", None)
    assert (await camunda.get(f"/external-task/{task_id}")).json() == listed
    task = await fetch(camunda, "mail", includeExtensionProperties=True)
    assert {name: one["value"] for name, one in task["variables"].items()} == {"to": "x", "n": 1}
    await done(camunda, task, variables={"sent": {"value": True}})
    assert await at(camunda, "/external-task") == []


class TestManyRetries:
    async def test_named_by_ids_queries_and_instances(
        self, camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]
    ) -> None:
        asked: list[tuple[dict[str, Any], set[str]]] = [
            ({"externalTaskIds": [crowd["free"]["id"], crowd["other"]["id"]]}, {"free", "other"}),
            ({"externalTaskQuery": {"topicName": "c"}}, {"other"}),
            ({"processInstanceIds": [crowd["resting"]["processInstanceId"]]}, {"resting"}),
            ({"processInstanceQuery": {"businessKey": "held"}}, {"held"}),
            ({"historicProcessInstanceQuery": {"processInstanceBusinessKey": "free"}}, {"free"}),
            (
                {
                    "externalTaskIds": [crowd["free"]["id"]],
                    "externalTaskQuery": {"externalTaskId": crowd["free"]["id"]},
                },
                {"free"},
            ),
        ]
        for retries, (selection, changed) in enumerate(asked, start=10):
            answered = await camunda.put("/external-task/retries", json={"retries": retries, **selection})
            assert (answered.status_code, answered.content) == (204, b""), answered.text
            now = {name: (await shown(camunda, one))["retries"] for name, one in crowd.items()}
            assert {name for name, left in now.items() if left == retries} == changed, selection

    async def test_a_batch_is_done_at_once(self, camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
        body = {"retries": 4, "externalTaskQuery": {"noRetriesLeft": True}}
        answered = await camunda.post("/external-task/retries-async", json=body)
        assert answered.status_code == 200
        batch = answered.json()
        assert batch.keys() == {
            "id", "type", "totalJobs", "jobsCreated", "batchJobsPerSeed", "invocationsPerBatchJob",
            "seedJobDefinitionId", "monitorJobDefinitionId", "batchJobDefinitionId", "suspended", "tenantId",
            "createUserId", "startTime", "executionStartTime",
        }  # fmt: skip
        assert UUID(batch["id"])
        assert (batch["type"], batch["totalJobs"]) == ("set-external-task-retries", 1)
        assert (await shown(camunda, crowd["failed"]))["retries"] == 4
        assert crowd["failed"]["id"] in {one["id"] for one in await fetched(camunda, most=10)}

    async def test_zero_is_an_incident_each(self, camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]]) -> None:
        ids = [crowd["free"]["id"], crowd["other"]["id"]]
        body = {"retries": 0, "externalTaskIds": ids}
        assert (await camunda.put("/external-task/retries", json=body)).status_code == 204
        incidents = {one["configuration"] for one in await at(camunda, "/incident")}
        assert incidents == {*ids, crowd["failed"]["id"]}

    @pytest.mark.parametrize("address", ["PUT /external-task/retries", "POST /external-task/retries-async"])
    async def test_what_is_refused(
        self, camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]], address: str
    ) -> None:
        method, path = address.split()
        free, unknown = crowd["free"]["id"], str(uuid4())
        for body, refusal in (
            ({"retries": 1}, (400, "externalTaskIds is empty")),
            ({"retries": 1, "externalTaskIds": []}, (400, "externalTaskIds is empty")),
            ({"retries": 1, "externalTaskQuery": {"topicName": "none"}}, (400, "externalTaskIds is empty")),
            ({"externalTaskIds": [free]}, (400, "The number of retries cannot be null.")),
            ({"retries": 1, "externalTaskIds": [free, unknown]}, (404, None)),
            ({"retries": 1, "externalTaskIds": [free, "x"]}, (404, None)),
            ({"retries": 1, "externalTaskIds": [free, None]}, (400, None)),
            ({"retries": -1, "externalTaskIds": [free]}, (400, None)),
        ):
            status, type_, message = error(await camunda.request(method, path, json=body))
            assert (status, type_, refusal[1] and message) == (refusal[0], "InvalidRequestException", refusal[1]), body
        assert (await shown(camunda, crowd["free"]))["retries"] is None


class TestTheEngineCounts:
    """The setting camunda_retries=engine: what Camunda's users ask for most often."""

    @pytest.fixture
    def camunda_settings(self, camunda_settings: Any) -> Any:
        return replace(camunda_settings, camunda_retries="engine", camunda_lost_leases="retry")

    async def test_retries_are_shown_at_first_and_go_down(self, camunda: httpx.AsyncClient, clock: Clock) -> None:
        await deploy(camunda)
        await start(camunda)
        for left in (3, 2):
            task = await fetch(camunda)
            assert task["retries"] == left
            await done(camunda, task, "failure", errorMessage="x")
            clock.advance(600_000)
        task = await fetch(camunda)
        assert task["retries"] == 1
        await done(camunda, task, "failure", retries=7)
        assert (await fetch(camunda))["retries"] == 7

    async def test_a_lost_lock_costs_one(self, camunda: httpx.AsyncClient, conn: Connection, clock: Clock) -> None:
        await deploy(camunda)
        await start(camunda)
        for left in (3, 2, 1):
            assert (await fetch(camunda, lockDuration=1000))["retries"] == left
            clock.advance(2000)
        assert await fetched(camunda) == []
        Desk(conn).settle()
        (incident,) = await at(camunda, "/incident")
        assert incident["incidentType"] == "failedExternalTask"


async def test_a_list_does_not_read_what_it_does_not_show(
    camunda: httpx.AsyncClient, crowd: dict[str, dict[str, Any]], conn: Connection
) -> None:
    """Details of an error can be 1 MiB each, and a page has thousands of tasks."""
    ids = [one["id"] for one in crowd.values()]
    rows = call.rows(conn, "describe_external_tasks", task_ids=ids, with_details=False)
    assert [row.error_details for row in rows] == [None] * len(ids)
    assert {row.error_message for row in rows} == {None, "later", "never"}
    rows = call.rows(conn, "describe_external_tasks", task_ids=[crowd["failed"]["id"]])
    assert [row.error_details for row in rows] == ["at all"]
