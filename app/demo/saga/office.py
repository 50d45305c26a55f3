"""The external worker in Python: checks credit and ships, and undoes a credit check. An ordinary worker of the SDK.

The effect is made outside, under the task's id as its key, and only then reported: killed in between, whoever takes
over calls again, and the other side knows the key.
"""

import argparse
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.demo.evidence import BEGUN, WRITTEN, Diary
from app.demo.saga.orders import GOOD_ADDRESS
from app.demo.worker import CONCURRENCY, GRACE_SECONDS, KEY_VARIABLE, LEASE_SECONDS, Witness
from celeriac import AsyncClient, Fatal, TaskContext, Worker

TOPICS = ("order.check_credit", "order.void_credit", "order.ship")
OUTSIDE_SECONDS = 5.0


@dataclass(frozen=True)
class Post:
    """Where this worker works, as its command line says."""

    name: str
    api_url: str
    outside_url: str
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

    def act(task: TaskContext) -> dict[str, Any]:
        diary.write(BEGUN, task.task_id, task.fencing_token)
        step = task.task_type.removeprefix("order.")
        if step == "ship" and task.variables["address"] != GOOD_ADDRESS:
            raise Fatal("the carrier does not deliver there")
        call = {"order": task.business_key, "key": task.task_id, "fencing_token": task.fencing_token}
        done = httpx.post(f"{post.outside_url}/{step}", json=call, timeout=OUTSIDE_SECONDS, trust_env=False)
        done.raise_for_status()
        # From here on the worker does not look at its lease again: if it is frozen now, its report comes too late.
        diary.write(WRITTEN, task.task_id, task.fencing_token)
        time.sleep(post.pause_ms / 1000)
        return {f"{step}_reference": done.json()["reference"]}

    for topic in TOPICS:
        worker.task(topic)(act)
    worker.run()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m app.demo.saga.office")
    for name in ("--name", "--api-url", "--outside-url"):
        options.add_argument(name, required=True)
    options.add_argument("--diaries", required=True, type=Path)
    options.add_argument("--pause-ms", type=int, default=0)
    return options


if __name__ == "__main__":
    main()
