"""Incidents and unknown operations over HTTP: they are seen, and decided once."""

import json
import uuid
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from tests.api.conftest import Keys, client_of
from tests.api.test_signals import state
from tests.held_task import fetch_held, new_held

MISSING = uuid.UUID(int=7)


async def test_an_incident_says_what_was_expected_and_found(api: httpx.AsyncClient, conn: Connection) -> None:
    task = new_held(conn)
    incident_id = str(task.meet_other_code())
    (listed,) = (await api.get("/v1/incidents")).json()["incidents"]
    shown = (await api.get(f"/v1/incidents/{incident_id}")).json()
    assert shown == listed | {"detail": {"expected": "charge", "found": "refund"}}
    assert (listed["incident_id"], listed["task_id"], listed["task_type"]) == (incident_id, str(task.task_id), "mail")
    assert (listed["kind"], listed["state"], listed["name"]) == ("other_code", "OPEN", "charge")
    assert "found refund" in listed["message"]
    assert (listed["resolution"], listed["resolved_by"], listed["resolved_at"]) == (None, None, None)


async def test_a_resolved_incident_lets_its_task_go_on_and_says_who_decided(
    app: FastAPI, api: httpx.AsyncClient, keys: Keys, conn: Connection
) -> None:
    task = new_held(conn)
    incident_id = str(task.meet_other_code())
    async with client_of(app, keys.make("manage", name="anna")) as anna:
        path, decision = f"/v1/incidents/{incident_id}/resolve", {"resolution": "retry", "note": "new code is out"}
        resolved = await anna.post(path, json=decision)
        assert resolved.json() == {
            "incident_id": incident_id,
            "task_id": str(task.task_id),
            "instance_id": None,
            "resolution": "retry",
        }
        assert state(conn, task.task_id) == "READY"
        assert (await anna.post(path, json=decision)).json() == resolved.json()
        other = await anna.post(path, json={"resolution": "fail"})
        assert (other.status_code, other.json()["code"]) == (409, "already_ended")
    assert (await api.get("/v1/incidents")).json()["incidents"] == []
    (kept,) = (await api.get("/v1/incidents", params={"state": "RESOLVED"})).json()["incidents"]
    assert (kept["resolution"], kept["resolved_by"], kept["note"]) == ("retry", "anna", "new code is out")
    assert (await api.get("/v1/incidents", params={"state": "ALL"})).json()["incidents"] == [kept]


async def test_an_incident_can_end_its_task(api: httpx.AsyncClient, conn: Connection) -> None:
    task = new_held(conn)
    await api.post(f"/v1/incidents/{task.meet_other_code()}/resolve", json={"resolution": "fail"})
    assert state(conn, task.task_id) == "FAILED"


async def test_a_resolution_that_the_kind_does_not_have_is_refused(api: httpx.AsyncClient, conn: Connection) -> None:
    other_code = new_held(conn).meet_other_code()
    new_held(conn).lose_track(1, "charge")
    unknown = (await api.get("/v1/incidents", params={"kind": "operation_unknown"})).json()["incidents"][0]
    for incident_id, resolution in ((other_code, "skip"), (unknown["incident_id"], "retry")):
        refused = await api.post(f"/v1/incidents/{incident_id}/resolve", json={"resolution": resolution})
        assert (refused.status_code, refused.json()["field"]) == (422, "resolution")
    assert len((await api.get("/v1/incidents")).json()["incidents"]) == 2


async def test_an_unknown_operation_is_decided_and_its_task_is_given_the_result(
    api: httpx.AsyncClient, conn: Connection
) -> None:
    task = new_held(conn)
    operation_id = str(task.lose_track(1, "charge", {"amount": 7}))
    (listed,) = (await api.get("/v1/operations", params={"state": "UNKNOWN"})).json()["operations"]
    shown = (await api.get(f"/v1/operations/{operation_id}")).json()
    assert shown == listed | {"plan": {"amount": 7}, "result": None}
    assert (listed["operation_id"], listed["name"], listed["attempt"]) == (operation_id, "charge", 1)
    assert (listed["error"], listed["unknown_at"] is None) == ("the bank does not answer", False)
    path, decision = f"/v1/operations/{operation_id}/resolve", {"outcome": "DONE", "result": {"id": 100000.10}}
    resolved = await api.post(path, json=decision)
    assert resolved.json() == {"operation_id": operation_id, "task_id": str(task.task_id), "state": "DONE"}
    assert (await api.post(path, json=decision)).json() == resolved.json()
    assert (await api.post(path, json={"outcome": "FAILED"})).json()["code"] == "already_ended"
    assert state(conn, task.task_id) == "READY"
    (step,) = (await api.get(f"/v1/tasks/{task.task_id}/steps")).json()["steps"]
    assert (step["kind"], step["name"], step["result"]) == ("operation", "charge", {"id": 100000.1})
    assert (await api.get("/v1/incidents")).json()["incidents"] == []


@pytest.mark.parametrize(
    ("outcome", "recorded"),
    [("NOT_DONE", []), ("FAILED", [("charge", "the bank says no")]), ("DONE", [("charge", None)])],
)
async def test_each_outcome_is_what_the_handler_meets(
    api: httpx.AsyncClient, conn: Connection, outcome: str, recorded: list[Any]
) -> None:
    operation_id = new_held(conn).lose_track(1, "charge")
    note = "the bank says no"
    await api.post(f"/v1/operations/{operation_id}/resolve", json={"outcome": outcome, "note": note})
    found = conn.execute(text("select name, error from celeriac.task_steps")).all()
    assert [tuple(row) for row in found] == recorded
    assert fetch_held(conn).begin(1, "charge").fresh == (outcome == "NOT_DONE")


async def test_pages_of_both_lists_hold_everything_once(api: httpx.AsyncClient, conn: Connection) -> None:
    for _ in range(5):
        new_held(conn).lose_track(1, "charge")
    for path, name, key, sort in (
        ("/v1/incidents", "incidents", "incident_id", "created_at"),
        ("/v1/operations", "operations", "operation_id", "started_at"),
    ):
        whole = [found[key] for found in (await api.get(path)).json()[name]]
        assert whole == sorted(whole, reverse=True)
        for order, expected in ((sort, whole[::-1]), (f"-{sort}", whole)):
            assert await all_pages(api, path, name, key, sort=order, limit=2) == expected
        elsewhere = {"incidents": "/v1/operations", "operations": "/v1/incidents"}[name]
        cursor = (await api.get(path, params={"limit": 1})).json()["next_cursor"]
        foreign = await api.get(elsewhere, params={"cursor": cursor})
        assert (foreign.status_code, foreign.json()["field"]) == (422, "cursor")


async def all_pages(api: httpx.AsyncClient, path: str, name: str, key: str, **query: str | int) -> list[str]:
    found: list[str] = []
    while True:
        page = (await api.get(path, params=query)).json()
        found += [item[key] for item in page[name]]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


async def test_lists_are_filtered(api: httpx.AsyncClient, conn: Connection) -> None:
    mail, post = new_held(conn, "mail"), new_held(conn, "post")
    mail.meet_other_code()
    post.lose_track(1, "charge")
    for path, name in (("/v1/incidents", "incidents"), ("/v1/operations", "operations")):
        for query in ({"task_type": "post"}, {"task_id": str(post.task_id)}):
            found = (await api.get(path, params=query)).json()[name]
            assert [item["task_id"] for item in found] == [str(post.task_id)]
        assert (await api.get(path, params={"task_type": "p%"})).json()[name] == []
    kinds = (await api.get("/v1/incidents", params={"kind": "other_code"})).json()["incidents"]
    assert [incident["task_id"] for incident in kinds] == [str(mail.task_id)]
    assert (await api.get("/v1/operations", params={"state": "DONE"})).json()["operations"] == []


async def test_what_belongs_to_a_foreign_task_looks_like_what_is_missing(
    app: FastAPI, keys: Keys, conn: Connection
) -> None:
    """Case B66."""
    payroll = new_held(conn, "payroll")
    payroll.record(1, "secret step", {"salary": 1})
    operation_id = payroll.lose_track(2, "pay")
    incident_id = conn.execute(text("select incident_id from celeriac.incidents")).scalar_one()
    calls: list[tuple[str, str, uuid.UUID, Any]] = [
        ("GET", "/v1/tasks/{}/steps", payroll.task_id, None),
        ("GET", "/v1/incidents/{}", incident_id, None),
        ("POST", "/v1/incidents/{}/resolve", incident_id, {"resolution": "retry"}),
        ("GET", "/v1/operations/{}", operation_id, None),
        ("POST", "/v1/operations/{}/resolve", operation_id, {"outcome": "DONE"}),
    ]
    async with client_of(app, keys.make(types=("mail",), name="mailer")) as mailer:
        for method, path, foreign_id, sent in calls:
            foreign = await mailer.request(method, path.format(foreign_id), json=sent)
            missing = await mailer.request(method, path.format(MISSING), json=sent)
            assert foreign.status_code == missing.status_code == 404, path
            assert foreign.text == missing.text, path
        for path, name in (("/v1/incidents", "incidents"), ("/v1/operations", "operations")):
            for query in ({}, {"task_type": "payroll"}, {"task_id": str(payroll.task_id)}):
                assert (await mailer.get(path, params=query)).json()[name] == []
    assert state(conn, payroll.task_id) == "WAITING"


async def test_open_incidents_are_a_metric(api: httpx.AsyncClient, conn: Connection) -> None:
    new_held(conn).meet_other_code()
    new_held(conn).wait_for("paid")
    figures = (await api.get("/metrics")).text
    assert 'celeriac_open_incidents{kind="other_code",task_type="mail"} 1.0' in figures
    assert 'celeriac_tasks{state="WAITING",task_type="mail"} 2.0' in figures


async def test_what_a_resolution_says_is_refused_by_field_and_not_repeated(
    api: httpx.AsyncClient, conn: Connection
) -> None:
    operation_id = new_held(conn).lose_track(1, "charge")
    large = await api.post(
        f"/v1/operations/{operation_id}/resolve", json={"outcome": "DONE", "result": "x" * 1_048_575}
    )
    assert (large.status_code, large.json()["field"]) == (413, "result")
    with_result = {"outcome": "FAILED", "result": "sk-TEST-secret"}
    wrong = await api.post(f"/v1/operations/{operation_id}/resolve", json=with_result)
    assert (wrong.status_code, wrong.json()["field"]) == (422, "result")
    assert "sk-TEST" not in json.dumps(wrong.json())
