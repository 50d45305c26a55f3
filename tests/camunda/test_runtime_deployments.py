"""/deployment and /process-definition: what becomes of files, and how definitions are found and started."""

from __future__ import annotations

import httpx
from fastapi import FastAPI

from tests.app.engine.conftest import flow, model, task
from tests.camunda.conftest import Keys, client_of
from tests.camunda.runtime import TWO, at, create, deploy, error, start

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
    assert (await start(camunda, businessKey=""))["businessKey"] is None


async def test_the_same_bytes_are_a_new_version_unless_duplicates_are_filtered(camunda: httpx.AsyncClient) -> None:
    assert [(await deploy(camunda))["version"] for _ in range(2)] == [1, 2]
    for field in ("enable_duplicate_filtering", "deploy_changed_only"):
        again = (await create(camunda, ("model.bpmn", TWO), **{field: "True"})).json()
        assert (again["deployedProcessDefinitions"], again["name"]) == (None, "orders")
        newest = (await at(camunda, "/deployment", sortBy="deploymentTime", sortOrder="desc"))[0]
        assert again["id"] == newest["id"]
    other_name = await deploy(camunda, name="other", enable_duplicate_filtering="true")
    assert other_name["version"] == 3


async def test_of_several_files_all_or_the_changed_ones_are_deployed_again(camunda: httpx.AsyncClient) -> None:
    q = TWO.replace(b'id="p"', b'id="q"')
    await create(camunda, ("p.bpmn", TWO), ("q.bpmn", q))
    changed = q.replace(b"<startEvent", b"<!-- changed --><startEvent")
    all_of_them = (
        await create(camunda, ("p.bpmn", TWO), ("q.bpmn", changed), enable_duplicate_filtering="true")
    ).json()
    assert sorted(one["key"] for one in all_of_them["deployedProcessDefinitions"].values()) == ["p", "q"]
    only_changed = (await create(camunda, ("p.bpmn", TWO), ("q.bpmn", q), deploy_changed_only="true")).json()
    assert [one["key"] for one in only_changed["deployedProcessDefinitions"].values()] == ["q"]
    resources = await at(camunda, f"/deployment/{only_changed['id']}/resources")
    assert [one["name"] for one in resources] == ["q.bpmn"]


async def test_processes_that_do_not_say_that_they_are_executable_are_left_out(camunda: httpx.AsyncClient) -> None:
    for said in (b"", b'isExecutable="false"'):
        answered = await create(camunda, ("model.bpmn", TWO.replace(b'isExecutable="true"', said)))
        assert (answered.status_code, answered.json()["deployedProcessDefinitions"]) == (200, None)
    assert await at(camunda, "/process-definition") == []


async def test_files_of_other_endings_are_kept_and_read_by_nobody(camunda: httpx.AsyncClient) -> None:
    answered = await create(camunda, ("model.bpmn20.xml", TWO), ("model.xml", b"<x"), ("a.form", b"\x00\xff"))
    deployed = answered.json()
    assert len(deployed["deployedProcessDefinitions"]) == 1
    resources = {one["name"]: one for one in await at(camunda, f"/deployment/{deployed['id']}/resources")}
    assert resources.keys() == {"a.form", "model.bpmn20.xml", "model.xml"}
    form = resources["a.form"]
    assert form == {"id": form["id"], "name": "a.form", "deploymentId": deployed["id"]}
    assert await at(camunda, f"/deployment/{deployed['id']}/resources/{form['id']}") == form
    content = await camunda.get(f"/deployment/{deployed['id']}/resources/{form['id']}/data")
    assert (content.status_code, content.content) == (200, b"\x00\xff")
    missing = await camunda.get(f"/deployment/{deployed['id']}/resources/{deployed['id']}")
    assert error(missing)[:2] == (404, "InvalidRequestException")


async def test_everything_that_is_wrong_with_a_model_is_told_by_file(camunda: httpx.AsyncClient) -> None:
    broken = model('<startEvent id="s"/>\n<serviceTask id="a"/>' + flow("s", "a", "x"))
    answered = await create(camunda, ("good.bpmn", TWO), ("bad.bpmn", broken))
    assert error(answered)[:2] == (400, "ParseException")
    body = answered.json()
    assert "bad.bpmn" in body["message"]
    assert body["code"] == 0
    problems = body["details"]["bad.bpmn"]["errors"]
    assert ("a", 2) in {(one["mainElementId"], one["line"]) for one in problems}
    assert all(one["elementIds"] == one["еlementIds"] for one in problems)
    assert problems[0].keys() >= {"message", "line", "column", "mainElementId", "elementIds"}
    assert await at(camunda, "/deployment/count") == {"count": 0}


async def test_what_is_no_deployment_is_refused(camunda: httpx.AsyncClient) -> None:
    nothing = await camunda.post("/deployment/create", files={"deployment-name": (None, "x")})
    assert error(nothing) == (
        400, "InvalidRequestException", "No deployment resources contained in the form upload.",
    )  # fmt: skip
    nameless = await camunda.post("/deployment/create", files={"data": (None, TWO)})
    assert error(nameless)[:2] == (400, "InvalidRequestException")
    assert "'data'" in nameless.json()["message"]
    no_form = await camunda.post("/deployment/create", json={})
    assert no_form.status_code == 415
    for fields in ({"tenant_id": "t"}, {"deployment_activation_time": "tomorrow"}, {"deployment_source": "\x07"}):
        assert error(await create(camunda, ("model.bpmn", TWO), **fields))[0] == 400
    twice = await create(camunda, ("model.bpmn", TWO), ("a/model.bpmn", TWO))
    assert error(twice)[0] == 400
    assert await at(camunda, "/deployment") == []


async def test_a_deployment_may_have_no_name_and_be_of_use_later(camunda: httpx.AsyncClient) -> None:
    later = await create(
        camunda, ("model.bpmn", TWO), name=None, deployment_activation_time="2999-01-01T00:00:00.000+0000"
    )
    ((name, definition),) = later.json()["deployedProcessDefinitions"].items()
    assert (later.json()["name"], definition["suspended"]) == (None, True)
    refusal = error(await camunda.post(f"/process-definition/{name}/start", json={}))
    assert refusal[:2] == (400, "RestException")
    assert refusal[2].startswith(f"Cannot instantiate process definition {name}: ")
    assert [one["id"] for one in await at(camunda, "/process-definition", suspended="true")] == [name]
    assert await at(camunda, "/process-definition", active="true") == []


async def test_deployments_are_found_counted_and_sorted(camunda: httpx.AsyncClient) -> None:
    for name, source in (("b", "x"), ("a", "y"), ("c", "")):
        await create(camunda, ("model.bpmn", TWO), name=name, **({"deployment_source": source} if source else {}))
    listed = await at(camunda, "/deployment")
    assert [one["name"] for one in listed] == ["b", "a", "c"]
    assert listed[0].keys() == {"links", "id", "name", "source", "deploymentTime", "tenantId"}
    for query, names in (
        ({"name": "a"}, ["a"]), ({"nameLike": "%a%"}, ["a"]), ({"source": "x"}, ["b"]),
        ({"withoutSource": "true"}, ["c"]), ({"id": listed[0]["id"]}, ["b"]), ({"id": "x"}, []),
        ({"tenantIdIn": "t"}, []), ({"withoutTenantId": "true"}, ["b", "a", "c"]),
        ({"sortBy": "name", "sortOrder": "asc"}, ["a", "b", "c"]), ({"firstResult": 1, "maxResults": 1}, ["a"]),
        ({"after": listed[-1]["deploymentTime"]}, []),
    ):  # fmt: skip
        assert [one["name"] for one in await at(camunda, "/deployment", **query)] == names, query
    assert await at(camunda, "/deployment/count", name="a") == {"count": 1}
    assert await at(camunda, f"/deployment/{listed[0]['id']}") == listed[0]
    assert error(await camunda.get("/deployment/x")) == (
        404, "InvalidRequestException", "Deployment with id 'x' does not exist",
    )  # fmt: skip


async def test_definitions_are_found_counted_and_sorted(camunda: httpx.AsyncClient) -> None:
    first, second = await deploy(camunda), await deploy(camunda)
    tagged = model(
        '<startEvent id="s"/><endEvent id="e"/>' + flow("s", "e"),
        process='id="q" name="Quick" isExecutable="true" camunda:versionTag="v1"',
    )
    quick = await deploy(camunda, tagged)
    names = {first["id"]: "p1", second["id"]: "p2", quick["id"]: "q1"}
    for query, expected in (
        ({}, ["p1", "p2", "q1"]),
        ({"key": "p"}, ["p1", "p2"]),
        ({"key": "p", "latestVersion": "true"}, ["p2"]),
        ({"latestVersion": "true", "sortBy": "key", "sortOrder": "desc"}, ["q1", "p2"]),
        ({"keysIn": "q,x"}, ["q1"]),
        ({"keyLike": "_"}, ["p1", "p2", "q1"]),
        ({"version": 2}, ["p2"]),
        ({"versionTag": "v1"}, ["q1"]),
        ({"versionTagLike": "v%"}, ["q1"]),
        ({"withoutVersionTag": "true"}, ["p1", "p2"]),
        ({"name": "Quick"}, ["q1"]),
        ({"nameLike": "Q%"}, ["q1"]),
        ({"deploymentId": first["deploymentId"]}, ["p1"]),
        ({"processDefinitionId": second["id"]}, ["p2"]),
        ({"processDefinitionIdIn": f"{first['id']},{quick['id'].rpartition(':')[2]}"}, ["p1", "q1"]),
        ({"resourceNameLike": "%.bpmn", "sortBy": "version", "sortOrder": "desc", "maxResults": 1}, ["p2"]),
        ({"tenantIdIn": "t"}, []),
        ({"withoutTenantId": "true", "active": "true"}, ["p1", "p2", "q1"]),
        ({"incidentId": first["deploymentId"]}, []),
        ({"deployedAfter": "2000-01-01T00:00:00.000+0000"}, ["p1", "p2", "q1"]),
    ):
        listed = await at(camunda, "/process-definition", **query)
        assert [names[one["id"]] for one in listed] == expected, query
    assert await at(camunda, "/process-definition/count", key="p") == {"count": 2}
    wrong = await camunda.get("/process-definition", params={"sortBy": "age; drop", "sortOrder": "asc"})
    assert error(wrong) == (
        400, "InvalidRequestException", "Cannot set query sortBy parameter to value age; drop",
    )  # fmt: skip
    alone = await camunda.get("/process-definition", params={"sortBy": "key"})
    assert error(alone)[0] == 400


async def test_what_is_not_deployed_is_missing(camunda: httpx.AsyncClient) -> None:
    no_key = "No matching process definition with key: x"
    for method, path, message in (
        ("GET", "/process-definition/key/x", f"{no_key} and no tenant-id"),
        ("POST", "/process-definition/key/x/start", f"{no_key} and no tenant-id"),
        ("GET", "/process-definition/key/x/xml", f"{no_key} and no tenant-id"),
        ("GET", "/process-definition/key/x/tenant-id/t", f"{no_key} and tenant-id: t"),
        ("POST", "/process-definition/key/x/tenant-id/t/start", f"{no_key} and tenant-id: t"),
        ("GET", "/process-definition/x:1:y", "No matching definition with id x:1:y"),
        ("POST", "/process-definition/x/start", "No matching definition with id x"),
    ):  # fmt: skip
        assert error(await camunda.request(method, path)) == (404, "RestException", message)


async def test_a_start_says_what_is_wrong_with_it(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    message = '<startEvent id="s"><messageEventDefinition messageRef="M"/></startEvent><endEvent id="e"/>' + flow(
        "s", "e"
    )
    await deploy(camunda, model(message, '<message id="M" name="m"/>', process='id="m" isExecutable="true"'))
    for key, body, type_ in (
        ("p", {"variables": {"x": {"value": "y", "type": "Integer"}}}, "InvalidRequestException"),
        ("p", {"variables": {"x": {"value": 1, "type": "Money"}}}, "RestException"),
        ("p", {"variables": [1]}, "InvalidRequestException"),
        ("p", {"startInstructions": [{"type": "startBeforeActivity", "activityId": "b"}]}, "InvalidRequestException"),
        ("p", {"businessKey": "\x07"}, "InvalidRequestException"),
        ("m", {}, "RestException"),
    ):  # fmt: skip
        answered = await camunda.post(f"/process-definition/key/{key}/start", json=body)
        assert error(answered)[:2] == (400, type_), body
    assert await at(camunda, "/process-instance/count") == {"count": 0}


async def test_a_process_that_waits_for_nothing_has_ended_in_the_answer(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, model('<startEvent id="s"/><endEvent id="e"/>' + flow("s", "e")))
    started = await start(camunda, variables={"x": {"value": 1}}, withVariablesInReturn=True)
    assert (started["ended"], started["variables"]["x"]["value"]) == (True, 1)
    missing = await camunda.get(f"/process-instance/{started['id']}")
    assert error(missing)[0] == 404


async def test_a_deployment_is_deleted_with_its_instances_or_not_at_all(camunda: httpx.AsyncClient) -> None:
    timed = (
        '<startEvent id="s"/><startEvent id="t"><messageEventDefinition messageRef="M"/></startEvent>'
        + task("a")
        + '<endEvent id="e"/>'
        + flow("s", "a", "e")
        + flow("t", "a")
    )
    content = model(timed, '<message id="M" name="m"/>')
    old, new = await deploy(camunda, content), await deploy(camunda, content)
    kept = await camunda.post(f"/process-definition/{old['id']}/start", json={})
    for _ in range(3):
        await start(camunda)
    refusal = await camunda.delete(f"/deployment/{new['deploymentId']}")
    assert (error(refusal)[:2], refusal.json()["code"]) == ((400, "RestException"), 10001)
    assert await at(camunda, "/process-instance/count") == {"count": 4}
    gone = await camunda.delete(f"/deployment/{new['deploymentId']}", params={"cascade": "true"})
    assert (gone.status_code, gone.content) == (204, b"")
    assert [one["id"] for one in await at(camunda, "/process-instance")] == [kept.json()["id"]]
    assert (await at(camunda, "/process-definition/key/p"))["id"] == old["id"]
    again = await camunda.delete(f"/deployment/{new['deploymentId']}", params={"cascade": "true"})
    assert error(again)[:2] == (404, "InvalidRequestException")
    # What began instances of the version that is the newest by now begins them again.
    sent = {"messageName": "m", "resultEnabled": True}
    (begun,) = (await camunda.post("/message", json=sent)).json()
    assert begun["processInstance"]["definitionId"] == old["id"]


async def test_a_deployment_that_is_not_the_newest_takes_no_start_event_with_it(camunda: httpx.AsyncClient) -> None:
    old, new = await deploy(camunda), await deploy(camunda)
    assert (await camunda.delete(f"/deployment/{old['deploymentId']}")).status_code == 204
    assert [one["id"] for one in await at(camunda, "/process-definition")] == [new["id"]]


async def test_a_key_that_is_bound_to_types_sees_and_deploys_its_own_alone(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    mine = model('<startEvent id="s"/>' + task("mine.a") + flow("s", "mine.a"), process='id="m" isExecutable="true"')
    theirs = await deploy(camunda)
    await deploy(camunda, mine)
    async with client_of(camunda_app, keys.make(types=("mine.*",))) as bound:
        bound.base_url = httpx.URL("http://api/engine-rest")
        assert [one["key"] for one in await at(bound, "/process-definition")] == ["m"]
        assert await at(bound, "/deployment/count") == {"count": 1}
        for path in (f"/process-definition/{theirs['id']}", f"/deployment/{theirs['deploymentId']}"):
            assert error(await bound.get(path))[0] == 404
        assert error(await create(bound, ("x.bpmn", TWO)))[:2] == (403, "AuthorizationException")
        assert error(await bound.post("/process-definition/key/p/start", json={}))[:2] == (
            403,
            "AuthorizationException",
        )
        assert (await bound.post("/process-definition/key/m/start", json={})).status_code == 200
        gone = await bound.delete(f"/deployment/{theirs['deploymentId']}", params={"cascade": "true"})
        assert error(gone)[0] == 404
    async with client_of(camunda_app, keys.make("read", name="reader")) as reader:
        reader.base_url = httpx.URL("http://api/engine-rest")
        assert error(await create(reader, ("x.bpmn", TWO)))[0] == 403
        assert error(await reader.post("/process-definition/key/m/start", json={}))[0] == 403
