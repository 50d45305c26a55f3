"""One external worker of the demo: knows an address and a key, and nothing of the database.

It is an ordinary worker of the SDK. What is special is only that every answer to a write is noted in a diary, below
the SDK (in httpx's transport), so that the demo's evidence does not depend on what the SDK makes of an answer.
"""

import argparse
import json
import logging
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from app.demo.copying import copy_file
from app.demo.evidence import ACCEPTED, BEGUN, REFUSED, REPORTING, WRITTEN, Diary
from app.demo.orders import TASK_TYPE
from celeriac import AsyncClient, TaskContext, Worker

KEY_VARIABLE = "DEMO_API_KEY"
LEASE_SECONDS = 3
CONCURRENCY = 4
GRACE_SECONDS = 5
WRITE = re.compile(r"/v1/external-tasks/(?P<task_id>[^/]+)/(?P<verb>complete|fail|extend-lock|unlock)")


class Witness(httpx.AsyncBaseTransport):
    """httpx's transport, with diary entries: a completion leaves, it was accepted, a write was refused."""

    def __init__(self, diary: Diary) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self._diary = diary

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        write = WRITE.fullmatch(request.url.path)
        if write is None:
            return await self._inner.handle_async_request(request)
        lease = write["task_id"], json.loads(request.content)["fencing_token"]
        if write["verb"] == "complete":
            self._diary.write(REPORTING, *lease)
        response = await self._inner.handle_async_request(request)
        if response.status_code == httpx.codes.CONFLICT:
            self._diary.write(REFUSED, *lease)
        elif response.is_success and write["verb"] == "complete":
            self._diary.write(ACCEPTED, *lease)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass(frozen=True)
class Post:
    """Where this worker works, as its command line says."""

    name: str
    api_url: str
    source: Path
    target: Path
    diaries: Path
    pause_ms: int


def main() -> None:
    """Work until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would write a line for every call
    post = Post(**vars(parser().parse_args()))
    diary = Diary(post.diaries / f"{post.name}.{os.getpid()}.diary")
    client = AsyncClient(post.api_url, os.environ[KEY_VARIABLE], transport=Witness(diary))
    worker = Worker(
        client, worker_id=post.name, concurrency=CONCURRENCY, lease_seconds=LEASE_SECONDS, grace_seconds=GRACE_SECONDS
    )

    @worker.task(TASK_TYPE)
    def copy(task: TaskContext) -> dict[str, Any]:
        diary.write(BEGUN, task.task_id, task.fencing_token)
        path = task.variables["path"]
        attempt = f"{task.task_id}.{task.fencing_token}"

        def written() -> None:
            # From here on the worker does not look at its lease again: if it is frozen now, its report comes too late.
            diary.write(WRITTEN, task.task_id, task.fencing_token)
            time.sleep(post.pause_ms / 1000)  # as a slow disk would, for runs over a few small files

        return asdict(copy_file(post.source / path, post.target / path, attempt, task.check, written))

    worker.run()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m app.demo.worker")
    for name in ("--name", "--api-url"):
        options.add_argument(name, required=True)
    for name in ("--source", "--target", "--diaries"):
        options.add_argument(name, required=True, type=Path)
    options.add_argument("--pause-ms", type=int, default=0)
    return options


if __name__ == "__main__":
    main()
