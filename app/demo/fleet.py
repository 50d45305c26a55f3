"""The demo's Celery fleet: an ordinary Celery app whose tasks are durable, as a user would write it.

    celery -A app.demo.fleet worker

Each copy is three durable calls: a plan, an operation with an effect outside of Postgres (the file), and a transaction
that writes the business row together with the proof that the lease still holds. A child that dies between any two of
them leaves a task that goes on elsewhere, and nothing is done twice: the file is looked for before it is written again,
and the row is committed once.
"""

import os
import time
from dataclasses import dataclass
from functools import cache

from celery import Celery

from app.demo.copying import Copied, copy_file
from app.demo.evidence import BEGUN, REFUSED, REPORTING, WRITTEN, Diary
from app.demo.fleet_post import FleetPost
from app.demo.orders import FLEET_QUEUE, FLEET_TYPE
from app.demo.source import sha256_of
from celeriac import Context, Done, NotDone, task
from celeriac.celery import install
from celeriac.errors import Conflict

LEASE_SECONDS = 3

post = FleetPost.from_env()


@dataclass(frozen=True)
class CopyOrder:
    """What is asked for: a file, by its path below the source."""

    path: str


@dataclass(frozen=True)
class Plan:
    """What the copy must be: decided once, before anything is written."""

    path: str
    size: int
    sha256: str


def make_plan(order: CopyOrder) -> Plan:
    original = post.source / order.path
    return Plan(order.path, original.stat().st_size, sha256_of(original))


def find_copy(plan: Plan) -> Done | NotDone:
    """What an attempt that was cut short has left: the whole copy under its name, or none."""
    copy = post.target / plan.path
    if copy.is_file() and (copy.stat().st_size, sha256_of(copy)) == (plan.size, plan.sha256):
        return Done(Copied(plan.size, plan.sha256))
    return NotDone()


@task(FLEET_TYPE, lease=LEASE_SECONDS, queue=FLEET_QUEUE)
def copy(ctx: Context, order: CopyOrder) -> Copied:
    """Copy one file and write its row."""
    diary = diary_of(os.getpid())
    held = ctx.task_id, ctx.fencing_token

    def write(plan: Plan) -> Copied:
        def written() -> None:
            diary.write(WRITTEN, *held)
            time.sleep(post.pause_ms / 1000)  # as a slow disk would, for runs over a few small files

        attempt = f"{ctx.task_id}.{ctx.fencing_token}"
        copied = copy_file(post.source / plan.path, post.target / plan.path, attempt, ctx.check, written)
        diary.write(REPORTING, *held)
        return copied

    diary.write(BEGUN, *held)
    try:
        plan = ctx.step("plan", make_plan, order)
        copied = ctx.operation("copy", plan, do=write, reconcile=find_copy)
        with ctx.transaction() as connection:
            connection.execute(
                "insert into demo.asset (path, size, sha256, task_id) values (%s, %s, %s, %s)",
                (plan.path, copied.size, copied.sha256, ctx.task_id),
            )
    except Conflict:
        diary.write(REFUSED, *held)
        raise
    return copied


@cache
def diary_of(pid: int) -> Diary:
    """The diary of this very process: one that was forked has its own."""
    return Diary(post.diaries / f"{post.worker}.{pid}.diary")


app = Celery("demo", broker=post.broker_url)
app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)
install(app, database_url=post.database_url, tasks=[copy])
