"""Both clients: the same calls, repeated only where that cannot do the work twice."""

import asyncio
import inspect
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

from celeriac import (
    AsyncClient,
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    IdempotencyConflict,
    Invalid,
    NewTask,
    NotFound,
    ServerUnavailable,
    TooLarge,
    Unauthorized,
    UnexpectedAnswer,
)
from celeriac.values import Completion, Failure, TaskState

QUICK: dict[str, Any] = {"longest_pause_seconds": 0}
ANSWER = {
    "task_id": "0190", "state": "COMPLETED", "task_type": "t", "created": True, "lock_expires_at": "x",
    "lock_duration_ms": 1, "field_of_a_newer_server": 1, "signal_id": "0191", "delivered": 0, "incident_id": "0192",
    "operation_id": "0193", "resolution": "retry", "steps": [],
}  # fmt: skip


class Script:
    """A server that answers (or fails) as written down, once each, and then well. Remembers what it was sent."""

    def __init__(self, *steps: httpx.Response | type[httpx.TransportError], then: Any = ANSWER) -> None:
        self.steps = list(steps)
        self.then = then
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        step = self.steps.pop(0) if self.steps else httpx.Response(200, json=self.then)
        if isinstance(step, httpx.Response):
            return step
        raise step("scripted", request=request)


Call = Callable[[Any], Any]


def blocking(script: Script, call: Call, **options: Any) -> Any:
    with Client("http://server", "clrc_key", transport=httpx.MockTransport(script), **(QUICK | options)) as client:
        return call(client)


def awaited(script: Script, call: Call, **options: Any) -> Any:
    async def run() -> Any:
        transport = httpx.MockTransport(script)
        async with AsyncClient("http://server", "clrc_key", transport=transport, **(QUICK | options)) as client:
            return await call(client)

    return asyncio.run(run())


both = pytest.mark.parametrize("drive", [blocking, awaited])
Drive = Callable[..., Any]


def complete(client: Any) -> Any:
    return client.complete_task("0190", worker_id="w", fencing_token=7, variables={"x": 1})


def problem(status: int, code: str, **more: Any) -> httpx.Response:
    body = {"type": "x", "title": "x", "status": status, "code": code, "detail": "because", **more}
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})


@both
def test_a_call_sends_what_it_says_and_reads_the_answer(drive: Drive) -> None:
    script = Script()
    assert drive(script, complete) == TaskState("0190", "COMPLETED")
    sent = script.seen[0]
    assert (sent.method, sent.url.path) == ("POST", "/v1/external-tasks/0190/complete")
    assert json.loads(sent.content) == {"worker_id": "w", "fencing_token": 7, "variables": {"x": 1}}
    assert sent.headers["authorization"] == "Bearer clrc_key"
    assert sent.headers["content-type"] == "application/json"


def test_both_clients_have_the_same_calls_with_the_same_arguments() -> None:
    def calls(kind: type) -> dict[str, inspect.Signature]:
        named = inspect.getmembers(kind, inspect.isfunction)
        return {name: inspect.signature(call) for name, call in named if hasattr(call, "__wrapped__")}

    assert calls(Client) == calls(AsyncClient)
    assert len(calls(Client)) >= 18
    assert all(getattr(Client, name).__doc__ for name in calls(Client))


LOST = [httpx.ReadError, httpx.ReadTimeout, httpx.WriteError, httpx.RemoteProtocolError]
NEVER_SENT = [httpx.ConnectError, httpx.ConnectTimeout]

REPEATABLE: dict[str, Call] = {
    "get_task": lambda c: c.get_task("0190"),
    "complete_task": complete,
    "extend_lease": lambda c: c.extend_lease("0190", worker_id="w", fencing_token=7, lock_duration_ms=1000),
    "release_task": lambda c: c.release_task("0190", worker_id="w", fencing_token=7),
    "cancel_task": lambda c: c.cancel_task("0190"),
    "enqueue_task with a key": lambda c: c.enqueue_task("t", idempotency_key="k"),
    "register_worker": lambda c: c.register_worker("w", task_types=["t"]),
    "send_signal with a dedupe id": lambda c: c.send_signal("t", dedupe_id="e"),
    "resolve_incident": lambda c: c.resolve_incident("0190", "retry"),
    "resolve_operation": lambda c: c.resolve_operation("0190", "DONE"),
    "list_steps": lambda c: c.list_steps("0190"),
}
NOT_REPEATABLE: dict[str, Call] = {
    "fetch_tasks": lambda c: c.fetch_tasks("w", ["t"]),
    "complete_task without a token": lambda c: c.complete_task("0190", worker_id="w"),
    "complete_tasks with one without": lambda c: c.complete_tasks("w", [Completion("a", 1), Completion("b")]),
    "fail_tasks without tokens": lambda c: c.fail_tasks("w", [Failure("a", "x")]),
    "enqueue_task": lambda c: c.enqueue_task("t"),
    "enqueue_tasks with one without a key": lambda c: c.enqueue_tasks(
        [NewTask("t", idempotency_key="k"), NewTask("t")]
    ),
    "redrive_task": lambda c: c.redrive_task("0190"),
    "redrive_tasks": lambda c: c.redrive_tasks(),
    "send_signal": lambda c: c.send_signal("t"),
    "resolve_operation to be done again": lambda c: c.resolve_operation("0190", "NOT_DONE"),
}


@both
@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize("failure", [*LOST, *NEVER_SENT])
def test_a_call_that_may_be_repeated_is_when_its_answer_is_lost(
    drive: Drive, name: str, failure: type[httpx.TransportError]
) -> None:
    script = Script(failure, failure, httpx.Response(502), httpx.Response(500))
    drive(script, REPEATABLE[name])
    assert len(script.seen) == 5
    assert len({request.content for request in script.seen}) == 1


@both
@pytest.mark.parametrize("name", NOT_REPEATABLE)
@pytest.mark.parametrize("failure", LOST)
def test_a_call_that_could_do_its_work_twice_is_not_repeated(
    drive: Drive, name: str, failure: type[httpx.TransportError]
) -> None:
    script = Script(failure)
    with pytest.raises(ConnectionFailed) as failed:
        drive(script, NOT_REPEATABLE[name])
    assert failed.value.sent
    assert len(script.seen) == 1
    with pytest.raises(ServerUnavailable):
        drive(Script(httpx.Response(503)), NOT_REPEATABLE[name])


@both
@pytest.mark.parametrize("failure", NEVER_SENT)
def test_what_never_left_or_was_turned_away_is_always_sent_again(
    drive: Drive, failure: type[httpx.TransportError]
) -> None:
    turned_away = [httpx.Response(503, headers={"retry-after": "0"}), httpx.Response(429)]
    script = Script(failure, *turned_away, failure, then=[])
    assert drive(script, lambda c: c.fetch_tasks("w", ["t"])) == []
    assert len(script.seen) == 5


@both
def test_patience_ends(drive: Drive) -> None:
    script = Script(*[httpx.ConnectError] * 1000)
    with pytest.raises(ConnectionFailed) as failed:
        drive(script, complete, patience_seconds=0)
    assert (failed.value.sent, len(script.seen)) == (False, 1)
    # A server that wants more time than there is patience is not waited for.
    with pytest.raises(ServerUnavailable) as unavailable:
        drive(Script(httpx.Response(503, headers={"retry-after": "3600"})), complete)
    assert unavailable.value.retry_after_seconds == 3600


@both
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthorized", Unauthorized),
        (403, "forbidden", Forbidden),
        (404, "not_found", NotFound),
        (413, "too_large", TooLarge),
        (422, "invalid", Invalid),
        (409, "idempotency_conflict", IdempotencyConflict),
        (409, "something_new", Conflict),
    ],
)
def test_a_problem_is_raised_as_its_error(drive: Drive, status: int, code: str, kind: type[Exception]) -> None:
    script = Script(problem(status, code, field="f", task_id="0190"))
    with pytest.raises(kind, match="because") as refused:
        drive(script, complete)
    assert type(refused.value) is kind
    assert (refused.value.field, refused.value.task_id) == ("f", "0190")  # type: ignore[attr-defined]
    assert len(script.seen) == 1


@both
@pytest.mark.parametrize(
    "answer",
    [
        {"status_code": 404, "html": "<html>no such route</html>"},
        {"status_code": 403, "json": {"message": "the ingress says no"}},
        {"status_code": 301, "headers": {"location": "https://elsewhere"}},
        {"status_code": 200, "html": "<html>welcome</html>"},
        {"status_code": 200, "json": {"unlike": "an answer"}},
        {"status_code": 200, "json": [1, 2]},
        {"status_code": 200},
    ],
)
def test_an_answer_of_somebody_else_is_never_taken_for_a_refusal(drive: Drive, answer: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedAnswer):
        drive(Script(httpx.Response(**answer)), complete)


@both
def test_nothing_is_sent_that_json_does_not_have(drive: Drive) -> None:
    script = Script()
    with pytest.raises(Invalid) as refused:
        drive(script, lambda c: c.enqueue_task("t", {"x": [float("nan")]}))
    assert (refused.value.field, script.seen) == ("variables.x[0]", [])


@both
def test_names_with_slashes_stay_inside_their_place_in_the_path(drive: Drive) -> None:
    script = Script(then={})
    drive(script, lambda c: c.register_task_type("a/../b?c#d", {"retries": 1}))
    assert script.seen[0].url.raw_path == b"/v1/task-types/a%2F..%2Fb%3Fc%23d"


def test_the_server_may_live_under_a_path_and_the_key_is_not_shown() -> None:
    script = Script()
    with Client("http://server/tasks/", "clrc_secret\n", transport=httpx.MockTransport(script)) as client:
        complete(client)
        assert "clrc_secret" not in repr(client.link)
    assert script.seen[0].url.path == "/tasks/v1/external-tasks/0190/complete"
    assert script.seen[0].headers["authorization"] == "Bearer clrc_secret"


def test_a_poll_is_given_the_time_it_asked_for() -> None:
    script = Script(then=[])
    blocking(script, lambda c: c.fetch_tasks("w", ["t"], wait_ms=30_000))
    assert script.seen[0].extensions["timeout"] == {"connect": 5.0, "read": 40.0, "write": 40.0, "pool": 40.0}


def test_every_call_is_understood_by_the_real_server(client: Client) -> None:
    key = client.enqueue_task("a", {"n": 2**70}, idempotency_key="k", delay=0, business_key="b")
    assert client.enqueue_task("a", {"n": 2**70}, idempotency_key="k", delay=0, business_key="b").created is False
    with pytest.raises(IdempotencyConflict) as refused:
        client.enqueue_task("a", {"n": 1}, idempotency_key="k")
    assert refused.value.task_id == key.task_id

    many = client.enqueue_tasks([NewTask("b", {"n": n}, retries=1) for n in range(4)])
    client.register_task_type("b", {"lease_ms": 90_000, "retries": 5})
    fetched = client.fetch_tasks("w", ["b"], max_tasks=4, versions={"b": [1]})
    assert [task.task_id for task in fetched] == [task.task_id for task in many]
    assert {task.lock_duration_ms for task in fetched} == {90_000}
    one, two, three, four = fetched
    extended = client.extend_lease(one.task_id, worker_id="w", fencing_token=one.fencing_token, lock_duration_ms=1000)
    assert extended.lock_duration_ms == 1000
    assert client.release_task(one.task_id, worker_id="w", fencing_token=one.fencing_token).state == "READY"
    done = client.complete_tasks(
        "w", [Completion(two.task_id, two.fencing_token, {"x": 1}), Completion(one.task_id, 1)]
    )
    assert [result.code for result in done][:1] == [None]
    assert isinstance(done[1].refusal, Conflict)
    failed = client.fail_tasks("w", [Failure(three.task_id, "no", three.fencing_token)])
    assert [(result.state, result.refusal) for result in failed] == [("FAILED", None)]
    failure = client.fail_task(
        four.task_id, worker_id="w", fencing_token=four.fencing_token, error="x", retry_after=60, retries=2
    )
    assert (failure.state, failure.retries) == ("SCHEDULED", 2)

    assert client.redrive_task(three.task_id, retries=2).state == "READY"
    assert client.redrive_tasks(task_type="b", max_tasks=10) == []
    assert client.cancel_task(three.task_id, reason="enough").state == "CANCELED"
    assert client.get_task(three.task_id)["state"] == "CANCELED"
    page = client.list_tasks(task_type="b", limit=3, sort="created_at")
    rest = client.list_tasks(task_type="b", limit=3, sort="created_at", cursor=page.next_cursor)
    assert [task["task_id"] for task in page.tasks + rest.tasks] == [task.task_id for task in many]
    client.register_worker("w", task_types=["b"], versions={"b": [1]}, details={"host": "h"})
    assert "w" in str(client.list_workers())
    assert "90000" in str(client.list_task_types())
    with pytest.raises(NotFound):
        client.get_task("01900000-0000-7000-8000-000000000000")


def test_numbers_arrive_as_they_were_sent(client: Client) -> None:
    sent = {"int": 2**63, "price": Decimal("100000.10"), "float": 0.1, "tiny": Decimal("1E-30")}
    client.enqueue_task("a", sent)
    with Client(client.link.url, client.link.key, parse_float=Decimal) as exact:
        variables = exact.fetch_tasks("w", ["a"])[0].variables
    assert variables == {"int": 2**63, "price": Decimal("100000.10"), "float": Decimal("0.1"), "tiny": Decimal("1E-30")}
    assert str(variables["price"]) == "100000.10"


def test_a_wrong_key_is_unauthorized(client: Client) -> None:
    with Client(client.link.url, "clrc_wrong") as stranger, pytest.raises(Unauthorized):
        stranger.list_task_types()
