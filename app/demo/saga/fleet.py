"""The Celery fleet of the saga: charges and refunds, each a row that is committed together with the proof of the lease.

    celery -A app.demo.saga.fleet worker

Nothing here is idempotent by itself, and need not be: a child that dies before the commit has written nothing, one that
dies after it leaves a step on record, and whoever takes over does not write the row again.
"""

import os
import time
from dataclasses import dataclass
from functools import cache

from celery import Celery

from app.demo.evidence import BEGUN, REFUSED, REPORTING, WRITTEN, Diary
from app.demo.saga.fleet_post import TillPost
from app.demo.saga.orders import GOOD_CARD, TILL_QUEUE
from celeriac import Context, Fatal, task
from celeriac.celery import install
from celeriac.errors import Conflict

LEASE_SECONDS = 3

post = TillPost.from_env()


@dataclass(frozen=True)
class Payment:
    """What of an order's variables the till looks at."""

    card: str


@task("order.charge", lease=LEASE_SECONDS, queue=TILL_QUEUE)
def charge(ctx: Context, payment: Payment) -> dict[str, str]:
    """Take the money, unless the bank says no."""
    if payment.card != GOOD_CARD:
        raise Fatal("the bank does not know this card")
    return {"receipt": book(ctx, "charge")}


@task("order.refund", lease=LEASE_SECONDS, queue=TILL_QUEUE)
def refund(ctx: Context) -> dict[str, str]:
    """Give it back."""
    return {"refund_receipt": book(ctx, "refund")}


def book(ctx: Context, step: str) -> str:
    """Write the row of a step, then its receipt."""
    diary = diary_of(os.getpid())
    held = ctx.task_id, ctx.fencing_token
    diary.write(BEGUN, *held)
    try:
        with ctx.transaction() as connection:
            connection.execute(
                "insert into demo.effect (order_id, step, task_id, fencing_token) values (%s, %s, %s, %s)",
                (ctx.business_key, step, *held),
            )
        diary.write(WRITTEN, *held)
        time.sleep(int(post.pause_ms) / 1000)
        diary.write(REPORTING, *held)
        return ctx.step("receipt", lambda: f"{step}-{ctx.fencing_token}")
    except Conflict:
        diary.write(REFUSED, *held)
        raise


@cache
def diary_of(_pid: int) -> Diary:
    """The diary of this very process: one that was forked has its own."""
    return Diary(post.diary_of_this_process)


app = Celery("saga", broker=post.broker_url)
app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)
install(app, database_url=post.database_url, tasks=[charge, refund])
