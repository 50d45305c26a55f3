"""A user's Celery app with durable tasks, run by `celery -A fleet_app worker`. Set by FLEET_* in the environment."""

import os
import time
from pathlib import Path

import psycopg
from celery import Celery

from celeriac import Context, Fatal, Retry, RetryPolicy, task
from celeriac.celery import install

app = Celery("fleet_app", broker=os.environ["FLEET_BROKER_URL"])
lease = float(os.environ["FLEET_LEASE"])


def write(statement: str, *values: object) -> None:
    """The business database: rows that a test counts."""
    with psycopg.connect(os.environ["FLEET_BUSINESS_URL"], autocommit=True) as connection:
        connection.execute(statement, values)


def started(ctx: Context) -> None:
    write("insert into started values (%s, %s, %s, %s)", ctx.task_id, ctx.fencing_token, ctx.attempt, os.getpid())


def effect(ctx: Context) -> None:
    write("insert into effect values (%s, %s)", ctx.task_id, ctx.fencing_token)


def wait_for_gate(ctx: Context, *, stubborn: bool = False) -> None:
    """Until the test has opened the gate; only a stubborn one does not care whether the task is still its own."""
    with psycopg.connect(os.environ["FLEET_BUSINESS_URL"], autocommit=True) as connection:
        while not connection.execute("select 1 from gate where name = %s", [ctx.variables["gate"]]).fetchone():
            if not stubborn:
                ctx.check()
            time.sleep(0.02)


@task("mark", lease=30, queue="fleet")
def mark(ctx: Context) -> dict[str, int]:
    effect(ctx)
    return {"token": ctx.fencing_token}


@task("gated", lease=lease, queue="fleet")
def gated(ctx: Context) -> None:
    started(ctx)
    wait_for_gate(ctx)
    effect(ctx)


@task("stubborn", lease=lease, queue="fleet")
def stubborn(ctx: Context) -> None:
    started(ctx)
    wait_for_gate(ctx, stubborn=True)


@task("patient", lease=30, queue="fleet")
def patient(ctx: Context) -> None:
    started(ctx)
    while not Path(ctx.variables["file"]).exists():
        time.sleep(0.02)


@task("moody", retry=RetryPolicy(attempts=3, first=0, cap=0), queue="fleet")
def moody(ctx: Context) -> object:
    match ctx.variables["mood"]:
        case "retry" if ctx.attempt == 1:
            raise Retry("not yet", after=0)
        case "fatal":
            raise Fatal("never")
        case "exit":
            raise SystemExit(3)
        case "nan":
            return {"value": float("nan")}
        case "list":
            return [1]
    return {"attempt": ctx.attempt}


install(
    app,
    database_url=os.environ["FLEET_DATABASE_URL"],
    tasks=[mark, gated, stubborn, patient, moody],
    slice_tasks=int(os.environ["FLEET_SLICE_TASKS"]),
    slice_seconds=float(os.environ["FLEET_SLICE_SECONDS"]),
)
