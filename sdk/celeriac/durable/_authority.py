"""The SQL functions of Celeriac as a fleet calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from celeriac import _clock, _json
from celeriac._faults import point
from celeriac._lease import Lease
from celeriac.durable._database import Database
from celeriac.durable._declaration import DurableTask
from celeriac.errors import Refused, refusal
from celeriac.values import BatchResult, Completion, Failure, Task, Thrown, milliseconds, read

# Times as RFC 3339 text and JSON as text: no loader that the process has set for them has a say.
_COMPLETE_AND_FETCH: Final = """
    select ordinal, code, message,
           cast(task_id as text), cast(token_id as text), cast(instance_id as text), task_type, version, business_key,
           cast(variables as text), fencing_token, to_json(lock_expires_at) #>> '{}' as lock_expires_at,
           lock_duration_ms, retries, attempt, priority, to_json(created_at) #>> '{}' as created_at,
           resumed, undoing, expirations, lives
      from celeriac.complete_and_fetch(
               items => cast(%(items)s as jsonb), worker_id => %(worker_id)s, task_types => %(task_types)s,
               max_tasks => %(max_tasks)s, versions => cast(%(versions)s as jsonb))"""
_COMPLETE: Final = """
    select cast(task_id as text), state, code, message
      from celeriac.complete_tasks(items => cast(%(items)s as jsonb), worker_id => %(worker_id)s)"""
_FAIL: Final = """
    select cast(task_id as text), state, code, message
      from celeriac.fail_tasks(items => cast(%(items)s as jsonb), worker_id => %(worker_id)s)"""
_THROW: Final = """
    select cast(task_id as text), state, null as code, null as message
      from celeriac.throw_task(task_id => cast(%(task_id)s as uuid), worker_id => %(worker_id)s,
                               fencing_token => %(fencing_token)s, error_code => %(code)s, error_message => %(error)s,
                               variables => cast(%(variables)s as jsonb))"""
_EXTEND: Final = """
    select ordinal, cast(task_id as text), lock_duration_ms, code, message
      from celeriac.extend_leases(items => cast(%(items)s as jsonb), worker_id => %(worker_id)s)"""
_RELEASE: Final = """
    select cast(task_id as text)
      from celeriac.release_task(task_id => cast(%(task_id)s as uuid), worker_id => %(worker_id)s,
                                 fencing_token => %(fencing_token)s)"""
_RELEASE_ALL: Final = "select released from celeriac.release_leases(worker_id => %(worker_id)s)"
_READY: Final = (
    "select task_type from celeriac.ready_types(task_types => %(task_types)s, max_tasks => 1) where ready > 0"
)
_HELD: Final = """
    select cast(task_id as text), task_type, version, fencing_token, attempts as attempt,
           to_json(started_at) #>> '{}' as held_since, to_json(lock_expires_at) #>> '{}' as lock_expires_at
      from celeriac.open_task_list
     where state = 'LOCKED' and worker_id = %(worker_id)s and task_type = any (%(task_types)s)
     order by started_at, task_id
     limit 1000"""
_REGISTER_TYPE: Final = """
    select name from celeriac.register_task_type(
        name => %(name)s, lease_ms => %(lease_ms)s, retries => %(retries)s, backoff_first_ms => %(first_ms)s,
        backoff_factor => %(factor)s, backoff_cap_ms => %(cap_ms)s, delivery => %(delivery)s, queue => %(queue)s,
        concurrency => %(concurrency)s, rate_tasks => %(rate_tasks)s, rate_ms => %(rate_ms)s)"""
_REGISTER_WORKER: Final = """
    select worker_id from celeriac.register_worker(
        worker_id => %(worker_id)s, kind => 'fleet', task_types => %(task_types)s,
        versions => cast(%(versions)s as jsonb), details => cast(%(details)s as jsonb))"""

_DECODER: Final = _json.decoder()
_TASK_FIELDS: Final = tuple(field.name for field in fields(Task) if field.name != "variables")
RELEASED_AT_ONCE: Final = 1000
"""No fewer than a call of release_leases gives back: an answer below it says that nothing is left."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a fetch asks for: task types, and of each the versions that the caller has code for."""

    task_types: list[str]
    versions: str

    @classmethod
    def of(cls, versions: Mapping[str, Sequence[int]]) -> Wanted:
        return cls(list(versions), _text(versions))


@dataclass(frozen=True, slots=True)
class Turnover:
    """What a call came to that completes and fetches: by place in the call why a completion was refused, and leases."""

    refused: Mapping[int, Refused]
    leases: list[Lease]


class Authority:
    """Each method is one call; a refusal is raised as the HTTP client raises it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def fetch(self, worker_id: str, versions: Mapping[str, Sequence[int]]) -> Lease | None:
        """The best task of these types and versions under a new lease (that of its type), or None."""
        leases = self.turn_over(worker_id, [], Wanted.of(versions), 1).leases
        return leases[0] if leases else None

    def turn_over(self, worker_id: str, completions: Sequence[Completion], wanted: Wanted, max_tasks: int) -> Turnover:
        """Complete tasks and lease up to `max_tasks` others, best first: one transaction.

        Raises what makes the whole call impossible (then nothing has changed): Invalid and TooLarge for a result.
        """
        asked_at = _clock.now()
        rows = self.database.rows(
            _COMPLETE_AND_FETCH,
            items=_text([completion.to_json() for completion in completions]) if completions else "[]",
            worker_id=worker_id,
            task_types=wanted.task_types,
            max_tasks=max_tasks,
            versions=wanted.versions,
        )
        refused: dict[int, Refused] = {}
        leases: list[Lease] = []
        for row in rows:
            if row["ordinal"] is None:
                leases.append(_lease(row, asked_at))
            elif row["code"] is not None:
                task_id = completions[row["ordinal"]].task_id
                refused[row["ordinal"]] = refusal(row["code"], row["message"] or row["code"], task_id=task_id)
        point("fetch.after", leases[0].task.task_type if leases else "")
        return Turnover(refused, leases)

    def report(self, worker_id: str, outcome: Completion | Failure) -> str:
        """Complete or fail a task; the state it is in then. Raises why not. Harmless to repeat: the token tells that it
        is the same call."""
        if isinstance(outcome, Thrown):
            return self._throw(worker_id, outcome)
        statement = _COMPLETE if isinstance(outcome, Completion) else _FAIL
        [row] = self.database.rows(statement, items=_text([outcome.to_json()]), worker_id=worker_id)
        if refused := read(BatchResult, row).refusal:
            raise refused
        return str(row["state"])

    def _throw(self, worker_id: str, error: Thrown) -> str:
        [row] = self.database.rows(
            _THROW,
            task_id=error.task_id,
            worker_id=worker_id,
            fencing_token=error.fencing_token,
            code=error.code,
            error=error.error,
            variables=_text(dict(error.variables or {})),
        )
        return str(row["state"])

    def extend(self, worker_id: str, tasks: Sequence[Task]) -> list[int | Refused]:
        """Let each lease end its full duration from now: the durations in ms, or why there is no such lease now."""
        items = [
            {"task_id": t.task_id, "fencing_token": t.fencing_token, "lock_duration_ms": t.lock_duration_ms}
            for t in tasks
        ]
        rows = self.database.rows(_EXTEND, items=_text(items), worker_id=worker_id)
        answers: list[int | Refused] = [0] * len(items)
        for row in rows:
            answers[row["ordinal"]] = (
                refusal(row["code"], row["message"] or row["code"], task_id=row["task_id"])
                if row["code"]
                else int(row["lock_duration_ms"])
            )
        return answers

    def release(self, worker_id: str, task: Task) -> None:
        """Give a task back, its attempt uncounted. Harmless to repeat."""
        self.database.rows(_RELEASE, task_id=task.task_id, worker_id=worker_id, fencing_token=task.fencing_token)

    def release_all(self, worker_id: str) -> int:
        """Give back all that this worker holds, their attempts uncounted; how many those were."""
        released = 0
        while True:
            [row] = self.database.rows(_RELEASE_ALL, worker_id=worker_id)
            released += int(row["released"])
            if row["released"] < RELEASED_AT_ONCE:
                return released

    def held(self, worker_id: str, task_types: Sequence[str]) -> list[dict[str, Any]]:
        """The leases of this worker as Postgres sees them, the oldest first, at most a thousand."""
        return self.database.rows(_HELD, worker_id=worker_id, task_types=list(task_types))

    def ready(self, task_types: Sequence[str]) -> list[str]:
        """Those of the types that have a task waiting."""
        return [row["task_type"] for row in self.database.rows(_READY, task_types=list(task_types))]

    def register_type(self, task: DurableTask, queue: str | None) -> None:
        """Make the task type known, delivered by rings in `queue` (None: to those who ask for it).

        What the declaration leaves open stays as it is.
        """
        self.database.rows(
            _REGISTER_TYPE,
            name=task.task_type,
            lease_ms=milliseconds(task.lease, "lease"),
            retries=task.retry.attempts,
            first_ms=milliseconds(task.retry.first, "retry.first"),
            factor=task.retry.factor,
            cap_ms=milliseconds(task.retry.cap, "retry.cap"),
            delivery="pull" if queue is None else "celery",
            queue=queue,
            concurrency=task.concurrency,
            rate_tasks=task.rate[0] if task.rate else None,
            rate_ms=milliseconds(task.rate[1], "rate") if task.rate else None,
        )

    def register_worker(
        self, worker_id: str, versions: Mapping[str, Sequence[int]], details: Mapping[str, Any]
    ) -> None:
        """Say that this worker lives and what it runs; again every few seconds."""
        self.database.rows(
            _REGISTER_WORKER,
            worker_id=worker_id,
            task_types=list(versions),
            versions=_text(versions),
            details=_text(details),
        )


def _lease(row: Mapping[str, Any], asked_at: float) -> Lease:
    variables = _json.decode(row["variables"].encode(), _DECODER)
    return Lease(Task(variables=variables, **{name: row[name] for name in _TASK_FIELDS}), asked_at)


def _text(value: Any) -> str:
    return _json.encode(value).decode()
