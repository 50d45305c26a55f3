"""Many instances at once, and processes: suspended, resumed, deleted, forgotten, counted by where they stand."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.camunda import many_instances
from tests.app.engine.conftest import flow, model, task
from tests.camunda.conftest import Keys, client_of
from tests.camunda.runtime import TWO, at, create, deploy, error, start
from tests.camunda.work import done, fetched

NOBODY = "00000000-0000-7000-8000-000000000000"
BATCH_KEYS = {
    "id", "type", "totalJobs", "jobsCreated", "batchJobsPerSeed", "invocationsPerBatchJob", "seedJobDefinitionId",
    "monitorJobDefinitionId", "batchJobDefinitionId", "suspended", "tenantId", "createUserId", "startTime",
    "executionStartTime",
}  # fmt: skip


async def running(camunda: httpx.AsyncClient, number: int = 3, **body: Any) -> list[str]:
    return [(await start(camunda, **body))["id"] for _ in range(number)]


async def standing(camunda: httpx.AsyncClient) -> set[str]:
    return {one["id"] for one in await at(camunda, "/process-instance", suspended="true")}


async def test_instances_are_suspended_and_resumed_together(camunda: httpx.AsyncClient) -> None:
    definition = await deploy(camunda)
    first, second, third = await running(camunda)
    (ended,) = await running(camunda, 1)
    assert (await camunda.delete(f"/process-instance/{ended}")).status_code == 204
    for body, expected in (
        ({"processInstanceIds": [first, second, first]}, {first, second}),
        ({"processInstanceQuery": {"processDefinitionKey": "p"}}, {first, second, third}),
        ({"historicProcessInstanceQuery": {}}, {first, second, third}),
        ({"processDefinitionId": definition["id"]}, {first, second, third}),
        ({"processDefinitionKey": "p"}, {first, second, third}),
    ):  # fmt: skip
        answered = await camunda.put("/process-instance/suspended", json={**body, "suspended": True})
        assert (answered.status_code, answered.content) == (204, b""), body
        assert await standing(camunda) == expected, body
        assert len(await fetched(camunda, most=5)) == 3 - len(expected)
        (await camunda.put("/process-instance/suspended", json={**body, "suspended": False})).raise_for_status()
        assert await standing(camunda) == set()
        for one in await at(camunda, "/external-task", locked="true"):
            await done(camunda, one, "unlock")
    later = await camunda.post(
        "/process-instance/suspended-async", json={"processInstanceIds": [third], "suspended": True}
    )
    assert later.json().keys() == BATCH_KEYS
    assert (later.json()["totalJobs"], later.json()["type"]) == (1, "instance-update-suspension-state")
    assert await standing(camunda) == {third}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/process-definition/key/p/suspended", {"suspended": True, "includeProcessInstances": True}),
        ("PUT", "/process-instance/suspended", {"suspended": True, "processDefinitionKey": "p"}),
        ("PUT", "/process-instance/suspended", {"suspended": True, "processInstanceQuery": {}}),
        ("POST", "/process-instance/suspended-async", {"suspended": True, "historicProcessInstanceQuery": {}}),
        ("POST", "/process-instance/delete", {"processInstanceQuery": {}}),
    ],
)
async def test_what_has_ended_when_it_was_just_found_is_passed_over(
    camunda: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: dict[str, Any]
) -> None:
    await deploy(camunda)
    ends, stays = await running(camunda, 2)
    _ends_when_found(camunda, monkeypatch, ends)
    assert (await camunda.request(method, path, json=body)).is_success
    assert await standing(camunda) == (set() if path.endswith("delete") else {stays})
    assert await at(camunda, "/process-instance/count") == {"count": 0 if path.endswith("delete") else 1}


async def test_what_is_forgotten_when_it_was_just_found_is_passed_over(
    camunda: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy(camunda)
    ids = await running(camunda, 2)
    for one in ids:
        await camunda.delete(f"/process-instance/{one}")
    look = many_instances.keys

    async def found(*asked: Any) -> Any:
        known = await look(*asked)
        monkeypatch.setattr(many_instances, "keys", look)
        await camunda.delete(f"/history/process-instance/{ids[0]}")
        return known

    monkeypatch.setattr(many_instances, "keys", found)
    answered = await camunda.post("/history/process-instance/delete", json={"historicProcessInstanceQuery": {}})
    assert answered.status_code == 200, answered.text
    assert await at(camunda, "/history/process-instance") == []


async def test_of_those_that_are_named_all_are_changed_or_none(
    camunda: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy(camunda)
    ids = await running(camunda, 2)
    _ends_when_found(camunda, monkeypatch, ids[1])
    refused = await camunda.put("/process-instance/suspended", json={"suspended": True, "processInstanceIds": ids})
    assert error(refused) == (400, "InvalidRequestException", "one of the process instances has ended meanwhile")
    assert await standing(camunda) == set()


def _ends_when_found(camunda: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, instance: str) -> None:
    """Others end it between the look and the change."""
    look = many_instances.keys

    async def found(*asked: Any) -> Any:
        ids = await look(*asked)
        await camunda.delete(f"/process-instance/{instance}")
        return ids

    monkeypatch.setattr(many_instances, "keys", found)


async def test_instances_are_deleted_together(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    first, second, third = await running(camunda)
    body = {
        "processInstanceIds": [first],
        "processInstanceQuery": {"processInstanceIds": [second]},
        "deleteReason": "old",
    }
    answered = await camunda.post("/process-instance/delete", json=body)
    assert answered.status_code == 200, answered.text
    assert (answered.json()["type"], answered.json()["totalJobs"]) == ("instance-deletion", 2)
    assert [one["id"] for one in await at(camunda, "/process-instance")] == [third]
    past = await at(camunda, f"/history/process-instance/{first}")
    assert (past["state"], past["deleteReason"]) == ("EXTERNALLY_TERMINATED", "old")


async def test_what_names_nothing_that_runs_is_refused_as_a_whole(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    (only,) = await running(camunda, 1)
    for method, path in (("PUT", "/process-instance/suspended"), ("POST", "/process-instance/delete")):
        for body, status in (
            ({}, 400), ({"processInstanceIds": []}, 400), ({"processInstanceQuery": {"businessKey": "x"}}, 400),
            ({"processInstanceIds": [only, NOBODY]}, 404), ({"processInstanceIds": ["x"]}, 404),
            ({"processInstanceIds": 5}, 400),
        ):  # fmt: skip
            answered = await camunda.request(method, path, json={"suspended": True, **body})
            assert error(answered)[:2] == (status, "InvalidRequestException"), (path, body)
    assert await standing(camunda) == set()
    assert await at(camunda, "/process-instance/count") == {"count": 1}


async def test_ended_instances_are_forgotten(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    first, second, third = await running(camunda, variables={"x": {"value": 1}})
    running_one = await camunda.delete(f"/history/process-instance/{first}")
    assert error(running_one)[:2] == (400, "RestException")
    for one in (first, second):
        assert (await camunda.delete(f"/process-instance/{one}")).status_code == 204
    # After the end its history stays: activities, variables as they were.
    assert len(await at(camunda, "/history/variable-instance", processInstanceId=first)) == 1
    assert (await camunda.delete(f"/history/process-instance/{first}")).status_code == 204
    missing = await camunda.delete(f"/history/process-instance/{first}")
    assert error(missing) == (
        404, "InvalidRequestException", f"Historic process instance with id {first} does not exist",
    )  # fmt: skip
    lenient = await camunda.delete(f"/history/process-instance/{first}", params={"failIfNotExists": "false"})
    assert lenient.status_code == 204
    for path in ("variable-instance", "activity-instance", "incident", "process-instance"):
        assert await at(camunda, f"/history/{path}", processInstanceId=first) == [], path
    refused = await camunda.post(
        "/history/process-instance/delete", json={"historicProcessInstanceIds": [second, third]}
    )
    assert error(refused)[0] == 400
    body = {"historicProcessInstanceQuery": {"finished": True}, "deleteReason": "old"}
    batch = (await camunda.post("/history/process-instance/delete", json=body)).json()
    assert (batch["type"], batch["totalJobs"]) == ("historic-instance-deletion", 1)
    assert [one["id"] for one in await at(camunda, "/history/process-instance")] == [third]


async def test_of_a_suspended_definition_nothing_is_started(camunda: httpx.AsyncClient) -> None:
    begun = '<startEvent id="s"/><startEvent id="t"><messageEventDefinition messageRef="M"/></startEvent>' + task("a")
    old = await deploy(camunda, model(begun + flow("s", "a") + flow("t", "a"), '<message id="M" name="m"/>'))
    new = await deploy(camunda, model(begun + flow("s", "a") + flow("t", "a"), '<message id="M" name="m"/>'))
    (runs,) = await running(camunda, 1)
    path = f"/process-definition/{new['id']}"
    for address, body, stopped in (
        (f"{path}/suspended", {}, {new["id"]}),
        ("/process-definition/key/p/suspended", {}, {old["id"], new["id"]}),
        ("/process-definition/suspended", {"processDefinitionId": old["id"]}, {old["id"]}),
        ("/process-definition/suspended", {"processDefinitionKey": "p"}, {old["id"], new["id"]}),
    ):  # fmt: skip
        answered = await camunda.put(address, json={**body, "suspended": True})
        assert (answered.status_code, answered.content) == (204, b""), answered.text
        assert {one["id"] for one in await at(camunda, "/process-definition", suspended="true")} == stopped
        if new["id"] in stopped:
            assert error(await camunda.post("/process-definition/key/p/start", json={}))[:2] == (400, "RestException")
            assert error(await camunda.post("/message", json={"messageName": "m"}))[0] == 400
            assert (await at(camunda, path))["suspended"] is True
        (await camunda.put(address, json={**body, "suspended": False})).raise_for_status()
    assert await standing(camunda) == set()
    together = {"suspended": True, "includeProcessInstances": True}
    assert (await camunda.put("/process-definition/key/p/suspended", json=together)).status_code == 204
    assert await standing(camunda) == {runs}
    together["suspended"] = False
    assert (await camunda.put("/process-definition/key/p/suspended", json=together)).status_code == 204
    assert await standing(camunda) == set()
    assert (await camunda.post("/message", json={"messageName": "m"})).status_code == 204


async def test_what_suspends_no_definition_is_refused(camunda: httpx.AsyncClient) -> None:
    definition = await deploy(camunda)
    for address, body, status in (
        ("/process-definition/suspended", {}, 400),
        ("/process-definition/suspended", {"processDefinitionKey": "p", "processDefinitionId": definition["id"]}, 400),
        ("/process-definition/suspended", {"processDefinitionKey": "x"}, 404),
        ("/process-definition/key/x/suspended", {}, 404),
        (f"/process-definition/p:1:{NOBODY}/suspended", {}, 404),
        ("/process-definition/key/p/tenant-id/t/suspended", {}, 404),
        ("/process-definition/key/p/suspended", {"executionDate": "2999-01-01T00:00:00.000+0000"}, 400),
    ):  # fmt: skip
        assert error(await camunda.put(address, json={**body, "suspended": True}))[0] == status, (address, body)
    assert await at(camunda, "/process-definition", suspended="true") == []


async def test_statistics_count_instances_failed_jobs_and_incidents(camunda: httpx.AsyncClient) -> None:
    stuck = '<startEvent id="s"/><serviceTask id="x" camunda:expression="${missing}"/>' + flow("s", "x")
    one = await deploy(camunda)
    other = await deploy(camunda, model(stuck, process='id="q" isExecutable="true"'))
    await running(camunda, 2)
    await start(camunda, "q")
    await done(camunda, (await fetched(camunda))[0], "failure", errorMessage="x", retries=0)
    plain = {one_["id"]: one_ for one_ in await at(camunda, "/process-definition/statistics")}
    assert plain[one["id"]] == {
        "id": one["id"], "instances": 2, "failedJobs": 0, "incidents": [], "definition": one,
    }  # fmt: skip
    told = {
        one_["id"]: (one_["failedJobs"], one_["incidents"])
        for one_ in await at(camunda, "/process-definition/statistics", failedJobs="true", incidents="true")
    }
    assert told == {
        one["id"]: (0, [{"incidentType": "failedExternalTask", "incidentCount": 1}]),
        other["id"]: (1, [{"incidentType": "failedJob", "incidentCount": 1}]),
    }
    only = await at(camunda, "/process-definition/statistics", incidentsForType="failedJob")
    assert [len(one_["incidents"]) for one_ in only] == [0, 1]
    for path in (f"/process-definition/{one['id']}/statistics", "/process-definition/key/p/statistics"):
        assert await at(camunda, path, incidents="true") == [
            {"id": "a", "instances": 2, "failedJobs": 0,
             "incidents": [{"incidentType": "failedExternalTask", "incidentCount": 1}]},
        ]  # fmt: skip
    both = {"incidents": "true", "incidentsForType": "failedJob"}
    assert error(await camunda.get("/process-definition/statistics", params=both))[0] == 400
    assert error(await camunda.get("/process-definition/x/statistics"))[0] == 404


async def test_forms_have_a_key_and_start_an_instance(camunda: httpx.AsyncClient) -> None:
    body = (
        '<startEvent id="t" camunda:formKey="other"><messageEventDefinition messageRef="M"/></startEvent>'
        '<startEvent id="s" camunda:formKey="embedded:app:start.html"/>' + task("a") + flow("s", "a") + flow("t", "a")
    )
    definition = await deploy(camunda, model(body, '<message id="M" name="m"/>'))
    for path in (f"/process-definition/{definition['id']}", "/process-definition/key/p"):
        assert await at(camunda, f"{path}/startForm") == {
            "key": "embedded:app:start.html", "camundaFormRef": None, "contextPath": None,
        }  # fmt: skip
        sent = {"businessKey": "B-1", "variables": {"x": {"value": 1}}}
        begun = await camunda.post(f"{path}/submit-form", json=sent)
        assert (begun.status_code, begun.json()["businessKey"]) == (200, "B-1")
        assert begun.json()["links"][0]["rel"] == "self"
        picture = await camunda.get(f"{path}/diagram")
        assert (picture.status_code, picture.content) == (204, b"")
    await deploy(camunda)
    assert (await at(camunda, "/process-definition/key/p/startForm"))["key"] is None
    for what in ("startForm", "diagram"):
        assert error(await camunda.get(f"/process-definition/key/x/{what}"))[:2] == (404, "RestException")
        assert error(await camunda.get(f"/process-definition/key/p/tenant-id/t/{what}"))[0] == 404


async def test_a_message_is_delivered_to_one_execution(camunda: httpx.AsyncClient) -> None:
    wait = '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    content = model(
        '<startEvent id="s"/>' + wait + '<userTask id="u"/>' + flow("s", "c", "u"), '<message id="M" name="m"/>'
    )
    await deploy(camunda, content)
    first, second = await running(camunda, 2)
    (execution,) = await at(camunda, "/execution", processInstanceId=first, activityId="c")
    path = f"/execution/{execution['id']}/messageSubscriptions/m"
    (listed,) = await at(camunda, "/event-subscription", executionId=execution["id"])
    assert await at(camunda, path) == listed
    told = await camunda.post(f"{path}/trigger", json={"variables": {"x": {"value": 1}}})
    assert (told.status_code, told.content) == (204, b"")
    assert [one["processInstanceId"] for one in await at(camunda, "/task")] == [first]
    assert (await at(camunda, f"/process-instance/{first}/variables/x"))["value"] == 1
    for gone in (path, f"/execution/{NOBODY}/messageSubscriptions/m", "/execution/x/messageSubscriptions/m"):
        assert error(await camunda.get(gone))[:2] == (404, "InvalidRequestException")
        assert error(await camunda.post(f"{gone}/trigger", json={}))[:2] == (404, "InvalidRequestException")
    assert len(await at(camunda, "/event-subscription", processInstanceId=second)) == 1


async def test_keys_change_and_count_their_own_alone(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    mine = TWO.replace(b'id="p"', b'id="m"').replace(b'"a"', b'"mine.a"').replace(b'"b"', b'"mine.b"')
    own = mine.replace(b'sourceRef="a"', b'sourceRef="mine.a"')
    assert (await create(camunda, ("n.bpmn", TWO), ("m.bpmn", own))).status_code == 200
    (theirs,) = await running(camunda, 1)
    ours = await start(camunda, "m")
    async with client_of(camunda_app, keys.make(types=("mine.*",))) as bound:
        bound.base_url = httpx.URL("http://api/engine-rest")
        for method, path in (("PUT", "/process-instance/suspended"), ("POST", "/process-instance/delete")):
            answered = await bound.request(method, path, json={"processInstanceIds": [theirs], "suspended": True})
            assert error(answered)[0] == 404
        everything = {"processInstanceQuery": {}, "suspended": True}
        assert (await bound.put("/process-instance/suspended", json=everything)).status_code == 204
        assert await standing(camunda) == {ours["id"]}
        assert error(await bound.put("/process-definition/key/p/suspended", json={"suspended": True}))[0] == 404
        assert len(await at(bound, "/process-definition/statistics")) == 1
        assert error(await bound.get("/process-definition/key/p/statistics"))[0] == 404
        assert error(await bound.post("/process-definition/key/p/submit-form", json={}))[0] == 403
        await camunda.delete(f"/process-instance/{theirs}")
        assert error(await bound.delete(f"/history/process-instance/{theirs}"))[0] == 404
    async with client_of(camunda_app, keys.make("read", "work", "enqueue", name="worker")) as worker:
        worker.base_url = httpx.URL("http://api/engine-rest")
        for method, path in (
            ("PUT", "/process-instance/suspended"), ("POST", "/process-instance/delete"),
            ("POST", "/process-instance/suspended-async"), ("POST", "/history/process-instance/delete"),
            ("DELETE", f"/history/process-instance/{theirs}"), ("PUT", "/process-definition/key/p/suspended"),
            ("PUT", "/process-definition/suspended"),
        ):  # fmt: skip
            assert error(await worker.request(method, path, json={}))[:2] == (403, "AuthorizationException"), path
