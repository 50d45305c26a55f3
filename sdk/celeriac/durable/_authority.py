"""The SQL functions of Celeriac as a fleet calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from celeriac import _clock, _json
from celeriac._lease import Lease
from celeriac.durable._database import Database
from celeriac.durable._declaration import DurableTask
from celeriac.values import BatchResult, Completion, Failure, Task, milliseconds, read

# Times as RFC 3339 text and JSON as text: no loader that the process has set for them has a say.
_FETCH: Final = """
    select cast(task_id as text), cast(token_id as text), cast(instance_id as text), task_type, version, business_key,
           cast(variables as text), fencing_token, to_json(lock_expires_at) #>> '{}' as lock_expires_at,
           lock_duration_ms, retries, attempt, priority, to_json(created_at) #>> '{}' as created_at
      from celeriac.fetch_tasks(worker_id => %(worker_id)s, task_types => %(task_types)s, max_tasks => 1,
                                versions => cast(%(versions)s as jsonb))"""
_COMPLETE: Final = """
    select cast(task_id as text), state, code, message
      from celeriac.complete_tasks(items => cast(%(items)s as jsonb), worker_id => %(worker_id)s)"""
_FAIL: Final = """
    select cast(task_id as text), state, code, message
      from celeriac.fail_tasks(items => cast(%(items)s as jsonb), worker_id => %(worker_id)s)"""
_EXTEND: Final = """
    select lock_duration_ms
      from celeriac.extend_lease(task_id => cast(%(task_id)s as uuid), worker_id => %(worker_id)s,
                                 lock_duration_ms => %(lock_duration_ms)s, fencing_token => %(fencing_token)s)"""
_READY: Final = (
    "select task_type from celeriac.ready_types(task_types => %(task_types)s, max_tasks => 1) where ready > 0"
)
_REGISTER_TYPE: Final = """
    select name from celeriac.register_task_type(
        name => %(name)s, lease_ms => %(lease_ms)s, retries => %(retries)s, backoff_first_ms => %(first_ms)s,
        backoff_factor => %(factor)s, backoff_cap_ms => %(cap_ms)s, delivery => 'celery', queue => %(queue)s)"""
_REGISTER_WORKER: Final = """
    select worker_id from celeriac.register_worker(
        worker_id => %(worker_id)s, kind => 'fleet', task_types => %(task_types)s,
        versions => cast(%(versions)s as jsonb), details => cast(%(details)s as jsonb))"""

_DECODER: Final = _json.decoder()


class Authority:
    """Each method is one call; a refusal is raised as the HTTP client raises it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def fetch(self, worker_id: str, versions: Mapping[str, Sequence[int]]) -> Lease | None:
        """The best task of these types and versions under a new lease (that of its type), or None."""
        asked_at = _clock.now()
        rows = self._database.rows(_FETCH, worker_id=worker_id, task_types=list(versions), versions=_text(versions))
        if not rows:
            return None
        variables = _json.decode(rows[0]["variables"].encode(), _DECODER)
        return Lease(read(Task, {**rows[0], "variables": variables}), asked_at)

    def report(self, worker_id: str, outcome: Completion | Failure) -> None:
        """Complete or fail a task; raises why not. Harmless to repeat: the token tells that it is the same call."""
        statement = _COMPLETE if isinstance(outcome, Completion) else _FAIL
        [row] = self._database.rows(statement, items=_text([outcome.to_json()]), worker_id=worker_id)
        if refusal := read(BatchResult, row).refusal:
            raise refusal

    def extend(self, worker_id: str, task: Task) -> int:
        """Let the lease end its full duration from now, which is returned in ms."""
        [row] = self._database.rows(
            _EXTEND,
            task_id=task.task_id,
            worker_id=worker_id,
            lock_duration_ms=task.lock_duration_ms,
            fencing_token=task.fencing_token,
        )
        return int(row["lock_duration_ms"])

    def ready(self, task_types: Sequence[str]) -> list[str]:
        """Those of the types that have a task waiting."""
        return [row["task_type"] for row in self._database.rows(_READY, task_types=list(task_types))]

    def register_type(self, task: DurableTask, queue: str) -> None:
        """Make the task type known, delivered by rings in `queue`; what the declaration leaves open stays as it is."""
        self._database.rows(
            _REGISTER_TYPE,
            name=task.task_type,
            lease_ms=milliseconds(task.lease, "lease"),
            retries=task.retry.attempts,
            first_ms=milliseconds(task.retry.first, "retry.first"),
            factor=task.retry.factor,
            cap_ms=milliseconds(task.retry.cap, "retry.cap"),
            queue=queue,
        )

    def register_worker(
        self, worker_id: str, versions: Mapping[str, Sequence[int]], details: Mapping[str, Any]
    ) -> None:
        """Say that this worker lives and what it runs; again every few seconds."""
        self._database.rows(
            _REGISTER_WORKER,
            worker_id=worker_id,
            task_types=list(versions),
            versions=_text(versions),
            details=_text(details),
        )


def _text(value: Any) -> str:
    return _json.encode(value).decode()
