"""What a process of the fleet does when it hears a ring.

    ring ──► fetch ──► attempt ──► report ──► fetch … until nothing is left or the slice is over
                                                       └► ring again if work remains

A ring only says that there may be work. What is run, and in which order, is decided by each fetch.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from celeriac import _clock
from celeriac._lease import Lease
from celeriac._stats import WorkerStats
from celeriac.celery._broker import RingFailed, ring
from celeriac.durable import _attempt
from celeriac.durable._authority import Authority
from celeriac.durable._database import Database
from celeriac.durable._keeper import LeaseKeeper
from celeriac.durable._roster import Roster
from celeriac.durable._tally import SharedTally
from celeriac.errors import CeleriacError

log = logging.getLogger("celeriac.fleet")


@dataclass(frozen=True, slots=True)
class Slice:
    """How long one ring may occupy a slot of the pool before other messages have their turn."""

    tasks: int = 50
    seconds: float = 1.0


class StopFlag:
    """Set in the parent, seen by all its children: one byte of memory that a fork shares.

    Celery tells the parent alone that it shuts down, and a child in a slice would go on fetching.
    """

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self, *_: Any, **__: Any) -> None:
        self._byte[0] = 1

    @property
    def is_set(self) -> bool:
        return self._byte[0] != 0


class Fleet:
    """One Celery app's durable tasks. Made at import, so it holds nothing open; a fork's child begins anew."""

    def __init__(self, app: Any, database_url: str, roster: Roster, slice_: Slice) -> None:
        self.roster = roster
        self.stopping = StopFlag()
        self._app = app
        self._database_url = database_url
        self._slice = slice_
        self._begin_process()
        # Sockets, locks and threads of the parent are of no use in a child, and harm when used.
        os.register_at_fork(after_in_child=self._begin_process)

    def _begin_process(self) -> None:
        self._tally = SharedTally()
        self.authority = Authority(Database(self._database_url))
        self._keeper = LeaseKeeper(self.authority, self._tally)

    @property
    def stats(self) -> WorkerStats:
        """What this process has done so far."""
        return self._tally.stats

    @property
    def default_queue(self) -> str:
        return str(self._app.conf.task_default_queue)

    def hear(self, task_type: str, worker_id: str) -> None:
        """Answer a ring: work on the types of its queue for one slice."""
        queue = self.roster.queue(task_type, self.default_queue)
        if queue is None:
            log.warning("a ring for %r came to a worker that does not run it", task_type)
            return
        task_types = self.roster.of_queue(queue, self.default_queue)
        try:
            if not self._work(task_types, worker_id):
                self._ring_again(queue, task_types)
        except CeleriacError as error:
            # Whoever rings for stale work rings again, so this costs seconds.
            log.error("cannot look for work: %s", error)
        except RingFailed as error:
            log.warning("cannot ring again: %s", error)

    def _work(self, task_types: Sequence[str], worker_id: str) -> bool:
        """Run tasks for one slice; True when nothing was left."""
        versions = self.roster.versions(task_types)
        ends_at = _clock.now() + self._slice.seconds
        for _ in range(self._slice.tasks):
            if self.stopping.is_set:
                return False
            lease = self.authority.fetch(worker_id, versions)
            if lease is None:
                return True
            self._tally.count(fetched=1)
            self._run(lease, worker_id)
            if _clock.now() >= ends_at:
                return False
        return False

    def _run(self, lease: Lease, worker_id: str) -> None:
        if lease.ended:
            log.warning("task %s came when its lease was over", lease.task.task_id)
            self._tally.count(leases_lost=1)
            return
        handler = self.roster.task(lease.task.task_type, lease.task.version).handler
        with self._keeper.keep(lease, worker_id):
            outcome = _attempt.run(handler, lease)
        if outcome is not None:
            _attempt.report(self.authority, self._tally, worker_id, lease, outcome)

    def _ring_again(self, queue: str, task_types: Sequence[str]) -> None:
        """One ring for the one that was heard, so rings never multiply."""
        if ready := self.authority.ready(task_types):
            ring(self._app, queue, ready[0])
