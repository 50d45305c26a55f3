"""The real database under the proof: calls as any caller makes them, and the tables as only their owner sees them."""

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from db.call import rows
from db.errors import Refused
from tests.clock import Clock
from tests.proof.shipped import RAISES_A_FLOOR, install, replaced, shipped

TASKS = text("""
    select t.id, coalesce(q.state, t.state), coalesce(q.retries, t.retries), coalesce(q.attempts, t.attempts),
           coalesce(q.expirations, t.expirations), t.redrives, coalesce(q.fencing_token, t.fencing_token),
           coalesce(q.lease_owner, t.worker_id), coalesce(q.lease_principal, t.principal),
           coalesce(q.leased_at, t.started_at), q.lease_expires_at, q.reap_at, q.run_at, t.ended_at, t.result, t.error
      from celeriac.task t left join celeriac.queue q on q.task_id = t.id
""")
HISTORY = text("select task_id, kind, fencing_token, attempt, worker_id, principal from celeriac.history")
# Everything but what a test sets up once: the clock, task types, keys, what migrations note.
STATE_TABLES = text("""
    select c.relname from pg_class c
     where c.relnamespace = 'celeriac'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and c.relname not in ('test_clock', 'task_type', 'api_key', 'worker', 'installation', 'alembic_version')
""")
# The same seed, clock and ids in every run: a sequence of calls does the same when it is replayed.
REPEAT = text("""
    with clock as (update celeriac.test_clock set frozen_at = '2031-05-06 07:08:09Z', shift = '0') select setseed(0.5)
""")


def state_tables(connection: Connection) -> list[str]:
    """The tables that transitions write, whatever the present release has."""
    return list(connection.execute(STATE_TABLES).scalars())


class ProofDatabase:
    """One connection to a database with a clock that stands still until it is moved."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        connection.execute(text("set jit = off"))  # it would compile each of many short queries
        self.clock = Clock(connection)
        self.clock.freeze()
        self.empty = text("truncate " + ", ".join(f"celeriac.{table}" for table in state_tables(connection)))
        # How many dead rows a claim met decides whether it raises a floor: chance, in a test that must be repeatable.
        install(connection, replaced(shipped("claim_ready"), RAISES_A_FLOOR, "null;"))
        install(connection, replaced(shipped("uuid_v7"), "gen_random_uuid()", "md5(moment::text)::uuid"))

    def reset(self) -> None:
        self.connection.execute(self.empty)
        self.connection.execute(REPEAT)

    def now(self) -> datetime:
        return self.clock.now()

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by.total_seconds())

    def call(self, function: str, **arguments: Any) -> Any:
        """The rows of an answer, or the code of a refusal."""
        try:
            return rows(self.connection, function, **arguments)
        except Refused as refusal:
            return refusal.code

    def tasks(self) -> dict[UUID, tuple[Any, ...]]:
        """Each task as both tables together tell it; the order of the values is that of `Task.row`."""
        found = {}
        for task_id, *values in self.connection.execute(TASKS):
            values[13] = None if values[13] is None else json.loads(values[13])
            found[task_id] = tuple(values)
        return found

    def history(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row) for row in self.connection.execute(HISTORY))

    def keys(self) -> dict[tuple[str, str], UUID]:
        statement = text("select task_type, key, task_id from celeriac.idempotency")
        return {(task_type, key): task_id for task_type, key, task_id in self.connection.execute(statement)}

    def rings(self) -> int:
        return int(self.connection.execute(text("select count(*) from celeriac.outbox")).scalar_one())
