"""/job: timers and stuck tokens."""

from __future__ import annotations

from typing import Any

import httpx

from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, error, start

NOBODY = "00000000-0000-4000-8000-000000000000"
KEYS = {
    "id", "jobDefinitionId", "processInstanceId", "processDefinitionId", "processDefinitionKey", "executionId",
    "exceptionMessage", "failedActivityId", "retries", "dueDate", "suspended", "priority", "tenantId", "createTime",
    "batchId",
}  # fmt: skip
TIMER = model(
    '<startEvent id="s"/><intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>P1D</timeDuration>'
    "</timerEventDefinition></intermediateCatchEvent>" + task("a") + '<endEvent id="e"/>' + flow("s", "t", "a", "e")
)
STUCK = model(
    '<startEvent id="s"/><scriptTask id="x" scriptFormat="juel" camunda:resultVariable="y"><script>${missing + 1}'
    "</script></scriptTask>" + task("a") + '<endEvent id="e"/>' + flow("s", "x", "a", "e")
)
AT_TIMES = model(
    '<startEvent id="s"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
    + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e")
)  # fmt: skip


async def job_of(camunda: httpx.AsyncClient, content: bytes, **body: Any) -> dict[str, Any]:
    await deploy(camunda, content)
    instance = await start(camunda, **body)
    (job,) = await at(camunda, "/job", processInstanceId=instance["id"])
    return dict(job)


async def test_a_timer_is_a_job_with_a_due_date(camunda: httpx.AsyncClient) -> None:
    job = await job_of(camunda, TIMER)
    assert job.keys() == KEYS
    assert (job["retries"], job["exceptionMessage"], job["failedActivityId"], job["suspended"]) == (
        3,
        None,
        None,
        False,
    )
    assert job["processDefinitionKey"] == "p"
    assert job["dueDate"].endswith("+0000")
    assert await at(camunda, f"/job/{job['id']}") == job
    stacktrace = await camunda.get(f"/job/{job['id']}/stacktrace")
    assert (stacktrace.status_code, stacktrace.content) == (204, b"")


async def test_a_timer_that_is_executed_fires_once(camunda: httpx.AsyncClient) -> None:
    job = await job_of(camunda, TIMER)
    fired = await camunda.post(f"/job/{job['id']}/execute")
    assert (fired.status_code, fired.content) == (204, b"")
    again = await camunda.post(f"/job/{job['id']}/execute")
    assert error(again) == (404, "InvalidRequestException", f"No job found with id '{job['id']}'")
    (waiting,) = await at(camunda, "/external-task")
    assert waiting["activityId"] == "a"


async def test_a_due_date_can_be_moved(camunda: httpx.AsyncClient, clock: Any) -> None:
    job = await job_of(camunda, TIMER)
    moved = await camunda.put(f"/job/{job['id']}/duedate", json={"duedate": "2099-01-02T03:04:05.678+0100"})
    assert moved.status_code == 204
    assert (await at(camunda, f"/job/{job['id']}"))["dueDate"] == "2099-01-02T02:04:05.678+0000"
    by_retries = await camunda.put(f"/job/{job['id']}/retries", json={"retries": 1, "dueDate": "2098-01-01T00:00:00Z"})
    assert by_retries.status_code == 204
    assert (await at(camunda, f"/job/{job['id']}"))["dueDate"] == "2098-01-01T00:00:00.000+0000"
    assert (await camunda.put(f"/job/{job['id']}/duedate", json={"duedate": None})).status_code == 204
    assert len(await at(camunda, "/job", executable="true")) == 1
    cascade = await camunda.put(f"/job/{job['id']}/duedate", json={"duedate": "2099-01-01", "cascade": True})
    assert cascade.status_code == 400


async def test_a_stuck_token_is_a_job_without_retries_until_somebody_gives_some(camunda: httpx.AsyncClient) -> None:
    job = await job_of(camunda, STUCK)
    assert (job["retries"], job["failedActivityId"], job["dueDate"]) == (0, "x", None)
    assert "missing" in job["exceptionMessage"]
    stacktrace = await camunda.get(f"/job/{job['id']}/stacktrace")
    assert stacktrace.headers["content-type"].startswith("text/plain")
    assert stacktrace.text == job["exceptionMessage"]
    (incident,) = await at(camunda, "/incident")
    assert (incident["incidentType"], incident["configuration"]) == ("failedJob", job["id"])
    failed = await camunda.post(f"/job/{job['id']}/execute")
    assert failed.status_code == 500
    assert "missing" in failed.json()["message"]
    zero = await camunda.put(f"/job/{job['id']}/retries", json={"retries": 0})
    assert zero.status_code == 204
    variables = f"/process-instance/{job['processInstanceId']}/variables/missing"
    assert (await camunda.put(variables, json={"value": 1})).status_code == 204
    assert (await camunda.put(f"/job/{job['id']}/retries", json={"retries": 1})).status_code == 204
    assert await at(camunda, "/job") == []
    assert await at(camunda, "/incident") == []
    (waiting,) = await at(camunda, "/external-task")
    assert waiting["activityId"] == "a"


async def test_what_retries_may_be(camunda: httpx.AsyncClient) -> None:
    job = await job_of(camunda, TIMER)
    for retries in (None, -1, "x", 1.5):
        answered = await camunda.put(f"/job/{job['id']}/retries", json={"retries": retries})
        assert answered.status_code == 400, retries
    assert (await camunda.put(f"/job/{job['id']}/retries", json={"retries": 0})).status_code == 400
    assert (await camunda.put(f"/job/{job['id']}/retries", json={"retries": 2})).status_code == 204


async def test_an_unknown_job(camunda: httpx.AsyncClient) -> None:
    missing = await camunda.get(f"/job/{NOBODY}")
    assert error(missing) == (404, "InvalidRequestException", f"Job with id {NOBODY} does not exist")
    for unknown in (NOBODY, "x", "%00"):
        assert (await camunda.get(f"/job/{unknown}")).status_code == 404
        assert (await camunda.get(f"/job/{unknown}/stacktrace")).status_code == 404
        assert (await camunda.post(f"/job/{unknown}/execute")).status_code == 404
        assert (await camunda.put(f"/job/{unknown}/retries", json={"retries": 1})).status_code == 404
        assert (await camunda.put(f"/job/{unknown}/duedate", json={})).status_code == 404


async def test_filters_sorts_and_counts(camunda: httpx.AsyncClient) -> None:
    timer = await job_of(camunda, TIMER)
    await deploy(camunda, STUCK.replace(b'id="p"', b'id="q"'))
    other = await start(camunda, "q")
    (stuck,) = await at(camunda, "/job", processInstanceId=other["id"])
    both = {timer["id"], stuck["id"]}
    for query, expected in (
        ({"timers": "true"}, {timer["id"]}), ({"messages": "true"}, {stuck["id"]}),
        ({"noRetriesLeft": "true"}, {stuck["id"]}), ({"withRetriesLeft": "true"}, {timer["id"]}),
        ({"withException": "true"}, {stuck["id"]}), ({"exceptionMessage": stuck["exceptionMessage"]}, {stuck["id"]}),
        ({"processDefinitionKey": "p"}, {timer["id"]}),
        ({"processDefinitionId": stuck["processDefinitionId"]}, {stuck["id"]}), ({"activityId": "t"}, {timer["id"]}),
        ({"jobIds": f"{timer['id']},x"}, {timer["id"]}), ({"jobId": "x"}, set()), ({"active": "true"}, both),
        ({"suspended": "true"}, set()), ({"withoutTenantId": "true"}, both), ({"tenantIdIn": "t"}, set()),
        ({"dueDates": "gt_2000-01-01T00:00:00.000+0000"}, {timer["id"]}), ({"jobDefinitionId": "x"}, set()),
        ({"dueDates": "lt_2000-01-01T00:00:00.000+0000"}, set()),
        ({"executionId": timer["executionId"]}, {timer["id"]}), ({"failedActivityId": "x"}, {stuck["id"]}),
        ({"failedActivityId": "t"}, set()), ({"priorityHigherThanOrEquals": "0"}, both),
        ({"priorityHigherThanOrEquals": "1"}, set()), ({"priorityLowerThanOrEquals": "-1"}, set()),
    ):  # fmt: skip
        assert {job["id"] for job in await at(camunda, "/job", **query)} == expected, query
        assert await at(camunda, "/job/count", **query) == {"count": len(expected)}, query
        posted = await camunda.post("/job", json=query)
        assert {job["id"] for job in posted.json()} == expected, query
    ordered = await at(camunda, "/job", sortBy="processDefinitionKey", sortOrder="desc")
    assert [job["processDefinitionKey"] for job in ordered] == ["q", "p"]
    paged = await at(camunda, "/job", sortBy="processDefinitionKey", sortOrder="asc", firstResult=1, maxResults=1)
    assert [job["processDefinitionKey"] for job in paged] == ["q"]
    for refused in ({"sortBy": "jobId"}, {"sortOrder": "asc"}, {"sortBy": "x", "sortOrder": "asc"},
                    {"sortBy": "jobId", "sortOrder": "up"}, {"timers": "true", "messages": "true"},
                    {"dueDates": "eq_2000-01-01"}):  # fmt: skip
        assert (await camunda.get("/job", params=refused)).status_code == 400, refused
    sorting = [{"sortBy": "jobDueDate", "sortOrder": "desc"}]
    assert (await camunda.post("/job", json={"sorting": sorting})).status_code == 200
    assert (await camunda.post("/job/count", json={})).json() == {"count": 2}


async def test_a_timer_that_a_process_begins_with_can_be_fired_before_its_time(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, AT_TIMES)
    (job,) = await at(camunda, "/job")
    assert (job["processInstanceId"], job["executionId"], job["processDefinitionKey"]) == (None, None, "p")
    assert (await camunda.post(f"/job/{job['id']}/execute")).status_code == 204
    assert len(await at(camunda, "/process-instance")) == 1
    (next_,) = await at(camunda, "/job")
    assert next_["id"] == job["id"]
    assert next_["dueDate"] > job["dueDate"]
    assert (await camunda.put(f"/job/{job['id']}/duedate", json={})).status_code == 400


async def test_what_is_stuck_in_a_suspended_instance_is_not_tried(camunda: httpx.AsyncClient) -> None:
    job = await job_of(camunda, STUCK)
    suspended = await camunda.put(f"/process-instance/{job['processInstanceId']}/suspended", json={"suspended": True})
    assert suspended.status_code == 204
    incidents = await at(camunda, "/incident")
    status, type_, message = error(await camunda.post(f"/job/{job['id']}/execute"))
    assert (status, type_, message.endswith("is suspended")) == (400, "RestException", True)
    assert await at(camunda, "/incident") == incidents
