"""Who may do what at /engine-rest: each route asks for a verb, and what is not the caller's looks missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.camunda import about, elsewhere
from app.camunda.face import ROUTERS
from app.server.application import create
from tests.api.test_jwt import SECRET, claims, configured, sign_with
from tests.app.engine.conftest import flow, model, task
from tests.camunda.conftest import Keys, client_of
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.runtime import create as deploy_files
from tests.camunda.test_door import basic
from tests.camunda.work import done, fetch, fetched

NOBODY = "00000000-0000-7000-8000-000000000000"
VERBS = ("work", "enqueue", "read", "manage", "admin")
WORLD = model(
    '<startEvent id="s"/><parallelGateway id="f"/>' + task("a") + task("b") + '<userTask id="u"/>'
    '<intermediateCatchEvent id="m"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    '<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>P1D</timeDuration></timerEventDefinition>'
    '</intermediateCatchEvent><receiveTask id="r"/>'
    + "".join(flow("f", one) for one in ("a", "b", "u", "m", "t", "r")) + flow("s", "f"),
    '<message id="M" name="m"/>',
)  # fmt: skip


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of everything that there is, but what this server says of itself."""
    for router in ROUTERS:
        if router is not elsewhere.router and router is not about.router:
            for route in router.routes:
                assert isinstance(route, APIRoute)
                yield from ((method, route.path) for method in sorted((route.methods or set()) - {"HEAD"}))


def filled(path: str, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)(?::path)?\}", lambda found: ids.get(found[1], NOBODY), path)


async def test_every_route_asks_for_a_verb_before_it_looks_at_anything(camunda_app: FastAPI, keys: Keys) -> None:
    async with client_of(camunda_app, keys.make("admin")) as client:
        for method, path in routes():
            answered = await client.request(method, filled(path, {}), json={} if method != "GET" else None)
            assert error(answered)[:2] == (403, "AuthorizationException"), (method, path)


async def test_a_key_that_only_reads_changes_nothing_and_one_that_does_not_read_sees_nothing(
    camunda_app: FastAPI, keys: Keys
) -> None:
    """Of every route, exactly one verb is asked for: with the other ones it is refused."""
    clients = {verb: client_of(camunda_app, keys.make(verb, name=verb)) for verb in VERBS[:-1]}
    asks: dict[str, set[str]] = {}
    for method, path in routes():
        if "fetchAndLock" in path:
            continue  # asks for topics first
        for verb, client in clients.items():
            answered = await client.request(method, filled(path, {}), json={} if method != "GET" else None)
            if answered.status_code != 403:
                asks.setdefault(f"{method} {path.removeprefix('/engine-rest')}", set()).add(verb)
    assert {line: verbs for line, verbs in asks.items() if len(verbs) != 1} == {}
    reads = {line for line, verbs in asks.items() if verbs == {"read"}}
    writes = asks.keys() - reads
    assert not [line for line in writes if line.startswith("GET")]
    asking = {line for line in reads if not line.startswith("GET")}
    assert {line.split(" ")[0] for line in asking} == {"POST"}
    assert all(line.endswith("/count") or f"{line}/count" in asking for line in asking)
    for line, verb in (
        ("POST /deployment/create", "manage"), ("POST /process-definition/{given}/start", "enqueue"),
        ("POST /message", "enqueue"), ("POST /signal", "enqueue"), ("POST /task/{task_id}/complete", "work"),
        ("POST /external-task/{task_id}/complete", "work"), ("PUT /job/{job_id}/retries", "manage"),
        ("DELETE /process-instance/{instance_id}", "manage"), ("PUT /external-task/{task_id}/retries", "manage"),
    ):  # fmt: skip
        assert asks[line] == {verb}, line


async def test_what_is_of_other_types_looks_as_if_it_were_not_there(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    """Each address with a real id is answered as with an id that is nobody's."""
    definition = await deploy(camunda, WORLD)
    instance = await start(camunda, variables={"x": {"value": 1}})
    (b,) = await fetched(camunda, "b")
    await done(camunda, b, "failure", errorMessage="broken", retries=0)
    a = await fetch(camunda)
    (resource,) = await at(camunda, f"/deployment/{definition['deploymentId']}/resources")
    (receive,) = await at(camunda, "/execution", activityId="r")
    (variable,) = await at(camunda, "/variable-instance", variableName="x")
    (log, *_) = await at(camunda, "/history/external-task-log")
    ids = {
        "deployment_id": definition["deploymentId"], "resource_id": resource["id"], "given": definition["id"],
        "key": "p", "tenant": "t", "instance_id": instance["id"], "place_id": instance["id"],
        "execution_id": receive["id"], "name": "x", "variable_id": variable["id"], "log_id": log["id"],
        "job_id": (await at(camunda, "/job"))[0]["id"], "incident_id": (await at(camunda, "/incident"))[0]["id"],
        "activity_instance_id": a["activityInstanceId"],
    }  # fmt: skip
    (person,) = await at(camunda, "/task")
    bodies = {"workerId": "w", "lockDuration": 1000, "newDuration": 1000, "retries": 1, "priority": 1, "value": 1,
              "errorCode": "NO", "userId": "ann", "suspended": True, "duedate": None}  # fmt: skip
    before = await everything(camunda)
    async with client_of(camunda_app, keys.make(types=("other.*",))) as bound:
        for method, path in routes():
            real = ids | {"task_id": person["id"] if path.startswith("/engine-rest/task") else a["id"]}
            if "{" not in path or "/key/" in path or path.endswith(("/start", "/submit-form", "/data")):
                continue
            send: dict[str, Any] = {} if method == "GET" else {"json": bodies}
            theirs = await bound.request(method, filled(path, real), **send)
            nobodys = await bound.request(method, filled(path, {"name": "x"}), **send)
            shape = (theirs.status_code, error(theirs)[1] if theirs.content else None)
            assert shape == (nobodys.status_code, error(nobodys)[1] if nobodys.content else None), (method, path)
            assert theirs.status_code == 404, (method, path, theirs.text)
        for method, path in routes():
            if method == "GET" and "{" not in path and "/statistics" not in path:
                answered = (await bound.get(path)).json()
                assert answered in ([], {"count": 0}), path
        for path in (f"{definition['id']}/start", "key/p/start", "key/p/submit-form"):
            refused = await bound.post(f"/engine-rest/process-definition/{path}", json={})
            assert error(refused)[:2] == (403, "AuthorizationException")
        for path, body in (("message", {"messageName": "m"}), ("signal", {"name": "m"})):
            answered = await bound.post(f"/engine-rest/{path}", json=body)
            assert answered.status_code == (400 if path == "message" else 204)
    assert await everything(camunda) == before


async def everything(camunda: httpx.AsyncClient) -> list[Any]:
    paths = (
        "/process-instance", "/external-task", "/task", "/job", "/incident", "/event-subscription", "/deployment",
        "/process-definition", "/variable-instance", "/history/activity-instance", "/history/external-task-log",
    )  # fmt: skip
    return [await at(camunda, path) for path in paths]


async def test_a_key_of_some_types_does_all_with_its_own(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    await deploy(camunda)
    async with client_of(camunda_app, keys.make(types=("a", "b"))) as bound:
        bound.base_url = httpx.URL("http://api/engine-rest")
        instance = await start(bound)
        taken = await fetch(bound)
        await done(bound, taken, variables={"x": {"value": 1}})
        assert (await at(bound, f"/process-instance/{instance['id']}/variables"))["x"]["value"] == 1
        assert (await bound.delete(f"/process-instance/{instance['id']}")).status_code == 204
        # Also what has no task yet: the process is theirs.
        body = '<startEvent id="s"/><serviceTask id="x" camunda:expression="${missing}"/>' + task("a")
        await deploy(camunda, model(body + flow("s", "x", "a"), process='id="q" isExecutable="true"'))
        stuck = await start(bound, "q")
        (job,) = await at(bound, "/job")
        variable = f"/process-instance/{stuck['id']}/variables/missing"
        assert (await bound.put(variable, json={"value": 1})).status_code == 204
        assert (await bound.put(f"/job/{job['id']}/retries", json={"retries": 1})).status_code == 204
        assert [one["activityId"] for one in await at(bound, "/external-task")] == ["a"]
        topics = [{"topicName": "c", "lockDuration": 1000}]
        foreign = await bound.post(
            "/external-task/fetchAndLock", json={"workerId": "w", "maxTasks": 1, "topics": topics}
        )
        assert error(foreign)[:2] == (403, "AuthorizationException")


async def test_a_token_of_an_issuer_is_let_in_with_what_it_claims(api_url_db: str, keys: Keys) -> None:
    app = create(configured(api_url_db, jwt_secret=SECRET))
    sign = sign_with(SECRET, "HS256")
    async with app.router.lifespan_context(app), client_of(app, None) as client:

        async def ask(method: str, path: str, token: str, **more: Any) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return (await client.request(method, f"/engine-rest{path}", headers=headers, **more)).status_code

        reader = sign(claims(scope="read"))
        assert await ask("GET", "/process-instance", reader) == 200
        assert await ask("POST", "/message", reader, json={"messageName": "m"}) == 403
        assert await ask("POST", "/message", sign(claims(scope="enqueue")), json={"messageName": "m"}) == 400
        assert await ask("GET", "/engine/default/task", reader) == 200
        for wrong in (sign(claims(exp=1)), sign_with("x" * 40, "HS256")(claims()), sign(claims(aud="other")), "x.y.z"):
            assert await ask("GET", "/process-instance", wrong) == 401
        # A password is an API key, never a token.
        refused = await client.get("/engine-rest/version", headers=basic("anyone", reader))
        assert (refused.status_code, refused.content) == (401, b"")


@pytest.mark.parametrize("open_", [True, False])
async def test_credentials_that_are_wrong_are_refused_everywhere(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys, settings: Any, open_: bool
) -> None:
    app = camunda_app if open_ else create(settings)
    key = keys.make()
    async with app.router.lifespan_context(app), client_of(app, None) as client:
        for headers in (
            basic("demo", "demo"), basic("anyone", key[:-1]), {"Authorization": "Bearer nothing"},
            {"X-API-Key": "nothing"}, {"Authorization": "Bearer"}, {"Authorization": ""},
        ):  # fmt: skip
            for method, path in (
                ("GET", "/version"), ("GET", "/engine"), ("POST", "/external-task/fetchAndLock"), ("GET", "/nothing"),
                ("GET", "/engine/default/process-instance"), ("POST", "/deployment/create"),
            ):  # fmt: skip
                answered = await client.request(method, f"/engine-rest{path}", headers=headers)
                assert (answered.status_code, answered.content) == (401, b""), (headers, path)
                assert answered.headers["WWW-Authenticate"].startswith("Basic realm=")
        good = await client.get("/engine-rest/process-instance", headers=basic("anyone", key))
        assert good.status_code == 200


async def test_what_was_deployed_by_one_key_is_started_by_another(camunda_app: FastAPI, keys: Keys) -> None:
    deployer = client_of(camunda_app, keys.make("manage", name="deployer"))
    starter = client_of(camunda_app, keys.make("enqueue", name="starter"))
    for client in (deployer, starter):
        client.base_url = httpx.URL("http://api/engine-rest")
    assert (await deploy_files(deployer, ("m.bpmn", TWO))).status_code == 200
    assert error(await deployer.post("/process-definition/key/p/start", json={}))[0] == 403
    assert (await starter.post("/process-definition/key/p/start", json={})).status_code == 200
    assert error(await starter.get("/process-instance"))[0] == 403
