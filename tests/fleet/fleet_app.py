"""A user's Celery app with durable tasks, run by `celery -A fleet_app worker`. Set by FLEET_* in the environment."""

import ctypes
import json
import os
import signal
import time
from pathlib import Path

import psycopg
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded as CelerySoftTimeLimitExceeded
from celery.utils.log import get_task_logger

from celeriac import Context, Fatal, Retry, RetryPolicy, SoftTimeLimitExceeded, task
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
            connection.execute("select pg_sleep(0.02)")  # not ours: a faked clock makes Python's own fail


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


@task("order", lease=lease, queue="fleet")
def order(ctx: Context) -> None:
    def tell(what: str) -> None:
        with Path(ctx.variables["file"]).open("a") as file:
            file.write(what + "\n")

    def charge() -> None:
        started(ctx)
        wait_for_gate(ctx, stubborn=True)
        tell("charge")

    ctx.step("charge", charge, compensate=lambda: tell("refund"))


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


@task("tiny", lease=lease, queue="fleet", batch=True)
def tiny(ctx: Context) -> None:
    match ctx.variables.get("mood"):
        case "kill":
            started(ctx)
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail":
            raise Fatal("never")
        case "slow":
            started(ctx)
            time.sleep(1.2)


@task("limited", lease=lease, queue="fleet", soft_time_limit=0.5, retry=RetryPolicy(attempts=1))
def limited(ctx: Context) -> dict[str, str]:
    """Takes too long; sleeps in pieces, so that it hears of it in every pool."""
    try:
        for _ in range(1000):
            time.sleep(0.02)
            ctx.check()
    except SoftTimeLimitExceeded as late:
        if ctx.variables.get("mood") == "clean up":
            return {"cleaned up after": str(late), "celery's": str(isinstance(late, CelerySoftTimeLimitExceeded))}
        raise
    return {}


@task("endless", lease=lease, queue="fleet", time_limit=0.5, retry=RetryPolicy(attempts=1))
def endless(ctx: Context) -> None:
    """Cannot be stopped by anything that Python raises."""
    started(ctx)
    if ctx.variables.get("mood") == "hold":
        hold_the_interpreter(30)
    wait_for_gate(ctx, stubborn=True)


@task("busy", lease=lease, queue="fleet")
def busy(ctx: Context) -> None:
    """Works for longer than its lease without a pause."""
    started(ctx)
    if ctx.variables["how"] == "in C":
        hold_the_interpreter(3 * lease)
    ends_at = time.monotonic() + 3 * lease
    while time.monotonic() < ends_at:
        pass
    effect(ctx)


def hold_the_interpreter(seconds: float) -> None:
    """As an extension in C does that never gives the lock of the interpreter back."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))


@task("regret", lease=30, queue="fleet", retry=RetryPolicy(attempts=1))
def regret(ctx: Context) -> None:
    """Fails for good after a step that is to be undone."""
    ctx.step("book", lambda: "seat 7", compensate=lambda: None)
    raise Fatal("no train")


@task("login", lease=30, queue="fleet")
def login(ctx: Context) -> dict[str, str]:
    return {"user": "anna", "session_token": "s3cret-result"}


@app.task(name="plain")
def plain(number: int) -> None:
    """A task of the user's own, in the same workers."""
    write("insert into plain values (%s)", number)


@app.task(name="dawdle", soft_time_limit=1)
def dawdle() -> None:
    try:
        time.sleep(30)
    except CelerySoftTimeLimitExceeded:
        get_task_logger("dawdle").warning("celery's own soft limit")


version = int(os.environ.get("FLEET_VERSIONS", "1"))


@task("versioned", version=version, queue="fleet")
def versioned(ctx: Context) -> dict[str, int]:
    return {"code": version}


@task("only.new", queue="fleet")
def only_new(ctx: Context) -> None:
    """Unknown to workers of the first version."""


app.conf.update(json.loads(os.environ.get("FLEET_SETTINGS", "{}")))
install(
    app,
    database_url=os.environ["FLEET_DATABASE_URL"],
    tasks=[
        mark,
        gated,
        stubborn,
        order,
        patient,
        moody,
        tiny,
        limited,
        endless,
        busy,
        regret,
        login,
        versioned,
        *([only_new] if version > 1 else []),
        *([task(os.environ["FLEET_ODD_TYPE"])(only_new.handler)] if "FLEET_ODD_TYPE" in os.environ else []),
    ],
    events=os.environ.get("FLEET_EVENTS") != "off",
    slice_tasks=int(os.environ["FLEET_SLICE_TASKS"]),
    slice_seconds=float(os.environ["FLEET_SLICE_SECONDS"]),
)
