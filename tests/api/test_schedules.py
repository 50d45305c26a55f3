"""Schedules over HTTP: put, look, pause, resume, delete; what is refused, and what a key may."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.api.database import Database
from tests.api.conftest import Keys, client_of
from tests.api.test_door import problem_of
from tests.clock import Clock

NIGHTLY = "/v1/schedules/nightly"
CRON = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "task": {"task_type": "mail"}}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def set_to(clock: Clock, moment: str) -> None:
    clock.freeze()
    clock.advance((datetime.fromisoformat(moment).replace(tzinfo=UTC) - clock.now()).total_seconds())


async def test_a_schedule_is_put_read_listed_and_deleted(api: httpx.AsyncClient, clock: Clock) -> None:
    set_to(clock, "2030-03-30T12:00:00")
    task = {"task_type": "mail", "variables": {"n": 1.10}, "priority": 3, "policy": {"lease_ms": 5000}}
    put = await api.put(NIGHTLY, json=CRON | {"task": task, "catch_up": "none", "slot_variable": "due"})
    assert put.status_code == 200, put.text
    made = put.json()
    assert (made["name"], made["cron"], made["every"], made["time_zone"]) == (
        *("nightly", "30 2 * * *", None, "Europe/Berlin"),
    )
    assert made["next_at"] == "2030-03-31T01:00:00Z", "02:30 does not exist on that day"
    assert made["task"] == task
    assert '"n":1.1' in put.text.replace(" ", "")
    assert (made["catch_up"], made["slot_variable"], made["paused"], made["error"]) == ("none", "due", False, None)
    assert (made["fired"], made["missed"], made["last_slot_at"], made["principal"]) == (0, 0, None, "tester")
    assert (await api.get(NIGHTLY)).json() == made
    assert (await api.get("/v1/schedules")).json() == {"schedules": [made], "next_cursor": None}
    assert (await api.delete(NIGHTLY)).json() == {"name": "nightly"}
    problem_of(await api.get(NIGHTLY), 404)
    problem_of(await api.delete(NIGHTLY), 404)


async def test_a_period_counts_from_its_anchor_or_from_monday_midnight(api: httpx.AsyncClient, clock: Clock) -> None:
    set_to(clock, "2031-11-05T12:00:00")  # a Wednesday
    task = {"task_type": "mail"}
    sent = {"every": "P1M", "anchor_at": "2031-10-31t10:00:00.123456789+02:00", "task": task}
    monthly = (await api.put("/v1/schedules/monthly", json=sent)).json()
    assert (monthly["next_at"], monthly["anchor_at"]) == ("2031-11-30T08:00:00.123456Z", "2031-10-31T08:00:00.123456Z")
    weekly = (await api.put("/v1/schedules/weekly", json={"every": "P1W", "task": task})).json()
    assert (weekly["next_at"], weekly["time_zone"]) == ("2031-11-10T00:00:00Z", "UTC")


async def test_putting_the_same_again_keeps_the_next_slot(api: httpx.AsyncClient, clock: Clock) -> None:
    first = (await api.put(NIGHTLY, json=CRON)).json()
    clock.advance(2 * 86400)
    again = (await api.put(NIGHTLY, json=CRON | {"task": {"task_type": "print"}})).json()
    assert (again["next_at"], again["task"]) == (first["next_at"], {"task_type": "print"})
    other = (await api.put(NIGHTLY, json=CRON | {"cron": "31 2 * * *"})).json()
    assert other["next_at"] > first["next_at"]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"cron": "61 2 * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0 0 */31 * MON#5"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"cron": None}, "cron"),
        ({"every": "P1D"}, "cron"),
        ({"cron": None, "every": "P1.5M"}, "every"),
        ({"cron": None, "every": "PT0S"}, "every"),
        ({"cron": None, "every": 60000}, "every"),
        ({"anchor_at": "2030-01-01T00:00:00Z"}, "anchor_at"),
        ({"cron": None, "every": "P1D", "anchor_at": "2030-01-01T00:00:00"}, "anchor_at"),
        ({"cron": None, "every": "P1D", "anchor_at": "2999-01-01T00:00:00Z"}, "anchor_at"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone"),
        ({"time_zone": ""}, "time_zone"),
        ({"time_zone": None}, "time_zone"),
        ({"catch_up": "some"}, "catch_up"),
        ({"slot_variable": " due"}, "slot_variable"),
        ({"task": {}}, "task.task_type"),
        ({"task": {"task_type": "mail.*"}}, "task.task_type"),
        ({"task": {"task_type": "mail", "delay_ms": 1}}, "task.delay_ms"),
        ({"task": {"task_type": "mail", "idempotency_key": "k"}}, "task.idempotency_key"),
        ({"task": {"task_type": "mail", "variables": [1]}}, "task.variables"),
        ({"task": {"task_type": "mail", "policy": {"lease_ms": 0}}}, "task.policy.lease_ms"),
        ({"paused": True}, "paused"),
    ],
)
async def test_what_could_never_fire_is_refused_with_its_field_and_not_repeated(
    api: httpx.AsyncClient, changed: dict[str, Any], field: str
) -> None:
    problem = problem_of(await api.put(NIGHTLY, json=CRON | changed), 422)
    assert problem["field"] == field
    for value in changed.values():
        assert not isinstance(value, str) or len(value) < 8 or value not in problem["detail"]
    assert (await api.get("/v1/schedules")).json()["schedules"] == []


@pytest.mark.parametrize("name", ["x" * 201, "a%0Ab", "%20nightly", "%00"])
async def test_a_name_that_is_none_is_refused(api: httpx.AsyncClient, name: str) -> None:
    problem_of(await api.put(f"/v1/schedules/{name}", json=CRON), 422)


async def test_a_paused_schedule_resumes_at_its_next_slot_from_now(api: httpx.AsyncClient, clock: Clock) -> None:
    set_to(clock, "2030-06-01T12:00:00")
    await api.put(NIGHTLY, json=CRON)
    for _ in range(2):
        paused = (await api.post(f"{NIGHTLY}/pause")).json()
        assert (paused["paused"], paused["next_at"]) == (True, None)
    clock.advance(9 * 86400)
    for _ in range(2):
        resumed = (await api.post(f"{NIGHTLY}/resume")).json()
        assert (resumed["paused"], resumed["next_at"], resumed["missed"]) == (False, "2030-06-11T00:30:00Z", 0)


async def test_a_schedule_that_stood_still_resumes_once_it_can_be_read(
    api: httpx.AsyncClient, conn: Connection
) -> None:
    await api.put(NIGHTLY, json=CRON)
    conn.execute(text("update celeriac.schedule set next_at = null, error = 'x', time_zone = 'No/Where'"))
    assert problem_of(await api.post(f"{NIGHTLY}/resume"), 422)["field"] == "time_zone"
    conn.execute(text("update celeriac.schedule set time_zone = 'Europe/Paris'"))
    resumed = (await api.post(f"{NIGHTLY}/resume")).json()
    assert (resumed["error"], resumed["next_at"] is None) == (None, False)


async def test_a_resume_that_meets_a_change_goes_by_the_new_timing(
    api: httpx.AsyncClient, clock: Clock, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to(clock, "2030-06-01T12:00:00")
    await api.put(NIGHTLY, json=CRON)
    await api.post(f"{NIGHTLY}/pause")
    real, changes = Database.rows, []

    async def change_first(self: Database, function: str, **arguments: Any) -> Any:
        if function == "pause_schedule" and not changes:
            changes.append(1)
            clock.advance(1)
            await api.put(NIGHTLY, json=CRON | {"cron": "0 4 * * *"})
        return await real(self, function, **arguments)

    monkeypatch.setattr(Database, "rows", change_first)
    assert (await api.post(f"{NIGHTLY}/resume")).json()["next_at"] == "2030-06-02T02:00:00Z"


async def test_lists_come_in_pages_by_name(api: httpx.AsyncClient) -> None:
    names = ["Zebra", "apple", "b.c", "größe", "ärger"]
    for name in names:
        await api.put(f"/v1/schedules/{name}", json=CRON)
    await api.put("/v1/schedules/other", json=CRON | {"task": {"task_type": "print"}})
    found, cursor = [], None
    while True:
        page = (await api.get("/v1/schedules", params={"limit": "2"} | ({"cursor": cursor} if cursor else {}))).json()
        found += [one["name"] for one in page["schedules"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == sorted([*names, "other"])
    filtered = (await api.get("/v1/schedules", params={"task_type": "print"})).json()["schedules"]
    assert [one["name"] for one in filtered] == ["other"]


@pytest.mark.parametrize(
    ("params", "field"),
    [({"limit": "0"}, "limit"), ({"limit": "201"}, "limit"), ({"sort": "name"}, "sort"), ({"cursor": ""}, "cursor"),
     ({"cursor": "%"}, "cursor"), ({"cursor": "AA=="}, "cursor"), ({"cursor": "4pi"}, "cursor")],
)  # fmt: skip
async def test_parameters_of_a_list_are_checked(api: httpx.AsyncClient, params: dict[str, str], field: str) -> None:
    assert problem_of(await api.get("/v1/schedules", params=params), 422)["field"].endswith(field)


async def test_a_key_sees_and_changes_schedules_of_its_own_types_only(
    app: FastAPI, api: httpx.AsyncClient, keys: Keys
) -> None:
    await api.put("/v1/schedules/salaries", json=CRON | {"task": {"task_type": "payroll"}})
    async with client_of(app, keys.make(types=("mail",), name="mailer")) as mailer:
        assert (await mailer.get("/v1/schedules")).json()["schedules"] == []
        for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")]:
            foreign = await mailer.request(method, f"/v1/schedules/salaries{path}")
            missing = await mailer.request(method, f"/v1/schedules/nothing{path}")
            assert foreign.status_code == 404, path
            assert foreign.text == missing.text
        assert (await mailer.put("/v1/schedules/x", json=CRON | {"task": {"task_type": "payroll"}})).status_code == 403
        assert (await mailer.put("/v1/schedules/salaries", json=CRON)).status_code == 403
        assert (await mailer.put(NIGHTLY, json=CRON)).status_code == 200
    assert [one["name"] for one in (await api.get("/v1/schedules")).json()["schedules"]] == ["nightly", "salaries"]


@pytest.mark.parametrize(
    ("verbs", "allowed"),
    [
        (("read",), {"GET"}),
        (("enqueue",), set()),
        (("manage",), {"DELETE", "POST"}),
        (("manage", "enqueue"), {"PUT", "DELETE", "POST"}),
    ],
)
async def test_each_verb_allows_its_own_calls(
    app: FastAPI, api: httpx.AsyncClient, keys: Keys, verbs: tuple[str, ...], allowed: set[str]
) -> None:
    await api.put(NIGHTLY, json=CRON)
    calls = [("GET", "/v1/schedules"), ("GET", NIGHTLY), ("PUT", NIGHTLY), ("POST", f"{NIGHTLY}/pause"),
             ("POST", f"{NIGHTLY}/resume"), ("DELETE", NIGHTLY)]  # fmt: skip
    async with client_of(app, keys.make(*verbs, name="limited")) as limited:
        for method, path in calls:
            answer = await limited.request(method, path, json=CRON if method == "PUT" else None)
            assert (answer.status_code == 200) == (method in allowed), (method, path, answer.text)
            assert answer.status_code in (200, 403)


async def test_many_puts_and_resumes_at_once_leave_one_schedule_that_fires(api: httpx.AsyncClient) -> None:
    calls = []
    for number in range(12):
        calls += [
            api.put(NIGHTLY, json=CRON | {"cron": f"{number} 2 * * *"}),
            api.post(f"{NIGHTLY}/pause"),
            api.post(f"{NIGHTLY}/resume"),
        ]
    await api.put(NIGHTLY, json=CRON)
    answers = await asyncio.gather(*calls)
    assert {answer.status_code for answer in answers} <= {200, 503}
    await api.post(f"{NIGHTLY}/resume")
    schedule = (await api.get(NIGHTLY)).json()
    minute = moment(schedule["next_at"]).minute
    assert schedule["cron"] == f"{minute} 2 * * *", "the next slot is of the timing that is there"
    assert moment(schedule["next_at"]) > datetime.now(UTC) - timedelta(seconds=60)
