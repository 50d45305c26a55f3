"""What one attempt writes down and looks up: the SQL functions for steps, operations, waits and undos.

Every call is made under the attempt's lease and carries its fencing token: whoever has lost the task changes nothing,
and learns it here. A call that gets no answer is repeated, for as long as a lease lasts at most; all of them bear that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, LiteralString, NoReturn

from celeriac import _callers_connection, _clock, _json
from celeriac._backoff import Backoff
from celeriac._faults import point
from celeriac._lease import Lease
from celeriac.durable._transactions import ENDED_BY_STATEMENT, OURS
from celeriac.errors import Conflict, ConnectionFailed, Fatal, IdempotencyConflict, NotFound, OutOfPlace

if TYPE_CHECKING:
    from celeriac.durable._database import Database, Row

log = logging.getLogger("celeriac.durable")

LONGEST_PAUSE_SECONDS: Final = 5.0
PAGE_STEPS: Final = 1000
PAGE_BYTES: Final = 4 * 1024 * 1024
LARGEST_STEP_BYTES: Final = 2 * 1024 * 1024  # a result of 1 MiB grows when jsonb prints it

_READ_STEPS: Final = """
    select branch, ordinal, kind, name, cast(result as text) as result, error
      from celeriac.read_steps(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, %(after_branch)s,
                               cast(%(after_ordinal)s as integer), %(max_steps)s, %(max_bytes)s)"""
_BEGIN_OPERATION: Final = """
    select cast(b.operation_id as text), b.fresh, cast(b.plan as text) as plan, b.error,
           coalesce(%(fencing_token)s = (select o.fencing_token from celeriac.operations o
                                          where o.operation_id = b.operation_id), false) as is_ours
      from celeriac.begin_operation(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, %(branch)s,
                                    %(ordinal)s, %(name)s, cast(%(plan)s as jsonb)) b"""
_SETTLE_OPERATION: Final = """
    select state from celeriac.settle_operation(
        cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, cast(%(operation_id)s as uuid), %(outcome)s,
        cast(%(result)s as jsonb), %(error)s)"""
_SUSPEND: Final = """
    select branch, ordinal, kind, name, state, cast(result as text) as result, error
      from celeriac.suspend_task(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s,
                                 cast(%(waits)s as jsonb))"""
_ENQUEUE: Final = """
    select ordinal, cast(task_id as text)
      from celeriac.enqueue_children(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, %(branch)s,
                                     %(ordinal)s, %(name)s, cast(%(tasks)s as jsonb))
     order by ordinal"""
_RAISE_INCIDENT: Final = """
    select cast(incident_id as text)
      from celeriac.raise_incident(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, %(kind)s, %(branch)s,
                                   %(ordinal)s, %(name)s, %(message)s, cast(%(detail)s as jsonb))"""
_REGISTER: Final = """
    select number from celeriac.register_compensation(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s,
                                                      %(branch)s, %(ordinal)s, %(name)s)"""
_READ_COMPENSATIONS: Final = """
    select number, branch, ordinal, name, state
      from celeriac.read_compensations(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s)"""
_SETTLE_COMPENSATION: Final = """
    select state
      from celeriac.settle_compensation(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, %(number)s)"""
_FINISH_UNDO: Final = (
    "select state from celeriac.finish_undo(cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s)"
)
# The only one that a user's own transaction makes, too. In a transaction other than the block's it records nothing.
_RECORD: Final = f"""
    select (select recorded from celeriac.record_steps(
        cast({{task_id}} as uuid), {{worker_id}}, cast({{fencing_token}} as bigint), cast({{steps}} as jsonb)))
     where {OURS}"""  # noqa: S608
_RECORD_HERE: Final[LiteralString] = """
    select recorded from celeriac.record_steps(
        cast(%(task_id)s as uuid), %(worker_id)s, %(fencing_token)s, cast(%(steps)s as jsonb))"""


_RECORDED: Final = ("branch", "ordinal", "kind", "name", "result", "error")


@dataclass(frozen=True, slots=True)
class Record:
    """A durable call that has come to its end: JSON text of its result, or an error that the handler went on with."""

    branch: str
    ordinal: int
    kind: str
    name: str
    result: str | None = None
    error: str | None = None

    def to_json(self) -> str:
        call = {"branch": self.branch, "ordinal": self.ordinal, "kind": self.kind, "name": self.name}
        if self.error is not None:
            return _text(call | {"error": self.error})
        return _text(call) if self.result is None else f'{_text(call)[:-1]},"result":{self.result}}}'


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as it stands. `fresh`: do it now; else it was begun before and may have taken effect.

    `is_ours`: it was begun, but in this very attempt.
    """

    operation_id: str
    fresh: bool
    plan: str | None
    error: str | None
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Compensation:
    """Something that is to be undone: its place among the calls, and whether it still is (REGISTERED)."""

    number: int
    branch: str
    ordinal: int
    name: str
    state: str


class Ledger:
    """The authority's books as one attempt may use them. Made for each attempt; connects to nothing of its own."""

    def __init__(self, database: Database, worker_id: str, lease: Lease) -> None:
        self.undone_as = ""
        """The state in which this attempt has ended a task that was being undone."""
        self._database = database
        self._lease = lease
        self._who = {
            "task_id": lease.task.task_id,
            "worker_id": worker_id,
            "fencing_token": lease.task.fencing_token,
        }

    def read_steps(self) -> list[Record]:
        """All that earlier attempts have recorded, in the order of branch and ordinal."""
        with _points("steps.read", self._lease.task.task_type):
            return self._all_steps()

    def record(self, record: Record) -> None:
        """Write down one step. The same once more is harmless."""
        with _points("step.record", record.name):
            self._rows(_RECORD_HERE, steps=f"[{record.to_json()}]")

    def record_on(self, connection: Any, record: Record) -> None:
        """Write down one step in the user's own transaction; refused, as ever, when the lease is not held.

        Raises Fatal when it is no longer the transaction in which the block began.
        """
        with _points("transaction.record", record.name):
            try:
                recorded = _callers_connection.rows(connection, _RECORD, self._recording(record))
            except (Conflict, NotFound) as reason:
                self._blame(reason)
            if not recorded:
                raise Fatal(ENDED_BY_STATEMENT)

    async def arecord_on(self, connection: Any, record: Record) -> None:
        """`record_on` for a connection that is awaited."""
        with _points("transaction.record", record.name):
            try:
                recorded = await _callers_connection.arows(connection, _RECORD, self._recording(record))
            except (Conflict, NotFound) as reason:
                await asyncio.to_thread(self._blame, reason)
            if not recorded:
                raise Fatal(ENDED_BY_STATEMENT)

    def register_compensation(self, branch: str, ordinal: int, name: str) -> None:
        """Write down that this call must be undone if the task fails for good; before the call begins."""
        with _points("compensation.register", name):
            self._rows(_REGISTER, branch=branch, ordinal=ordinal, name=name)

    def begin_operation(self, branch: str, ordinal: int, name: str, plan: str) -> Operation:
        """Write down that an operation begins, or find that it did before."""
        with _points("operation.begin", name):
            [row] = self._rows(_BEGIN_OPERATION, branch=branch, ordinal=ordinal, name=name, plan=plan)
        return Operation(**row)

    def settle_operation(
        self, operation_id: str, name: str, outcome: str, *, result: str | None = None, error: str | None = None
    ) -> None:
        """What came of it: DONE, NOT_DONE, FAILED, ERRED or UNKNOWN, which makes the task wait for a person."""
        with _points("operation.settle", name):
            self._rows(_SETTLE_OPERATION, operation_id=operation_id, outcome=outcome, result=result, error=error)

    def enqueue(self, branch: str, ordinal: int, name: str, tasks: str) -> list[str]:
        """Enqueue tasks and record their ids, in one transaction; or, when it was done before, their ids."""
        with _points("enqueue", name):
            rows = self._rows(_ENQUEUE, branch=branch, ordinal=ordinal, name=name, tasks=tasks)
        return [row["task_id"] for row in rows]

    def suspend(self, waits: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Let the task wait: empty. Or what is over already, which is now recorded, and the task goes on."""
        with _points("suspend", str(waits[0]["name"])):
            rows = self._rows(_SUSPEND, waits=_text(waits))
        return [Record(**{name: row[name] for name in _RECORDED}) for row in rows if row["state"] == "SATISFIED"]

    def raise_incident(
        self, kind: str, branch: str, ordinal: int, name: str, message: str, detail: Mapping[str, Any]
    ) -> None:
        """Let the task wait for a person."""
        with _points("incident", name):
            self._rows(
                _RAISE_INCIDENT,
                kind=kind,
                branch=branch,
                ordinal=ordinal,
                name=name,
                message=message,
                detail=_text(detail),
            )

    def read_compensations(self) -> list[Compensation]:
        """What was registered to be undone, newest first."""
        return [Compensation(**row) for row in self._rows(_READ_COMPENSATIONS)]

    def settle_compensation(self, compensation: Compensation) -> None:
        """It is undone."""
        with _points("undo.settle", compensation.name):
            self._rows(_SETTLE_COMPENSATION, number=compensation.number)

    def finish_undo(self) -> None:
        """All is undone: the task ends."""
        with _points("undo.finish", self._lease.task.task_type):
            [row] = self._rows(_FINISH_UNDO)
            self.undone_as = row["state"]

    def _all_steps(self) -> list[Record]:
        records: list[Record] = []
        while True:
            last = records[-1] if records else None
            page = self._rows(
                _READ_STEPS,
                after_branch=last and last.branch,
                after_ordinal=last and last.ordinal,
                max_steps=PAGE_STEPS,
                max_bytes=PAGE_BYTES,
            )
            records += [Record(**row) for row in page]
            size = sum(len(row["result"] or "") for row in page)
            if len(page) < PAGE_STEPS and size < PAGE_BYTES - LARGEST_STEP_BYTES:
                return records

    def _recording(self, record: Record) -> dict[str, Any]:
        return {**self._who, "steps": f"[{record.to_json()}]"}

    def _rows(self, statement: LiteralString, **values: Any) -> list[Row]:
        try:
            return self._insist(statement, values)
        except (Conflict, NotFound) as reason:
            if not isinstance(reason, IdempotencyConflict):
                self._lease.end(reason)
            raise

    def _blame(self, reason: Conflict | NotFound) -> NoReturn:
        """Raise why a user's transaction was refused: the lease is lost, or that connection is another user's."""
        self._rows(_READ_STEPS, after_branch=None, after_ordinal=None, max_steps=1, max_bytes=1)
        raise OutOfPlace(
            "the lease is held, but not by the database user of this transaction: it must log in as the worker does"
        ) from reason

    def _insist(self, statement: LiteralString, values: Mapping[str, Any]) -> list[Row]:
        backoff = Backoff(cap_seconds=min(LONGEST_PAUSE_SECONDS, self._lease.duration / 6))
        # The keeper may go on extending while these calls fail: there must be an end to it.
        ends_at = _clock.now() + self._lease.duration
        failures = 0
        while True:
            try:
                return self._database.rows(statement, **self._who, **values)
            except ConnectionFailed as error:
                if self._lease.stopped or _clock.now() >= ends_at:
                    raise
                failures += 1
                log.info("a call for task %s is repeated: %s", self._lease.task.task_id, error)
            self._lease.wait(backoff.pause(failures))


@contextmanager
def _points(name: str, subject: str) -> Iterator[None]:
    """Fault points before a call, and after one that came back."""
    point(f"{name}.before", subject)
    yield
    point(f"{name}.after", subject)


def _text(value: Any) -> str:
    return _json.encode(value).decode()
