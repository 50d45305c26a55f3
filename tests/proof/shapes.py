"""Tables in the shapes that queues get into, written straight into them: 200 000 rows in a few seconds."""

from typing import Any

import psycopg

# Ids begin with a time long past, so that they sort before those of tasks that a test makes.
TASKS = """
    insert into celeriac.task (id, created_at, version, priority, retries, state, task_type, variables,
                               ended_at, result, fencing_token)
    select ('01900000-' || lpad(to_hex(i / 4096), 4, '0') || '-7' || lpad(to_hex(i % 4096), 3, '0')
            || '-8000-' || lpad(to_hex(i), 12, '0'))::uuid,
           now() - interval '60 days', 1, 0, 3, {state}, 'bulk', '{{"order": 1}}', {ended}
      from generate_series(1, {count}) i
"""
QUEUE = """
    insert into celeriac.queue (task_id, fencing_token, run_at, turn_at, version, priority, retries, payload_bytes,
                                state, task_type, lease_owner, lease_principal, leased_at, lease_expires_at, reap_at)
    select t.id, {token}, {due}, {due}, 1, {priority}, 3, 12, '{state}', 'bulk', {lease}
      from celeriac.task t where t.state = 'OPEN' limit {count}
"""
NO_LEASE = "null, null, null, null, null"
A_LEASE = "'w', 'p', now(), now() + interval '1 hour', now() + interval '1 hour'"
OPEN_TASKS = 200_000


def open_tasks(count: int) -> str:
    return TASKS.format(state="'OPEN'", ended="null, null, null", count=count)


SHAPES: dict[str, list[str]] = {
    "empty": [],
    "200 k ready": [
        open_tasks(OPEN_TASKS),
        QUEUE.format(token=0, due="now()", priority=0, state="READY", lease=NO_LEASE, count=OPEN_TASKS),
    ],
    "200 k scheduled": [
        open_tasks(OPEN_TASKS),
        QUEUE.format(
            token=0, due="now() + interval '1 day'", priority=0, state="SCHEDULED", lease=NO_LEASE, count=OPEN_TASKS
        ),
    ],
    "200 k leased": [
        open_tasks(OPEN_TASKS),
        QUEUE.format(token=1, due="now()", priority=0, state="LOCKED", lease=A_LEASE, count=OPEN_TASKS),
    ],
    "20 k of one type ahead of another": [
        open_tasks(20_000),
        QUEUE.format(token=0, due="now()", priority=9, state="READY", lease=NO_LEASE, count=20_000),
    ],
    "1 M ended": [TASKS.format(state="'COMPLETED'", ended="now() - interval '1 day', '{}', i", count=1_000_000)],
    "200 k pending in the outbox": [
        "insert into celeriac.outbox (channel, key, payload, due_at, created_at)"
        " select 'ring', 'celery', '{\"task_type\": \"bulk\"}', now(), now() from generate_series(1, 200000)"
    ],
}


def build(connection: psycopg.Connection[Any], shape: str) -> None:
    """Empties the tables and makes them what the shape says, with the statistics that Postgres would have by then."""
    connection.execute("truncate celeriac.task, celeriac.queue, celeriac.outbox, celeriac.history, celeriac.stream")
    connection.execute("insert into celeriac.stream (task_type, version) values ('bulk', 1)")
    for statement in SHAPES[shape]:
        connection.execute(statement)
    connection.execute("vacuum analyze celeriac.task, celeriac.queue, celeriac.outbox, celeriac.stream")
