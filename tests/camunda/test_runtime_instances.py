"""/process-instance, /execution, /incident and /event-subscription: where instances stand, and stopping them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from tests.app.engine.conftest import flow, model, task
from tests.camunda.conftest import Keys, client_of
from tests.camunda.runtime import at, create, deploy, error, start
from tests.db.clerk import Clerk

NESTED = model(
    '<startEvent id="s"/><parallelGateway id="fork"/>' + task("a", more='name="Pay"')
    + '<subProcess id="outer" name="Outer"><startEvent id="os"/><subProcess id="inner"><startEvent id="is"/>'
    + task("b") + '<userTask id="c"/>' + '<parallelGateway id="split"/>' + flow("is", "split", "b") + flow("split", "c")
    + "</subProcess>" + flow("os", "inner") + "</subProcess>"
    + '<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    + flow("s", "fork", "a") + flow("fork", "outer") + flow("fork", "wait"),
    '<message id="M" name="m"/>', process='id="p" name="Trip" isExecutable="true"',
)  # fmt: skip
WAITING = model('<startEvent id="s"/><userTask id="u"/><endEvent id="e"/>' + flow("s", "u", "e"))
NOBODY = "00000000-0000-7000-8000-000000000000"


def ids(instances: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in instances]


def leaves(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All activities of a tree by their names in the model, the inner ones too."""
    found = {tree["activityId"]: tree}
    for child in tree["childActivityInstances"]:
        found |= leaves(child)
    return found


async def test_an_instance_is_shown_until_it_has_ended(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, WAITING)
    started = await start(camunda, businessKey="B-1")
    shown = await at(camunda, f"/process-instance/{started['id']}")
    assert shown == started | {"links": []}
    assert await at(camunda, "/process-instance") == [shown]
    gone = await camunda.delete(f"/process-instance/{started['id']}")
    assert (gone.status_code, gone.content) == (204, b"")
    missing = await camunda.get(f"/process-instance/{started['id']}")
    assert error(missing) == (
        404, "InvalidRequestException", f"Process instance with id {started['id']} does not exist",
    )  # fmt: skip
    again = await camunda.delete(f"/process-instance/{started['id']}")
    assert error(again) == (
        404, "InvalidRequestException", f"No process instance found for id '{started['id']}'",
    )  # fmt: skip
    lenient = await camunda.delete(f"/process-instance/{started['id']}", params={"failIfNotExists": "false"})
    assert lenient.status_code == 204


@pytest.mark.parametrize("unknown", ["x", NOBODY, "%00", "x" * 300])
async def test_what_is_no_instance_is_missing(camunda: httpx.AsyncClient, unknown: str) -> None:
    for method, path in (
        ("GET", ""), ("GET", "/activity-instances"), ("DELETE", ""), ("PUT", "/suspended"),
    ):  # fmt: skip
        answered = await camunda.request(method, f"/process-instance/{unknown}{path}", json={"suspended": True})
        assert error(answered)[:2] == (404, "InvalidRequestException"), (method, path)


async def test_instances_are_found_by_get_and_post_alike(camunda: httpx.AsyncClient) -> None:
    p = await deploy(camunda, WAITING)
    q = await deploy(camunda, WAITING.replace(b'id="p"', b'id="q"'))
    one = await start(camunda, businessKey="B-1", variables={"a": {"value": 1}, "s": {"value": "x_y"}})
    two = await start(camunda, businessKey="B-2", variables={"a": {"value": 2}})
    three = await start(camunda, "q", businessKey="C-1")
    assert (await camunda.put(f"/process-instance/{two['id']}/suspended", json={"suspended": True})).status_code == 204
    named = {one["id"]: "1", two["id"]: "2", three["id"]: "3"}
    for query, expected in (
        ({}, "123"),
        ({"processDefinitionKey": "p"}, "12"),
        ({"processDefinitionId": q["id"]}, "3"),
        ({"deploymentId": p["deploymentId"]}, "12"),
        ({"businessKey": "B-1"}, "1"),
        ({"businessKeyLike": "B-%"}, "12"),
        ({"businessKeyLike": "B\\"}, ""),
        ({"processInstanceIds": f"{one['id']},{three['id']},x"}, "13"),
        ({"active": "true"}, "13"),
        ({"suspended": "true"}, "2"),
        ({"active": "false"}, "123"),
        ({"variables": "a_eq_1"}, "1"),
        ({"variables": "a_gt_1,a_lteq_5"}, "2"),
        ({"variables": "s_eq_x_y"}, "1"),
        ({"variables": "s_like_x%"}, "1"),
        ({"variables": "a_neq_1"}, "2"),
        ({"variables": "a_lt_2"}, "1"),
        ({"variables": "a_gteq_2"}, "2"),
        ({"variables": "s_notLike_z%"}, "1"),
        ({"variables": "s_notLike_x%"}, ""),
        ({"tenantIdIn": "t"}, ""),
        ({"withoutTenantId": "true"}, "123"),
        ({"rootProcessInstances": "true", "leafProcessInstances": "true"}, "123"),
        ({"superProcessInstance": one["id"]}, ""),
        ({"activityIdIn": "u,x"}, "123"),
        ({"activityIdIn": "x"}, ""),
        ({"withIncident": "true"}, ""),
        ({"sortBy": "businessKey", "sortOrder": "desc"}, "321"),
        ({"sortBy": "instanceId", "sortOrder": "desc", "firstResult": "1", "maxResults": "1"}, "2"),
    ):
        found = await at(camunda, "/process-instance", **query)
        assert "".join(named[one] for one in ids(found)) == expected, query
        if "maxResults" not in query:
            assert await at(camunda, "/process-instance/count", **query) == {"count": len(expected)}
    for body, expected in (
        ({}, "123"),
        ({"processDefinitionKey": "p", "sorting": [{"sortBy": "businessKey", "sortOrder": "desc"}]}, "21"),
        ({"processInstanceIds": [three["id"]], "businessKey": None}, "3"),
        ({"variables": [{"name": "a", "operator": "gteq", "value": 2}]}, "2"),
        ({"variables": [{"name": "a", "operator": "eq", "value": "1"}]}, ""),
        ({"suspended": 1}, "2"),
    ):
        answered = await camunda.post("/process-instance", json=body)
        assert "".join(named[one] for one in ids(answered.json())) == expected, body
        counted = await camunda.post("/process-instance/count", json=body)
        assert counted.json() == {"count": len(expected)}
    page = await camunda.post("/process-instance", params={"firstResult": 1, "maxResults": 1}, json={})
    assert ids(page.json()) == [two["id"]]
    for query in (
        {"sortBy": "x", "sortOrder": "asc"},
        {"variables": "a"},
        {"maxResults": "many"},
        {"sortOrder": "asc"},
    ):
        assert error(await camunda.get("/process-instance", params=query))[:2] == (400, "InvalidRequestException"), (
            query
        )
    for queries, expected in (
        ([{"businessKey": "B-1", "processDefinitionKey": "q"}], "13"),
        ([{"businessKey": "B-1", "processDefinitionKey": "q"}, {"suspended": True, "businessKeyLike": "C%"}], "3"),
        ([{}], "123"),
    ):
        answered = await camunda.post("/process-instance", json={"orQueries": queries})
        assert "".join(named[one] for one in ids(answered.json())) == expected, queries
    q_alone = {"orQueries": [{"processDefinitionKey": "q"}]}
    assert (await camunda.post("/history/process-instance/count", json=q_alone)).json() == {"count": 1}


async def test_a_suspended_instance_stands_still_and_goes_on(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, WAITING)
    started = await start(camunda)
    address = f"/process-instance/{started['id']}"
    for suspended in (True, False):
        answered = await camunda.put(f"{address}/suspended", json={"suspended": suspended})
        assert (answered.status_code, answered.content) == (204, b"")
        assert (await at(camunda, address))["suspended"] is suspended


async def test_the_tree_shows_subprocesses_inside_of_each_other(camunda: httpx.AsyncClient, conn: Connection) -> None:
    await deploy(camunda, NESTED)
    started = await start(camunda)
    tree = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    identity = {"processInstanceId": started["id"], "processDefinitionId": started["definitionId"]}
    assert {name: value for name, value in tree.items() if name != "childActivityInstances"} == identity | {
        "id": started["id"], "parentActivityInstanceId": None, "activityId": started["definitionId"],
        "activityType": "processDefinition", "activityName": "Trip", "name": "Trip", "childTransitionInstances": [],
        "executionIds": [started["id"]], "incidentIds": [], "incidents": [],
    }  # fmt: skip
    assert [one["activityId"] for one in tree["childActivityInstances"]] == ["a", "outer", "wait"]
    found = leaves(tree)
    (uid,) = [row["uid"] for row in Clerk(conn).query("select uid from celeriac.token where node = 'a'")]
    assert found["a"] == identity | {
        "id": f"a:{uid}", "parentActivityInstanceId": started["id"], "activityId": "a", "activityType": "serviceTask",
        "activityName": "Pay", "name": "Pay", "childActivityInstances": [], "childTransitionInstances": [],
        "executionIds": [str(uid)], "incidentIds": [], "incidents": [],
    }  # fmt: skip
    assert [one["activityId"] for one in found["outer"]["childActivityInstances"]] == ["inner"]
    assert sorted(one["activityId"] for one in found["inner"]["childActivityInstances"]) == ["b", "c"]
    for inner, outer in (("outer", None), ("inner", "outer"), ("b", "inner"), ("c", "inner"), ("wait", None)):
        parent = started["id"] if outer is None else found[outer]["id"]
        assert found[inner]["parentActivityInstanceId"] == parent
    types = {name: one["activityType"] for name, one in found.items()}
    assert (types["outer"], types["c"], types["wait"]) == ("subProcess", "userTask", "intermediateMessageCatch")
    # The leaf is found by the execution of its task.
    (task_,) = Clerk(conn).query("select token_id from celeriac.task where task_type = 'b'")
    assert found["b"]["executionIds"] == [str(task_["token_id"])]


async def test_what_waits_to_be_begun_or_cannot_is_a_transition(camunda: httpx.AsyncClient) -> None:
    stuck = task("a", inside="<extensionElements><camunda:inputOutput><camunda:inputParameter name='x'>${nothing}"
                 "</camunda:inputParameter></camunda:inputOutput></extensionElements>")  # fmt: skip
    await deploy(camunda, model('<startEvent id="s"/>' + stuck + flow("s", "a")))
    started = await start(camunda)
    tree = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    assert tree["childActivityInstances"] == []
    (transition,) = tree["childTransitionInstances"]
    (incident,) = await at(camunda, "/incident")
    assert transition == {
        "id": transition["executionId"], "parentActivityInstanceId": started["id"], "activityId": "a",
        "activityType": "serviceTask", "activityName": None, "name": None, "targetActivityId": "a",
        "processInstanceId": started["id"], "processDefinitionId": started["definitionId"],
        "executionId": incident["executionId"], "incidentIds": [incident["id"]],
        "incidents": [{"id": incident["id"], "activityId": "a"}],
    }  # fmt: skip


async def test_the_inside_of_a_subprocess_that_is_being_undone_is_in_what_is_around_it(
    camunda: httpx.AsyncClient,
) -> None:
    content = model(
        '<startEvent id="s"/><subProcess id="sub"><startEvent id="is"/><receiveTask id="a"/>'
        '<boundaryEvent id="no" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
        '<userTask id="undo" isForCompensation="true"/><association sourceRef="no" targetRef="undo"/>'
        + flow("is", "a")
        + '</subProcess><intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent>'
        + flow("s", "sub", "back")
    )
    await deploy(camunda, content)
    started = await start(camunda)
    address = f"/process-instance/{started['id']}/activity-instances"
    a = leaves(await at(camunda, address))["a"]
    assert (await camunda.post(f"/execution/{a['executionIds'][0]}/signal", json={})).status_code == 204
    tree = await at(camunda, address)
    assert sorted(one["activityId"] for one in tree["childActivityInstances"]) == ["back", "undo"]


async def test_a_tree_of_a_thousand_tokens_is_whole(camunda: httpx.AsyncClient, conn: Connection) -> None:
    await deploy(camunda, WAITING)
    started = await start(camunda)
    Clerk(conn).run(
        "insert into celeriac.token (instance_id, id, uid, entered_at, scope, stuck, phase, node, variables)"
        " select t.instance_id, 1000 + n, gen_random_uuid(), t.entered_at, t.scope, false, 'STANDING', t.node, '{}'"
        " from celeriac.token t, generate_series(1, 999) n"
    )
    tree = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    executions = {one["executionIds"][0] for one in tree["childActivityInstances"]}
    assert len(executions) == 1000


async def test_executions_are_instances_and_their_tokens(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, NESTED)
    started = await start(camunda)
    listed = await at(camunda, "/execution", processInstanceId=started["id"])
    assert len(listed) == 7  # the instance, a, outer, inner, b, c and wait
    assert ids(listed)[0] in ids(listed)
    for one in (started["id"], ids(listed)[-1]):
        shown = {"id": one, "processInstanceId": started["id"], "ended": False, "tenantId": None}
        assert await at(camunda, f"/execution/{one}") == shown
    (waits,) = await at(camunda, "/execution", messageEventSubscriptionName="m")
    (found,) = (await camunda.post("/execution", json={"activityId": "wait", "processDefinitionKey": "p"})).json()
    assert waits == found
    assert await at(camunda, "/execution", signalEventSubscriptionName="m") == []
    assert await at(camunda, "/execution/count", active="true") == {"count": 7}
    assert error(await camunda.get(f"/execution/{NOBODY}")) == (
        404, "InvalidRequestException", f"Execution with id {NOBODY} does not exist",
    )  # fmt: skip


async def test_a_receive_task_without_a_message_is_told_to_go_on(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, model('<startEvent id="s"/><receiveTask id="r"/><userTask id="u"/>' + flow("s", "r", "u")))
    started = await start(camunda)
    tree = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    (token,) = leaves(tree)["r"]["executionIds"]
    body = {"variables": {"x": {"value": 5}}}
    assert (await camunda.post(f"/execution/{token}/signal", json=body)).status_code == 204
    tree = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    assert "u" in leaves(tree)
    assert ids(await at(camunda, "/process-instance", variables="x_eq_5")) == [started["id"]]
    (person,) = leaves(tree)["u"]["executionIds"]
    assert error(await camunda.post(f"/execution/{person}/signal", json={}))[:2] == (400, "RestException")
    assert error(await camunda.post(f"/execution/{token}/signal", json={}))[0] == 404


async def test_incidents_are_shown_while_they_are_open(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, model('<startEvent id="s"/><exclusiveGateway id="g"/><endEvent id="e"/>' + flow("s", "g")
                                + '<sequenceFlow id="f" sourceRef="g" targetRef="e"><conditionExpression>${x > 1}'
                                '</conditionExpression></sequenceFlow>'
                                '<sequenceFlow id="d" sourceRef="g" targetRef="e"><conditionExpression>${y}'
                                '</conditionExpression></sequenceFlow>'))  # fmt: skip
    started = await start(camunda)
    (incident,) = await at(camunda, "/incident")
    assert incident.keys() == {
        "id", "processDefinitionId", "processInstanceId", "executionId", "incidentTimestamp", "incidentType",
        "activityId", "failedActivityId", "causeIncidentId", "rootCauseIncidentId", "configuration", "incidentMessage",
        "tenantId", "jobDefinitionId", "annotation",
    }  # fmt: skip
    assert incident["processDefinitionId"] == started["definitionId"]
    assert (incident["processInstanceId"], incident["incidentType"]) == (started["id"], "failedJob")
    assert (incident["activityId"], incident["configuration"]) == ("g", incident["executionId"])
    assert "x" in incident["incidentMessage"]
    assert await at(camunda, f"/incident/{incident['id']}") == incident
    for query, number in (
        ({"processInstanceId": started["id"]}, 1), ({"incidentType": "failedExternalTask"}, 0),
        ({"activityId": "g", "incidentId": incident["id"]}, 1), ({"processDefinitionKeyIn": "p,q"}, 1),
        ({"configuration": incident["configuration"], "executionId": NOBODY}, 0), ({"incidentMessageLike": "%x%"}, 1),
        ({"incidentTimestampAfter": incident["incidentTimestamp"]}, 0), ({"tenantIdIn": "t"}, 0),
    ):  # fmt: skip
        assert await at(camunda, "/incident/count", **query) == {"count": number}, query
    for query in ({"withIncident": "true"}, {"incidentId": incident["id"]}, {"incidentType": "failedJob"},
                  {"incidentMessage": incident["incidentMessage"]}, {"incidentMessageLike": "%x%"}):  # fmt: skip
        assert ids(await at(camunda, "/process-instance", **query)) == [started["id"]], query
    assert await at(camunda, "/process-instance", incidentType="x") == []
    assert error(await camunda.get(f"/incident/{NOBODY}"))[:2] == (404, "InvalidRequestException")
    for query, number in (
        ({"incidentId": incident["id"]}, 1), ({"incidentType": "failedJob"}, 1), ({"incidentType": "x"}, 0),
        ({"incidentMessageLike": "%x%"}, 1), ({"incidentMessage": "x"}, 0),
    ):  # fmt: skip
        assert await at(camunda, "/process-definition/count", **query) == {"count": number}, query
        assert await at(camunda, "/execution/count", **query) == {"count": number}, query
    by_hand = await camunda.delete(f"/incident/{incident['id']}")
    assert error(by_hand) == (400, "RestException", "Cannot resolve an incident of type failedJob")
    assert error(await camunda.delete(f"/incident/{NOBODY}"))[0] == 404
    await camunda.delete(f"/process-instance/{started['id']}")
    assert await at(camunda, "/incident") == []


async def test_event_subscriptions_are_of_tokens_and_of_start_events(camunda: httpx.AsyncClient) -> None:
    begun = '<startEvent id="s"><signalEventDefinition signalRef="S"/></startEvent><endEvent id="e"/>' + flow("s", "e")
    await deploy(camunda, model(begun, '<signal id="S" name="sig"/>', process='id="q" isExecutable="true"'))
    await deploy(camunda, NESTED)
    started = await start(camunda)
    (waits,) = await at(camunda, "/event-subscription", eventType="message")
    (execution,) = await at(camunda, "/execution", activityId="wait")
    assert waits == {
        "id": waits["id"], "eventType": "message", "eventName": "m", "executionId": execution["id"],
        "processInstanceId": started["id"], "activityId": "wait", "createdDate": waits["createdDate"],
        "tenantId": None,
    }  # fmt: skip
    (begins,) = await at(camunda, "/event-subscription", eventName="sig")
    assert (begins["eventType"], begins["executionId"], begins["activityId"]) == ("signal", None, "s")
    assert await at(camunda, "/event-subscription/count", processInstanceId=started["id"]) == {"count": 1}
    assert await at(camunda, "/event-subscription", eventSubscriptionId=begins["id"]) == [begins]


async def test_a_key_that_is_bound_to_types_sees_its_own_instances_alone(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    mine = model('<startEvent id="s"/>' + task("mine.a") + flow("s", "mine.a"), process='id="m" isExecutable="true"')
    assert (await create(camunda, ("n.bpmn", NESTED), ("m.bpmn", mine))).status_code == 200
    theirs, own = await start(camunda), await start(camunda, "m")
    async with client_of(camunda_app, keys.make(types=("mine.*",))) as bound:
        bound.base_url = httpx.URL("http://api/engine-rest")
        assert ids(await at(bound, "/process-instance")) == [own["id"]]
        assert await at(bound, "/execution/count") == {"count": 2}
        assert await at(bound, "/event-subscription") == []
        for method, path in (
            ("GET", ""), ("GET", "/activity-instances"), ("DELETE", ""), ("PUT", "/suspended"),
        ):  # fmt: skip
            answered = await bound.request(method, f"/process-instance/{theirs['id']}{path}", json={})
            assert error(answered)[0] == 404
        assert (await bound.delete(f"/process-instance/{own['id']}")).status_code == 204
    async with client_of(camunda_app, keys.make("work", name="worker")) as worker:
        worker.base_url = httpx.URL("http://api/engine-rest")
        for method, path in (
            ("GET", "/process-instance"), ("DELETE", f"/process-instance/{theirs['id']}"), ("GET", "/incident"),
            ("GET", "/execution"), ("GET", "/event-subscription"), ("POST", "/message"), ("POST", "/signal"),
        ):  # fmt: skip
            assert error(await worker.request(method, path, json={}))[:2] == (403, "AuthorizationException"), path
