"""/deployment and /process-definition: what becomes of files, and how definitions are found and started."""

from __future__ import annotations

import httpx

from tests.camunda.runtime import TWO, at, create, deploy, start

NAMED = TWO.replace(b"<definitions ", b'<definitions targetNamespace="https://tests" ')


async def test_a_model_is_deployed_and_shown_with_every_key(camunda: httpx.AsyncClient) -> None:
    answered = await create(camunda, ("model.bpmn", NAMED), deployment_source="tests")
    assert (answered.status_code, answered.headers["content-type"]) == (200, "application/json")
    deployed = answered.json()
    assert deployed.keys() == {
        "links", "id", "name", "source", "deploymentTime", "tenantId", "deployedProcessDefinitions",
        "deployedCaseDefinitions", "deployedDecisionDefinitions", "deployedDecisionRequirementsDefinitions",
    }  # fmt: skip
    assert deployed["links"] == [
        {"method": "GET", "href": f"http://api/engine-rest/deployment/{deployed['id']}", "rel": "self"}
    ]
    assert (deployed["name"], deployed["source"], deployed["tenantId"]) == ("orders", "tests", None)
    assert deployed["deploymentTime"].endswith("+0000")
    ((name, definition),) = deployed["deployedProcessDefinitions"].items()
    uuid = name.rpartition(":")[2]
    assert definition == {
        "id": f"p:1:{uuid}", "key": "p", "category": "https://tests", "description": None, "name": None, "version": 1,
        "resource": "model.bpmn", "deploymentId": deployed["id"], "diagram": None, "suspended": False, "tenantId": None,
        "versionTag": None, "historyTimeToLive": None, "startableInTasklist": True,
    }  # fmt: skip
    for path in (f"/process-definition/{name}", f"/process-definition/{uuid}", "/process-definition/key/p"):
        assert await at(camunda, path) == definition
    assert await at(camunda, f"/process-definition/{name}/xml") == {"id": name, "bpmn20Xml": NAMED.decode()}
    assert (await at(camunda, "/process-definition/key/p/xml"))["bpmn20Xml"] == NAMED.decode()


async def test_an_instance_is_started_by_key_and_by_id(camunda: httpx.AsyncClient) -> None:
    definition = await deploy(camunda)
    started = await start(camunda, businessKey="B-1", variables={"x": {"value": 1}}, withVariablesInReturn=True)
    assert started == {
        "links": [
            {"method": "GET", "href": f"http://api/engine-rest/process-instance/{started['id']}", "rel": "self"}
        ],
        "id": started["id"], "definitionId": definition["id"], "definitionKey": "p", "businessKey": "B-1",
        "caseInstanceId": None, "ended": False, "suspended": False, "tenantId": None,
        "variables": {"x": {"value": 1, "type": "Integer", "valueInfo": {}}},
    }  # fmt: skip
    answered = await camunda.post(f"/process-definition/{definition['id']}/start")
    assert (answered.status_code, answered.json()["businessKey"]) == (200, None)
    assert "variables" not in answered.json()
