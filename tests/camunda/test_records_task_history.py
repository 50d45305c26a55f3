"""/history/task: user tasks, open and done."""

from __future__ import annotations

import httpx
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, error, start

KEYS = {
    "id", "processDefinitionKey", "processDefinitionId", "processInstanceId", "executionId", "caseDefinitionKey",
    "caseDefinitionId", "caseInstanceId", "caseExecutionId", "activityInstanceId", "name", "description",
    "deleteReason", "owner", "assignee", "startTime", "endTime", "duration", "taskDefinitionKey", "priority", "due",
    "parentTaskId", "followUp", "tenantId", "removalTime", "rootProcessInstanceId", "taskState",
}  # fmt: skip
PEOPLE = model(
    '<startEvent id="s"/><userTask id="u" name="Look" camunda:assignee="ann" camunda:priority="60"/><userTask id="v"/>'
    + task("a") + '<endEvent id="e"/>' + flow("s", "u", "v", "a", "e")
)  # fmt: skip


async def test_a_user_task_from_its_beginning_to_its_end(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, PEOPLE)
    instance = await start(camunda, businessKey="B-1", variables={"x": {"value": 1}})
    (person,) = await at(camunda, "/task")
    (open_one,) = await at(camunda, "/history/task")
    assert open_one.keys() == KEYS
    told = {"name": "Look", "assignee": "ann", "priority": 60, "endTime": None, "deleteReason": None}
    assert {name: open_one[name] for name in told} == told
    assert open_one["taskState"] == "Created"
    assert (open_one["id"], open_one["executionId"]) == (person["id"], person["executionId"])
    assert open_one["activityInstanceId"] == f"u:{person['id']}"
    assert (await camunda.post(f"/task/{person['id']}/complete")).status_code == 204
    (done_one,) = await at(camunda, "/history/task", finished="true")
    assert (done_one["deleteReason"], done_one["taskState"], done_one["assignee"]) == ("completed", "Completed", "ann")
    assert done_one["endTime"] >= done_one["startTime"]
    (second,) = await at(camunda, "/task")
    some_day = "2999-01-01T00:00:00.000+0000"
    for query, expected in (
        ({}, "uv"), ({"finished": "true"}, "u"), ({"unfinished": "true"}, "v"), ({"taskId": second["id"]}, "v"),
        ({"processInstanceId": instance["id"]}, "uv"), ({"taskAssignee": "ann"}, "u"), ({"unassigned": "true"}, "v"),
        ({"taskName": "Look"}, "u"), ({"taskDefinitionKey": "v"}, "v"), ({"processInstanceBusinessKey": "B-1"}, "uv"),
        ({"processInstanceBusinessKeyLike": "X%"}, ""), ({"processFinished": "true"}, ""),
        ({"processUnfinished": "true", "processVariables": "x_eq_1"}, "uv"), ({"startedAfter": some_day}, ""),
        ({"activityInstanceIdIn": f"u:{person['id']}"}, "u"), ({"tenantIdIn": "t"}, ""),
        ({"sortBy": "startTime", "sortOrder": "desc", "maxResults": 1}, "v"),
    ):  # fmt: skip
        found = [one["taskDefinitionKey"] for one in await at(camunda, "/history/task", **query)]
        assert "".join(sorted(found)) == expected, query
        posted = await camunda.post("/history/task/count", json=query)
        assert "maxResults" in query or posted.json() == {"count": len(expected)}, query
    for refused in ({"taskOwner": "eve"}, {"sortBy": "x", "sortOrder": "asc"}):
        assert error(await camunda.get("/history/task", params=refused))[0] == 400
    assert (await camunda.delete(f"/process-instance/{instance['id']}")).status_code == 204
    (deleted,) = await at(camunda, "/history/task", taskDefinitionKey="v")
    assert (deleted["deleteReason"], deleted["taskState"]) == ("deleted", "Deleted")


async def test_a_key_sees_its_own_alone(camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys) -> None:
    await deploy(camunda, PEOPLE)
    await start(camunda)
    async with client_of(camunda_app, keys.make(types=("other",))) as stranger:
        assert (await stranger.get("/engine-rest/history/task")).json() == []
        assert (await stranger.get("/engine-rest/history/task/count")).json() == {"count": 0}
