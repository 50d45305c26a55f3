"""What clients ask for twice a second is read from the head of the queue; it must be what any other query would find.

Both ways are asked about tasks of every kind: of processes and of none, free, held, lost, resting, failed, suspended,
and waiting behind a concurrency key.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection

from app.camunda import external_task_queries
from app.camunda.sent import Sent
from db import call
from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model
from tests.app.engine.conftest import task as service
from tests.camunda.runtime import deploy, start
from tests.camunda.work import done, fetch
from tests.clock import Clock

URGENT = {"sorting": [{"sortBy": "taskPriority", "sortOrder": "desc"}]}
ANY_PRIORITY = {"priorityHigherThanOrEquals": -(2**31)}
"""Changes nothing about what is found, but how it is looked for."""
SHORT, LONG = 60_000, 86_400_000
FREE = {
    "free", "urgent", "unlocked", "lock ran out", "lock ran out, taken back", "rest is over", "rest is over, promoted",
    "suspended, free", "suspended, lock ran out", "suspended, rest is over", "no process, free", "no process, due",
    "behind a key",
}  # fmt: skip
FAILED = {"failed", "failed, suspended"}
HELD = {
    "held",
    "resting",
    "suspended, held",
    "suspended, resting",
    "no process, held",
    "no process, due later",
    "has the key",
}
GONE = {"failed, deleted", "completed"}
OF_PROCESSES = [
    "free", "urgent", "unlocked", "lock ran out", "lock ran out, taken back", "rest is over", "rest is over, promoted",
    "suspended, free", "suspended, lock ran out", "suspended, rest is over", "failed", "failed, suspended", "held",
    "resting", "suspended, held", "suspended, resting", "failed, deleted", "completed",
]  # fmt: skip


class Crowd:
    """One task of each kind, each of a topic of its own: the names of kinds by their ids."""

    def __init__(self, camunda: httpx.AsyncClient, conn: Connection, clock: Clock) -> None:
        self.camunda, self.conn, self.clock = camunda, conn, clock
        self.names: dict[str, str] = {}

    async def make(self) -> None:
        for number, name in enumerate(OF_PROCESSES):
            priority = 'camunda:taskPriority="7"' if name == "urgent" else ""
            nodes = '<startEvent id="s"/>' + service(f"t{number}", priority) + '<endEvent id="e"/>'
            body = nodes + flow("s", f"t{number}", "e")
            await deploy(self.camunda, model(body, process=f'id="p{number}" isExecutable="true"'))
        await self._what_chores_have_seen()
        await self._the_rest()
        # From here on nobody fetches, so nobody looks whose time has come.
        self.clock.advance(2 * SHORT / 1000)

    async def _what_chores_have_seen(self) -> None:
        await self._held("lock ran out, taken back", SHORT)
        await self._failed("rest is over, promoted", retries=2, retryTimeout=SHORT)
        call.rows(self.conn, "register_task_type", name="keyed", concurrency=1)
        lost = self._enqueued("has the key", task_type="keyed", concurrency_key="k")
        assert (await fetch(self.camunda, "keyed", lockDuration=SHORT))["id"] == lost
        self.clock.advance(2 * SHORT / 1000)
        call.rows(self.conn, "expire_leases")
        call.rows(self.conn, "promote_due")
        self._enqueued("behind a key", task_type="keyed", concurrency_key="k")
        assert (await fetch(self.camunda, "keyed", lockDuration=LONG))["id"] == lost
        states = self.conn.exec_driver_sql("select state from celeriac.queue where task_type = 'keyed' order by state")
        assert [row.state for row in states] == ["BLOCKED", "LOCKED"]

    async def _the_rest(self) -> None:
        for name in ("free", "urgent", "suspended, free"):
            await self._started(name)
        await self.do("unlock", await self._held("unlocked", LONG))
        await self.do("complete", await self._held("completed", LONG))
        for name in ("held", "suspended, held"):
            await self._held(name, LONG)
        for name in ("lock ran out", "suspended, lock ran out"):
            await self._held(name, SHORT)
        for name in ("resting", "suspended, resting"):
            await self._failed(name, retries=2, retryTimeout=LONG)
        for name in ("rest is over", "suspended, rest is over"):
            await self._failed(name, retries=2, retryTimeout=SHORT)
        for name in ("failed", "failed, suspended", "failed, deleted"):
            await self._failed(name, retries=0)
        self._enqueued("no process, held", task_type="held")
        await fetch(self.camunda, "held", lockDuration=LONG)
        self._enqueued("no process, free", task_type="mail")
        self._enqueued("no process, due", task_type="mail", delay_ms=SHORT)
        self._enqueued("no process, due later", task_type="mail", delay_ms=LONG)
        for task_id, name in self.names.items():
            if "suspended" in name or "deleted" in name:
                shown = (await self.camunda.get(f"/external-task/{task_id}")).json()
                path = f"/process-instance/{shown['processInstanceId']}"
                answered = await (
                    self.camunda.put(f"{path}/suspended", json={"suspended": True})
                    if "suspended" in name
                    else self.camunda.delete(path)
                )
                assert answered.status_code == 204, answered.text

    async def _started(self, name: str) -> str:
        """The topic of the kind, of which there is a task now."""
        number = OF_PROCESSES.index(name)
        instance = await start(self.camunda, f"p{number}")
        (listed,) = (await self.camunda.get("/external-task", params={"processInstanceId": instance["id"]})).json()
        self.names[listed["id"]] = name
        return f"t{number}"

    async def _held(self, name: str, lock_ms: int) -> dict[str, Any]:
        return await fetch(self.camunda, await self._started(name), lockDuration=lock_ms)

    async def _failed(self, name: str, **said: Any) -> None:
        await done(self.camunda, await self._held(name, LONG), "failure", **said)

    async def do(self, verb: str, task: dict[str, Any]) -> None:
        await done(self.camunda, task, verb)

    def _enqueued(self, name: str, **item: Any) -> str:
        made = call.Json(json.dumps([{"variables": {}, **item}]))
        task_id = str(call.rows(self.conn, "enqueue_tasks", tasks=made)[0].task_id)
        self.names[task_id] = name
        return task_id

    async def found(self, body: dict[str, Any], camunda: httpx.AsyncClient | None = None, **page: int) -> list[str]:
        answered = await (camunda or self.camunda).post("/external-task", json=body, params=page)
        assert answered.status_code == 200, answered.text
        return [self.names[one["id"]] for one in answered.json()]


@pytest.fixture
async def crowd(camunda: httpx.AsyncClient, conn: Connection, clock: Clock) -> Crowd:
    made = Crowd(camunda, conn, clock)
    await made.make()
    return made


@pytest.fixture
def short_ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each query, whether it was read from the head of the queue."""
    taken: list[bool] = []
    asks = external_task_queries._asks_for_work

    def told(asked: Sent) -> bool:
        taken.append(asks(asked))
        return taken[-1]

    monkeypatch.setattr(external_task_queries, "_asks_for_work", told)
    return taken


async def test_both_ways_find_the_same_of_every_kind(crowd: Crowd, short_ways: list[bool]) -> None:
    assert set(crowd.names.values()) == FREE | FAILED | HELD | GONE
    assert set(await crowd.found(ANY_PRIORITY)) == FREE | FAILED | HELD
    assert set(await crowd.found({"locked": True})) == HELD
    short_ways.clear()
    for body, expected in (({"notLocked": True}, FREE | FAILED), ({"notLocked": True, "withRetriesLeft": True}, FREE)):
        for order in ({}, URGENT):
            by_head, by_all = await crowd.found(body | order), await crowd.found(body | order | ANY_PRIORITY)
            assert set(by_head) == set(by_all) == expected
            assert len(by_head) == len(by_all) == len(expected)
    assert short_ways == [True, False] * 4
    assert (await crowd.found({"notLocked": True} | URGENT))[0] == "urgent"


async def test_of_one_topic(crowd: Crowd) -> None:
    topics = [*(f"t{number}" for number in range(len(OF_PROCESSES))), "mail", "held", "keyed", "unknown"]
    for topic in topics:
        for more in ({}, {"withRetriesLeft": True}):
            body = {"notLocked": True, "topicName": topic, **more}
            assert set(await crowd.found(body)) == set(await crowd.found(body | ANY_PRIORITY)), topic


@pytest.mark.parametrize("more", [{}, {"withRetriesLeft": True}, URGENT])
async def test_pages_make_the_whole(crowd: Crowd, more: dict[str, Any]) -> None:
    body = {"notLocked": True, **more}
    whole = await crowd.found(body)
    for size in (1, 5):
        pages = [await crowd.found(body, firstResult=at, maxResults=size) for at in range(0, len(whole) + size, size)]
        assert [one for page in pages for one in page] == whole


@pytest.mark.parametrize("types", [["t*"], ["mail", "keyed"], ["t0", "t1*"], ["nothing"]])
async def test_a_key_for_some_types_finds_theirs(
    crowd: Crowd, camunda_app: FastAPI, keys: Keys, types: list[str]
) -> None:
    async with client_of(camunda_app, keys.make(types=tuple(types))) as mine:
        mine.base_url = "http://api/engine-rest"
        for more in ({}, {"withRetriesLeft": True}):
            body = {"notLocked": True, **more}
            by_head = await crowd.found(body, mine)
            assert set(by_head) == set(await crowd.found(body | ANY_PRIORITY, mine))
            assert bool(by_head) == (types != ["nothing"])
