"""Bad input on every route: refused with 4xx, the field named, nothing written, nothing echoed."""

import gzip
import json
import socket
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.api import body
from app.server.application import create
from app.settings import Settings
from tests.api.conftest import Served, client_of, wait_until

ID = str(uuid.UUID(int=7))
HELD = {"worker_id": "w", "fencing_token": 1}
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/external-tasks/fetch-and-lock"): {"worker_id": "w", "task_types": ["mail"]},
    ("POST", "/v1/external-tasks/complete"): {"worker_id": "w", "tasks": [{"task_id": ID}]},
    ("POST", "/v1/external-tasks/fail"): {"worker_id": "w", "tasks": [{"task_id": ID, "error": "x"}]},
    ("POST", f"/v1/external-tasks/{ID}/complete"): HELD,
    ("POST", f"/v1/external-tasks/{ID}/fail"): HELD | {"error": "x"},
    ("POST", f"/v1/external-tasks/{ID}/bpmn-error"): HELD | {"code": "x"},
    ("POST", f"/v1/external-tasks/{ID}/extend-lock"): HELD | {"lock_duration_ms": 1000},
    ("POST", f"/v1/external-tasks/{ID}/unlock"): HELD,
    ("POST", "/v1/tasks"): {"task_type": "mail"},
    ("POST", "/v1/tasks/batch"): {"tasks": [{"task_type": "mail"}]},
    ("POST", "/v1/tasks/redrive"): {"task_type": "mail"},
    ("POST", f"/v1/tasks/{ID}/cancel"): {"reason": "x"},
    ("POST", f"/v1/tasks/{ID}/redrive"): {"retries": 1},
    ("POST", "/v1/signals"): {"topic": "paid", "key": "order-7", "payload": {"n": 1}},
    ("POST", f"/v1/incidents/{ID}/resolve"): {"resolution": "retry"},
    ("POST", f"/v1/operations/{ID}/resolve"): {"outcome": "DONE", "result": {"n": 1}},
    ("POST", "/v1/process-instances"): {"process_key": "order", "variables": {"n": 1}},
    ("POST", f"/v1/process-instances/{ID}/cancel"): {"reason": "x"},
    ("POST", f"/v1/process-instances/{ID}/migrate"): {"process_version": 1},
    ("PATCH", f"/v1/process-instances/{ID}/variables"): {"variables": {"n": 1}},
    ("POST", f"/v1/process-instances/{ID}/tokens/{ID}/complete"): {"variables": {"n": 1}},
    ("POST", "/v1/messages"): {"name": "paid", "business_key": "order-7"},
    ("POST", "/v1/process-signals"): {"name": "closed"},
    ("PUT", "/v1/task-types/mail"): {"retries": 1},
    ("PUT", "/v1/schedules/nightly"): {"cron": "30 2 * * *", "task": {"task_type": "mail"}},
    ("PUT", "/v1/workers/w"): {"kind": "external", "task_types": ["mail"]},
    ("POST", "/v1/keys"): {"name": "n", "verbs": ["read"], "task_types": ["*"]},
}
WITHOUT_BODY = [
    ("GET", "/v1/tasks"),
    ("GET", f"/v1/tasks/{ID}"),
    ("GET", f"/v1/tasks/{ID}/steps"),
    ("GET", "/v1/incidents"),
    ("GET", f"/v1/incidents/{ID}"),
    ("GET", "/v1/operations"),
    ("GET", f"/v1/operations/{ID}"),
    ("GET", "/v1/process-definitions"),
    ("GET", f"/v1/process-definitions/{ID}"),
    ("GET", f"/v1/process-definitions/{ID}/xml"),
    ("GET", f"/v1/process-definitions/{ID}/diagram.svg"),
    ("POST", "/v1/process-definitions"),
    ("GET", "/v1/process-instances"),
    ("GET", f"/v1/process-instances/{ID}"),
    ("GET", f"/v1/process-instances/{ID}/history"),
    ("GET", f"/v1/process-instances/{ID}/diagram.svg"),
    ("POST", f"/v1/process-instances/{ID}/suspend"),
    ("POST", f"/v1/process-instances/{ID}/resume"),
    ("GET", "/v1/task-types"),
    ("GET", "/v1/task-types/mail"),
    ("GET", "/v1/schedules"),
    ("GET", "/v1/schedules/nightly"),
    ("DELETE", "/v1/schedules/nightly"),
    ("POST", "/v1/schedules/nightly/pause"),
    ("POST", "/v1/schedules/nightly/resume"),
    ("GET", "/v1/workers"),
    ("GET", "/v1/keys"),
    ("DELETE", f"/v1/keys/{ID}"),
    ("GET", "/metrics"),
]
SECRET = "sk-TEST-abc'd\"e/+=="


def problem_of(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in statuses, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "code", "detail"} <= problem.keys()
    assert problem["status"] == answer.status_code
    for word in ("select", "celeriac.", "psycopg", "Traceback", "SQL"):
        assert word not in answer.text
    return problem


def test_every_route_is_covered_here() -> None:
    document = create(Settings(database_url="postgresql://nobody@localhost/nowhere")).openapi()
    known = {(method, path) for path, methods in document["paths"].items() for method in methods}
    here = {(method, _template(path)) for method, path in [*BODIES, *WITHOUT_BODY]}
    assert {(method.upper(), path) for method, path in known} - here == {
        ("GET", "/health/live"),
        ("GET", "/health/ready"),
    }


def _template(path: str) -> str:
    ids = {
        "/v1/keys": "key_id",
        "/v1/incidents": "incident_id",
        "/v1/operations": "operation_id",
        "/v1/process-definitions": "definition_id",
        "/v1/process-instances": "instance_id",
    }
    path = path.replace(f"/tokens/{ID}", "/tokens/{token_id}")
    kind = next((name for prefix, name in ids.items() if path.startswith(prefix)), "task_id")
    template = path.replace(ID, f"{{{kind}}}").replace("/task-types/mail", "/task-types/{name}")
    template = template.replace("/schedules/nightly", "/schedules/{name}")
    return template.replace("/workers/w", "/workers/{worker_id}")


async def test_bad_bodies_are_refused_on_every_route_that_takes_one(api: httpx.AsyncClient, conn: Connection) -> None:
    """Cases B13, B17 and B73: one list of bodies for all routes."""
    for (method, path), good in BODIES.items():
        text_of_good = json.dumps(good)
        for name, raw, statuses in bad_bodies(text_of_good):
            answer = await api.request(method, path, content=raw, headers={"Content-Type": "application/json"})
            assert answer.status_code in statuses, (name, method, path, answer.status_code, answer.text)
            problem_of(answer, *statuses)
    assert written(conn) == 0


def bad_bodies(good: str) -> list[tuple[str, bytes, tuple[int, ...]]]:
    inside = good[:-1]
    return [
        ("not JSON", b"{", (400,)),
        ("empty text", b" ", (400,)),
        ("an array", b"[]", (422,)),
        ("a number", b"17", (422,)),
        ("null", b"null", (422,)),
        ("trailing text", good.encode() + b"x", (400,)),
        ("not UTF-8", inside.encode() + b',"x":"\xff"}', (400,)),
        ("UTF-16", good.encode("utf-16"), (400,)),
        ("an unknown field", f'{inside},"no_such_field":1}}'.encode(), (422,)),
        ("a doubled key", f'{inside},"x":1,"x":2}}'.encode(), (400,)),
        ("NaN", f'{inside},"x":NaN}}'.encode(), (400,)),
        ("Infinity", f'{inside},"x":-Infinity}}'.encode(), (400,)),
        ("1e400", f'{inside},"x":1e400}}'.encode(), (400,)),
        ("a long number", f'{inside},"x":{"9" * 5000}}}'.encode(), (400,)),
        ("NUL", f'{inside},"x":"a\\u0000b"}}'.encode(), (400,)),
        ("NUL in a key", f'{inside},"a\\u0000b":1}}'.encode(), (400,)),
        ("half a surrogate pair", f'{inside},"x":"\\ud800"}}'.encode(), (400,)),
        ("6 000 levels", f'{inside},"x":{"[" * 6000}{"]" * 6000}}}'.encode(), (400,)),
        ("200 000 levels", f'{inside},"x":{"[" * 200_000}{"]" * 200_000}}}'.encode(), (400,)),
        ("too large", b'{"x":"' + b"x" * body.LARGEST_BODY_BYTES + b'"}', (413,)),
    ]  # fmt: skip


def written(conn: Connection) -> int:
    counted = (
        "select (select count(*) from celeriac.task_list) + (select count(*) from celeriac.task_types)"
        " + (select count(*) from celeriac.worker_list) + (select count(*) - 1 from celeriac.api_keys)"
        " + (select count(*) from celeriac.signals) + (select count(*) from celeriac.schedules)"
    )
    return int(conn.execute(text(counted)).scalar_one())


async def test_other_media_types_and_encodings_are_refused_on_every_route(api: httpx.AsyncClient) -> None:
    """Case B73, first part."""
    heads = [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ]
    for (method, path), good in BODIES.items():
        for head in heads:
            answer = await api.request(method, path, content=gzip.compress(json.dumps(good).encode()), headers=head)
            problem_of(answer, 415)


async def test_without_a_key_every_route_says_401_before_it_reads_the_body(app: FastAPI) -> None:
    """Case B73: unknown callers cannot make us read."""

    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    async with client_of(app, None) as nobody:
        for method, path in BODIES:
            answer = await nobody.request(method, path, content=never(), headers={"Content-Type": "application/json"})
            problem_of(answer, 401)
        for method, path in WITHOUT_BODY:
            problem_of(await nobody.request(method, path), 401)


WRONG_FIELDS = [
    ("/v1/external-tasks/fetch-and-lock", {"worker_id": ""}, "worker_id"),
    ("/v1/external-tasks/fetch-and-lock", {"worker_id": "x" * 256}, "worker_id"),
    ("/v1/external-tasks/fetch-and-lock", {"worker_id": "a\u200bb"}, "worker_id"),
    ("/v1/external-tasks/fetch-and-lock", {"worker_id": 5}, "worker_id"),
    ("/v1/external-tasks/fetch-and-lock", {"task_types": []}, "task_types"),
    ("/v1/external-tasks/fetch-and-lock", {"task_types": "mail"}, "task_types"),
    ("/v1/external-tasks/fetch-and-lock", {"task_types": ["mail", "ma*"]}, "task_types.1"),
    ("/v1/external-tasks/fetch-and-lock", {"task_types": [" mail"]}, "task_types.0"),
    ("/v1/external-tasks/fetch-and-lock", {"task_types": [f"t{n}" for n in range(10_000)]}, "task_types"),
    ("/v1/external-tasks/fetch-and-lock", {"max_tasks": 0}, "max_tasks"),
    ("/v1/external-tasks/fetch-and-lock", {"max_tasks": 1001}, "max_tasks"),
    ("/v1/external-tasks/fetch-and-lock", {"max_tasks": "1"}, "max_tasks"),
    ("/v1/external-tasks/fetch-and-lock", {"max_tasks": 1.0}, "max_tasks"),
    ("/v1/external-tasks/fetch-and-lock", {"max_tasks": True}, "max_tasks"),
    ("/v1/external-tasks/fetch-and-lock", {"lock_duration_ms": 0}, "lock_duration_ms"),
    ("/v1/external-tasks/fetch-and-lock", {"lock_duration_ms": 2_592_000_001}, "lock_duration_ms"),
    ("/v1/external-tasks/fetch-and-lock", {"wait_ms": 60_001}, "wait_ms"),
    ("/v1/external-tasks/fetch-and-lock", {"wait_ms": -1}, "wait_ms"),
    ("/v1/external-tasks/fetch-and-lock", {"versions": {"mail": [0]}}, "versions.mail.0"),
    ("/v1/external-tasks/fetch-and-lock", {"versions": {"other": [1]}}, "versions"),
    *[
        (f"/v1/external-tasks/{ID}/fail", {"retry_after_ms": value}, "retry_after_ms")
        for value in (-1, 86_400_000_000_000, 1_000_000_000_000_000, 2**63 - 1, 1.5, "60000")
    ],
    *[(f"/v1/external-tasks/{ID}/fail", {"retries": value}, "retries") for value in (-1, 2**31, 1.5, "3")],
    (f"/v1/external-tasks/{ID}/fail", {"error": None}, "error"),
    (f"/v1/external-tasks/{ID}/complete", {"fencing_token": 2**63}, "fencing_token"),
    (f"/v1/external-tasks/{ID}/complete", {"fencing_token": -1}, "fencing_token"),
    (f"/v1/external-tasks/{ID}/complete", {"variables": [1]}, "variables"),
    (f"/v1/external-tasks/{ID}/extend-lock", {"lock_duration_ms": 10**18}, "lock_duration_ms"),
    ("/v1/external-tasks/complete", {"tasks": [{"task_id": "../x"}]}, "tasks.0.task_id"),
    ("/v1/external-tasks/complete", {"tasks": []}, "tasks"),
    ("/v1/tasks", {"task_type": "x" * 256}, "task_type"),
    ("/v1/tasks", {"task_type": "a\nb"}, "task_type"),
    ("/v1/tasks", {"priority": -1}, "priority"),
    ("/v1/tasks", {"priority": 2**31}, "priority"),
    ("/v1/tasks", {"version": 0}, "version"),
    ("/v1/tasks", {"retries": 0}, "retries"),
    ("/v1/tasks", {"delay_ms": 3_155_760_000_001}, "delay_ms"),
    ("/v1/tasks", {"run_at": "2031-05-01"}, "run_at"),
    ("/v1/tasks", {"run_at": "2031-05-01T00:00:00"}, "run_at"),
    ("/v1/tasks", {"run_at": "9999-12-31T23:59:59Z"}, "run_at"),
    ("/v1/tasks", {"run_at": "2031-13-01T00:00:00Z"}, "run_at"),
    ("/v1/tasks", {"run_at": "0001-01-01T00:00:00+05:00"}, "run_at"),
    ("/v1/tasks/redrive", {"failed_after": "2031-05-01T00:00:00+22:11"}, "failed_after"),
    ("/v1/tasks", {"run_at": "2031-05-01T00:00:00Z", "delay_ms": 1}, "run_at"),
    (
        "/v1/tasks/batch",
        {"tasks": [{"task_type": "a", "run_at": "2031-05-01T00:00:00Z", "delay_ms": 1}]},
        "tasks.0.run_at",
    ),
    ("/v1/tasks", {"business_key": ""}, "business_key"),
    ("/v1/tasks", {"policy": {"backoff_factor": 0.5}}, "policy.backoff_factor"),
    ("/v1/tasks", {"policy": {"backoff_jitter": 2}}, "policy.backoff_jitter"),
    ("/v1/tasks", {"policy": {"nonsense": 2}}, "policy.nonsense"),
    ("/v1/tasks", {"token_id": "x"}, "token_id"),
    ("/v1/tasks", {"concurrency_key": " x"}, "concurrency_key"),
    (f"/v1/tasks/{ID}/cancel", {"compensate": "yes"}, "compensate"),
    (f"/v1/tasks/{ID}/cancel", {"compensate": 1}, "compensate"),
    ("/v1/signals", {"topic": ""}, "topic"),
    ("/v1/signals", {"topic": "a\u200bb"}, "topic"),
    ("/v1/signals", {"topic": None}, "topic"),
    ("/v1/signals", {"key": ""}, "key"),
    ("/v1/signals", {"key": 7}, "key"),
    ("/v1/signals", {"ttl_ms": -1}, "ttl_ms"),
    ("/v1/signals", {"ttl_ms": 3_155_760_000_001}, "ttl_ms"),
    ("/v1/signals", {"ttl_ms": "1000"}, "ttl_ms"),
    ("/v1/signals", {"dedupe_id": "x" * 256}, "dedupe_id"),
    ("/v1/signals", {"broadcast": 1}, "broadcast"),
    (f"/v1/incidents/{ID}/resolve", {"resolution": "ignore"}, "resolution"),
    (f"/v1/incidents/{ID}/resolve", {"resolution": "RETRY"}, "resolution"),
    (f"/v1/incidents/{ID}/resolve", {"note": 5}, "note"),
    (f"/v1/operations/{ID}/resolve", {"outcome": "done"}, "outcome"),
    (f"/v1/operations/{ID}/resolve", {"outcome": "UNKNOWN"}, "outcome"),
    (f"/v1/operations/{ID}/resolve", {"outcome": "NOT_DONE"}, "result"),
    ("/v1/tasks/redrive", {"failed_after": "yesterday"}, "failed_after"),
    ("/v1/keys", {"verbs": ["root"]}, "verbs.0"),
    ("/v1/keys", {"verbs": []}, "verbs"),
    ("/v1/keys", {"expires_at": "9999-12-31T23:59:59-15:00"}, "expires_at"),
    ("/v1/keys", {"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
]


async def test_a_wrong_field_is_named_and_nothing_is_written(api: httpx.AsyncClient, conn: Connection) -> None:
    """Cases B18 and B66 among them."""
    for path, wrong, field in WRONG_FIELDS:
        answer = await api.post(path, json=BODIES["POST", path] | wrong)
        problem = problem_of(answer, 422)
        assert problem.get("field") == field, (path, wrong, problem)
    assert written(conn) == 0


@pytest.mark.parametrize("wrong", [[], "x", 1, False])
async def test_what_must_be_an_object_is_told_so_in_words_of_json(api: httpx.AsyncClient, wrong: object) -> None:
    whole = problem_of(await api.post("/v1/tasks", json=wrong), 422)
    part = problem_of(await api.post("/v1/tasks/batch", json={"tasks": [wrong]}), 422)
    assert (whole["detail"], part["detail"]) == ("must be a JSON object", "tasks.0: must be a JSON object")
    assert "errors" not in whole  # there is no field to name


@pytest.mark.parametrize("name", ["body", "path", "query", "x" * 100, "a\nb"])
async def test_a_field_is_named_whatever_it_is_called(api: httpx.AsyncClient, name: str) -> None:
    raw = json.dumps({"task_type": "mail", name: 0})[:-2] + "NaN}"
    refused = await api.post("/v1/tasks", content=raw, headers={"Content-Type": "application/json"})
    unknown = await api.post("/v1/tasks", json={"task_type": "mail", name: 0})
    shown = name[:64].replace("\n", "\\n")
    assert (problem_of(refused, 400)["field"], problem_of(unknown, 422)["field"]) == (shown, shown)


async def test_a_refusal_never_repeats_what_was_sent(api: httpx.AsyncClient, caplog: Any) -> None:
    """Case B77: not in the answer, not in the log."""
    for (method, path), good in BODIES.items():
        for field in good:
            answer = await api.request(method, path, json=good | {field: {"x": [SECRET]}})
            assert SECRET[:7] not in answer.text
        answer = await api.request(method, f"{path}?key={SECRET}", json=good | {"unknown": SECRET})
        problem_of(answer, 422)
        assert SECRET[:7] not in answer.text
    assert SECRET[:7] not in caplog.text


@pytest.mark.parametrize("name", ["sort", "state", "limit", "cursor", "task_type", "no_such_filter"])
async def test_only_names_from_a_fixed_list_sort_and_filter(api: httpx.AsyncClient, name: str) -> None:
    """Case B72."""
    values = [
        "created_at:desc", "createTime,asc", "id; select pg_sleep(5)--", "(select 1/0)", "api_key_hash", "ID", '"id"',
        "(case when 1=1 then id else priority end)", "id) desc, (select version()", "id\0", "pg_sleep(5)",
        "2 desc nulls first",
        "priority desc,(select count(*) from pg_shadow)", "-1", "0", "1000000000", "all",
    ]  # fmt: skip
    for value in values:
        answer = await api.get("/v1/tasks", params={name: value})
        if name == "task_type" and value.isprintable():
            assert (answer.status_code, answer.json()["tasks"]) == (200, [])
        else:
            assert problem_of(answer, 422)["field"] == name


@pytest.mark.parametrize("value", ["1_0", "+5", " 5", "5.0", "٥", "0x5", "5" * 20])
async def test_a_number_in_an_address_is_written_in_digits(api: httpx.AsyncClient, value: str) -> None:
    assert problem_of(await api.get("/v1/tasks", params={"limit": value}), 422)["field"] == "limit"


async def test_an_address_that_takes_no_parameters_says_so(api: httpx.AsyncClient, conn: Connection) -> None:
    """A filter that is passed over in silence would look as if it had been applied."""
    for (method, path), good in BODIES.items():
        answer = await api.request(method, path, json=good, params={"dry_run": "true"})
        assert problem_of(answer, 422)["field"] == "dry_run"
    assert written(conn) == 0
    for method, path in WITHOUT_BODY:
        if path.startswith("/v1"):
            assert problem_of(await api.request(method, path, params={"filter": "x"}), 422)["field"] == "filter"


async def test_a_changed_or_foreign_cursor_is_refused(api: httpx.AsyncClient) -> None:
    """Case B72, second part."""
    await api.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}] * 3})
    cursor = (await api.get("/v1/tasks", params={"limit": 1})).json()["next_cursor"]
    changed = ("A" if cursor[3] != "A" else "B").join([cursor[:3], cursor[4:]])
    for query in (
        {"cursor": changed},
        {"cursor": cursor, "sort": "created_at"},
        {"cursor": cursor, "task_type": "mail"},
    ):
        assert problem_of(await api.get("/v1/tasks", params=query), 422)["field"] == "cursor"


async def test_percent_and_underscore_are_plain_letters_in_filters(api: httpx.AsyncClient) -> None:
    """Case B72, third part."""
    await api.post("/v1/tasks", json={"task_type": "mail", "business_key": "order-1"})
    for pattern in ("%", "order-_", "order%"):
        assert (await api.get("/v1/tasks", params={"business_key": pattern})).json()["tasks"] == []


async def test_unknown_addresses_and_methods_are_problems_too(api: httpx.AsyncClient) -> None:
    problem_of(await api.get("/v1/nothing"), 404)
    problem_of(await api.get("/"), 404)
    problem_of(await api.delete("/v1/tasks"), 405)
    problem_of(await api.get("/v1/tasks/not-a-uuid"), 422)


async def test_a_name_from_an_address_is_text_and_nothing_more(api: httpx.AsyncClient) -> None:
    """Case B75: names that climb are refused or stored as what they are."""
    for name in ("..%2f..%2fetc", "%00", "a%0Ab", "%252e", "x" * 300, "<script>"):
        put = await api.put(f"/v1/task-types/{name}", json={})
        assert put.status_code in (200, 404, 405, 422), (name, put.text)
        if put.status_code == 200:
            assert (await api.get(f"/v1/task-types/{name}")).json()["name"] == put.json()["name"]


def send_raw(served: Served, *pieces: bytes, until_closed: bool = False) -> bytes:
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = connection.recv(65536)
        while until_closed and (more := connection.recv(65536)):
            received += more
        return received


@pytest.mark.parametrize(
    "head",
    [b"FOO / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n", b"GET / HTTP/1.1\nHost: x\n", b"\x16\x03\x01"],
)
def test_what_is_no_http_is_a_problem_like_any_other(served: Served, head: bytes) -> None:
    answer_head, _, answer_body = send_raw(served, head + b"\r\n").partition(b"\r\n\r\n")
    assert answer_head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in answer_head
    assert json.loads(answer_body)["code"] == "malformed"


def test_heads_that_are_too_large_are_refused_on_the_wire(served: Served) -> None:
    """Case B73, fourth part."""
    get = b"GET /v1/tasks HTTP/1.1\r\nHost: x\r\n"
    assert b" 431 " in send_raw(served, get + b"X: " + b"x" * 65_536 + b"\r\n\r\n")
    assert b" 431 " in send_raw(served, get + b"X: x\r\n" * 200 + b"\r\n")
    query = b"&".join(b"k%d=1" % n for n in range(10_000))
    assert b" 414 " in send_raw(served, b"GET /v1/tasks?" + query + b" HTTP/1.1\r\nHost: x\r\n\r\n")


def test_a_body_without_a_length_is_counted_as_it_comes(served: Served, key: str) -> None:
    """Case B73: chunked, and a length that lies."""
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    assert b" 413 " in send_raw(served, head.encode() + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 5)
    assert b" 413 " in send_raw(served, head.encode() + b"Content-Length: 99999999999\r\n\r\n")
    assert b" 40" in send_raw(served, head.encode() + b"Content-Length: -1\r\n\r\n")


@pytest.mark.parametrize(
    "more, sent",
    [
        ("Transfer-Encoding: gzip, chunked", b"2\r\n{}\r\n0\r\n\r\n"),
        ("Content-Length: 2\r\nContent-Type: text/plain", b"{}"),
        ("Content-Length: 2\r\nContent-Encoding: br", b"{}"),
    ],
)
def test_a_body_is_plain_json_by_every_one_of_its_headers(served: Served, key: str, more: str, sent: bytes) -> None:
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    assert b" 415 " in send_raw(served, f"{head}{more}\r\n\r\n".encode() + sent)


def test_a_body_that_drips_is_given_up(served: Served, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case B73, third part."""
    monkeypatch.setattr(body, "BODY_SECONDS", 0.2)
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    assert b" 408 " in send_raw(served, head.encode() + b"Content-Length: 50\r\n\r\n{")


UPGRADES = {
    "what Java's own client sends": (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
    ),
    "what Apache's client sends": b"Upgrade: TLS/1.2\r\nConnection: Upgrade\r\n",
    "a websocket": b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
}


@pytest.mark.parametrize("offer", UPGRADES)
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_an_offer_of_another_protocol_is_not_taken_and_loses_nothing(
    served: Served, key: str, offer: str, piece: int
) -> None:
    """Two requests on one connection, however their bytes come; the parser leaves out the body of one that offers."""
    sent = b'{"task_type":"mail","variables":{"n":1}}'
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    whole = head.encode() + UPGRADES[offer] + b"Content-Length: %d\r\n\r\n" % len(sent) + sent
    last = head.encode() + UPGRADES[offer].replace(b"Connection: ", b"Connection: close, ")
    chunked = last + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(sent), sent)
    both = whole + chunked
    answers = send_raw(served, *(both[at : at + piece] for at in range(0, len(both), piece)), until_closed=True)
    assert answers.count(b"HTTP/1.1 201 ") == 2


def test_a_tunnel_is_refused(served: Served) -> None:
    assert send_raw(served, b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 40")


def test_a_head_that_drips_is_hung_up_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.protocol.ARRIVAL_SECONDS", 0.2)
    assert send_raw(served, b"GET /v1/tasks HTT") == b""


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault_of_ours(served: Served, key: str) -> None:
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + b"Content-Length: 50\r\n\r\n{")
    registry = served.application.state.parts.instruments.registry
    labels = {"method": "POST", "route": "/v1/tasks", "status": "499"}
    wait_until(lambda: registry.get_sample_value("celeriac_request_seconds_count", labels) == 1)
