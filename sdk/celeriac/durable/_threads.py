"""Threads of a program that carry durable tasks: fetch, attempt, report, until they are told to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Any, Final, LiteralString

from celeriac._backoff import Backoff
from celeriac._lease import Lease
from celeriac._link import VERSION
from celeriac.durable import _attempt
from celeriac.durable._authority import Authority
from celeriac.durable._database import Database
from celeriac.durable._keeper import LeaseKeeper
from celeriac.durable._ledger import Ledger
from celeriac.durable._report import report
from celeriac.durable._roster import Roster
from celeriac.durable._tally import SharedTally
from celeriac.durable._transactions import Transactions
from celeriac.errors import CeleriacError

log = logging.getLogger("celeriac.engine")

POLL_SECONDS: Final = 1.0
BEAT_SECONDS: Final = 10.0

_CHORES: Final[tuple[LiteralString, ...]] = (
    "select expired as done from celeriac.expire_leases()",
    "select promoted as done from celeriac.promote_due()",
    "select fired as done from celeriac.fire_timers()",
)


class Threads:
    """All of one engine. They are daemons: a handler that hangs for ever does not keep the program from ending."""

    def __init__(self, database: Database, roster: Roster, source: Any) -> None:
        self._database = database
        self._roster = roster
        self._authority = Authority(database)
        self._tally = SharedTally()
        self._keeper = LeaseKeeper(self._authority, self._tally)
        self._transactions = Transactions(source, database)
        self._versions = roster.versions(roster.newest)
        self._worker_id = f"{socket.gethostname()}/{uuid.uuid4().hex[:6]}"
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._threads: list[threading.Thread] = []

    def work(self, concurrency: int) -> None:
        """Run tasks, so many at once. Raises Refused when Postgres refuses the settings of a task type."""
        for task in self._roster.newest.values():
            self._authority.register_type(task, None)
        self._make_known(concurrency)
        for number in range(concurrency):
            self._start(f"slot-{number}", self._serve)
        self._start("beat", lambda: self._repeat(BEAT_SECONDS, lambda: self._make_known(concurrency)))

    def do_chores(self) -> None:
        """Do what makes time pass for tasks, each second."""
        self._start("chores", lambda: self._repeat(POLL_SECONDS, self._chores))

    def stop(self) -> None:
        """Begin nothing more, and wait for what runs."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._transactions.close()

    def _start(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=f"celeriac-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            with self._turn:  # one asks, the others wait for their turn: an idle engine makes one query a second
                lease = self._ask()
            if lease is not None:
                self._run(lease)

    def _ask(self) -> Lease | None:
        backoff, failures = Backoff(), 0
        while not self._stopping.is_set():
            try:
                if lease := self._authority.fetch(self._worker_id, self._versions):
                    return lease
                failures, pause = 0, POLL_SECONDS
            except CeleriacError as error:
                failures += 1
                pause = backoff.pause(failures)
                log.warning("cannot look for work: %s", error)
            self._stopping.wait(pause)
        return None

    def _run(self, lease: Lease) -> None:
        task = self._roster.task(lease.task.task_type, lease.task.version)
        with self._keeper.keep(lease, self._worker_id):
            ledger = Ledger(self._database, self._worker_id, lease)
            outcome = _attempt.run(task, lease, ledger, self._transactions)
        report(self._authority, self._tally, self._worker_id, lease, outcome)

    def _make_known(self, concurrency: int) -> None:
        details = {"host": socket.gethostname(), "pid": os.getpid(), "concurrency": concurrency, "sdk": VERSION}
        self._authority.register_worker(self._worker_id, self._versions, details)

    def _chores(self) -> None:
        for chore in _CHORES:
            while self._database.rows(chore)[0]["done"] and not self._stopping.is_set():
                pass

    def _repeat(self, seconds: float, act: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                act()
            except CeleriacError as error:
                log.warning("a chore is left for the next time: %s", error)
            self._stopping.wait(seconds)
