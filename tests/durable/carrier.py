"""The smallest carrier: fetches a task, makes one attempt at it in this thread, and reports what it came to."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Connection, Row, text

from celeriac import DurableTask, _faults
from celeriac._lease import Lease
from celeriac.durable import _attempt
from celeriac.durable._authority import Authority
from celeriac.durable._database import Database
from celeriac.durable._ledger import Ledger
from celeriac.durable._report import report
from celeriac.durable._roster import Roster
from celeriac.durable._tally import SharedTally
from celeriac.durable._transactions import Transactions
from celeriac.values import Completion, Failure
from tests.clock import Clock

LEASE_SECONDS = 30.0


class Killed(BaseException):
    """The process of an attempt is gone: nothing that it would do after this is done."""


@dataclass
class Made:
    """One attempt: the lease that it was made under, and what it came to."""

    lease: Lease
    outcome: Completion | Failure | None

    @property
    def error(self) -> str:
        assert isinstance(self.outcome, Failure), self.outcome
        return self.outcome.error


class Carrier:
    """Runs tasks one attempt after another; each attempt is a worker of its own."""

    def __init__(self, url: str, conn: Connection, clock: Clock) -> None:
        self.database = Database(url)
        self.authority = Authority(self.database)
        self.source: Any = None
        self.dead = False
        self._url = url
        self._conn = conn
        self._clock = clock
        self._numbers = itertools.count(1)
        self._roster: Roster | None = None

    def install(self, *tasks: DurableTask) -> None:
        """Run this code from now on, and no other."""
        self._roster = Roster(tasks)
        for task in self._roster.newest.values():
            self.authority.register_type(task, "tests")

    def enqueue(self, task: DurableTask, input: Any = None, **options: Any) -> str:
        with psycopg.connect(self._url) as connection:
            return task.enqueue(connection, input, **options).task_id

    def start(self, task: DurableTask, input: Any = None, **options: Any) -> str:
        """Install it, enqueue one and run it as far as it goes."""
        self.install(task)
        task_id = self.enqueue(task, input, **options)
        self.run()
        return task_id

    def fetch(self) -> tuple[Lease, str] | None:
        assert self._roster is not None
        worker_id = f"w{next(self._numbers)}"
        lease = self.authority.fetch(worker_id, self._roster.versions(self._roster.newest))
        return None if lease is None else (lease, worker_id)

    def attempt(self) -> Made | None:
        """Fetch one task and make an attempt; None when there is nothing to fetch."""
        try:
            fetched = self.fetch()
        except Killed:
            return None
        return None if fetched is None else self.carry(*fetched)

    def carry(self, lease: Lease, worker_id: str) -> Made:
        """Make an attempt, and report it unless its process was killed."""
        assert self._roster is not None
        task = self._roster.task(lease.task.task_type, lease.task.version)
        transactions = Transactions(self.source, self.database)
        outcome = _attempt.run(task, lease, Ledger(self.database, worker_id, lease), transactions)
        transactions.close()
        if not self.dead:
            with suppress(Killed):
                report(self.authority, SharedTally(), worker_id, lease, outcome)
        return Made(lease, outcome)

    def run(self) -> list[Made]:
        """Attempts until there is nothing to fetch; retries that are due later come at once."""
        made = []
        while (one := self.attempt()) is not None:
            made.append(one)
            assert len(made) < 1000, made[-1]
            if self.dead:
                break
        return made

    def take_over(self) -> list[Made]:
        """The lease of whoever was killed runs out, and others go on."""
        self.dead = False
        self.expire()
        return self.run()

    def expire(self) -> None:
        self._clock.advance(LEASE_SECONDS + 1)
        self._conn.execute(text("select * from celeriac.expire_leases()"))

    def advance(self, seconds: float) -> list[Made]:
        """Time passes, timers fire and what is due is promoted; then all is run."""
        self._clock.advance(seconds)
        self._conn.execute(text("select * from celeriac.fire_timers()"))
        self._conn.execute(text("select * from celeriac.promote_due()"))
        return self.run()

    @contextmanager
    def killed_at(self, name: str, subject: str = "", time: int = 1) -> Iterator[None]:
        """Kill the process at the `time`-th coming to this fault point; nothing that it does later is done."""
        come = itertools.count(1)

        def strike(at: str, of: str) -> None:
            if self.dead:
                raise Killed
            if at == name and subject in ("", of) and next(come) == time:
                self.dead = True
                raise Killed

        _faults.arm(strike)
        try:
            yield
        finally:
            _faults.disarm()
        assert self.dead, f"nothing came to {name} {subject}"

    @contextmanager
    def killed_at_point(self, number: int) -> Iterator[None]:
        """Kill the process at the `number`-th fault point, if it comes to so many."""
        come = itertools.count(1)

        def strike(at: str, of: str) -> None:
            if self.dead or next(come) == number:
                self.dead = True
                raise Killed

        _faults.arm(strike)
        try:
            yield
        finally:
            _faults.disarm()

    def task(self, task_id: str) -> Row[Any]:
        return self._conn.execute(text("select * from celeriac.task_detail where task_id = :id"), {"id": task_id}).one()

    def state(self, task_id: str) -> str:
        return str(self.task(task_id).state)

    def result(self, task_id: str) -> Any:
        task = self.task(task_id)
        assert task.state == "COMPLETED", (task.state, task.error, self.incidents())
        return task.result and json.loads(task.result)

    def steps(self, task_id: str) -> list[tuple[str, int, str, str]]:
        rows = self._conn.execute(
            text("select branch, ordinal, kind, name from celeriac.step where task_id = :id order by branch, ordinal"),
            {"id": task_id},
        )
        return [tuple(row) for row in rows]

    def incidents(self) -> list[Row[Any]]:
        return list(self._conn.execute(text("select * from celeriac.incident where resolved_at is null")))

    def resolve(self, resolution: str) -> list[Made]:
        [incident] = self.incidents()
        self._conn.execute(
            text("select * from celeriac.resolve_incident(:id, :resolution, null)"),
            {"id": incident.id, "resolution": resolution},
        )
        return self.run()

    def signal(self, topic: str, payload: Any = None, key: str | None = None) -> list[Made]:
        self._conn.execute(
            text(
                "select * from celeriac.send_signal(topic => :topic, key => :key, payload => cast(:payload as jsonb))"
            ),
            {"topic": topic, "key": key, "payload": json.dumps(payload)},
        )
        return self.run()
