"""The direct way: psycopg, one connection, the functions of the schema. The raw SQL that HTTP is compared with."""

import itertools
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from benchmarks.callers import LEASE_MS, RESULT, Held, Refused, completion, encoded, new_task

_ENQUEUE = "select task_id from celeriac.enqueue_tasks(tasks => cast(%s as jsonb))"
_FETCH = (
    "select task_id, token_id, instance_id, task_type, version, business_key, variables, fencing_token,"
    " lock_expires_at, lock_duration_ms, retries, attempt, priority, created_at"
    " from celeriac.fetch_tasks(worker_id => %s, task_types => %s, max_tasks => %s, lock_duration_ms => %s)"
)
_COMPLETE_ONE = (
    "select state from celeriac.complete_task(task_id => cast(%s as uuid), worker_id => %s, fencing_token => %s,"
    " variables => cast(%s as jsonb))"
)
_COMPLETE_MANY = "select code from celeriac.complete_tasks(items => cast(%s as jsonb), worker_id => %s)"
_RESULT = encoded(RESULT).decode()


class SqlCaller:
    """Statements are prepared after their fifth use, psycopg's default: the fastest that direct SQL gets."""

    def __init__(self, url: str, worker_id: str, task_type: str) -> None:
        self.conn: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self.conn.adapters.register_loader("jsonb", TextLoader)
        self._worker_id = worker_id
        self._task_type = task_type
        self._numbers = itertools.count()

    def enqueue(self, count: int) -> None:
        tasks = [new_task(self._task_type, next(self._numbers)) for _ in range(count)]
        if len(self.conn.execute(_ENQUEUE, [encoded(tasks).decode()]).fetchall()) != count:
            raise Refused("enqueue_tasks made another number of tasks than asked")

    def fetch(self, count: int) -> Sequence[Held]:
        rows = self.conn.execute(_FETCH, [self._worker_id, [self._task_type], count, LEASE_MS]).fetchall()
        return [Held(str(row[0]), row[7]) for row in rows]

    def complete(self, held: Sequence[Held]) -> None:
        if len(held) == 1:
            one = held[0]
            self.conn.execute(_COMPLETE_ONE, [one.task_id, self._worker_id, one.fencing_token, _RESULT]).fetchall()
            return
        items = encoded([completion(one) for one in held]).decode()
        codes = [row[0] for row in self.conn.execute(_COMPLETE_MANY, [items, self._worker_id]).fetchall()]
        if codes != [None] * len(held):
            raise Refused(f"complete_tasks refused some of a batch: {codes}")

    def close(self) -> None:
        self.conn.close()
