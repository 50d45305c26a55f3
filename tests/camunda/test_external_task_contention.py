"""Twenty pollers at two nodes on ten thousand tasks: none goes empty-handed while there are free ones, no task is given
to two, and nobody hears of an optimistic lock (camunda7.md, section 9.2, no. 3).

CELERIAC_CONTENTION_TASKS sets another number of tasks.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx
import pytest
from sqlalchemy import Connection

from app.server.application import create
from app.settings import Settings
from db import call
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import deploy, start

TASKS: Final = int(os.environ.get("CELERIAC_CONTENTION_TASKS", "10000"))
INSTANCES: Final = min(300, TASKS // 10)
POLLERS: Final = 20
BATCH: Final = 10
COMPLETED: Final = 2
"""Of each batch."""
ONE = model('<startEvent id="s"/>' + task("work") + '<endEvent id="e"/>' + flow("s", "work", "e"))
WAYS: Final[dict[str, dict[str, Any]]] = {
    "plainly": {},
    "by priority": {"usePriority": True},
    "oldest first": {"sorting": [{"sortBy": "createTime", "sortOrder": "asc"}]},
}


@pytest.fixture
async def nodes(camunda_settings: Settings) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Clients of two API nodes on one database."""
    async with AsyncExitStack() as opened:
        clients = []
        for _ in range(2):
            node = create(camunda_settings)
            await opened.enter_async_context(node.router.lifespan_context(node))
            transport = httpx.ASGITransport(app=node, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://api/engine-rest")
            clients.append(await opened.enter_async_context(client))
        yield clients


class Contest:
    """What all pollers together have been given, and what was answered."""

    def __init__(self) -> None:
        self.given: Counter[str] = Counter()
        self.completed = 0
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.short: list[tuple[int, int]] = []

    async def poll(self, node: httpx.AsyncClient, worker: str, way: str) -> None:
        """Fetch and complete until there is nothing left to fetch."""
        topics = [{"topicName": "work", "lockDuration": 3_600_000, "variables": []}]
        asked = {"workerId": worker, "maxTasks": BATCH, "topics": topics, **WAYS[way]}
        while True:
            answered = await node.post("/external-task/fetchAndLock", json=asked)
            self.statuses["fetch", answered.status_code] += 1
            assert answered.status_code == 200, answered.text
            found = answered.json()
            self.given.update(one["id"] for one in found)
            if len(found) < BATCH:
                self.short.append((len(found), self.given.total()))
            if not found:
                return
            for one in found[:COMPLETED]:
                done = await node.post(f"/external-task/{one['id']}/complete", json={"workerId": worker})
                self.statuses["complete", done.status_code] += 1
                assert done.status_code == 204, done.text
                self.completed += 1


async def test_twenty_pollers_share_ten_thousand_tasks(nodes: list[httpx.AsyncClient], conn: Connection) -> None:
    await deploy(nodes[0], ONE)
    for _ in range(INSTANCES):
        await start(nodes[0])
    left = TASKS - INSTANCES
    while left:
        made = [{"task_type": "work", "variables": {"n": n}, "priority": n % 3} for n in range(min(left, 1000))]
        left -= len(call.rows(conn, "enqueue_tasks", tasks=call.Json(json.dumps(made))))
    contest = Contest()
    # Two of the twenty look at all that is ready, for an order of their own.
    ways = ["oldest first", "by priority", *["plainly"] * (POLLERS // 2 - 2)] * 2
    await asyncio.gather(
        *(contest.poll(nodes[number % 2], f"w{number}", way) for number, way in enumerate(ways)),
    )
    assert contest.given.total() == len(contest.given) == TASKS
    assert set(contest.statuses) == {("fetch", 200), ("complete", 204)}
    assert contest.completed >= TASKS // BATCH
    # Whoever got less than asked for came when all the rest was given, or was just being given, to others.
    assert len(contest.short) >= POLLERS
    assert all(given + (POLLERS - 1) * BATCH >= TASKS for _, given in contest.short)
    (counts,) = conn.exec_driver_sql(
        "select count(*) filter (where state = 'LOCKED') as locked, count(*) as open,"
        " (select count(*) from celeriac.task where state = 'COMPLETED') as completed from celeriac.queue"
    ).all()
    assert (counts.locked, counts.open, counts.completed) == (TASKS - contest.completed,) * 2 + (contest.completed,)
    ended = conn.exec_driver_sql("select count(*) from celeriac.instance where ended_at is not null").scalar_one()
    of_instances = conn.exec_driver_sql(
        "select count(*) from celeriac.task where state = 'COMPLETED' and instance_id is not null"
    ).scalar_one()
    assert ended == of_instances > 0
