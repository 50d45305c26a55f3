"""Keys and what they allow: verbs, task-type patterns, foreign looks like missing, revocation, expiry."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.api.keys_auth import make_key
from app.api.rights import Principal, like_pattern
from tests.api.conftest import ALL_VERBS, Keys, client_of
from tests.api.test_door import BODIES, ID, WITHOUT_BODY

FETCH = "/v1/external-tasks/fetch-and-lock"


ENQUEUED = {
    "/v1/tasks", "/v1/tasks/batch", "/v1/signals", "/v1/process-instances", "/v1/messages", "/v1/process-signals",
}  # fmt: skip


def verbs_for(method: str, path: str) -> set[str]:
    if path.startswith("/v1/keys"):
        return {"admin"}
    if path.startswith(("/v1/external-tasks", "/v1/workers")) and method != "GET":
        return {"work"}
    if path.endswith(f"/tokens/{ID}/complete"):
        return {"work"}
    if path in ENQUEUED and method == "POST":
        return {"enqueue"}
    if path.startswith("/v1/schedules") and method == "PUT":
        return {"manage", "enqueue"}
    return {"read"} if method == "GET" else {"manage"}


async def test_every_route_needs_its_verbs_and_no_other(app: FastAPI, keys: Keys) -> None:
    sets_of_verbs = [{verb} for verb in ALL_VERBS] + [{"manage", "enqueue"}, {"read", "work", "admin"}]
    clients = [(verbs, client_of(app, keys.make(*verbs, name="-".join(verbs)))) for verbs in sets_of_verbs]
    routes: list[tuple[str, str, Any]] = [(*route, sent) for route, sent in BODIES.items()]
    for method, path, sent in [*routes, *((*route, None) for route in WITHOUT_BODY)]:
        for verbs, client in clients:
            answer = await client.request(method, path, json=sent)
            allowed = verbs >= verbs_for(method, path)
            assert (answer.status_code != 403) == allowed, (method, path, verbs, answer.text)


@asynccontextmanager
async def mail_only(app: FastAPI, keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app, keys.make(types=("mail", "post.*"), name="mailer")) as client:
        yield client


async def test_a_fetch_that_names_a_foreign_type_is_refused_as_a_whole(
    app: FastAPI, api: httpx.AsyncClient, keys: Keys
) -> None:
    """Case B66, first part."""
    await api.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}, {"task_type": "payroll"}]})
    async with mail_only(app, keys) as mailer:
        for types in (["mail", "payroll"], ["payroll"], ["MAIL"], ["mail", "mail", "payroll"], ["postXa"], ["mailx"]):
            answer = await mailer.post(FETCH, json={"worker_id": "w", "task_types": types})
            assert answer.status_code == 403, types
        twice = await mailer.post(FETCH, json={"worker_id": "w", "task_types": ["mail", "mail"], "max_tasks": 10})
        assert [task["task_type"] for task in twice.json()] == ["mail"]


async def test_a_foreign_task_looks_like_one_that_is_missing(app: FastAPI, api: httpx.AsyncClient, keys: Keys) -> None:
    """Case B66: also with its real token."""
    task_id = (await api.post("/v1/tasks", json={"task_type": "payroll"})).json()["task_id"]
    token = (await api.post(FETCH, json={"worker_id": "w", "task_types": ["payroll"]})).json()[0]["fencing_token"]
    held = {"worker_id": "w", "fencing_token": token}
    calls = [
        ("POST", "/v1/external-tasks/{}/complete", held),
        ("POST", "/v1/external-tasks/{}/fail", held | {"error": "x"}),
        ("POST", "/v1/external-tasks/{}/extend-lock", held | {"lock_duration_ms": 1000}),
        ("POST", "/v1/external-tasks/{}/unlock", held),
        ("POST", "/v1/tasks/{}/cancel", {}),
        ("POST", "/v1/tasks/{}/redrive", {}),
        ("GET", "/v1/tasks/{}", None),
    ]
    async with mail_only(app, keys) as mailer:
        for method, path, sent in calls:
            foreign = await mailer.request(method, path.format(task_id), json=sent)
            missing = await mailer.request(method, path.format(ID), json=sent)
            assert foreign.status_code == missing.status_code == 404, path
            assert foreign.text.replace(task_id, ID) == missing.text, path
        assert (await mailer.get("/v1/tasks")).json()["tasks"] == []
    assert (await api.get(f"/v1/tasks/{task_id}")).json()["state"] == "LOCKED"


async def test_ordering_a_foreign_type_is_forbidden(app: FastAPI, keys: Keys, conn: Connection) -> None:
    async with mail_only(app, keys) as mailer:
        assert (await mailer.post("/v1/tasks", json={"task_type": "payroll"})).status_code == 403
        batch = {"tasks": [{"task_type": "post.letter"}, {"task_type": "payroll"}]}
        assert (await mailer.post("/v1/tasks/batch", json=batch)).status_code == 403
        assert conn.execute(text("select count(*) from celeriac.task_list")).scalar_one() == 0
        assert (await mailer.post("/v1/tasks", json={"task_type": "post.letter"})).status_code == 201
        assert (await mailer.put("/v1/task-types/payroll", json={})).status_code == 403


async def test_a_key_is_shown_once_listed_without_its_text_and_revoked(app: FastAPI, api: httpx.AsyncClient) -> None:
    made = await api.post("/v1/keys", json={"name": "robot", "verbs": ["read"], "task_types": ["*"]})
    assert made.status_code == 201
    text_of_key = made.json()["key"]
    listed = await api.get("/v1/keys")
    assert text_of_key not in listed.text
    assert "robot" in {key["name"] for key in listed.json()["keys"]}
    first = await api.delete(f"/v1/keys/{made.json()['key_id']}")
    assert (await api.delete(f"/v1/keys/{made.json()['key_id']}")).json() == first.json()
    async with client_of(app, text_of_key) as robot:
        assert (await robot.get("/v1/tasks")).status_code == 401


async def test_expired_unknown_and_misplaced_keys_get_one_and_the_same_answer(
    app: FastAPI, keys: Keys, conn: Connection
) -> None:
    """Case B71, fourth part, among them."""
    good = keys.make()
    expired = keys.make(name="old")
    conn.execute(text("update celeriac.api_key set expires_at = now() - interval '1 second' where name = 'old'"))
    attempts: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": good},
        {"Authorization": f"Basic {good}"},
        {"Authorization": f"Bearer {make_key()}"},
        {"Authorization": f"Bearer {expired}"},
        {"Authorization": f"Bearer {good}x"},
        {"Authorization": f"Bearer {good} "},
        {"X-API-Key": "eyJhbGciOiJub25lIn0.e30."},
        {"X-API-Key": ""},
        {"X-API-Key": good, "Authorization": f"Bearer {good}"},
        {"Cookie": f"api_key={good}"},
    ]
    async with client_of(app, None) as client:
        answers = [await client.get("/v1/tasks", headers=headers) for headers in attempts]
        answers.append(await client.get("/v1/tasks", params={"api_key": good, "access_token": good}))
        assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
        assert all(answer.headers["www-authenticate"].startswith("Bearer") for answer in answers)
        assert (await client.get("/v1/tasks", headers={"X-API-Key": good})).status_code == 200
        assert (await client.get("/v1/tasks", headers={"Authorization": f"bearer {good}"})).status_code == 200


@pytest.mark.parametrize(
    "pattern, like, fitting, foreign",
    [
        ("mail", "mail", ["mail"], ["mailx", "Mail", "xmail"]),
        ("media.*", "media.%", ["media.copy", "media."], ["media", "mediaxcopy"]),
        ("a*a", "a%a", ["aa", "aba"], ["a", "aab"]),
        ("*b*bc*", "%b%bc%", ["bbc", "bcbcb"], ["bc", "abc", "cbb"]),
        ("*.copy", "%.copy", ["media.copy"], ["media.copy.x"]),
        ("a_b%c\\d*", "a\\_b\\%c\\\\d%", ["a_b%c\\d", "a_b%c\\dx"], ["axb%c\\d", "a_bxc\\d"]),
    ],
)
async def test_a_pattern_means_the_same_here_and_in_the_database(
    conn: Connection, pattern: str, like: str, fitting: list[str], foreign: list[str]
) -> None:
    principal = Principal("p", frozenset(), (pattern,))
    assert like_pattern(pattern) == like
    for name in fitting + foreign:
        in_database = conn.execute(text("select :name like :like"), {"name": name, "like": like}).scalar_one()
        assert principal.may_touch(name) == in_database == (name in fitting), name


def test_no_patterns_mean_no_types() -> None:
    assert not Principal("p", frozenset(), ()).may_touch("mail")
    assert Principal("p", frozenset(), ()).only_types == []


@pytest.mark.parametrize("pattern", ["*a" * 100 + "*b", "a*" * 127 + "b", "*" * 255])
def test_no_pattern_takes_long_to_try(pattern: str) -> None:
    """A regular expression made of it would take longer than the universe has: the test would not end."""
    assert Principal("p", frozenset(), (pattern,)).may_touch("a" * 255) == (pattern == "*" * 255)
