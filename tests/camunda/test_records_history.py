"""/history: instances, activities and incidents that are and were."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error, start

NOBODY = "00000000-0000-4000-8000-000000000000"
INSTANCE_KEYS = {
    "id", "businessKey", "processDefinitionId", "processDefinitionKey", "processDefinitionName",
    "processDefinitionVersion", "startTime", "endTime", "removalTime", "durationInMillis", "startUserId",
    "startActivityId", "deleteReason", "rootProcessInstanceId", "superProcessInstanceId", "superCaseInstanceId",
    "caseInstanceId", "tenantId", "state", "restartedProcessInstanceId",
}  # fmt: skip
ACTIVITY_KEYS = {
    "id", "parentActivityInstanceId", "activityId", "activityName", "activityType", "processDefinitionKey",
    "processDefinitionId", "processInstanceId", "executionId", "taskId", "calledProcessInstanceId",
    "calledCaseInstanceId", "assignee", "startTime", "endTime", "durationInMillis", "canceled", "completeScope",
    "tenantId", "removalTime", "rootProcessInstanceId",
}  # fmt: skip
INCIDENT_KEYS = {
    "id", "processDefinitionKey", "processDefinitionId", "processInstanceId", "executionId", "rootProcessInstanceId",
    "createTime", "endTime", "removalTime", "incidentType", "activityId", "failedActivityId", "causeIncidentId",
    "rootCauseIncidentId", "configuration", "historyConfiguration", "incidentMessage", "tenantId", "jobDefinitionId",
    "open", "deleted", "resolved",
}  # fmt: skip
KINDS = model(
    '<startEvent id="s" name="Begin"/><exclusiveGateway id="g"/><parallelGateway id="f"/><subProcess id="sub">'
    '<startEvent id="is"/><sendTask id="mail" camunda:type="external" camunda:topic="mail"/><endEvent id="ie"/>'
    + flow("is", "mail", "ie") + '</subProcess><userTask id="u" camunda:assignee="ann"/>'
    '<receiveTask id="r" messageRef="M"/>'
    '<intermediateCatchEvent id="c"><timerEventDefinition><timeDuration>P1D</timeDuration></timerEventDefinition>'
    '</intermediateCatchEvent><parallelGateway id="j"/><manualTask id="m"/>'
    '<scriptTask id="x" scriptFormat="juel"><script>${1}</script></scriptTask>'
    '<serviceTask id="v" camunda:expression="${2}"/>'
    '<boundaryEvent id="late" attachedToRef="u"><timerEventDefinition>'
    '<timeDuration>P9D</timeDuration></timerEventDefinition>'
    '</boundaryEvent><endEvent id="le"><terminateEventDefinition/></endEvent><endEvent id="e"/>'
    + flow("s", "g", "f") + flow("f", "sub", "j") + flow("f", "u", "j") + flow("f", "r", "j") + flow("f", "c", "j")
    + flow("j", "m", "x", "v", "e") + flow("late", "le"),
    '<message id="M" name="paid"/>',
)  # fmt: skip


async def work(camunda: httpx.AsyncClient, topic: str, verb: str = "complete", **body: Any) -> dict[str, Any]:
    wanted = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": topic, "lockDuration": 60000}]}
    (fetched,) = (await camunda.post("/external-task/fetchAndLock", json=wanted)).json()
    answered = await camunda.post(f"/external-task/{fetched['id']}/{verb}", json={"workerId": "w", **body})
    assert answered.status_code == 204, answered.text
    return dict(fetched)


async def test_an_instance_from_its_start_to_its_end(camunda: httpx.AsyncClient) -> None:
    definition = await deploy(camunda)
    instance = await start(camunda, businessKey="B-1")
    path = f"/history/process-instance/{instance['id']}"
    running = await at(camunda, path)
    assert running.keys() == INSTANCE_KEYS
    shown = {
        name: running[name]
        for name in ("businessKey", "processDefinitionId", "processDefinitionKey", "state", "endTime")
    }
    assert shown == {
        "businessKey": "B-1", "processDefinitionId": definition["id"], "processDefinitionKey": "p", "state": "ACTIVE",
        "endTime": None,
    }  # fmt: skip
    assert (running["startActivityId"], running["rootProcessInstanceId"]) == ("s", instance["id"])
    assert (running["processDefinitionVersion"], running["durationInMillis"]) == (1, None)
    assert (
        await camunda.put(f"/process-instance/{instance['id']}/suspended", json={"suspended": True})
    ).status_code == 204
    assert (await at(camunda, path))["state"] == "SUSPENDED"
    assert (
        await camunda.put(f"/process-instance/{instance['id']}/suspended", json={"suspended": False})
    ).status_code == 204
    await work(camunda, "a")
    await work(camunda, "b")
    ended = await at(camunda, path)
    assert ended["state"] == "COMPLETED"
    assert ended["endTime"] >= ended["startTime"]
    assert ended["durationInMillis"] >= 0
    assert (await camunda.get(f"/process-instance/{instance['id']}")).status_code == 404


async def test_an_instance_that_was_deleted(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    instance = await start(camunda)
    assert (await camunda.delete(f"/process-instance/{instance['id']}")).status_code == 204
    ended = await at(camunda, f"/history/process-instance/{instance['id']}")
    assert ended["state"] == "EXTERNALLY_TERMINATED"
    (canceled,) = await at(camunda, "/history/activity-instance", canceled="true")
    assert (canceled["activityId"], canceled["canceled"]) == ("a", True)


async def test_an_instance_that_there_never_was(camunda: httpx.AsyncClient) -> None:
    for unknown in (NOBODY, "x"):
        missing = await camunda.get(f"/history/process-instance/{unknown}")
        message = f"Historic process instance with id {unknown} does not exist"
        assert error(missing) == (404, "InvalidRequestException", message)
        assert (await camunda.get(f"/history/activity-instance/{unknown}")).status_code == 404
        assert (await camunda.get(f"/history/activity-instance/a:{unknown}")).status_code == 404
        assert (await camunda.get(f"/history/incident/{unknown}")).status_code == 404


async def test_filters_sorts_and_counts_of_instances(camunda: httpx.AsyncClient) -> None:
    first = await deploy(camunda, TWO.replace(b'id="p"', b'id="p" name="Orders"'))
    one = (await start(camunda, businessKey="one", variables={"n": {"value": 1}, "a_b": {"value": "x"}}))["id"]
    await deploy(camunda, TWO.replace(b'id="p"', b'id="q"'))
    two = (await start(camunda, "q", businessKey="two", variables={"n": {"value": 2}}))["id"]
    await work(camunda, "a", "failure", errorMessage="broken", retries=0)
    assert (await camunda.delete(f"/process-instance/{two}")).status_code == 204
    started = (await at(camunda, f"/history/process-instance/{one}"))["startTime"]
    long_ago, some_day = "2000-01-01T00:00:00.000+0000", "2099-01-01T00:00:00.000+0000"
    both = {one, two}
    for query, expected in (
        ({}, both), ({"finished": "true"}, {two}), ({"unfinished": "true"}, {one}),
        ({"processInstanceId": one}, {one}), ({"processInstanceIds": f"{one},{NOBODY}"}, {one}),
        ({"processInstanceIdNotIn": one}, {two}), ({"processDefinitionKey": "q"}, {two}),
        ({"processDefinitionKeyIn": "p,q"}, both), ({"processDefinitionKeyNotIn": "p"}, {two}),
        ({"processDefinitionId": first["id"]}, {one}), ({"processDefinitionName": "Orders"}, {one}),
        ({"processDefinitionNameLike": "Ord%"}, {one}), ({"processInstanceBusinessKey": "two"}, {two}),
        ({"processInstanceBusinessKeyLike": "%e"}, {one}), ({"startedAfter": started}, both),
        ({"startedBefore": long_ago}, set()), ({"startedBefore": some_day}, both),
        ({"finishedAfter": long_ago}, {two}), ({"finishedBefore": some_day}, {two}),
        ({"externallyTerminated": "true"}, {two}), ({"active": "true"}, {one}), ({"completed": "true"}, set()),
        ({"withIncidents": "true"}, {one}), ({"incidentType": "failedExternalTask"}, {one}),
        ({"incidentMessageLike": "bro%"}, {one}), ({"incidentStatus": "open"}, {one}),
        ({"incidentStatus": "resolved"}, set()), ({"variables": "n_eq_1"}, {one}), ({"variables": "n_gt_1"}, {two}),
        ({"variables": "a_b_like_%x%"}, {one}), ({"variables": "a_b_neq_x"}, set()),
        ({"variables": "N_eq_1", "variableNamesIgnoreCase": "true"}, {one}), ({"executedActivityIdIn": "a"}, both),
        ({"variables": "a_b_eq_X", "variableValuesIgnoreCase": "true"}, {one}),
        ({"executedActivityAfter": some_day}, set()), ({"activeActivityIdIn": "a"}, {one}),
        ({"superProcessInstanceId": one}, set()), ({"rootProcessInstances": "true"}, both),
        ({"withoutTenantId": "true"}, both), ({"tenantIdIn": "t"}, set()), ({"startedBy": "nobody"}, set()),
    ):  # fmt: skip
        assert {found["id"] for found in await at(camunda, "/history/process-instance", **query)} == expected, query
        assert await at(camunda, "/history/process-instance/count", **query) == {"count": len(expected)}, query
    body = {
        "variables": [{"name": "n", "operator": "lteq", "value": 1}],
        "sorting": [{"sortBy": "startTime", "sortOrder": "asc"}],
    }
    assert [found["id"] for found in (await camunda.post("/history/process-instance", json=body)).json()] == [one]
    page = await at(camunda, "/history/process-instance", sortBy="definitionKey", sortOrder="desc", maxResults=1)
    assert [found["id"] for found in page] == [two]
    for refused in (
        {"sortBy": "x", "sortOrder": "asc"},
        {"startedBefore": "x"},
        {"variables": "n"},
        {"variables": "n_is_1"},
        {"startDateOn": "2024-01-01"},
    ):
        assert (await camunda.get("/history/process-instance", params=refused)).status_code == 400, refused
    bad = await camunda.post(
        "/history/process-instance", json={"variables": [{"name": "n", "operator": "is", "value": 1}]}
    )
    assert bad.status_code == 400


async def test_every_kind_of_element_has_the_name_that_camunda_gives_it(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, KINDS)
    instance = (await start(camunda))["id"]
    visits = await at(
        camunda, "/history/activity-instance", processInstanceId=instance, sortBy="occurrence", sortOrder="asc"
    )
    assert all(visit.keys() == ACTIVITY_KEYS for visit in visits)
    by_id = {visit["activityId"]: visit for visit in visits}
    assert {name: visit["activityType"] for name, visit in by_id.items()} == {
        "s": "startEvent", "g": "exclusiveGateway", "f": "parallelGateway", "sub": "subProcess", "is": "startEvent",
        "mail": "sendTask", "u": "userTask", "r": "receiveTask", "c": "intermediateTimer",
    }  # fmt: skip
    assert {name for name, visit in by_id.items() if visit["endTime"] is None} == {"sub", "mail", "u", "r", "c"}
    assert (by_id["s"]["activityName"], by_id["s"]["executionId"], by_id["s"]["durationInMillis"]) == (
        "Begin",
        instance,
        0,
    )
    assert by_id["mail"]["parentActivityInstanceId"] == by_id["sub"]["id"]
    assert by_id["is"]["parentActivityInstanceId"] == by_id["sub"]["id"]
    assert by_id["sub"]["parentActivityInstanceId"] == instance
    (user_task,) = await at(camunda, "/task")
    assert (by_id["u"]["taskId"], by_id["u"]["assignee"], by_id["mail"]["taskId"]) == (user_task["id"], "ann", None)
    (mail,) = await at(camunda, "/external-task")
    assert (by_id["mail"]["id"], by_id["mail"]["executionId"]) == (mail["activityInstanceId"], mail["executionId"])
    assert await at(camunda, f"/history/activity-instance/{mail['activityInstanceId']}") == by_id["mail"]

    await work(camunda, "mail")
    await camunda.post(f"/task/{user_task['id']}/claim", json={"userId": "ann"})
    assert (await camunda.post(f"/task/{user_task['id']}/complete")).status_code == 204
    (timer,) = await at(camunda, "/job", processInstanceId=instance)
    assert (await camunda.post(f"/job/{timer['id']}/execute")).status_code == 204
    assert (await camunda.post("/message", json={"messageName": "paid"})).status_code == 204
    visits = await at(camunda, "/history/activity-instance", processInstanceId=instance)
    assert all(visit["endTime"] is not None and visit["durationInMillis"] >= 0 for visit in visits)
    types = {visit["activityId"]: visit["activityType"] for visit in visits}
    assert {name: types[name] for name in ("ie", "j", "m", "x", "v", "e")} == {
        "ie": "noneEndEvent", "j": "parallelGateway", "m": "manualTask", "x": "scriptTask", "v": "serviceTask",
        "e": "noneEndEvent",
    }  # fmt: skip
    assert [visit["activityId"] for visit in visits].count("j") == 4
    assert [visit["assignee"] for visit in visits if visit["activityId"] == "u"] == ["ann"]
    assert len({visit["id"] for visit in visits}) == len(visits)
    assert {visit["activityId"] for visit in visits if visit["completeScope"]} == {"ie", "e"}


async def test_an_interrupted_activity_was_canceled_and_its_boundary_event_is_there(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, KINDS)
    instance = (await start(camunda))["id"]
    (late,) = await at(camunda, "/job", activityId="late")
    assert (await camunda.post(f"/job/{late['id']}/execute")).status_code == 204
    visits = {
        visit["activityId"]: visit
        for visit in await at(camunda, "/history/activity-instance", processInstanceId=instance)
    }
    assert {name for name, visit in visits.items() if visit["canceled"]} == {"u", "sub", "mail", "r", "c"}
    assert (visits["late"]["activityType"], visits["le"]["activityType"]) == ("boundaryTimer", "terminateEndEvent")
    assert visits["u"]["assignee"] == "ann"
    assert (await at(camunda, f"/history/process-instance/{instance}"))["state"] == "COMPLETED"


async def test_whichever_event_comes_first_ends_the_gateway_too(camunda: httpx.AsyncClient) -> None:
    content = model(
        '<startEvent id="s"/><eventBasedGateway id="g"/><intermediateCatchEvent id="m">'
        '<messageEventDefinition messageRef="M"/>'
        '</intermediateCatchEvent><intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>P1D</timeDuration>'
        '</timerEventDefinition></intermediateCatchEvent>' + task("a") + '<endEvent id="e"/>'
        + flow("s", "g", "m", "a", "e")
        + flow("g", "t", "a"), '<message id="M" name="paid"/>')  # fmt: skip
    await deploy(camunda, content)
    await start(camunda)
    assert (await camunda.post("/message", json={"messageName": "paid"})).status_code == 204
    visits = {visit["activityId"]: visit for visit in await at(camunda, "/history/activity-instance")}
    assert visits.keys() == {"s", "g", "m", "a"}
    assert [(visits[name]["activityType"], visits[name]["endTime"] is None) for name in ("g", "m", "a")] == [
        ("eventBasedGateway", False), ("intermediateMessageCatch", False), ("serviceTask", True),
    ]  # fmt: skip


async def test_filters_sorts_and_counts_of_activities(camunda: httpx.AsyncClient) -> None:
    definition = await deploy(camunda, TWO.replace(b'id="a"', b'id="a" name="First"'))
    one = (await start(camunda))["id"]
    await work(camunda, "a")
    two = (await start(camunda))["id"]
    (waiting,) = await at(camunda, "/external-task", processInstanceId=two)
    long_ago, some_day = "2000-01-01T00:00:00.000+0000", "2099-01-01T00:00:00.000+0000"
    for query, expected in (
        ({"processInstanceId": one}, ["a", "b", "s"]), ({"processInstanceId": two}, ["a", "s"]),
        ({"finished": "true"}, ["a", "s", "s"]), ({"unfinished": "true"}, ["a", "b"]),
        ({"activityId": "a"}, ["a", "a"]), ({"activityName": "First"}, ["a", "a"]),
        ({"activityType": "serviceTask", "processInstanceId": one}, ["a", "b"]), ({"activityType": "x"}, []),
        ({"executionId": waiting["executionId"]}, ["a"]), ({"executionId": two}, ["s"]), ({"executionId": "x"}, []),
        ({"activityInstanceId": waiting["activityInstanceId"]}, ["a"]), ({"activityInstanceId": "x"}, []),
        ({"processDefinitionId": definition["id"], "unfinished": "true"}, ["a", "b"]), ({"canceled": "true"}, []),
        ({"startedAfter": some_day}, []), ({"startedBefore": some_day, "unfinished": "true"}, ["a", "b"]),
        ({"finishedAfter": long_ago}, ["a", "s", "s"]), ({"finishedBefore": long_ago}, []),
        ({"completeScope": "true"}, []), ({"taskAssignee": "ann"}, []), ({"tenantIdIn": "t"}, []),
    ):  # fmt: skip
        assert (
            sorted(found["activityId"] for found in await at(camunda, "/history/activity-instance", **query))
            == expected
        ), query
        assert await at(camunda, "/history/activity-instance/count", **query) == {"count": len(expected)}, query
        assert len((await camunda.post("/history/activity-instance", json=query)).json()) == len(expected), query
    assert (await camunda.get("/history/activity-instance", params={"activityNameLike": "F%"})).status_code == 400
    page = await at(camunda, "/history/activity-instance", sortBy="occurrence", sortOrder="desc", maxResults=1)
    assert [found["activityId"] for found in page] == ["a"]
    assert (
        await camunda.get("/history/activity-instance", params={"sortBy": "x", "sortOrder": "asc"})
    ).status_code == 400


async def test_an_incident_that_opens_and_is_resolved(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    instance = (await start(camunda))["id"]
    fetched = await work(camunda, "a", "failure", errorMessage="broken", retries=0)
    (incident,) = await at(camunda, "/history/incident")
    assert incident.keys() == INCIDENT_KEYS
    assert (incident["open"], incident["resolved"], incident["deleted"], incident["endTime"]) == (
        True,
        False,
        False,
        None,
    )
    assert (incident["incidentType"], incident["configuration"]) == ("failedExternalTask", fetched["id"])
    assert (incident["incidentMessage"], incident["activityId"], incident["processInstanceId"]) == (
        "broken",
        "a",
        instance,
    )
    assert incident["executionId"] == fetched["executionId"]
    assert await at(camunda, f"/history/incident/{incident['id']}") == incident
    assert (await camunda.put(f"/external-task/{fetched['id']}/retries", json={"retries": 1})).status_code == 204
    (resolved,) = await at(camunda, "/history/incident", resolved="true")
    assert (resolved["open"], resolved["resolved"], resolved["deleted"]) == (False, True, False)
    assert resolved["endTime"] >= resolved["createTime"]
    await work(camunda, "a", "failure", errorMessage="again", retries=0)
    assert (await camunda.delete(f"/process-instance/{instance}")).status_code == 204
    (deleted,) = await at(camunda, "/history/incident", deleted="true")
    assert (deleted["incidentMessage"], deleted["resolved"]) == ("again", False)
    for query, number in (
        ({}, 2), ({"open": "true"}, 0), ({"incidentType": "failedExternalTask"}, 2), ({"incidentMessage": "again"}, 1),
        ({"processInstanceId": instance}, 2), ({"processDefinitionKeyIn": "p"}, 2), ({"activityId": "a"}, 2),
        ({"configuration": fetched["id"]}, 2), ({"executionId": fetched["executionId"]}, 2),
        ({"createTimeAfter": "2000-01-01T00:00:00.000+0000"}, 2), ({"endTimeAfter": "2999-01-01"}, 0),
        ({"createTimeBefore": "2000-01-01"}, 0), ({"endTimeBefore": "2999-01-01"}, 2),
        ({"incidentId": deleted["id"]}, 1), ({"jobDefinitionIdIn": "x"}, 0), ({"tenantIdIn": "t"}, 0),
    ):  # fmt: skip
        assert await at(camunda, "/history/incident/count", **query) == {"count": number}, query
        assert len((await camunda.post("/history/incident", json=query)).json()) == number, query
    page = await at(camunda, "/history/incident", sortBy="createTime", sortOrder="desc", maxResults=1)
    assert [found["id"] for found in page] == [deleted["id"]]


async def test_a_key_sees_the_history_of_its_processes_alone(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    await deploy(camunda)
    instance = (await start(camunda))["id"]
    await work(camunda, "a", "failure", errorMessage="broken", retries=0)
    async with client_of(camunda_app, keys.make(types=("a",))) as stranger:  # b is another's
        for path in ("process-instance", "activity-instance", "incident"):
            assert (await stranger.get(f"/engine-rest/history/{path}")).json() == [], path
            assert (await stranger.get(f"/engine-rest/history/{path}/count")).json() == {"count": 0}, path
        assert (await stranger.get(f"/engine-rest/history/process-instance/{instance}")).status_code == 404
    async with client_of(camunda_app, keys.make("work", name="worker")) as worker:
        assert (await worker.get("/engine-rest/history/process-instance")).status_code == 403
