"""A user's Celery app for `fleet_throughput`: the same no-op as a plain Celery task and as durable tasks."""

import os
import time
from typing import Any

from celery import Celery

from celeriac import Context, task
from celeriac.celery import install

app = Celery("bench", broker=os.environ["BENCH_BROKER_URL"])
app.conf.update(task_acks_late=True, task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task(name="bench.plain")  # type: ignore[untyped-decorator]
def plain(variables: dict[str, Any]) -> None:
    """What is compared with: Celery's own task, acknowledged late."""


@task("bench.single", lease=30, queue="single")
def single(ctx: Context) -> None:
    """The same under a lease, each in its own round trip to Postgres."""


@task("bench.batch", lease=30, queue="batch", batch=True)
def batch(ctx: Context) -> None:
    """The same, many in a round trip."""


def add(number: int) -> int:
    return number + 1


@task("bench.steps", lease=30, queue="steps")
def steps(ctx: Context) -> dict[str, int]:
    """Three steps, each with a record of its own."""
    number = 0
    for _ in range(3):
        number = ctx.step("add", add, number)
    return {"number": number}


@task("bench.stamp", lease=5, queue="stamp")
def stamp(ctx: Context) -> dict[str, float]:
    """When it began: seconds of the machine's clock. Its first attempt may be told to stay."""
    began = time.time()
    if ctx.variables.get("stay") and ctx.attempt == 1:
        ctx.log.warning("stays")
        ctx.lease_lost.wait()
    return {"began": began}


install(app, database_url=os.environ["BENCH_DATABASE_URL"], tasks=[single, batch, steps, stamp])
