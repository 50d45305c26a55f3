"""What a process of the fleet does when it hears a ring.

A ring only says that there may be work. What is run, and in which order, is decided by each fetch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Final

from celeriac._lease import Lease
from celeriac._stats import WorkerStats
from celeriac.celery._board import Board, Deadline
from celeriac.celery._broker import RingFailed, ring
from celeriac.celery._events import Events
from celeriac.celery._limits import Limits, TimeLimits, text_of_hard
from celeriac.celery._pace import Pace
from celeriac.celery._slice import Offer, Slice, SliceOfWork, Tools
from celeriac.durable._authority import Authority, Wanted
from celeriac.durable._database import Database
from celeriac.durable._failure import failure
from celeriac.durable._keeper import LeaseKeeper
from celeriac.durable._report import report
from celeriac.durable._roster import Roster
from celeriac.durable._tally import SharedTally
from celeriac.durable._transactions import Transactions
from celeriac.errors import CeleriacError, Conflict, LeaseLost, NotFound
from celeriac.values import Failure

log = logging.getLogger("celeriac.fleet")

PASSES: Final = 20
"""How often a ring is passed on by workers that have no code for what it stands for, before it is left to die."""

INCARNATION = "CELERIAC_FLEET_INCARNATION"
"""Where a worker's parent leaves its mark for children that it starts anew instead of forking them."""


class Fleet:
    """One Celery app's durable tasks. Made at import, so it holds nothing open; a fork's child begins anew."""

    def __init__(
        self,
        app: Any,
        database_url: str,
        roster: Roster,
        slice_: Slice,
        *,
        events: bool = True,
        transactions: Any = None,
    ) -> None:
        self.roster = roster
        self.board = Board()
        self._app = app
        self._database_url = database_url
        self._slice = slice_
        self._events = events
        self._source = transactions
        self._incarnation = os.environ.get(INCARNATION) or os.urandom(3).hex()
        self._default = Limits()
        self._begin_process()
        # Sockets, locks and threads of the parent are of no use in a child, and harm when used.
        os.register_at_fork(after_in_child=self._begin_process)

    def _begin_process(self) -> None:
        tally = SharedTally()
        database = Database(self._database_url)
        authority = Authority(database)
        self._tools = Tools(
            authority,
            LeaseKeeper(authority, tally),
            tally,
            Events(self._app, self.board, self._events),
            TimeLimits(self.board, self._fail),
            Transactions(self._source, database),
            self.roster,
            self.board,
        )
        self._paces: dict[str, Pace] = {}
        self._offers: dict[str, Offer] = {}
        self._node = ""

    @property
    def authority(self) -> Authority:
        return self._tools.authority

    @property
    def stats(self) -> WorkerStats:
        """What this process has done so far."""
        return self._tools.tally.stats

    @property
    def default_queue(self) -> str:
        return str(self._app.conf.task_default_queue)

    @property
    def has_hard_limits(self) -> bool:
        declared = self.roster.versions(self.roster.newest)
        tasks = [self.roster.task(name, version) for name, versions in declared.items() for version in versions]
        return self._default.hard is not None or any(task.time_limit is not None for task in tasks)

    def worker_id(self, node: str) -> str:
        """Who holds what the processes of this worker hold: not the worker of the same name that was here before it."""
        return f"{node}/{self._incarnation}"

    def begin_worker(self, soft: float | None, hard: float | None) -> None:
        """A worker's parent starts, with Celery's own time limits, which hold where a task type has none."""
        self._incarnation = os.environ[INCARNATION] = os.urandom(3).hex()
        self._default = Limits(soft or None, hard or None)

    def hear(self, task_type: str, node: str, came_through: str | None = None, passed: int = 0) -> None:
        """Answer a ring: work on the types of its queue for one slice.

        What a worker has no code for, another on that queue may have: workers of two versions share it during an
        upgrade. So a ring that brings nothing here is passed on, and counts how often it was.
        """
        queue = self.roster.queue(task_type, self.default_queue)
        if queue is None:
            self._pass_on_unknown(task_type, came_through, passed)
            return
        self._node = node
        pace = self._paces.setdefault(queue, Pace())
        offer = self._offer(queue)
        work = SliceOfWork(self._tools, offer, pace, node, self.worker_id(node), self._default)
        try:
            if not work.work(self._slice):
                self._ring_again(queue, offer.all.task_types)
            elif not work.found and passed < PASSES:
                self._ring_again(queue, offer.all.task_types, passed + 1)
        except CeleriacError as error:
            # Whoever rings for stale work rings again, so this costs seconds.
            log.error("cannot look for work: %s", error)
        except RingFailed as error:
            log.warning("cannot ring again: %s", error)

    def stop(self, *_: Any, **__: Any) -> None:
        """This worker stops: no process of it fetches anything more."""
        self.board.stopping = True

    def release_all(self, node: str) -> None:
        """This worker stops at once: give back what it holds, and tell the handlers in this process."""
        self._tools.keeper.end_all(LeaseLost("the worker was shut down"))
        try:
            if released := self.authority.release_all(self.worker_id(node)):
                log.info("%d tasks were given back", released)
        except CeleriacError as error:
            log.warning("cannot give back what is held, its leases will run out: %s", error)

    def end_by_force(self, node: str, place: int, deadline: Deadline) -> int | None:
        """Fail an attempt whose hard limit is over; the process to kill then, None when it has ended by itself."""
        reason = text_of_hard(deadline.seconds)
        try:
            failed = Failure(deadline.task_id, reason, deadline.fencing_token)
            state = self.authority.report(self.worker_id(node), failed)
            self._tools.events.failed(deadline.task_id, node, reason, state)
        except (Conflict, NotFound) as refused:
            log.info("task %s: %s, and it is no longer ours: %s", deadline.task_id, reason, refused)
        except CeleriacError as error:
            log.warning("task %s: %s; that cannot be told: %s", deadline.task_id, reason, error)
        if self.board.deadlines(place + 1).get(place) != deadline:
            return None
        log.error("task %s: %s; its process %d is killed", deadline.task_id, reason, deadline.pid)
        return deadline.pid

    def ring_for_all(self) -> None:
        """Ring once for each queue with work left: the ring that a killed process had heard died with it."""
        for queue in {self.roster.queue(name, self.default_queue) for name in self.roster.newest}:
            if queue is not None:
                try:
                    self._ring_again(queue, self.roster.of_queue(queue, self.default_queue))
                except (CeleriacError, RingFailed) as error:
                    log.warning("cannot ring for what is left in %s: %s", queue, error)

    def close(self, *_: Any, **__: Any) -> None:
        """This process ends."""
        self._tools.events.close()
        self.authority.database.close()

    def _offer(self, queue: str) -> Offer:
        if queue not in self._offers:
            names = self.roster.of_queue(queue, self.default_queue)
            batched = [name for name in names if self.roster.newest[name].batch]
            self._offers[queue] = Offer(
                Wanted.of(self.roster.versions(names)),
                Wanted.of(self.roster.versions(batched)) if batched else None,
                len(batched) == len(names),
                frozenset(batched),
            )
        return self._offers[queue]

    def _ring_again(self, queue: str, task_types: Sequence[str], passed: int = 0) -> None:
        """One ring for the one that was heard, so rings never multiply."""
        if ready := self.authority.ready(task_types):
            ring(self._app, queue, ready[0], passed)

    def _pass_on_unknown(self, task_type: str, queue: str | None, passed: int) -> None:
        if queue is None or passed >= PASSES:
            log.warning("a ring for %r came to a worker that does not run it", task_type)
            return
        try:
            ring(self._app, queue, task_type, passed + 1)
        except RingFailed as error:
            log.warning("cannot pass a ring for %r on: %s", task_type, error)

    def _fail(self, lease: Lease, reason: str) -> None:
        state = report(self.authority, self._tools.tally, self.worker_id(self._node), lease, failure(lease, reason))
        if state is not None:
            self._tools.events.failed(lease.task.task_id, self._node, reason, state)
