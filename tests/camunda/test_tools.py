"""What tools send that people deploy and look with, step by step as they do it."""

from __future__ import annotations

from typing import Any

import httpx

from tests.app.engine.conftest import flow, model
from tests.camunda.runtime import TWO, at, deploy, error, start


def form(name: str, content: bytes, *attached: tuple[str, bytes]) -> dict[str, Any]:
    """As Camunda Modeler puts it together: a part of a file is named like the file."""
    files = {each: (each, data, "text/xml") for each, data in ((name, content), *attached)}
    said = {"deployment-name": "order", "deployment-source": "Camunda Modeler", "enable-duplicate-filtering": "true"}
    return {"files": {key: (None, value) for key, value in said.items()} | files}


async def test_camunda_modeler_checks_deploys_and_starts(camunda: httpx.AsyncClient) -> None:
    seen = await camunda.get("/deployment", params={"maxResults": 0}, headers={"Accept": "application/json"})
    assert (seen.status_code, seen.json()) == (200, [])
    assert (await at(camunda, "/version"))["version"].startswith("7.")
    first = await camunda.post("/deployment/create", **form("Bestellung ü.bpmn", TWO, ("a.form", b"{}")))
    assert first.status_code == 200, first.text
    deployed = first.json()
    ((id_, definition),) = deployed["deployedProcessDefinitions"].items()
    assert (deployed["source"], definition["resource"]) == ("Camunda Modeler", "Bestellung ü.bpmn")
    again = (await camunda.post("/deployment/create", **form("Bestellung ü.bpmn", TWO, ("a.form", b"{}")))).json()
    assert (again["id"], again["deployedProcessDefinitions"]) == (deployed["id"], None)
    body = {"businessKey": "default", "variables": {"x": {"value": "1", "type": "String"}}}
    begun = await camunda.post(f"/process-definition/{id_}/start", json=body)
    assert (begun.status_code, begun.json()["definitionId"]) == (200, id_)
    broken = await camunda.post("/deployment/create", **form("broken.bpmn", TWO.replace(b"</process>", b"")))
    assert error(broken)[:2] == (400, "ParseException")
    (problem,) = broken.json()["details"]["broken.bpmn"]["errors"]
    assert problem["line"] >= 1
    missing = await camunda.get("/decision-definition/key/x")
    assert error(missing)[0] == 404


async def test_addresses_may_end_with_a_slash_and_name_the_engine(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    for prefix in ("", "/engine/default"):
        for path in ("/process-definition/", "/process-definition/count/", "/process-definition/key/p/", "/version/"):
            assert (await camunda.get(prefix + path)).status_code == 200, prefix + path
        begun = await camunda.post(f"{prefix}/process-definition/key/p/start/", json={})
        assert begun.status_code == 200
        instance = begun.json()["id"]
        for path in (
            f"/process-instance/{instance}", f"/process-instance/{instance}/activity-instances", "/incident", "/task",
            f"/execution/{instance}/localVariables", f"/history/process-instance/{instance}", "/job", "/external-task",
            "/event-subscription", "/deployment", "/engine", "/history/activity-instance",
        ):  # fmt: skip
            assert (await camunda.get(prefix + path)).status_code == 200, prefix + path
        asked = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "a", "lockDuration": 1000}]}
        (taken,) = (await camunda.post(f"{prefix}/external-task/fetchAndLock", json=asked)).json()
        assert taken["processInstanceId"] == instance
        done = await camunda.post(f"{prefix}/external-task/{taken['id']}/complete", json={"workerId": "w"})
        assert done.status_code == 204
    for name in ("other", "", "default2"):
        answered = await camunda.get(f"/engine/{name}/version")
        assert error(answered)[0] == 404, name


async def test_what_is_not_there_is_a_404_that_says_which_address_it_is(camunda: httpx.AsyncClient) -> None:
    for method, path in (
        ("GET", "/user"), ("POST", "/identity/verify"), ("GET", "/decision-definition"), ("GET", "/batch/x"),
        ("POST", "/process-instance/x/modification"), ("POST", "/migration/execute"), ("GET", "/history/detail"),
        ("GET", "/task/x/comment"), ("DELETE", "/process-definition/x"), ("GET", "/metrics/x/sum"),
        ("POST", "/task/create"), ("PUT", "/job/x/priority"), ("GET", "/job-definition"), ("GET", "/filter"),
        ("GET", "/schema/log"), ("GET", "/telemetry/configuration"), ("POST", "/process-definition/x/restart"),
    ):  # fmt: skip
        answered = await camunda.request(method, path, json={} if method != "GET" else None)
        status, type_, message = error(answered)
        assert (status, type_) == (404, "NotFoundException"), (method, path)
        assert message == f"HTTP 404 Not Found: there is nothing at {method} {path}"


async def test_a_task_list_of_people(camunda: httpx.AsyncClient) -> None:
    """What a script does that shows people their work: count, list, look, claim, form, complete."""
    body = '<startEvent id="s"/><userTask id="u" name="Check" camunda:candidateGroups="sales" camunda:formKey="f"/>'
    await deploy(camunda, model(body + '<userTask id="v"/>' + flow("s", "u", "v")))
    begun = await start(camunda, variables={"amount": {"value": 5}})
    asked = {
        "candidateGroups": ["sales"],
        "processDefinitionKey": "p",
        "sorting": [{"sortBy": "created", "sortOrder": "asc"}],
    }
    assert (await camunda.post("/task/count", json=asked)).json() == {"count": 1}
    (listed,) = (await camunda.post("/task", params={"firstResult": 0, "maxResults": 15}, json=asked)).json()
    path = f"/task/{listed['id']}"
    assert (await at(camunda, f"{path}/form"))["key"] == "f"
    assert (await at(camunda, f"{path}/form-variables"))["amount"]["value"] == 5
    assert (await camunda.post(f"{path}/claim", json={"userId": "ann"})).status_code == 204
    links = await at(camunda, f"{path}/identity-links")
    assert {(one["type"], one["userId"] or one["groupId"]) for one in links} == {
        ("assignee", "ann"),
        ("candidate", "sales"),
    }
    sent = {"variables": {"ok": {"value": True}}, "withVariablesInReturn": True}
    told = await camunda.post(f"{path}/submit-form", json=sent)
    assert (told.status_code, told.json()["ok"]["value"]) == (200, True)
    (next_,) = await at(camunda, "/task", processInstanceId=begun["id"])
    assert (next_["taskDefinitionKey"], next_["taskState"]) == ("v", "Created")
