"""Case B73 at /engine-rest: bodies that are small on the wire, deep, endless or slow; on every route that takes one."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.api import body
from app.camunda import elsewhere
from app.camunda.face import ROUTERS
from app.camunda.route import LARGEST_BODY_BYTES
from app.server.application import create as create_application
from app.settings import Settings
from tests.api.conftest import Served, client_of
from tests.api.test_door import send_raw
from tests.camunda.runtime import at, deploy, error, start

ID = "0b7a4d0e-5f51-4c0c-9d0b-4a4f5e1c9a11"
JSON = {"Content-Type": "application/json"}


def writes() -> Iterator[tuple[str, str]]:
    """Method and address of each route that may have a body."""
    for router in ROUTERS:
        if router is not elsewhere.router:
            for route in router.routes:
                assert isinstance(route, APIRoute)
                for method in sorted(route.methods or ()):
                    if method not in ("GET", "HEAD"):
                        yield method, re.sub(r"\{[^}]+\}", ID, route.path).removeprefix("/engine-rest")


WRITES = sorted(set(writes()))
FORMS = [(method, path) for method, path in WRITES if path.endswith(("/deployment/create", "/data"))]
"""Routes that take a form alone, and read no other body."""


def hostile() -> list[tuple[str, bytes]]:
    return [
        ("not JSON", b"{"), ("an array", b"[]"), ("a number", b"17"), ("a text", b'"x"'), ("trailing text", b"{}x"),
        ("not UTF-8", b'{"x":"\xff"}'), ("UTF-16", "{}".encode("utf-16")), ("a doubled key", b'{"x":1,"x":2}'),
        ("NUL", b'{"x":"\\u0000"}'), ("half a pair", b'{"x":"\\ud800"}'), ("NaN", b'{"x":NaN}'),
        ("6 000 levels", b'{"variables":' + b"[" * 6000 + b"]" * 6000 + b"}"),
        ("200 000 levels", b'{"variables":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
        ("a long number", b'{"v":' + b"9" * 5000 + b"}"), ("gzip", gzip.compress(b'{"a":"' + b"0" * (1 << 20) + b'"}')),
    ]  # fmt: skip


async def test_there_are_such_routes() -> None:
    assert len(WRITES) > 50
    assert ("POST", "/external-task/fetchAndLock") in WRITES


async def test_hostile_bodies_are_refused_on_every_route(camunda: httpx.AsyncClient) -> None:
    for name, raw in hostile():
        for method, path in WRITES:
            for more in ({}, {"Content-Encoding": "gzip"}):
                if more and name != "gzip":
                    continue
                answered = await camunda.request(method, path, content=raw, headers=JSON | more)
                statuses = (400, 404, 413, 415) if (method, path) in FORMS else (400, 413, 415)
                assert answered.status_code in statuses, (name, method, path, answered.status_code, answered.text)
                error(answered)


async def test_a_body_that_is_too_large_is_refused_on_every_route(camunda: httpx.AsyncClient) -> None:
    raw = b'{"v":"' + b"x" * LARGEST_BODY_BYTES + b'"}'
    for method, path in [one for one in WRITES if one not in FORMS][::6]:
        assert error(await camunda.request(method, path, content=raw, headers=JSON))[0] == 413, (method, path)


async def test_many_keys_and_lists_are_read_or_refused(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda)
    keys = ",".join(f'"k{number}":0' for number in range(200_000))
    for content in (f"{{{keys}}}", f'{{"variables":{{{keys}}}}}', f'{{"topics":[{",".join(["{}"] * 200_000)}]}}'):
        for path in ("/external-task/fetchAndLock", "/process-definition/key/p/start", "/external-task"):
            answered = await camunda.post(path, content=content.encode(), headers=JSON)
            assert answered.status_code in (200, 400, 413, 500), path
            # 500 is what Camunda says to a worker without a name, and never that something broke.
            assert "went wrong" not in answered.text


async def test_other_media_types_are_not_read(camunda: httpx.AsyncClient) -> None:
    for media_type in ("", "text/plain", "application/x-www-form-urlencoded", "application/xml", "application/jsonx"):
        for method, path in WRITES:
            if (method, path) not in FORMS:
                head = {"Content-Type": media_type} if media_type else {}
                answered = await camunda.request(method, path, content=b'{"workerId": "w"}', headers=head)
                assert error(answered)[0] == 415, (media_type, method, path)


async def test_a_form_of_very_many_parts_is_refused(camunda: httpx.AsyncClient) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="f%d"; filename="f%d.txt"\r\n\r\n\r\n'
    form = b"".join(part % (number, number) for number in range(100_000)) + b"--x--\r\n"
    head = {"Content-Type": "multipart/form-data; boundary=x"}
    for path in ("/deployment/create", f"/process-instance/{ID}/variables/x/data"):
        assert error(await camunda.post(path, content=form, headers=head))[0] in (400, 404, 413), path
    for broken in (
        b"", b"--x", b"--x--", b"--x\r\n\r\n--x--", b"--y\r\n", b"\x00" * 100, gzip.compress(form),
        b"--x\r\nContent-Disposition: form-data\r\n\r\nx",
    ):  # fmt: skip
        assert error(await camunda.post("/deployment/create", content=broken, headers=head))[0] == 400
    for more in ("", "; boundary=", '; boundary="', "; boundary=" + "x" * 5000):
        head = {"Content-Type": f"multipart/form-data{more}"}
        assert error(await camunda.post("/deployment/create", content=form[:500], headers=head))[0] in (400, 413)
    assert await at(camunda, "/deployment/count") == {"count": 0}


async def test_without_a_key_nothing_is_read(settings: Settings) -> None:
    """401 at once, also of what would be refused for its size or its type, and of a body that never comes."""
    application = create_application(settings)

    async def never() -> None:
        raise AssertionError("the body was read")

    async def content() -> object:
        await never()
        yield b""

    async with application.router.lifespan_context(application), client_of(application, None) as client:
        for method, path in WRITES:
            answered = await client.request(method, f"/engine-rest{path}", content=content(), headers=JSON)  # type: ignore[arg-type]
            assert (answered.status_code, answered.content) == (401, b""), (method, path)


class TestOnTheWire:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, camunda_open=True)

    def test_a_body_is_counted_as_it_comes(self, served: Served) -> None:
        head = b"POST /engine-rest/message HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        assert b" 413 " in send_raw(served, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17)
        assert b" 40" in send_raw(served, head + b"Content-Length: -1\r\n\r\n")
        assert b" 414 " in send_raw(
            served, b"GET /engine-rest/task?" + b"k=1&" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        assert b" 431 " in send_raw(served, head + b"X: " + b"x" * 65_536 + b"\r\n\r\n")

    def test_a_body_that_drips_is_given_up(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(body, "BODY_SECONDS", 0.2)
        head = b"POST /engine-rest/message HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        answered = send_raw(served, head + b"Content-Length: 50\r\n\r\n{")
        assert b" 408 " in answered
        assert json.loads(answered.partition(b"\r\n\r\n")[2])["type"] == "RestException"

    def test_fifty_at_once_do_no_harm(self, served: Served) -> None:
        raw = b'{"variables":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
        with httpx.Client(base_url=f"{served.url}/engine-rest", timeout=60) as client:
            for _ in range(50):
                assert client.post("/message", content=raw, headers=JSON).status_code == 400
            assert client.get("/version").status_code == 200


async def test_the_names_of_many_variables_are_all_there(camunda: httpx.AsyncClient, camunda_app: FastAPI) -> None:
    await deploy(camunda)
    variables = {f"v{number}": {"value": number} for number in range(5000)}
    instance = (await start(camunda, variables=variables))["id"]
    assert len(await at(camunda, f"/process-instance/{instance}/variables")) == 5000
