"""Durable tasks in threads of the program itself: all they need is Postgres, no broker and no server of Celeriac."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from celeriac import _json
from celeriac.durable._declaration import DurableTask
from celeriac.durable._roster import Roster
from celeriac.errors import Invalid
from celeriac.values import NewTask

if TYPE_CHECKING:
    from celeriac.durable._threads import Threads

_ENQUEUE: Final = "select cast(task_id as text) from celeriac.enqueue_tasks(cast(%(tasks)s as jsonb))"
_SIGNAL: Final = """
    select delivered
      from celeriac.send_signal(topic => %(topic)s, key => %(key)s, payload => cast(%(payload)s as jsonb))"""
_CANCEL: Final = """
    select state from celeriac.cancel_task(task_id => cast(%(task_id)s as uuid), reason => %(reason)s,
                                           compensate => %(compensate)s)"""
_VIEW: Final = """
    select cast(t.task_id as text) as task_run_id, t.task_type as kind, t.state, t.attempts,
           cast(t.result as text) as result, t.error, w.waits_for, s.name as last_step
      from celeriac.task_detail t
      left join lateral (select array_agg(w.name order by w.branch, w.ordinal) as waits_for
                           from celeriac.waits w where w.task_id = t.task_id and w.armed) w on true
      left join lateral (select s.name from celeriac.task_steps s where s.task_id = t.task_id
                          order by s.recorded_at desc, s.ordinal desc limit 1) s on true
     where t.task_id = cast(%(task_id)s as uuid)"""


@dataclass(frozen=True, slots=True)
class TaskRunView:
    """A task as it stands: READY, SCHEDULED, LOCKED, BLOCKED, WAITING, COMPLETED, FAILED or CANCELED.

    `task_run_id` and `kind` are the words of programs that bring a task engine of their own as a port; everywhere else
    they are `task_id` and `task_type`.
    """

    task_run_id: str
    kind: str
    state: str
    attempts: int
    result: dict[str, Any] | None
    error: str | None
    last_step: str | None
    """The name of the durable call that ended last."""
    waits_for: Sequence[str]
    """The names of what a WAITING task waits for."""


class TaskEngine:
    """Enqueue, signal, cancel and look at tasks; after `start`, run them in threads of this process.

        engine = TaskEngine("postgresql://…", tasks=[copy])
        engine.start(concurrency=4)
        task_run_id = engine.enqueue("media.copy", {"source": "a"}, idempotency_key="order-7")
        engine.stop()

    The database user needs the role `celeriac_fleet`. `transactions` is the source of `ctx.transaction()`.
    """

    def __init__(self, database_url: str, tasks: Iterable[DurableTask], *, transactions: Any = None) -> None:
        # Only here: a program that imports celeriac for its HTTP client needs no driver.
        from celeriac.durable._database import Database

        self._roster = Roster(tasks)
        self._database = Database(database_url)
        self._source = transactions
        self._threads: Threads | None = None

    def enqueue(
        self,
        kind: str | DurableTask,
        input: Any = None,
        *,
        idempotency_key: str,
        available_at: datetime | None = None,
    ) -> str:
        """Create a task, or find the one that the key created before; its id.

        Raises Invalid for an input that its handler would refuse, IdempotencyConflict for a key with another input. Its
        newest version that is declared here is used. `celeriac.enqueue` does it in a transaction of yours.
        """
        task = self._roster.newest.get(kind) if isinstance(kind, str) else kind
        if task is None:
            new = NewTask(str(kind), input or {}, idempotency_key=idempotency_key, run_at=available_at)
        else:
            new = task.new(input, idempotency_key=idempotency_key, run_at=available_at)
        [row] = self._database.rows(_ENQUEUE, tasks=_text([new.to_json()]))
        return str(row["task_id"])

    def signal(self, topic: str, payload: Any = None, *, key: str | None = None) -> int:
        """Send a signal; how many tasks it woke at once. When none waits for it, it is kept for the first that does."""
        [row] = self._database.rows(_SIGNAL, topic=topic, key=key, payload=None if payload is None else _text(payload))
        return int(row["delivered"])

    def cancel(self, task_run_id: str, reason: str, *, compensate: bool = False) -> None:
        """No further step of it begins; with `compensate` those that were done are undone.

        Raises NotFound, and AlreadyEnded for a task that has ended otherwise; canceling again is harmless.
        """
        self._database.rows(_CANCEL, task_id=task_run_id, reason=reason, compensate=compensate)

    def get(self, task_run_id: str) -> TaskRunView | None:
        """The task as it stands, or None when there is none (any more)."""
        try:
            uuid.UUID(task_run_id)
        except ValueError:
            raise Invalid("task_run_id must be a UUID", field="task_run_id") from None
        for row in self._database.rows(_VIEW, task_id=task_run_id):
            result = None if row["result"] is None else _json.decode(row["result"].encode(), _json.decoder())
            return TaskRunView(**{**row, "result": result, "waits_for": row["waits_for"] or []})
        return None

    def start(self, *, roles: Sequence[str] = ("worker",), concurrency: int = 4) -> None:
        """Run tasks in `concurrency` threads (role "worker"); returns at once.

        The role "chores" also takes back lost leases, promotes what is due and fires timers each second, which else
        `celeriac maintenance` does. Raises Refused when Postgres refuses the settings of a task type.
        """
        from celeriac.durable._threads import Threads

        if self._threads is not None:
            raise RuntimeError("the engine is running")
        if unknown := set(roles) - {"worker", "chores"}:
            raise ValueError(f"roles must be worker and chores, or one of them, not {min(unknown)!r}")
        self._threads = Threads(self._database, self._roster, self._source)
        if "worker" in roles:
            self._threads.work(concurrency)
        if "chores" in roles:
            self._threads.do_chores()

    def stop(self) -> None:
        """Fetch nothing more, and return when the tasks that run now have ended."""
        if self._threads is not None:
            self._threads.stop()
            self._threads = None
        self._database.close()


def _text(value: Any) -> str:
    return _json.encode(value).decode()
