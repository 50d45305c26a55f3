"""Databases in a certain shape, made by insert…select as their owner: seconds instead of minutes.

The rows are what the functions would have left behind; every CHECK of the tables looks at them.
"""

from typing import Any, Literal

import psycopg
from psycopg import sql

Shape = Literal["READY", "SCHEDULED", "LOCKED"]

_OPEN = """
with made as materialized (
    select celeriac.uuid_v7(t.at) as id, t.at, n
      from (select celeriac.now() - interval '1 minute' as began) m, generate_series(1, %(rows)s) n,
           lateral (select m.began + n * interval '1 microsecond' as at) t
), cold as (
    insert into celeriac.task (id, created_at, version, priority, retries, task_type, variables)
    select id, at, 1, 0, 3, %(task_type)s, {variables} from made
)
insert into celeriac.queue (task_id, fencing_token, run_at, turn_at, version, priority, retries, payload_bytes,
                            task_type, state, attempts, lease_owner, lease_principal, leased_at, lease_expires_at,
                            reap_at)
select id, {token}, at + {delay}, at + {delay}, 1, 0, 3, 150, %(task_type)s, {state}, {leased} from made
"""

_ENDED = """
insert into celeriac.task (id, created_at, started_at, ended_at, fencing_token, version, priority, retries, attempts,
                           state, task_type, worker_id, principal, variables, result)
select celeriac.uuid_v7(t.at), t.at, t.at, t.at, n, 1, 0, 3, 1,
       'COMPLETED', %(task_type)s, 'w', 'p', {variables}, '{{"ok": true}}'
  from (select celeriac.now() - interval '1 day' as began) m, generate_series(1, %(rows)s) n,
       lateral (select m.began + n * interval '10 microseconds' as at) t
"""

# Whatever the functions note of a type when its first task comes must be there as well.
_INTRODUCE = """
select celeriac.cancel_task(task_id => made.task_id)
  from celeriac.enqueue_tasks(tasks => jsonb_build_array(jsonb_build_object('task_type', %(task_type)s::text))) made
"""

_VARIABLES = sql.SQL(
    "jsonb_build_object('source', '/srv/media/incoming/2024/11/' || lpad(n::text, 12, '0') || '/master.mov',"
    " 'target', '/srv/media/archive/' || lpad(n::text, 12, '0') || '.mov', 'size', 734003200 + n, 'checked', false)"
)

_COLUMNS = {
    "READY": {"token": "0", "delay": "interval '0'", "leased": "0, null, null, null, null, null"},
    "SCHEDULED": {"token": "0", "delay": "interval '1 day'", "leased": "0, null, null, null, null, null"},
    "LOCKED": {
        "token": "nextval('celeriac.fencing_token')",
        "delay": "interval '0'",
        "leased": "1, 'w', 'p', at, at + interval '1 day', at + interval '1 day'",
    },
}


def add_open(conn: psycopg.Connection[Any], task_type: str, rows: int, shape: Shape) -> None:
    """Open tasks with a payload of about 150 bytes, created a minute ago."""
    columns = {name: sql.SQL(text) for name, text in _COLUMNS[shape].items()}
    statement = sql.SQL(_OPEN).format(variables=_VARIABLES, state=sql.Literal(shape), **columns)
    conn.execute(_INTRODUCE, {"task_type": task_type})
    conn.execute(statement, {"task_type": task_type, "rows": rows})


def add_ended(conn: psycopg.Connection[Any], task_type: str, rows: int) -> None:
    """Completed tasks of the last day."""
    conn.execute(sql.SQL(_ENDED).format(variables=_VARIABLES), {"task_type": task_type, "rows": rows})


def top_up(conn: psycopg.Connection[Any], task_type: str, wanted: int) -> None:
    """See that at least `wanted` tasks of this type are ready."""
    row = conn.execute(
        "select count(*) from celeriac.queue where task_type = %s and state = 'READY'", [task_type]
    ).fetchone()
    missing = wanted - (row[0] if row else 0)
    if missing > 0:
        add_open(conn, task_type, missing, "READY")


def settle(conn: psycopg.Connection[Any]) -> None:
    """Statistics, visibility and dirty pages as they are some minutes after a change of this size."""
    conn.execute("vacuum (analyze) celeriac.task, celeriac.queue")
    conn.execute("checkpoint")
