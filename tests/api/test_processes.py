"""Processes over HTTP: deploy, start, work, look, change, stop."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task

TWO = model('<startEvent id="s"/>' + task("a") + task("b") + '<endEvent id="e"/>' + flow("s", "a", "b", "e"))
XML = {"Content-Type": "application/xml"}


async def deploy(api: httpx.AsyncClient, content: bytes = TWO, **query: str) -> dict[str, Any]:
    answered = await api.post("/v1/process-definitions", params=query, content=content, headers=XML)
    assert answered.status_code == 201, answered.text
    deployed: dict[str, Any] = answered.json()
    return deployed


async def start(api: httpx.AsyncClient, key: str = "p", **fields: Any) -> str:
    answered = await api.post("/v1/process-instances", json={"process_key": key, **fields})
    assert answered.status_code == 201, answered.text
    return str(answered.json()["instance_id"])


async def fetch(api: httpx.AsyncClient, topic: str) -> dict[str, Any]:
    answered = await api.post("/v1/external-tasks/fetch-and-lock", json={"worker_id": "w", "task_types": [topic]})
    (fetched,) = answered.json()
    return dict(fetched)


async def complete(api: httpx.AsyncClient, topic: str, verb: str = "complete", **fields: Any) -> httpx.Response:
    fetched = await fetch(api, topic)
    body = {"worker_id": "w", "fencing_token": fetched["fencing_token"], **fields}
    answered = await api.post(f"/v1/external-tasks/{fetched['task_id']}/{verb}", json=body)
    assert answered.status_code == 200, answered.text
    return answered


async def look(api: httpx.AsyncClient, instance: str) -> dict[str, Any]:
    answered = await api.get(f"/v1/process-instances/{instance}")
    assert answered.status_code == 200, answered.text
    found: dict[str, Any] = answered.json()
    return found


def at(instance: dict[str, Any]) -> list[str]:
    return sorted(token["node"] for token in instance["tokens"])


async def test_an_instance_goes_from_one_worker_to_the_next_within_each_call(api: httpx.AsyncClient) -> None:
    deployed = await deploy(api)
    assert [(one["key"], one["version"]) for one in deployed["definitions"]] == [("p", 1)]
    instance = await start(api, business_key="B-1", variables={"x": 1})
    fetched = await fetch(api, "a")
    stands = await look(api, instance)
    assert (fetched["instance_id"], fetched["token_id"]) == (instance, stands["tokens"][0]["token_id"])
    assert fetched["process_instance"] == instance
    body = {"worker_id": "w", "fencing_token": fetched["fencing_token"], "variables": {"y": 2}}
    answered = await api.post(f"/v1/external-tasks/{fetched['task_id']}/complete", json=body)
    assert answered.json() == {"task_id": fetched["task_id"], "state": "COMPLETED"}
    assert at(await look(api, instance)) == ["b"]
    await complete(api, "b")
    ended = await look(api, instance)
    assert (ended["status"], ended["variables"], ended["tokens"]) == ("COMPLETED", {"x": 1, "y": 2}, [])


async def test_everything_that_is_wrong_is_told_at_once_with_its_line(api: httpx.AsyncClient) -> None:
    broken = model('<startEvent id="s"/>\n<serviceTask id="a"/>\n<callActivity id="c"/>' + flow("s", "a", "x"))
    answered = await api.post("/v1/process-definitions", content=broken, headers=XML)
    assert (answered.status_code, answered.headers["content-type"]) == (422, "application/problem+json")
    told = {(one["element"], one["line"], one["severity"]) for one in answered.json()["findings"]}
    assert told >= {("a", 2, "error"), ("c", 3, "error"), ("a-x", 3, "error")}
    assert (await api.get("/v1/process-definitions")).json()["definitions"] == []


@pytest.mark.parametrize("content", [b"", b"no xml", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', b"\xff\xfe\x00"])
async def test_what_is_no_model_is_refused(api: httpx.AsyncClient, content: bytes) -> None:
    answered = await api.post("/v1/process-definitions", content=content, headers=XML)
    assert (answered.status_code, answered.json()["code"]) == (422, "invalid")


async def test_several_files_are_one_deployment(api: httpx.AsyncClient) -> None:
    other = model('<startEvent id="s"/><endEvent id="e"/>' + flow("s", "e"), process='id="q"')
    files = [("files", ("one.bpmn", TWO)), ("files", ("two.bpmn", other)), ("files", ("readme.txt", b"\x00\r\n--"))]
    answered = await api.post("/v1/process-definitions", files=files, params={"name": "orders"})
    assert answered.status_code == 201, answered.text
    assert sorted(one["key"] for one in answered.json()["definitions"]) == ["p", "q"]
    (q,) = [one for one in answered.json()["definitions"] if one["key"] == "q"]
    xml = await api.get(f"/v1/process-definitions/{q['definition_id']}/xml")
    assert xml.content == other


async def test_the_same_bytes_are_answered_with_what_is_there(api: httpx.AsyncClient) -> None:
    first = await deploy(api)
    again = await api.post("/v1/process-definitions", content=TWO, headers=XML)
    assert (again.status_code, again.json()["definitions"]) == (200, first["definitions"])


async def test_an_idempotency_key_starts_one_instance(api: httpx.AsyncClient) -> None:
    await deploy(api)
    body = {"process_key": "p", "idempotency_key": "k"}
    first, again = [await api.post("/v1/process-instances", json=body) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["instance_id"] == again.json()["instance_id"]
    other = await api.post("/v1/process-instances", json=body | {"business_key": "B-2"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_failures_business_errors_and_batches_advance_too(api: httpx.AsyncClient) -> None:
    error = '<boundaryEvent id="no" attachedToRef="a"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    body = '<startEvent id="s"/>' + task("a") + error + task("b") + task("c") + '<endEvent id="e"/>'
    roots = '<error id="E" errorCode="SOLD_OUT"/>'
    await deploy(api, model(body + flow("s", "a", "b", "e") + flow("no", "c", "e"), roots))
    instance = await start(api)
    answered = await complete(api, "a", "bpmn-error", code="SOLD_OUT", message="none left", variables={"z": 1})
    assert answered.json()["state"] == "COMPLETED"
    assert at(await look(api, instance)) == ["c"]
    fetched = await fetch(api, "c")
    failure = {"task_id": fetched["task_id"], "fencing_token": fetched["fencing_token"], "error": "x", "retries": 0}
    batch = await api.post("/v1/external-tasks/fail", json={"worker_id": "w", "tasks": [failure]})
    assert batch.json()["results"][0]["state"] == "FAILED"
    stuck = await look(api, instance)
    (incident,) = stuck["open_incidents"]
    assert (incident["kind"], incident["node"], stuck["incidents"]) == ("failed", "c", 1)
    listed = (await api.get("/v1/incidents", params={"instance_id": instance})).json()["incidents"]
    assert [one["incident_id"] for one in listed] == [incident["incident_id"]]
    with_incident = await api.get("/v1/process-instances", params={"has_incident": "true"})
    assert [one["instance_id"] for one in with_incident.json()["instances"]] == [instance]
    address = f"/v1/incidents/{incident['incident_id']}/resolve"
    assert (await api.post(address, json={"resolution": "skip"})).status_code == 422
    resolved = await api.post(address, json={"resolution": "retry", "note": "mended"})
    assert (resolved.status_code, resolved.json()["instance_id"]) == (200, instance)
    fetched = await fetch(api, "c")
    done = {"task_id": fetched["task_id"], "fencing_token": fetched["fencing_token"]}
    await api.post("/v1/external-tasks/complete", json={"worker_id": "w", "tasks": [done]})
    assert (await look(api, instance))["status"] == "COMPLETED"


async def test_an_error_of_ours_leaves_the_completion_and_the_advance_to_the_chore(
    api: httpx.AsyncClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deploy(api)
    instance = await start(api)

    async def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("app.api.advancing.aadvance", breaks)
    assert (await complete(api, "a")).json()["state"] == "COMPLETED"
    assert at(await look(api, instance)) == ["a"]
    monkeypatch.undo()
    await app.state.parts.advancer.advance([instance])
    assert at(await look(api, instance)) == ["b"]


async def test_canceling_a_task_of_an_instance_is_an_incident_of_it(api: httpx.AsyncClient) -> None:
    await deploy(api)
    instance = await start(api)
    fetched = await fetch(api, "a")
    assert (await api.post(f"/v1/tasks/{fetched['task_id']}/cancel")).status_code == 200
    assert [one["kind"] for one in (await look(api, instance))["open_incidents"]] == ["failed"]


async def test_an_instance_stands_still_is_changed_and_is_stopped(api: httpx.AsyncClient) -> None:
    await deploy(api)
    instance = await start(api, variables={"x": 1, "gone": 2})
    address = f"/v1/process-instances/{instance}"
    fetched = await fetch(api, "a")
    assert (await api.post(f"{address}/suspend")).json()["suspended"] is True
    body = {"worker_id": "w", "fencing_token": fetched["fencing_token"]}
    assert (await api.post(f"/v1/external-tasks/{fetched['task_id']}/complete", json=body)).status_code == 200
    assert at(await look(api, instance)) == ["a"]
    changed = await api.patch(f"{address}/variables", json={"variables": {"x": 5}, "remove": ["gone"]})
    assert changed.json()["changed"] == 1
    assert (await api.post(f"{address}/resume")).json()["suspended"] is False
    stands = await look(api, instance)
    assert (at(stands), stands["variables"]) == (["b"], {"x": 5})
    canceled = [(await api.post(f"{address}/cancel", json={"reason": "enough"})).json()["status"] for _ in range(2)]
    assert (canceled, (await look(api, instance))["reason"]) == (["CANCELED", "CANCELED"], "enough")
    assert (await api.get("/v1/tasks", params={"state": "CANCELED"})).json()["tasks"][0]["task_type"] == "b"


async def test_a_user_task_is_completed_by_its_token(api: httpx.AsyncClient) -> None:
    body = '<startEvent id="s"/><userTask id="u"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "u", "a", "e")
    await deploy(api, model(body))
    instance = await start(api)
    token = (await look(api, instance))["tokens"][0]["token_id"]
    address = f"/v1/process-instances/{instance}/tokens/{token}/complete"
    assert (await api.post(address, json={"variables": {"ok": True}})).status_code == 200
    stands = await look(api, instance)
    assert (at(stands), stands["variables"]) == (["a"], {"ok": True})
    assert (await api.post(address)).status_code == 404
    worked = stands["tokens"][0]["token_id"]
    assert (await api.post(f"/v1/process-instances/{instance}/tokens/{worked}/complete")).status_code == 422


WAITS = model(
    '<startEvent id="s"/>'
    '<intermediateCatchEvent id="m"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    '<intermediateCatchEvent id="g"><signalEventDefinition signalRef="S"/></intermediateCatchEvent><endEvent id="e"/>'
    + flow("s", "m", "g", "e"),
    '<message id="M" name="paid"/><signal id="S" name="go"/>',
)


async def test_messages_and_signals_reach_what_waits_and_nobody_is_told_so(api: httpx.AsyncClient) -> None:
    await deploy(api, WAITS)
    nobody = await api.post("/v1/messages", json={"name": "paid", "business_key": "B-1"})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "no_waiter")
    one, other = [await start(api, business_key=key, variables={"n": key}) for key in ("B-1", "B-2")]
    assert (await look(api, one))["waits"][0]["name"] == "paid"
    both = await api.post("/v1/messages", json={"name": "paid"})
    assert both.status_code == 422
    reached = await api.post("/v1/messages", json={"name": "paid", "business_key": "B-1", "variables": {"sum": 2**70}})
    assert reached.json()["reached"] == [{"instance_id": one, "definition_id": None, "started": False}]
    fits = await api.post("/v1/messages", json={"name": "paid", "correlation": {"n": "B-2"}})
    assert [row["instance_id"] for row in fits.json()["reached"]] == [other]
    assert '"sum":1180591620717411303424' in (await api.get(f"/v1/process-instances/{one}")).text.replace(" ", "")
    went = await api.post("/v1/process-signals", json={"name": "go"})
    assert sorted(row["instance_id"] for row in went.json()["reached"]) == sorted([one, other])
    assert [(await look(api, each))["status"] for each in (one, other)] == ["COMPLETED", "COMPLETED"]
    unheard = await api.post("/v1/process-signals", json={"name": "go"})
    assert unheard.json() == {"reached": [], "kept": False}


async def test_a_message_that_is_kept_goes_to_who_waits_next(api: httpx.AsyncClient) -> None:
    await deploy(api, WAITS)
    kept = await api.post("/v1/messages", json={"name": "paid", "business_key": "B-1", "ttl_ms": 60_000})
    assert kept.json() == {"reached": [], "kept": True}
    instance = await start(api, business_key="B-1")
    assert at(await look(api, instance)) == ["g"]


async def test_history_comes_page_by_page_and_pictures_show_where_it_stands(api: httpx.AsyncClient) -> None:
    deployed = await deploy(api)
    instance = await start(api)
    await complete(api, "a")
    address = f"/v1/process-instances/{instance}"
    events, cursor = [], None
    while True:
        query = {"limit": 2} | ({} if cursor is None else {"cursor": cursor})
        page = (await api.get(f"{address}/history", params=query)).json()
        events += [(one["what"], one["node"], one["worker_id"]) for one in page["history"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert ("left", "a", "w") in events
    assert events[-1] == ("entered", "b", None)
    svg = await api.get(f"{address}/diagram.svg")
    assert svg.headers["content-type"].startswith("image/svg+xml")
    assert "1 tokens here" in svg.text
    plain = await api.get(f"/v1/process-definitions/{deployed['definitions'][0]['definition_id']}/diagram.svg")
    assert "tokens here" not in plain.text


async def test_lists_are_filtered_and_paged(api: httpx.AsyncClient) -> None:
    await deploy(api)
    made = [await start(api, business_key=f"B-{number}") for number in range(3)]
    await api.post(f"/v1/process-instances/{made[0]}/cancel")

    async def ids(**query: Any) -> list[str]:
        answered = await api.get("/v1/process-instances", params=query)
        assert answered.status_code == 200, answered.text
        return [one["instance_id"] for one in answered.json()["instances"]]

    assert await ids() == made[::-1]
    assert await ids(status="OPEN", sort="started_at") == made[1:]
    assert await ids(status="CANCELED") == made[:1]
    assert await ids(business_key="B-1") == [made[1]]
    assert await ids(process_key="other") == []
    assert await ids(process_version=1, suspended="false", has_incident="false") == made[::-1]
    middle = (await look(api, made[1]))["started_at"]
    assert await ids(started_after=middle) == [made[2], made[1]]
    assert await ids(started_before=middle) == [made[0]]
    first = (await api.get("/v1/process-instances", params={"limit": 2})).json()
    assert await ids(limit=2, cursor=first["next_cursor"]) == [made[0]]


async def test_a_process_that_only_an_event_begins_is_not_started_by_itself(api: httpx.AsyncClient) -> None:
    start_event = '<startEvent id="s"><messageEventDefinition messageRef="M"/></startEvent>'
    body = start_event + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e")
    await deploy(api, model(body, '<message id="M" name="ordered"/>'))
    assert (await api.post("/v1/process-instances", json={"process_key": "p"})).status_code == 422
    began = await api.post("/v1/messages", json={"name": "ordered", "variables": {"x": 1}})
    (reached,) = began.json()["reached"]
    assert reached["started"] is True
    assert at(await look(api, reached["instance_id"])) == ["a"]


async def test_a_bound_key_has_only_processes_whose_topics_are_all_its_own(
    api: httpx.AsyncClient, app: FastAPI, keys: Keys
) -> None:
    """Case B66, step 2."""
    await deploy(api, WAITS)
    await deploy(api, TWO.replace(b'id="p"', b'id="two"'))
    instance = await start(api, "two")
    async with client_of(app, keys.make(types=("a",), name="bound")) as bound:
        answered = await bound.post("/v1/process-definitions", content=TWO.replace(b'"e"', b'"end"'), headers=XML)
        assert answered.status_code == 403
        assert (await bound.post("/v1/process-instances", json={"process_key": "two"})).status_code == 403
        assert (await bound.get("/v1/process-instances")).json()["instances"] == []
        for way in ("", "/history", "/diagram.svg"):
            assert (await bound.get(f"/v1/process-instances/{instance}{way}")).status_code == 404
        assert (await bound.post(f"/v1/process-instances/{instance}/cancel")).status_code == 404
        assert [one["key"] for one in (await bound.get("/v1/process-definitions")).json()["definitions"]] == ["p"]
        # A process without topics is nobody's secret.
        mine = await start(bound, "p")
        assert at(await look(bound, mine)) == ["m"]
    assert (await look(api, instance))["status"] == "ACTIVE"


async def test_metrics_count_open_instances_and_incidents_without_a_task(api: httpx.AsyncClient) -> None:
    condition = '<sequenceFlow id="g-a" sourceRef="g" targetRef="a">'
    condition += "<conditionExpression>${missing &gt; 1}</conditionExpression></sequenceFlow>"
    body = '<startEvent id="s"/><exclusiveGateway id="g" default="g-e"/>' + task("a") + '<endEvent id="e"/>'
    await deploy(api, model(body + flow("s", "g", "e") + condition + flow("a", "e")))
    instance = await start(api)
    figures = (await api.get("/metrics")).text
    assert 'celeriac_open_instances{process_key="p",status="ACTIVE"} 1.0' in figures
    assert 'celeriac_open_incidents{kind="expression",task_type=""} 1.0' in figures
    (incident,) = (await api.get("/v1/incidents", params={"kind": "expression"})).json()["incidents"]
    assert (incident["name"], incident["task_id"], incident["instance_id"]) == ("g", None, instance)
    assert (await api.get(f"/v1/incidents/{incident['incident_id']}")).json()["token_id"] == incident["token_id"]
    await api.patch(f"/v1/process-instances/{instance}/variables", json={"variables": {"missing": 0}})
    await api.post(f"/v1/incidents/{incident['incident_id']}/resolve", json={"resolution": "retry"})
    assert (await look(api, instance))["status"] == "COMPLETED"


async def test_nobody_makes_a_task_for_somebody_elses_token(api: httpx.AsyncClient, app: FastAPI, keys: Keys) -> None:
    """Its completion would move the instance, past the worker that the model asks for."""
    await deploy(api)
    instance = await start(api)
    token = (await look(api, instance))["tokens"][0]["token_id"]
    async with client_of(app, keys.make("enqueue", "work", types=("mail",), name="mailer")) as mailer:
        for ids in ({"token_id": token, "instance_id": instance}, {"token_id": token}, {"instance_id": instance}):
            item = {"task_type": "mail"} | ids
            assert (await mailer.post("/v1/tasks", json=item)).status_code == 422
            assert (
                await mailer.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}, item]})
            ).status_code == 422
        own = {"task_type": "mail", "token_id": "0198aaaa-0000-7000-8000-000000000000"}
        assert (await mailer.post("/v1/tasks", json=own)).status_code == 201
    assert at(await look(api, instance)) == ["a"]


async def test_an_instance_goes_on_in_another_version_or_is_told_what_does_not_fit(api: httpx.AsyncClient) -> None:
    await deploy(api)
    instance = await start(api)
    address = f"/v1/process-instances/{instance}/migrate"
    assert (await api.post(address, json={"process_version": 2})).status_code == 404
    assert (await api.post(address, json={})).status_code == 422
    assert (await api.post(address, json={"process_version": 1})).json()["status"] == "ACTIVE"


async def test_a_cancel_beside_a_completion_says_how_the_instance_ended(api: httpx.AsyncClient) -> None:
    """Case B38, first part: the answer and the stored end agree, whoever comes first."""
    one = model('<startEvent id="s"/>' + task("a") + '<endEvent id="e"/>' + flow("s", "a", "e"))
    await deploy(api, one)
    ends = set()
    for _ in range(30):
        instance = await start(api)
        fetched = await fetch(api, "a")
        address = f"/v1/external-tasks/{fetched['task_id']}/complete"
        body = {"worker_id": "w", "fencing_token": fetched["fencing_token"]}
        _, canceled = await asyncio.gather(
            api.post(address, json=body), api.post(f"/v1/process-instances/{instance}/cancel", json={})
        )
        end = (await look(api, instance))["status"]
        assert canceled.status_code == (200 if end == "CANCELED" else 409), (canceled.text, end)
        ends.add(end)
    assert ends <= {"CANCELED", "COMPLETED"}
