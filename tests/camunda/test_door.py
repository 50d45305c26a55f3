"""The door of /engine-rest: who is let in, what bodies are taken, and the one shape of every refusal."""

from __future__ import annotations

import base64

import httpx
import pytest
from fastapi import FastAPI

from app.server.application import create
from app.settings import Settings
from tests.api.conftest import Keys, client_of
from tests.camunda.runtime import TWO, deploy, error


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
async def closed(settings: Settings) -> FastAPI:
    return create(settings)


async def test_a_server_that_was_not_told_to_be_open_asks_for_a_key(closed: FastAPI, keys: Keys) -> None:
    key = keys.make()
    async with closed.router.lifespan_context(closed), client_of(closed, None) as client:
        nobody = await client.get("/engine-rest/version")
        assert (nobody.status_code, nobody.content) == (401, b"")
        assert nobody.headers["WWW-Authenticate"].startswith("Basic realm=")
        for headers in (basic("anyone", key), {"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
            assert (await client.get("/engine-rest/version", headers=headers)).json() == {"version": "7.24.0"}
        for headers in (
            basic("anyone", "secret"), basic("anyone", key + "x"), {"Authorization": "Basic %%%"},
            {"Authorization": "Basic"}, {"Authorization": f"Digest {key}"}, {**basic("anyone", key), "X-API-Key": key},
        ):  # fmt: skip
            assert (await client.get("/engine-rest/version", headers=headers)).status_code == 401, headers


async def test_an_open_server_still_judges_a_key_that_is_shown(camunda: httpx.AsyncClient, keys: Keys) -> None:
    assert (await camunda.get("/version")).status_code == 200
    assert (await camunda.get("/version", headers=basic("anyone", "wrong"))).status_code == 401
    assert (await camunda.get("/version", headers=basic("anyone", keys.make()))).status_code == 200


async def test_the_log_tells_who_showed_nothing_from_who_showed_a_key(
    camunda: httpx.AsyncClient, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "celeriac.access"):
        await camunda.get("/version")
        await camunda.get("/version", headers=basic("anyone", keys.make()))
    nobody, somebody = caplog.messages
    assert nobody.endswith(" principal='camunda' key=none")
    assert not somebody.endswith(("key=none", "key=jwt"))


async def test_answers_are_json_without_a_charset_and_errors_have_the_three_fields(camunda: httpx.AsyncClient) -> None:
    found = await camunda.get("/engine")
    assert (found.headers["content-type"], found.json()) == ("application/json", [{"name": "default"}])
    missing = await camunda.get("/no-such-thing")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/json")
    nothing = "HTTP 404 Not Found: there is nothing at GET /no-such-thing"
    assert missing.json() == {"type": "NotFoundException", "message": nothing, "code": None}


@pytest.mark.parametrize(
    "path", ["/variable-instance/a%0Ab", "/no%0Asuch", "/process-instance/%0D%0AX:%20y/variables/a"]
)
async def test_a_line_break_in_an_address_is_answered_in_the_same_shape(camunda: httpx.AsyncClient, path: str) -> None:
    answered = await camunda.get(f"http://api/engine-rest{path}")
    assert (answered.status_code, sorted(answered.json())) == (404, ["code", "message", "type"])


@pytest.mark.parametrize("path", ["//version", "/version/", "//engine/default/version", "/engine/default//version"])
async def test_a_base_address_may_end_with_a_slash(camunda: httpx.AsyncClient, path: str) -> None:
    answered = await camunda.get(f"http://api/engine-rest{path}")
    assert (answered.status_code, answered.json()) == (200, {"version": "7.24.0"})


async def test_the_engine_may_be_named_in_the_address(camunda: httpx.AsyncClient) -> None:
    assert (await camunda.get("/engine/default/version")).json() == {"version": "7.24.0"}
    other = await camunda.get("/engine/other/version")
    assert (other.status_code, other.json()["type"]) == (404, "InvalidRequestException")


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://api:99"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
    ],
    ids=lambda sent: "-".join(sent.values()),
)  # fmt: skip
async def test_a_page_of_somebody_else_cannot_write_with_a_visitors_browser(
    camunda: httpx.AsyncClient, sent: dict[str, str]
) -> None:
    """Empty bodies and forms a browser sends from any page without asking, with the credentials that it keeps."""
    await deploy(camunda)
    empty = {**sent, "Content-Type": "application/x-www-form-urlencoded"}
    for answered in (
        await camunda.post("/process-definition/key/p/start", headers=empty),
        await camunda.post("/deployment/create", headers=sent, files={"x": ("model.bpmn", TWO)}),
        await camunda.put("/process-definition/key/p/suspended", headers=sent, json={"suspended": True}),
    ):
        assert error(answered)[:2] == (403, "AuthorizationException")
    assert (await camunda.get("/process-instance/count", headers=sent)).json() == {"count": 0}
    assert (await camunda.get("/process-definition/count")).json() == {"count": 1}


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "http://api"}, {"Origin": "https://outer", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "file://", "Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Mode": "cors"},
    ],
    ids=lambda sent: "-".join(sent.values()),
)  # fmt: skip
async def test_ones_own_page_and_a_program_may_write(camunda: httpx.AsyncClient, sent: dict[str, str]) -> None:
    """Camunda Modeler is a page at file://, which no site can say."""
    await deploy(camunda)
    assert (await camunda.post("/process-definition/key/p/start", headers=sent, json={})).status_code == 200
