"""The business side: a table of copies that somebody ordered, and a trigger that sees what comes of them.

The order and its task are written in one transaction: there is no order without a task and no task without an order.
Every other copy goes to external workers over HTTP, the rest to a Celery fleet, whose tasks write a business row, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from app.demo.source import SourceFile

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

TASK_TYPE = "media.copy"
FLEET_TYPE = "media.copy.durable"
FLEET_QUEUE = "copies"
# One call of the SDK takes at most 5 000 tasks.
MOST_AT_ONCE = 5000
# Workers are killed and frozen on purpose here; the default, five lost leases, is for tasks that kill their workers.
MOST_EXPIRATIONS = 50

SCHEMA = """
create schema demo;

create table demo.copy_order (
    path       text        primary key,
    size       bigint      not null,
    task_type  text        not null,
    task_id    uuid        not null unique,
    ordered_at timestamptz not null default now()
);

-- What the fleet's tasks write in their own transactions. No unique key either: a second row must be seen.
create table demo.asset (
    path       text        not null,
    size       bigint      not null,
    sha256     text        not null,
    task_id    uuid        not null
);
grant usage on schema demo to celeriac_fleet;
grant insert on demo.asset to celeriac_fleet;

-- No unique key: a second completion must be seen, not prevented (app/demo/evidence.py).
create table demo.completion (
    task_id       uuid        not null,
    fencing_token bigint,
    result        jsonb,
    seen_at       timestamptz not null default clock_timestamp()
);

create function demo.see_completion() returns trigger language plpgsql as $$
begin
    insert into demo.completion (task_id, fencing_token, result) values (new.id, new.fencing_token, new.result);
    return null;
end $$;

-- Sees every write that leaves a task COMPLETED, also one over an earlier result.
create trigger see_completion after update on celeriac.task
   for each row when (new.state = 'COMPLETED') execute function demo.see_completion();
"""


@dataclass(frozen=True)
class Order:
    """One ordered copy."""

    path: str
    size: int
    task_type: str
    task_id: str


def make_schema(engine: "Engine") -> None:
    with engine.connect() as conn:
        conn.exec_driver_sql(SCHEMA)


def place_orders(engine: "Engine", files: Sequence[SourceFile]) -> None:
    """Write every order and enqueue its task, all in one transaction: all of them or none."""
    from sqlalchemy import text

    from celeriac import NewTask, Policy, enqueue_many

    order = text(
        "insert into demo.copy_order (path, size, task_type, task_id) values (:path, :size, :task_type, :task_id)"
    )
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as conn, conn.begin():
        for start in range(0, len(files), MOST_AT_ONCE):
            batch = files[start : start + MOST_AT_ONCE]
            tasks = enqueue_many(
                conn,
                [
                    NewTask(task_type, {"path": file.path}, policy=Policy(expirations=MOST_EXPIRATIONS))
                    for file, task_type in zip(batch, cycle((TASK_TYPE, FLEET_TYPE)), strict=False)
                ],
            )
            placed = [
                {"path": file.path, "size": file.size, "task_type": task.task_type, "task_id": task.task_id}
                for file, task in zip(batch, tasks, strict=True)
            ]
            conn.execute(order, placed)


def list_orders(conn: "Connection") -> list[Order]:
    rows = conn.exec_driver_sql("select path, size, task_type, task_id::text from demo.copy_order order by path")
    return [Order(*row) for row in rows]


def count_states(engine: "Engine") -> dict[str, int] | None:
    """How many ordered tasks are in which state; None while the database is away."""
    from sqlalchemy.exc import DBAPIError

    from db.errors import Unavailable

    counted = """
        select t.state, count(*) from demo.copy_order o join celeriac.task_list t on t.task_id = o.task_id group by 1
    """
    try:
        with engine.connect() as conn:
            return {state: int(number) for state, number in conn.exec_driver_sql(counted)}
    except (DBAPIError, Unavailable):
        return None
