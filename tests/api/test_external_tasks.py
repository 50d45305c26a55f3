"""The life of a leased task over HTTP: fetch, extend, complete, fail, unlock; alone and in batches."""

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, text

from app.settings import Settings
from tests.api.conftest import Keys, client_of

FETCH = "/v1/external-tasks/fetch-and-lock"
NUMBERS = {
    "two53plus1": "9007199254740993",
    "int64max": "9223372036854775807",
    "int64maxplus1": "9223372036854775808",
    "snowflake": "3544790567247868102",
    "decimal": "100000.10",
    "many_digits": "0.1234567890123456789012345",
    "string_twin": '"3544790567247868102"',
}
EXACT = "{" + ",".join(f'"{name}":{digits}' for name, digits in NUMBERS.items()) + "}"


async def enqueue(api: httpx.AsyncClient, count: int = 1, **item: Any) -> list[str]:
    answer = await api.post("/v1/tasks/batch", json={"tasks": [{"task_type": "mail"} | item] * count})
    assert answer.status_code == 201, answer.text
    return [task["task_id"] for task in answer.json()["tasks"]]


async def fetch(api: httpx.AsyncClient, **asked: Any) -> list[dict[str, Any]]:
    answer = await api.post(FETCH, json={"worker_id": "w1", "task_types": ["mail"]} | asked)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


async def write(api: httpx.AsyncClient, task: dict[str, Any], verb: str, **more: Any) -> httpx.Response:
    held = {"worker_id": "w1", "fencing_token": task["fencing_token"]}
    return await api.post(f"/v1/external-tasks/{task['task_id']}/{verb}", json=held | more)


async def test_a_fetched_task_carries_all_that_a_worker_needs(api: httpx.AsyncClient) -> None:
    await enqueue(api, variables={"to": "a@b"}, priority=3, business_key="order-1")
    task = (await fetch(api, lock_duration_ms=5000))[0]
    assert set(task) == {
        "task_id", "token_id", "instance_id", "process_instance", "task_type", "version", "business_key", "variables",
        "fencing_token", "lock_expires_at", "lock_duration_ms", "retries", "attempt", "priority", "created_at",
    }  # fmt: skip
    assert task["variables"] == {"to": "a@b"}
    assert (task["lock_duration_ms"], task["retries"], task["attempt"]) == (5000, 3, 1)
    assert task["lock_expires_at"].endswith("Z")


async def test_a_completed_task_keeps_its_result_and_the_same_call_has_the_same_answer(api: httpx.AsyncClient) -> None:
    """Case B10: the answer was lost, the call is repeated; any other write is refused and changes nothing."""
    await enqueue(api)
    task = (await fetch(api))[0]
    answers = [await write(api, task, "complete", variables={"sent": True}) for _ in range(2)]
    assert [answer.json() for answer in answers] == [{"task_id": task["task_id"], "state": "COMPLETED"}] * 2
    other = await write(api, task, "complete", variables={"sent": False})
    failed = await write(api, task, "fail", error="late")
    stranger = await write(api, task | {"fencing_token": task["fencing_token"] + 1}, "complete", worker_id="w2")
    assert [answer.status_code for answer in (other, failed, stranger)] == [409, 409, 409]
    assert (await api.get(f"/v1/tasks/{task['task_id']}")).json()["result"] == {"sent": True}


async def test_a_failed_task_comes_back_until_its_retries_are_used_up(api: httpx.AsyncClient) -> None:
    """Case B19: retries is a number from the first attempt on; omitted or null the engine lowers it."""
    await enqueue(api, retries=2)
    task = (await fetch(api))[0]
    assert task["retries"] == 2
    first = await write(api, task, "fail", error="once", retry_after_ms=0, retries=None)
    assert (first.json()["state"], first.json()["retries"]) == ("READY", 1)
    second = await write(api, (await fetch(api))[0], "fail", error="twice")
    assert (second.json()["state"], second.json()["retries"], second.json()["run_at"]) == ("FAILED", 0, None)
    shown = (await api.get(f"/v1/tasks/{task['task_id']}")).json()
    assert [attempt["error"] for attempt in shown["attempts"]] == ["once", "twice"]


async def test_retries_sent_with_a_failure_are_stored_as_sent(api: httpx.AsyncClient) -> None:
    """Case B19."""
    await enqueue(api)
    for _ in range(2):
        failed = await write(api, (await fetch(api))[0], "fail", error="x", retries=2, retry_after_ms=0)
        assert failed.json()["retries"] == 2
    ended = await write(api, (await fetch(api))[0], "fail", error="x", retries=0, retry_after_ms=60_000)
    assert ended.json()["state"] == "FAILED"
    assert await fetch(api) == []


async def test_a_lease_is_extended_by_the_database_clock(api: httpx.AsyncClient) -> None:
    await enqueue(api)
    task = (await fetch(api, lock_duration_ms=1000))[0]
    extended = (await write(api, task, "extend-lock", lock_duration_ms=60_000)).json()
    assert extended["lock_duration_ms"] == 60_000
    assert extended["lock_expires_at"] > task["lock_expires_at"]


async def test_an_unlocked_task_is_ready_again_and_the_attempt_does_not_count(api: httpx.AsyncClient) -> None:
    await enqueue(api)
    task = (await fetch(api))[0]
    assert (await write(api, task, "unlock")).json() == {"task_id": task["task_id"], "state": "READY"}
    again = (await fetch(api))[0]
    assert again["attempt"] == 1
    assert again["fencing_token"] > task["fencing_token"]


async def test_a_stale_token_is_refused_counted_logged_and_kept(api: httpx.AsyncClient, caplog: Any) -> None:
    await enqueue(api)
    zombie = (await fetch(api))[0]
    await write(api, zombie, "unlock")
    await fetch(api)
    refused = await write(api, zombie, "complete", variables={"secret": "do-not-log"})
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_token")
    assert refused.headers["content-type"] == "application/problem+json"
    metrics = (await api.get("/metrics")).text
    assert 'celeriac_refusals_total{code="stale_token",verb="complete"} 1.0' in metrics
    assert any(zombie["task_id"] in record.getMessage() for record in caplog.records)
    assert "do-not-log" not in caplog.text
    timeline = (await api.get(f"/v1/tasks/{zombie['task_id']}")).json()["timeline"]
    assert timeline[-1]["kind"] == "refused"


async def test_a_batch_of_completions_has_a_result_for_each(api: httpx.AsyncClient) -> None:
    ids = await enqueue(api, 3)
    tasks = {task["task_id"]: task for task in await fetch(api, max_tasks=3)}
    sent = [{"task_id": task_id, "fencing_token": tasks[task_id]["fencing_token"]} for task_id in ids]
    sent[1]["fencing_token"] += 1000
    answer = await api.post("/v1/external-tasks/complete", json={"worker_id": "w1", "tasks": sent})
    results = answer.json()["results"]
    assert [result["task_id"] for result in results] == ids
    assert [result["code"] for result in results] == [None, "stale_token", None]
    assert (results[0]["state"], results[2]["state"]) == ("COMPLETED", "COMPLETED")


async def test_a_batch_of_failures_has_a_result_for_each(api: httpx.AsyncClient) -> None:
    await enqueue(api, 2)
    sent = [
        {"task_id": task["task_id"], "fencing_token": task["fencing_token"], "error": "x", "retry_after_ms": 0}
        for task in await fetch(api, max_tasks=2)
    ]
    answer = await api.post("/v1/external-tasks/fail", json={"worker_id": "w1", "tasks": sent})
    assert [(result["state"], result["retries"], result["code"]) for result in answer.json()["results"]] == [
        ("READY", 2, None)
    ] * 2


async def test_without_a_token_owner_and_principal_must_match(app: FastAPI, api: httpx.AsyncClient, keys: Keys) -> None:
    await enqueue(api)
    task = (await fetch(api))[0]
    path = f"/v1/external-tasks/{task['task_id']}/complete"
    async with client_of(app, keys.make(name="somebody else")) as stranger:
        assert (await stranger.post(path, json={"worker_id": "w1"})).status_code == 409
    assert (await api.post(path, json={"worker_id": "w2"})).status_code == 409
    assert (await api.post(path, json={"worker_id": "w1"})).status_code == 200


class TestWhereTheTokenIsDemanded:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return Settings.from_env(settings.to_env() | {"CELERIAC_REQUIRE_FENCING_TOKEN": "true"})

    async def test_a_write_without_it_is_refused_with_the_field_named(self, api: httpx.AsyncClient) -> None:
        await enqueue(api)
        task = (await fetch(api))[0]
        alone = await api.post(f"/v1/external-tasks/{task['task_id']}/unlock", json={"worker_id": "w1"})
        batch = await api.post(
            "/v1/external-tasks/complete", json={"worker_id": "w1", "tasks": [{"task_id": task["task_id"]}]}
        )
        assert (alone.status_code, alone.json()["field"]) == (422, "fencing_token")
        assert (batch.status_code, batch.json()["field"]) == (422, "tasks.0.fencing_token")
        assert (await write(api, task, "complete")).status_code == 200


async def test_numbers_keep_their_digits_on_every_way(api: httpx.AsyncClient) -> None:
    """Case B17: text is compared, not parsed numbers; through enqueue, fetch, complete and both reads."""
    body = f'{{"task_type":"mail","variables":{EXACT}}}'
    created = await api.post("/v1/tasks", content=body, headers={"Content-Type": "application/json"})
    fetched = await api.post(FETCH, json={"worker_id": "w1", "task_types": ["mail"]})
    task = fetched.json()[0]
    body = f'{{"worker_id":"w1","fencing_token":{task["fencing_token"]},"variables":{EXACT}}}'
    path = f"/v1/external-tasks/{task['task_id']}/complete"
    completed = await api.post(path, content=body, headers={"Content-Type": "application/json"})
    shown = await api.get(f"/v1/tasks/{task['task_id']}")
    assert (created.status_code, completed.status_code) == (201, 200)
    for answer, times in ((fetched, 1), (shown, 2)):
        text_of_answer = answer.text.replace('": ', '":')
        for name, digits in NUMBERS.items():
            assert text_of_answer.count(f'"{name}":{digits}') == times, name


async def test_big_tasks_at_the_head_do_not_block_the_small_ones(api: httpx.AsyncClient) -> None:
    """Case B16: what fits is served, the answer says that there is more, and what is locked is what was returned."""
    for _ in range(2):
        await enqueue(api, 3, variables={"blob": "x" * 1_000_000})
    await enqueue(api, 10)
    seen: list[str] = []
    while True:
        answer = await api.post(FETCH, json={"worker_id": "w1", "task_types": ["mail"], "max_tasks": 10})
        tasks = answer.json()
        if not tasks:
            break
        assert len(answer.content) < 6 << 20
        seen += [task["task_id"] for task in tasks]
        if len(seen) < 6:
            assert answer.headers["celeriac-more"] == "true"
    assert len(seen) == len(set(seen)) == 16


async def test_an_oversized_result_is_refused_and_the_task_stays_held(api: httpx.AsyncClient) -> None:
    """Case B16, third part: the write that crosses the limit is refused."""
    await enqueue(api)
    task = (await fetch(api))[0]
    refused = await write(api, task, "complete", variables={"blob": "x" * (1 << 20)})
    assert (refused.status_code, refused.json()["field"]) == (413, "variables")
    assert (await write(api, task, "complete", variables={"blob": "x" * ((1 << 20) - 100)})).status_code == 200


async def test_a_type_with_one_task_is_served_although_another_has_a_backlog(api: httpx.AsyncClient) -> None:
    """Case B09, second part: among types of equal priority they take turns."""
    await enqueue(api, 500, task_type="busy")
    await enqueue(api, 1, task_type="quiet")
    tasks = await fetch(api, task_types=["busy", "quiet"], max_tasks=10)
    assert sorted({task["task_type"] for task in tasks}) == ["busy", "quiet"]


async def test_a_tenant_with_one_task_is_not_kept_waiting_by_one_with_hundreds(api: httpx.AsyncClient) -> None:
    """Case B09, first part: tasks of one fairness key take turns with the others."""
    await enqueue(api, 500, fairness_key="tenant A")
    single = (await enqueue(api, 1, fairness_key="tenant B"))[0]
    assert single in [task["task_id"] for task in await fetch(api, max_tasks=5)]


async def test_the_higher_priority_goes_first(api: httpx.AsyncClient) -> None:
    """Case B09, third part."""
    await enqueue(api, 20)
    urgent = (await enqueue(api, 1, priority=5))[0]
    assert (await fetch(api))[0]["task_id"] == urgent


@pytest.mark.parametrize("delay", [0, 1, 2**31 - 1, 2**31, 3_155_760_000_000])
async def test_after_any_delay_that_is_taken_lists_and_fetches_still_work(
    api: httpx.AsyncClient, conn: Connection, delay: int
) -> None:
    """Case B18: a due time that nothing can read must not break every list."""
    await enqueue(api)
    failed = await write(api, (await fetch(api))[0], "fail", error="x", retry_after_ms=delay)
    assert failed.status_code == 200
    await enqueue(api, priority=1)
    assert (await api.get("/v1/tasks")).status_code == 200
    assert len(await fetch(api)) == 1
    assert conn.execute(text("select count(*) from celeriac.task_list where run_at is not null")).scalar_one() == 2


async def test_a_null_character_is_refused_and_the_task_can_still_be_canceled(
    api: httpx.AsyncClient,
) -> None:
    """Case B13."""
    await enqueue(api)
    task = (await fetch(api))[0]
    refused = await write(api, task, "complete", variables={"result": {"value": "a\0b"}})
    assert (refused.status_code, refused.json()["field"]) == (400, "variables.result.value")
    for field in ({"error": "a\0b"}, {"error": "x", "worker_id": "a\0"}):
        assert (await write(api, task, "fail", **field)).status_code == 400
    assert (await api.post(f"/v1/tasks/{task['task_id']}/cancel")).json()["state"] == "CANCELED"
