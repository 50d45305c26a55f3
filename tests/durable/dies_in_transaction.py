"""A worker process that is killed (SIGKILL) in the middle of a business transaction. Prints the id of its task."""

import os
import signal
import sys

import psycopg

from celeriac import Context, _faults, task
from celeriac.durable import _attempt
from celeriac.durable._authority import Authority
from celeriac.durable._database import Database
from celeriac.durable._ledger import Ledger
from celeriac.durable._transactions import Transactions

url, when = sys.argv[1:]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task("order", lease=30)
def order(ctx: Context) -> None:
    print(ctx.task_id, flush=True)  # noqa: T201
    with ctx.transaction() as session:
        session.execute("insert into asset values ('a')")
        if when == "write":
            die()


def at(name: str, subject: str) -> None:
    if name == "transaction.commit.before":
        die()


_faults.arm(at)
database = Database(url)
authority = Authority(database)
authority.register_type(order, "tests")
with psycopg.connect(url) as connection:
    order.enqueue(connection)
lease = authority.fetch("doomed", {"order": [1]})
assert lease is not None
_attempt.run(order, lease, Ledger(database, "doomed", lease), Transactions(None, database))
