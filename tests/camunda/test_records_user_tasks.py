"""/task: user tasks of people."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, error, start

NOBODY = "00000000-0000-4000-8000-000000000000"
KEYS = {
    "id", "name", "assignee", "created", "due", "followUp", "lastUpdated", "delegationState", "description",
    "executionId", "owner", "parentTaskId", "priority", "processDefinitionId", "processInstanceId",
    "taskDefinitionKey", "caseExecutionId", "caseInstanceId", "caseDefinitionId", "suspended", "formKey",
    "camundaFormRef", "tenantId", "taskState",
}  # fmt: skip
ROOTS = '<error id="E" errorCode="NO"/>'


def person(name: str = "u", more: str = "", inside: str = "") -> str:
    return f'<userTask id="{name}" name="Look at it" {more}>{inside}</userTask>'


def with_task(more: str = "", inside: str = "") -> bytes:
    body = (
        '<startEvent id="s"/>' + person("u", more, inside) + task("a") + '<endEvent id="e"/>' + flow("s", "u", "a", "e")
    )
    return model(body)


CAUGHT = model(
    '<startEvent id="s"/>' + person() + task("a") + '<boundaryEvent id="no" attachedToRef="u"><errorEventDefinition'
    ' errorRef="E" camunda:errorMessageVariable="why"/></boundaryEvent>' + task("b") + '<endEvent id="e"/>'
    + flow("s", "u", "a", "e") + flow("no", "b", "e"),
    ROOTS,
)  # fmt: skip


async def user_task(camunda: httpx.AsyncClient, content: bytes | None = None, **body: Any) -> dict[str, Any]:
    await deploy(camunda, content or with_task())
    await start(camunda, **body)
    (found,) = await at(camunda, "/task")
    return dict(found)


async def waiting_at(camunda: httpx.AsyncClient) -> list[str]:
    return [one["activityId"] for one in await at(camunda, "/external-task")]


async def test_a_user_task_says_what_the_model_says_of_it(camunda: httpx.AsyncClient) -> None:
    content = with_task(
        'camunda:assignee="${who}" camunda:candidateUsers="ann, bob" camunda:candidateGroups="${groups}"'
        ' camunda:dueDate="2030-01-02T03:04:05Z" camunda:followUpDate="P1D" camunda:priority="${40 + 2}"'
        ' camunda:formKey="embedded:form"',
        "<documentation>Look closely at ${what}.</documentation>",
    )
    variables = {"who": {"value": "eve"}, "groups": {"value": ["sales", "accounting"]}, "what": {"value": "it"}}
    found = await user_task(camunda, content, variables=variables, businessKey="B")
    assert found.keys() == KEYS
    assert found["id"] == found["executionId"]
    shown = {
        name: found[name] for name in ("name", "assignee", "due", "description", "priority", "formKey", "taskState")
    }
    assert shown == {
        "name": "Look at it", "assignee": "eve", "due": "2030-01-02T03:04:05.000+0000",
        "description": "Look closely at it.", "priority": 42, "formKey": "embedded:form", "taskState": "Created",
    }  # fmt: skip
    assert found["followUp"] > found["created"]
    assert (found["taskDefinitionKey"], found["suspended"], found["lastUpdated"]) == ("u", False, None)
    assert await at(camunda, f"/task/{found['id']}") == found
    assert await at(camunda, f"/task/{found['id']}/form") == {
        "key": "embedded:form", "camundaFormRef": None, "contextPath": None,
    }  # fmt: skip
    links = await at(camunda, f"/task/{found['id']}/identity-links")
    assert {(one["type"], one["userId"] or one["groupId"]) for one in links} == {
        ("assignee", "eve"), ("candidate", "ann"), ("candidate", "bob"), ("candidate", "sales"),
        ("candidate", "accounting"),
    }  # fmt: skip


async def test_what_an_expression_gives_no_value_for_is_left_out(camunda: httpx.AsyncClient) -> None:
    found = await user_task(
        camunda, with_task('camunda:assignee="${nobody}" camunda:dueDate="${soon}" camunda:priority="high"')
    )
    assert (found["assignee"], found["due"], found["priority"]) == (None, None, 50)
    assert await at(camunda, "/incident") == []


async def test_completing_moves_on_with_its_variables(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    variables = {"ok": {"value": True}, "day": {"value": "2024-01-02T03:04:05.678+0200", "type": "Date"}}
    done = await camunda.post(f"/task/{found['id']}/complete", json={"variables": variables})
    assert (done.status_code, done.content) == (204, b"")
    assert await at(camunda, "/task") == []
    assert await waiting_at(camunda) == ["a"]
    kept = await at(camunda, f"/process-instance/{found['processInstanceId']}/variables")
    assert kept["ok"] == {"value": True, "type": "Boolean", "valueInfo": {}}
    assert kept["day"]["type"] == "Date"
    again = await camunda.post(f"/task/{found['id']}/complete", json={})
    assert again.status_code == 404


@pytest.mark.parametrize("verb", ["complete", "submit-form"])
async def test_completing_can_answer_with_variables(camunda: httpx.AsyncClient, verb: str) -> None:
    found = await user_task(camunda, variables={"x": {"value": 1}})
    body = {"variables": {"y": {"value": "2"}}, "withVariablesInReturn": True}
    done = await camunda.post(f"/task/{found['id']}/{verb}", json=body)
    assert done.status_code == 200
    assert done.json() == {
        "x": {"value": 1, "type": "Integer", "valueInfo": {}}, "y": {"value": "2", "type": "String", "valueInfo": {}},
    }  # fmt: skip


async def test_completing_needs_no_body_and_refuses_bad_variables(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    bad = await camunda.post(f"/task/{found['id']}/complete", json={"variables": {"x": {"value": 1, "type": "Nope"}}})
    assert error(bad)[:2] == (400, "InvalidRequestException")
    assert error(bad)[2].startswith(f"Cannot complete task {found['id']}: Unsupported value type")
    assert (await camunda.post(f"/task/{found['id']}/complete")).status_code == 204


async def test_of_several_that_complete_a_task_at_once_one_does(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    bodies = [{"variables": {"by": {"value": number}}} for number in range(4)]
    answers = await asyncio.gather(*(camunda.post(f"/task/{found['id']}/complete", json=body) for body in bodies))
    assert sorted(answered.status_code for answered in answers) == [204, 404, 404, 404]
    (winner,) = [number for number, answered in enumerate(answers) if answered.status_code == 204]
    by = await at(camunda, f"/process-instance/{found['processInstanceId']}/variables/by")
    assert by["value"] == winner


async def test_claiming(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    path = f"/task/{found['id']}"
    for _ in range(2):
        assert (await camunda.post(f"{path}/claim", json={"userId": "ann"})).status_code == 204
    taken = await camunda.post(f"{path}/claim", json={"userId": "bob"})
    message = f"Task '{found['id']}' is already claimed by someone else."
    assert error(taken) == (400, "TaskAlreadyClaimedException", message)
    claimed = await at(camunda, path)
    assert (claimed["assignee"], claimed["taskState"]) == ("ann", "Updated")
    assert claimed["lastUpdated"] >= found["created"]
    assert (await camunda.post(f"{path}/unclaim")).status_code == 204
    assert (await at(camunda, path))["assignee"] is None
    assert (await camunda.post(f"{path}/claim", json={"userId": "bob"})).status_code == 204
    assert (await camunda.post(f"{path}/assignee", json={"userId": "ann"})).status_code == 204
    assert (await at(camunda, path))["assignee"] == "ann"
    assert (await camunda.post(f"{path}/assignee", json={"userId": None})).status_code == 204
    assert (await at(camunda, path))["assignee"] is None
    assert (await camunda.post(f"{path}/assignee", json={"userId": "x" * 256})).status_code == 400


async def test_changing_what_is_shown(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda, with_task('camunda:candidateGroups="sales"', "<documentation>d</documentation>"))
    body = {"name": "Other", "assignee": "ann", "owner": "eve", "priority": 7, "due": "2031-01-01T00:00:00.000+0000"}
    assert (await camunda.put(f"/task/{found['id']}", json=body)).status_code == 204
    changed = await at(camunda, f"/task/{found['id']}")
    assert {name: changed[name] for name in body} == body
    assert (changed["description"], changed["followUp"]) == (None, None)
    assert len(await at(camunda, "/task", candidateGroup="sales", includeAssignedTasks="true")) == 1
    assert (await camunda.put(f"/task/{found['id']}", json={"priority": 2**40})).status_code == 400


async def test_a_business_error_is_caught_by_the_model(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda, CAUGHT)
    for missing, word in (({}, "null"), ({"errorCode": ""}, "empty")):
        refused = await camunda.post(f"/task/{found['id']}/bpmnError", json=missing)
        assert error(refused) == (400, "RestException", f"errorCode is {word}")
    body = {"errorCode": "NO", "errorMessage": "not today", "variables": {"x": {"value": 1}}}
    assert (await camunda.post(f"/task/{found['id']}/bpmnError", json=body)).status_code == 204
    assert await waiting_at(camunda) == ["b"]
    kept = await at(camunda, f"/process-instance/{found['processInstanceId']}/variables")
    assert (kept["why"]["value"], kept["x"]["value"]) == ("not today", 1)
    (visit,) = await at(camunda, "/history/activity-instance", activityId="u")
    assert (visit["canceled"], visit["taskId"]) == (True, found["id"])
    assert (await camunda.post(f"/task/{found['id']}/bpmnError", json=body)).status_code == 404


async def test_a_business_error_that_nobody_catches_ends_its_path(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    assert (await camunda.post(f"/task/{found['id']}/bpmnError", json={"errorCode": "NO"})).status_code == 204
    ended = await at(camunda, f"/history/process-instance/{found['processInstanceId']}")
    assert ended["state"] == "COMPLETED"


async def test_an_unknown_task(camunda: httpx.AsyncClient) -> None:
    missing = await camunda.get(f"/task/{NOBODY}")
    assert error(missing) == (404, "InvalidRequestException", f"No matching task with id {NOBODY}")
    body = {"userId": "ann", "errorCode": "NO"}
    for verb in ("claim", "unclaim", "assignee", "complete", "bpmnError", "submit-form"):
        for unknown in (NOBODY, "x"):
            answered = await camunda.post(f"/task/{unknown}/{verb}", json=body)
            assert error(answered)[:2] == (404, "RestException"), verb
    assert (await camunda.put(f"/task/{NOBODY}", json={})).status_code == 404


async def test_an_external_task_is_no_user_task(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    await camunda.post(f"/task/{found['id']}/complete")
    (waiting,) = await at(camunda, "/external-task")
    for identity in (waiting["id"], waiting["executionId"], waiting["processInstanceId"]):
        assert (await camunda.post(f"/task/{identity}/complete")).status_code == 404
        assert (await camunda.get(f"/task/{identity}")).status_code == 404


async def test_a_task_of_a_suspended_instance_is_shown_and_not_completed(camunda: httpx.AsyncClient) -> None:
    found = await user_task(camunda)
    instance = f"/process-instance/{found['processInstanceId']}/suspended"
    assert (await camunda.put(instance, json={"suspended": True})).status_code == 204
    refused = await camunda.post(f"/task/{found['id']}/complete", json={})
    assert (refused.status_code, refused.json()["type"]) == (400, "RestException")
    assert (await camunda.post(f"/task/{found['id']}/bpmnError", json={"errorCode": "NO"})).status_code == 400
    assert len(await at(camunda, "/task", suspended="true")) == 1
    assert (await camunda.put(instance, json={"suspended": False})).status_code == 204
    assert (await camunda.post(f"/task/{found['id']}/complete", json={})).status_code == 204


async def test_variables_of_a_task(camunda: httpx.AsyncClient) -> None:
    content = with_task(inside='<extensionElements><camunda:inputOutput><camunda:inputParameter name="near">${far}'
                        "</camunda:inputParameter></camunda:inputOutput></extensionElements>")  # fmt: skip
    found = await user_task(camunda, content, variables={"far": {"value": 1}})
    path = f"/task/{found['id']}"
    assert (await at(camunda, f"{path}/variables")).keys() == {"far", "near"}
    assert (await at(camunda, f"{path}/localVariables")).keys() == {"near"}
    assert (await at(camunda, f"{path}/form-variables", variableNames="far,other")).keys() == {"far"}
    assert (await at(camunda, f"{path}/form-variables")).keys() == {"far", "near"}
    assert (await camunda.put(f"{path}/variables/far", json={"value": "2", "type": "String"})).status_code == 204
    assert await at(camunda, f"{path}/variables/far") == {"value": "2", "type": "String", "valueInfo": {}}
    assert (await camunda.put(f"{path}/localVariables/more", json={"value": 3})).status_code == 204
    assert (await camunda.delete(f"{path}/localVariables/more")).status_code == 204
    assert (await camunda.get(f"/task/{NOBODY}/variables")).status_code == 404


async def test_filters_sorts_and_counts(camunda: httpx.AsyncClient) -> None:
    first = await user_task(camunda, with_task('camunda:candidateGroups="sales,50%" camunda:candidateUsers="ann"'),
                            businessKey="one", variables={"amount": {"value": 5}})  # fmt: skip
    await deploy(camunda, with_task('camunda:assignee="bob" camunda:priority="60" camunda:dueDate="2030-01-01"')
                 .replace(b'id="p"', b'id="q"'))  # fmt: skip
    other = await start(camunda, "q", businessKey="two")
    (second,) = await at(camunda, "/task", processInstanceId=other["id"])
    both, one, two = {first["id"], second["id"]}, {first["id"]}, {second["id"]}
    for query, expected in (
        ({"assignee": "bob"}, two), ({"assigneeLike": "b%"}, two), ({"assigneeIn": "bob,ann"}, two),
        ({"assigned": "true"}, two), ({"unassigned": "true"}, one), ({"candidateGroup": "sales"}, one),
        ({"candidateGroups": "x,sales"}, one), ({"candidateGroupLike": "sal%"}, one), ({"candidateUser": "ann"}, one),
        ({"candidateUser": "bob"}, set()), ({"withCandidateGroups": "true"}, one),
        ({"withoutCandidateGroups": "true", "includeAssignedTasks": "true"}, two), ({"involvedUser": "bob"}, two),
        ({"involvedUser": "ann"}, one), ({"processInstanceBusinessKey": "one"}, one),
        ({"processInstanceBusinessKeyLike": "%w%"}, two), ({"processDefinitionKey": "q"}, two),
        ({"processDefinitionKeyIn": "p,q"}, both), ({"processDefinitionId": first["processDefinitionId"]}, one),
        ({"taskDefinitionKey": "u"}, both), ({"taskDefinitionKeyIn": "x"}, set()), ({"name": "Look at it"}, both),
        ({"nameLike": "look%"}, both), ({"nameNotLike": "look%"}, set()), ({"minPriority": "55"}, two),
        ({"maxPriority": "50"}, one), ({"priority": "60"}, two), ({"dueAfter": "2029-12-31T00:00:00.000+0000"}, two),
        ({"dueBefore": "2029-12-31"}, set()), ({"dueDate": "2030-01-01T00:00:00.000+0000"}, two),
        ({"withoutDueDate": "true"}, one), ({"taskId": first["id"]}, one), ({"taskIdIn": f"{second['id']},x"}, two),
        ({"executionId": first["executionId"]}, one), ({"activityInstanceIdIn": f"u:{first['id']}"}, one),
        ({"createdBefore": "2000-01-01T00:00:00.000+0000"}, set()), ({"createdOn": first["created"]}, one),
        ({"processVariables": "amount_gteq_5"}, one), ({"delegationState": "PENDING"}, set()),
        ({"processVariables": "amount_eq_6"}, set()), ({"active": "true"}, both), ({"tenantIdIn": "t"}, set()),
        ({"processInstanceIdIn": f"{other['id']}"}, two),
    ):  # fmt: skip
        assert {found["id"] for found in await at(camunda, "/task", **query)} >= expected, query
        assert {found["id"] for found in await at(camunda, "/task", **query)} <= expected, query
        assert await at(camunda, "/task/count", **query) == {"count": len(expected)}, query
    body: dict[str, Any] = {"processVariables": [{"name": "amount", "operator": "gt", "value": 4}]}
    assert [found["id"] for found in (await camunda.post("/task", json=body)).json()] == [first["id"]]
    either = {
        "orQueries": [{"candidateUser": "ann", "assignee": "bob"}],
        "sorting": [{"sortBy": "priority", "sortOrder": "desc"}],
    }
    posted = (await camunda.post("/task", json=either)).json()
    assert [found["id"] for found in posted] == [second["id"], first["id"]]
    page = await at(camunda, "/task", sortBy="priority", sortOrder="asc", maxResults=1, firstResult=1)
    assert [found["id"] for found in page] == [second["id"]]
    for refused in (
        {"sortBy": "x", "sortOrder": "asc"},
        {"sortOrder": "asc"},
        {"dueAfter": "soon"},
        {"assigneeExpression": "${x}"},
        {"dueBeforeExpression": "${now()}"},
    ):
        assert (await camunda.get("/task", params=refused)).status_code == 400, refused


async def test_a_key_sees_and_ends_the_tasks_of_its_processes_alone(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    found = await user_task(camunda)
    async with client_of(camunda_app, keys.make(types=("other",))) as stranger:
        assert (await stranger.get("/engine-rest/task")).json() == []
        assert (await stranger.get("/engine-rest/task/count")).json() == {"count": 0}
        assert (await stranger.get(f"/engine-rest/task/{found['id']}")).status_code == 404
        assert (await stranger.post(f"/engine-rest/task/{found['id']}/complete")).status_code == 404
    async with client_of(camunda_app, keys.make("read", name="reader")) as reader:
        assert len((await reader.get("/engine-rest/task")).json()) == 1
        refused = await reader.post(f"/engine-rest/task/{found['id']}/complete")
        assert error(refused)[:2] == (403, "AuthorizationException")
    async with client_of(camunda_app, keys.make("work", types=("a",), name="worker")) as worker:
        assert (await worker.post(f"/engine-rest/task/{found['id']}/complete")).status_code == 204
