"""The steps of a task over HTTP, page by page; and canceling one that has something to undo."""

import httpx
import pytest
from sqlalchemy import Connection

from app.api import steps
from db import call
from tests.api.test_signals import state
from tests.held_task import fetch_held, new_held

PLACES = [("", 1), ("", 2), ("", 3), ("", 12), ("2.0", 1), ("2.0", 2), ("2.0/1.3", 1), ("2.10", 1)]


async def pages(api: httpx.AsyncClient, task_id: object, **query: str | int) -> list[list[tuple[str, int]]]:
    found = []
    while True:
        answer = await api.get(f"/v1/tasks/{task_id}/steps", params=query)
        assert answer.status_code == 200, answer.text
        found.append([(step["branch"], step["ordinal"]) for step in answer.json()["steps"]])
        if answer.json()["next_cursor"] is None:
            return found
        query["cursor"] = answer.json()["next_cursor"]


async def test_the_steps_of_a_task_come_in_the_order_of_its_code(api: httpx.AsyncClient, conn: Connection) -> None:
    task = new_held(conn)
    for branch, ordinal in reversed(PLACES):
        task.record(ordinal, f"step {ordinal}", {"price": 12.50}, branch)
    assert await pages(api, task.task_id) == [PLACES]
    for limit in (1, 3, 4, 8):
        read = await pages(api, task.task_id, limit=limit)
        assert [place for page in read for place in page] == PLACES
        assert {len(page) for page in read[:-1]} <= {limit}
    step = (await api.get(f"/v1/tasks/{task.task_id}/steps")).json()["steps"][0]
    assert step.keys() == {
        "branch", "ordinal", "kind", "name", "result", "error", "fencing_token", "recorded_at",
    }  # fmt: skip
    assert (step["kind"], step["name"], step["result"]) == ("step", "step 1", {"price": 12.5})
    assert step["fencing_token"] == task.fencing_token


async def test_a_page_is_cut_by_size_and_holds_one_step_at_least(
    api: httpx.AsyncClient, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MOST_RESULT_BYTES", 25)
    task = new_held(conn)
    for ordinal in range(1, 6):
        task.record(ordinal, "s", "x" * (100 if ordinal == 3 else 10))
    assert await pages(api, task.task_id) == [[("", 1), ("", 2)], [("", 3)], [("", 4), ("", 5)]]


async def test_a_page_may_end_in_the_deepest_branch_there_can_be(api: httpx.AsyncClient, conn: Connection) -> None:
    task = new_held(conn)
    branch = "/".join(["100000000.100000000"] * 50)
    task.record(1, "s", branch=branch)
    task.record(2, "s", branch=branch)
    assert await pages(api, task.task_id, limit=1) == [[(branch, 1)], [(branch, 2)]]


async def test_a_task_without_steps_has_an_empty_page(api: httpx.AsyncClient, conn: Connection) -> None:
    assert await pages(api, new_held(conn).task_id) == [[]]


async def test_a_cursor_of_steps_is_good_for_its_task_only(api: httpx.AsyncClient, conn: Connection) -> None:
    tasks = [new_held(conn), new_held(conn)]
    for task in tasks:
        task.record(1, "a")
        task.record(2, "b")
    path = f"/v1/tasks/{tasks[0].task_id}/steps"
    cursor = (await api.get(path, params={"limit": 1})).json()["next_cursor"]
    for wrong in (f"/v1/tasks/{tasks[1].task_id}/steps", path):
        sent = cursor if wrong != path else ("A" if cursor[0] != "A" else "B") + cursor[1:]
        refused = await api.get(wrong, params={"cursor": sent})
        assert (refused.status_code, refused.json()["field"]) == (422, "cursor")


async def test_a_waiting_task_says_what_it_waits_for_and_what_it_could_undo(
    api: httpx.AsyncClient, conn: Connection
) -> None:
    task = new_held(conn)
    task.promise_to_undo(1, "charge")
    task.promise_to_undo(2, "ship")
    task.wait_for("paid", "order-7", ordinal=3)
    shown = (await api.get(f"/v1/tasks/{task.task_id}")).json()
    assert (shown["state"], shown["attempts"]) == ("WAITING", [])
    (wait,) = shown["waits"]
    assert (wait["kind"], wait["topic"], wait["key"], wait["ordinal"]) == ("signal", "paid", "order-7", 3)
    assert [(undo["number"], undo["name"], undo["state"]) for undo in shown["compensations"]] == [
        (2, "ship", "REGISTERED"),
        (1, "charge", "REGISTERED"),
    ]
    await api.post("/v1/signals", json={"topic": "paid", "key": "order-7"})
    assert (await api.get(f"/v1/tasks/{task.task_id}")).json()["waits"] == []


async def test_a_canceled_task_undoes_what_it_has_done_when_it_is_asked_to(
    api: httpx.AsyncClient, conn: Connection
) -> None:
    task = new_held(conn)
    task.promise_to_undo(1, "charge")
    path = f"/v1/tasks/{task.task_id}/cancel"
    undoing = {"task_id": str(task.task_id), "state": "UNDOING"}
    assert (await api.post(path, json={"compensate": True})).json() == undoing
    shown = (await api.get(f"/v1/tasks/{task.task_id}")).json()
    assert (shown["state"], shown["undoing"]) == ("SCHEDULED", True)
    call.one(conn, "release_task", task_id=task.task_id, worker_id="w1", fencing_token=task.fencing_token)
    assert fetch_held(conn).task_id == task.task_id
    assert (await api.post(path, json={"compensate": True})).json() == undoing
    assert (await api.post(path)).json() == undoing
    assert state(conn, task.task_id) == "LOCKED"


async def test_a_task_with_nothing_to_undo_is_canceled_at_once(api: httpx.AsyncClient, conn: Connection) -> None:
    task = new_held(conn)
    answer = await api.post(f"/v1/tasks/{task.task_id}/cancel", json={"compensate": True})
    assert answer.json() == {"task_id": str(task.task_id), "state": "CANCELED"}
