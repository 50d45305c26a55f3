"""Case B71 at /engine-rest: forged, foreign and stale tokens are refused, wherever they are shown, with one answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api import jwt_auth
from app.server.application import create
from app.settings import Settings
from tests.api.conftest import Keys, client_of, serving
from tests.api.test_jwt import (
    CONFIGURATIONS,
    RSA_KEY,
    Sign,
    claims,
    configured,
    forged_tokens,
    pem,
    wrong_claims,
)
from tests.camunda.runtime import deploy
from tests.camunda.test_door import basic
from tests.camunda.test_external_task_polls import FETCH, ask, client_at, waiting

ADDRESSES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/external-task", None), ("GET", "/version", None), ("GET", "/no-such-thing", None),
    ("POST", FETCH, ask()), ("POST", "/external-task/x/complete", {"workerId": "w"}), ("POST", "/message", {}),
    ("POST", "/process-definition/key/p/start", {}), ("DELETE", "/process-instance/x", None),
)  # fmt: skip


@pytest.fixture(params=CONFIGURATIONS)
def configuration(request: pytest.FixtureRequest) -> tuple[dict[str, str], Sign]:
    return CONFIGURATIONS[request.param]


@pytest.fixture
async def app(api_url_db: str, configuration: tuple[dict[str, str], Sign]) -> AsyncIterator[FastAPI]:
    application = create(configured(api_url_db, **configuration[0]))
    async with application.router.lifespan_context(application):
        yield application


async def test_no_forged_token_is_let_in_by_any_way(
    app: FastAPI, configuration: tuple[dict[str, str], Sign], keys: Keys
) -> None:
    fixed, sign = configuration
    good = sign(claims(scope="read work enqueue manage"))
    tokens = forged_tokens(fixed.get("jwt_public_key", pem(RSA_KEY))) + wrong_claims(sign)
    answers = set()
    async with client_of(app, None) as client:
        for token in tokens:
            for shown in ({"Authorization": f"Bearer {token}"}, basic("anyone", token), {"X-API-Key": token}):
                answered = await client.get("/engine-rest/external-task", headers=shown)
                answers.add((answered.status_code, answered.content, answered.headers.get("www-authenticate")))
        for method, path, body in ADDRESSES:
            for shown in ({"Authorization": f"Bearer {tokens[0]}"}, {}):
                answered = await client.request(method, f"/engine-rest{path}", json=body, headers=shown)
                answers.add((answered.status_code, answered.content, answered.headers.get("www-authenticate")))
        # A good one in the wrong place, and a key in the place of a token.
        for request in (
            {"headers": {"Cookie": f"jwt={good}; access_token={good}"}},
            {"params": {"access_token": good, "jwt": good}}, {"headers": {"X-API-Key": good}},
            {"headers": basic("anyone", good)}, {"headers": {"Authorization": good}},
            {"headers": {"Authorization": keys.make()}},
        ):  # fmt: skip
            answered = await client.get("/engine-rest/external-task", **request)  # type: ignore[arg-type]
            answers.add((answered.status_code, answered.content, answered.headers.get("www-authenticate")))
    assert answers == {(401, b"", 'Basic realm="celeriac"')}


async def test_a_good_token_is_let_in_with_what_it_claims(
    app: FastAPI, configuration: tuple[dict[str, str], Sign]
) -> None:
    sign = configuration[1]
    late = int(time.time()) - jwt_auth.LEEWAY_SECONDS + 5
    for claimed in ({}, {"exp": late}):
        async with client_of(app, sign(claims(scope="read work", task_types=["a"], **claimed))) as client:
            assert (await client.get("/engine-rest/external-task")).json() == []
            assert (await client.post(f"/engine-rest{FETCH}", json=ask(wait_ms=None))).json() == []
            assert (await client.post(f"/engine-rest{FETCH}", json=ask(wait_ms=None, topicName="b"))).status_code == 403
            assert (await client.post("/engine-rest/process-definition/key/p/start", json={})).status_code == 403


async def test_an_open_server_is_not_open_to_a_forged_token(camunda: httpx.AsyncClient) -> None:
    for token in forged_tokens(pem(RSA_KEY)):
        for shown in ({"Authorization": f"Bearer {token}"}, basic("demo", token)):
            assert (await camunda.get("/external-task", headers=shown)).status_code == 401


async def test_a_token_that_ends_while_its_poll_waits_gets_nothing(api_url_db: str) -> None:
    fixed, sign = CONFIGURATIONS["HS256"]
    settings: Settings = replace(configured(api_url_db, **fixed), camunda_open=True)
    with serving(settings) as served:
        async with client_at(served) as client:
            await deploy(client)
        exp = int(time.time()) - jwt_auth.LEEWAY_SECONDS + 5
        async with client_at(served) as client, served.async_client(sign(claims(scope="work", exp=exp))) as ending:
            poll = asyncio.create_task(ending.post(f"/engine-rest{FETCH}", json=ask()))
            await waiting(served, 1)
            while (await ending.post(f"/engine-rest{FETCH}", json=ask(wait_ms=None))).status_code != 401:
                await asyncio.sleep(0.05)
            await client.post("/process-definition/key/p/start", json={})
            assert (await poll).status_code == 401
            assert len((await client.post(FETCH, json=ask(wait_ms=None))).json()) == 1
