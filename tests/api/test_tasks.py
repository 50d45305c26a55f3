"""Ordering, looking at and repairing tasks over HTTP."""

import uuid

import httpx


async def create(api: httpx.AsyncClient, **item: object) -> str:
    answer = await api.post("/v1/tasks", json={"task_type": "mail"} | item)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["task_id"])


async def test_a_created_task_can_be_read_with_all_that_was_asked(api: httpx.AsyncClient) -> None:
    task_id = await create(api, variables={"to": "a@b"}, priority=7, business_key="order-1", retries=5)
    task = (await api.get(f"/v1/tasks/{task_id}")).json()
    assert task["state"] == "READY"
    assert task["variables"] == {"to": "a@b"}
    assert (task["priority"], task["business_key"], task["retries"]) == (7, "order-1", 5)
    assert task["attempts"] == []
    assert (task["timeline"], task["waits"], task["compensations"]) == ([], [], [])


async def test_the_same_idempotency_key_answers_with_the_first_task(api: httpx.AsyncClient) -> None:
    item = {"task_type": "mail", "idempotency_key": "k", "variables": {"n": 1}}
    first = await api.post("/v1/tasks", json=item)
    second = await api.post("/v1/tasks", json=item)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == first.json() | {"created": False}


async def test_the_same_idempotency_key_with_another_input_is_refused_and_names_the_first(
    api: httpx.AsyncClient,
) -> None:
    task_id = await create(api, idempotency_key="k", variables={"n": 1})
    answer = await api.post("/v1/tasks", json={"task_type": "mail", "idempotency_key": "k", "variables": {"n": 2}})
    assert answer.status_code == 409
    assert answer.json()["code"] == "idempotency_conflict"
    assert answer.json()["task_id"] == task_id


async def test_a_batch_is_made_in_the_order_it_was_sent(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/tasks/batch", json={"tasks": [{"task_type": f"t{n}"} for n in range(20)]})
    assert answer.status_code == 201
    assert [task["task_type"] for task in answer.json()["tasks"]] == [f"t{n}" for n in range(20)]


async def test_one_wrong_item_refuses_the_whole_batch_and_is_named(api: httpx.AsyncClient) -> None:
    answer = await api.post(
        "/v1/tasks/batch", json={"tasks": [{"task_type": "mail"}, {"task_type": "mail", "retries": 0}]}
    )
    assert answer.status_code == 422
    assert answer.json()["field"] == "tasks.1.retries"
    assert (await api.get("/v1/tasks")).json()["tasks"] == []


async def test_pages_of_a_list_hold_every_task_once_in_both_orders(api: httpx.AsyncClient) -> None:
    made = [await create(api) for _ in range(7)]
    for sort, expected in (("created_at", made), ("-created_at", made[::-1])):
        assert await all_pages(api, sort=sort, limit=3) == expected


async def all_pages(api: httpx.AsyncClient, **query: str | int) -> list[str]:
    found: list[str] = []
    while True:
        page = (await api.get("/v1/tasks", params=query)).json()
        found += [task["task_id"] for task in page["tasks"]]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


async def test_a_list_is_filtered_by_type_state_and_keys(api: httpx.AsyncClient) -> None:
    wanted = await create(api, business_key="b", idempotency_key="i")
    await create(api)
    await create(api, delay_ms=60_000)
    assert await all_pages(api, business_key="b") == [wanted]
    assert await all_pages(api, idempotency_key="i") == [wanted]
    assert len(await all_pages(api, state="SCHEDULED")) == 1
    assert await all_pages(api, task_type="other") == []


async def test_of_one_concurrency_key_no_more_are_handed_out_than_the_type_says(api: httpx.AsyncClient) -> None:
    limits = {"concurrency": 1, "rate_tasks": 100, "rate_ms": 1000}
    put = await api.put("/v1/task-types/mail", json=limits)
    assert put.json().items() >= limits.items()
    first, second, other = [await create(api, concurrency_key=key) for key in ("a", "a", "b")]
    assert {task["task_id"] for task in await fetch(api, max_tasks=10)} == {first, other}
    assert await all_pages(api, state="BLOCKED") == [second]
    shown = (await api.get(f"/v1/tasks/{second}")).json()
    assert (shown["state"], shown["concurrency_key"]) == ("BLOCKED", "a")
    assert 'celeriac_tasks{state="BLOCKED",task_type="mail"} 1.0' in (await api.get("/metrics")).text
    await api.post(f"/v1/external-tasks/{first}/complete", json={"worker_id": "w"})
    assert [task["task_id"] for task in await fetch(api, max_tasks=10)] == [second]
    put = await api.put("/v1/task-types/mail", json={"concurrency": 0, "rate_tasks": 0})
    assert (put.json()["concurrency"], put.json()["rate_tasks"], put.json()["rate_ms"]) == (None, None, None)


async def test_a_canceled_task_says_so_and_cannot_be_completed(api: httpx.AsyncClient) -> None:
    task_id = await create(api)
    leased = (await fetch(api))[0]
    first = await api.post(f"/v1/tasks/{task_id}/cancel", json={"reason": "no longer wanted"})
    second = await api.post(f"/v1/tasks/{task_id}/cancel")
    assert first.json() == second.json() == {"task_id": task_id, "state": "CANCELED"}
    late = await api.post(
        f"/v1/external-tasks/{task_id}/complete", json={"worker_id": "w", "fencing_token": leased["fencing_token"]}
    )
    assert (late.status_code, late.json()["code"]) == (409, "canceled")


async def fetch(api: httpx.AsyncClient, **more: object) -> list[dict[str, object]]:
    answer = await api.post("/v1/external-tasks/fetch-and-lock", json={"worker_id": "w", "task_types": ["mail"]} | more)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


async def test_a_failed_task_is_redriven_alone_or_by_filter(api: httpx.AsyncClient) -> None:
    task_id = await create(api)
    for path, body in ((f"/v1/tasks/{task_id}/redrive", {"retries": 2}), ("/v1/tasks/redrive", {"task_type": "mail"})):
        await fetch(api)
        failed = await api.post(
            f"/v1/external-tasks/{task_id}/fail", json={"worker_id": "w", "error": "broken", "retries": 0}
        )
        assert failed.json()["state"] == "FAILED"
        answer = await api.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json() in ({"task_id": task_id, "state": "READY"}, {"task_ids": [task_id]})
    assert [entry["kind"] for entry in (await api.get(f"/v1/tasks/{task_id}")).json()["timeline"]] == [
        "failed",
        "redriven",
        "failed",
        "redriven",
    ]


async def test_a_task_that_never_was_is_not_found(api: httpx.AsyncClient) -> None:
    missing = uuid.uuid4()
    assert (await api.get(f"/v1/tasks/{missing}")).status_code == 404
    assert (await api.post(f"/v1/tasks/{missing}/cancel")).status_code == 404
    assert (await api.post(f"/v1/tasks/{missing}/redrive")).status_code == 404
