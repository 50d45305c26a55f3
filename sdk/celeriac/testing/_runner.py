"""A worker in the test's own process: no broker, no threads but the one that keeps a lease, no waiting.

What it does is what a fleet does (fetch, attempt, report), and what the chores do beside it: promote what is due, fire
timers, take back the leases of the dead. So a test meets the same SQL functions and the same attempts as production.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType, UnionType
from typing import Any, Final, LiteralString, Protocol, Self

import psycopg
from psycopg.rows import dict_row

from celeriac import _json
from celeriac._lease import Lease
from celeriac._sqlstates import refusal_in
from celeriac.durable import _attempt, _report
from celeriac.durable._authority import Authority
from celeriac.durable._database import Database
from celeriac.durable._declaration import DurableTask
from celeriac.durable._keeper import LeaseKeeper
from celeriac.durable._ledger import Ledger
from celeriac.durable._roster import Roster
from celeriac.durable._tally import SharedTally
from celeriac.durable._transactions import Transactions
from celeriac.enqueue import enqueue
from celeriac.signals import send_signal
from celeriac.testing._clock import Clock
from celeriac.testing._crash import Crashed, bury, is_dying

QUEUE: Final = "celeriac-testing"
MAX_ATTEMPTS: Final = 1_000
INSTANT: Final = timedelta(milliseconds=1)

_TASK: Final = """
    select cast(task_id as text), task_type, state, cast(result as text) as result, error, attempts, retries,
           cast(variables as text) as variables
      from celeriac.task_detail where task_id = cast(%(task_id)s as uuid)"""
_STEPS: Final = """
    select branch, ordinal, kind, name, cast(result as text) as result, error
      from celeriac.task_steps where task_id = cast(%(task_id)s as uuid) order by recorded_at, branch, ordinal"""
_PROMOTE: Final = "select promoted as done from celeriac.promote_due()"
_FIRE: Final = "select fired as done from celeriac.fire_timers()"
_EXPIRE: Final = "select expired as done from celeriac.expire_leases()"
_LEFT_BEHIND: Final = """
    select max(lock_expires_at) as ends_at from celeriac.open_task_list where worker_id = any (%(worker_ids)s)"""
_CANCEL: Final = """
    select state from celeriac.cancel_task(task_id => cast(%(task_id)s as uuid), reason => %(reason)s,
                                           compensate => %(compensate)s)"""
# What only the time stands before: retries and due times, timers and time-outs, and a type's rate.
_DUE: Final = """
    select min(due) as due from (
        select q.run_at as due from celeriac.open_task_list q
         where q.state = 'SCHEDULED' and q.task_type = any (%(task_types)s)
        union all
        select w.until from celeriac.waits w where w.armed and w.task_type = any (%(task_types)s)
        union all
        select l.next_at from celeriac.rate_left(%(task_types)s, celeriac.now()) l
         where exists (select from celeriac.open_task_list q where q.task_type = l.task_type and q.state = 'READY')
    ) as ahead"""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task as Postgres has it: READY, SCHEDULED, LOCKED, BLOCKED, WAITING, or ended with its result or error."""

    task_id: str
    task_type: str
    state: str
    variables: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    attempts: int
    retries: int


@dataclass(frozen=True, slots=True)
class StepRun:
    """One durable call that has come to its end, as it is recorded."""

    branch: str
    ordinal: int
    kind: str
    name: str
    result: Any
    error: str | None


class Runner:
    """Runs the given tasks in one database, which needs to be a test's own: its clock is moved.

    `transactions` is what `ctx.transaction()` works on, as in `install`. Close it, or use it as a context manager.
    """

    def __init__(self, database_url: str, tasks: Sequence[DurableTask], *, transactions: Any = None) -> None:
        self._roster = Roster(self._watched(task) for task in tasks)
        self._types = list(self._roster.newest)
        self._url = database_url
        self._source = transactions
        self._workers = 0
        self._dead: list[str] = []
        self._outburst: BaseException | None = None
        self._connection = psycopg.connect(Database(database_url).conninfo, autocommit=True, row_factory=dict_row)
        self.clock = Clock(self._connection)
        """The database's clock, to be moved."""
        self._begin_process()
        for task in self._roster.newest.values():
            self._authority.register_type(task, task.queue or QUEUE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Tasks that are open stay so."""
        self._end_process()
        self._connection.close()

    def enqueue(self, task: DurableTask | str, input: Any = None, **options: Any) -> str:
        """Create a task in a transaction of its own, and return its id. Options are those of `celeriac.enqueue`."""
        if isinstance(task, DurableTask):
            return task.enqueue(self._connection, input, **options).task_id
        return enqueue(self._connection, task, input, **options).task_id

    def signal(self, topic: str, payload: Any = None, *, key: str | None = None, **options: Any) -> int:
        """Send a signal; how many tasks it woke. Options are those of `celeriac.send_signal`."""
        return send_signal(self._connection, topic, key, payload, **options).delivered

    def cancel(self, task_id: str, *, reason: str | None = None, compensate: bool = False) -> str:
        """Cancel a task, and return what follows: CANCELED, or UNDOING when it is undone first."""
        [row] = self._rows(_CANCEL, task_id=task_id, reason=reason, compensate=compensate)
        return str(row["state"])

    def task(self, task_id: str) -> TaskRun:
        """The task as it is now. Raises LookupError when there is none."""
        rows = self._rows(_TASK, task_id=task_id)
        if not rows:
            raise LookupError(f"there is no task {task_id}")
        row = rows[0]
        return TaskRun(**row | {"result": _value(row["result"]), "variables": _value(row["variables"])})

    def result(self, task_id: str) -> dict[str, Any] | None:
        """The result of a COMPLETED task; AssertionError tells how another one stands."""
        run = self.task(task_id)
        if run.state != "COMPLETED":
            raise AssertionError(
                f"task {task_id} ({run.task_type}) is {run.state} after {run.attempts} attempts: {run.error}"
            )
        return run.result

    def steps(self, task_id: str) -> list[StepRun]:
        """What the task has on record, in the order in which it was recorded."""
        return [StepRun(**row | {"result": _value(row["result"])}) for row in self._rows(_STEPS, task_id=task_id)]

    def run(self, *, skip: bool = False, max_attempts: int = MAX_ATTEMPTS) -> int:
        """Work until nothing is left that can be done now; how many attempts were made.

        `skip` moves the clock to whatever is due next (a retry, a timer, a time-out), until nothing will ever be due by
        itself. What a crashed worker held is taken over first: the clock is moved past the end of its lease. Returns
        at once when an attempt crashes (crash_at). Raises AssertionError after `max_attempts`: tasks that fail at once,
        or enqueue each other, would go on for ever.
        """
        self._take_over()
        for attempts in range(max_attempts):
            if not self._work(skip):
                return attempts
            if self._dead:
                return attempts + 1
        raise AssertionError(f"there is still work after {max_attempts} attempts")

    async def arun(self, *, skip: bool = False, max_attempts: int = MAX_ATTEMPTS) -> int:
        """`run` from a test that is a coroutine: in a thread, since async handlers get an event loop of their own."""
        return await asyncio.to_thread(self.run, skip=skip, max_attempts=max_attempts)

    def _work(self, skip: bool) -> bool:
        """Make one attempt; False when there is none to be made."""
        skipped_to = None
        while True:
            self._do_chores()
            if self._attempt_one():
                return True
            due = self._due() if skip else None
            if due is None or due == skipped_to:  # twice the same: what is due then is not for this runner
                return False
            self.clock.advance_to(due + INSTANT)
            skipped_to = due

    def _attempt_one(self) -> bool:
        found = True
        try:
            lease = self._authority.fetch(self._worker_id, self._roster.versions(self._types))
            if lease is None:
                found = False
            else:
                lease.tempo = 0.0  # pauses between the tries of a step: nobody wants to wait for them
                self._run(lease)
        except Crashed:
            pass
        if is_dying() or self._outburst:
            self._bury()
        if outburst := self._outburst:
            self._outburst = None
            raise outburst
        return found

    def _run(self, lease: Lease) -> None:
        task = self._roster.task(lease.task.task_type, lease.task.version)
        ledger = Ledger(self._database, self._worker_id, lease)
        with self._keeper.keep(lease, self._worker_id):
            outcome = _attempt.run(task, lease, ledger, self._transactions)
        if not is_dying() and not self._outburst:
            _report.report(self._authority, self._tally, self._worker_id, lease, outcome)

    def _bury(self) -> None:
        """The process is gone: nothing of it is used again, and its leases are nobody's until they run out."""
        bury()
        self._dead.append(self._worker_id)
        self._end_process()
        self._begin_process()

    def _begin_process(self) -> None:
        self._workers += 1
        self._worker_id = f"testing/{self._workers}"
        self._tally = SharedTally()
        self._database = Database(self._url)
        self._authority = Authority(self._database)
        self._keeper = LeaseKeeper(self._authority, self._tally)
        self._transactions = Transactions(self._source, self._database)

    def _end_process(self) -> None:
        self._keeper.close()
        self._database.close()

    def _watched(self, task: DurableTask) -> DurableTask:
        """The same task, whose handler cannot keep Ctrl-C and pytest.fail from the test: an attempt would."""
        handler = task.handler
        if task.is_async:

            @functools.wraps(handler)
            async def watched(*arguments: Any) -> Any:
                with self._watch():
                    return await handler(*arguments)

        else:

            @functools.wraps(handler)
            def watched(*arguments: Any) -> Any:
                with self._watch():
                    return handler(*arguments)

        return replace(task, handler=watched)

    @contextmanager
    def _watch(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | _outcomes()):
                self._outburst = error
            raise

    def _take_over(self) -> None:
        if self._dead:
            [row] = self._rows(_LEFT_BEHIND, worker_ids=self._dead)
            if row["ends_at"] is not None:
                self.clock.advance_to(row["ends_at"] + INSTANT)
            self._dead.clear()
            self._until_done(_EXPIRE)

    def _do_chores(self) -> None:
        self._until_done(_PROMOTE)
        self._until_done(_FIRE)

    def _until_done(self, chore: LiteralString) -> None:
        while self._rows(chore)[0]["done"]:
            pass

    def _due(self) -> datetime | None:
        [row] = self._rows(_DUE, task_types=self._types)
        due: datetime | None = row["due"]
        return due

    def _rows(self, statement: LiteralString, **values: Any) -> list[dict[str, Any]]:
        try:
            return list(self._connection.execute(statement, values).fetchall())
        except psycopg.Error as error:
            if refused := refusal_in(error):
                raise refused from None
            raise


class RunnerMaker(Protocol):
    """What the fixture `celeriac_runner` is: `celeriac_runner(approve, remind, transactions=engine)`."""

    def __call__(self, *tasks: DurableTask, transactions: Any = None) -> Runner:
        """A runner of these tasks in this test's database, closed with the test."""


def _outcomes() -> UnionType | type[BaseException]:
    """What pytest.fail, pytest.skip and time-outs of tests raise; they are no errors of the task."""
    pytest = sys.modules.get("pytest")
    return pytest.fail.Exception | pytest.skip.Exception | pytest.exit.Exception if pytest else KeyboardInterrupt


def _value(text: str | None) -> Any:
    return None if text is None else _json.decode(text.encode(), _json.decoder())
