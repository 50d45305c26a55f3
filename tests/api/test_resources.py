"""Task types and workers over HTTP."""

import httpx


async def test_a_task_type_is_registered_changed_and_read(api: httpx.AsyncClient) -> None:
    first = await api.put("/v1/task-types/media.copy", json={"lease_ms": 5000, "backoff_factor": 1.5})
    assert first.status_code == 200, first.text
    changed = (await api.put("/v1/task-types/media.copy", json={"retries": 7})).json()
    assert (changed["lease_ms"], changed["retries"], changed["backoff_factor"]) == (5000, 7, 1.5)
    assert (await api.get("/v1/task-types/media.copy")).json() == changed
    assert [kind["name"] for kind in (await api.get("/v1/task-types")).json()["task_types"]] == ["media.copy"]
    assert (await api.get("/v1/task-types/unknown")).status_code == 404


async def test_a_celery_type_has_a_queue(api: httpx.AsyncClient) -> None:
    assert (await api.put("/v1/task-types/mail", json={"delivery": "celery"})).json()["queue"]
    answer = await api.put("/v1/task-types/mail", json={"delivery": "celery", "queue": "mails"})
    assert (answer.json()["delivery"], answer.json()["queue"]) == ("celery", "mails")


async def test_a_type_gives_its_tasks_what_they_do_not_ask_for(api: httpx.AsyncClient) -> None:
    await api.put("/v1/task-types/mail", json={"lease_ms": 7000, "retries": 9})
    await api.post("/v1/tasks", json={"task_type": "mail"})
    task = (
        await api.post("/v1/external-tasks/fetch-and-lock", json={"worker_id": "w", "task_types": ["mail"]})
    ).json()[0]
    assert (task["lock_duration_ms"], task["retries"]) == (7000, 9)


async def test_a_worker_registers_shows_up_and_renews_its_sign_of_life(api: httpx.AsyncClient) -> None:
    body = {
        "kind": "external",
        "task_types": ["mail"],
        "versions": {"mail": [1, 2]},
        "details": {"host": "h", "n": 1.50},
    }
    first = (await api.put("/v1/workers/w1", json=body)).json()
    again = (await api.put("/v1/workers/w1", json=body)).json()
    assert again["heartbeat_at"] > first["heartbeat_at"]
    [shown] = (await api.get("/v1/workers")).json()["workers"]
    assert (shown["worker_id"], shown["kind"], shown["live"]) == ("w1", "external", True)
    assert (shown["versions"], shown["details"]) == ({"mail": [1, 2]}, {"host": "h", "n": 1.5})
