"""One thread a process that extends every lease the process holds, at each third of it.

Handlers that burn CPU in Python slow it down by Python's switching of threads, no more. C code that keeps the
interpreter's lock, or a greenlet that does not yield, for longer than the lease does stop it: then the lease runs out,
the handler is told, and its result is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from celeriac import _clock
from celeriac._lease import Lease
from celeriac.durable._authority import Authority
from celeriac.durable._tally import SharedTally
from celeriac.errors import Canceled, CeleriacError, Conflict, LeaseLost, NotFound

log = logging.getLogger("celeriac.fleet")

IDLE_SECONDS: Final = 60.0


class LeaseKeeper:
    """Keeps leases alive for as long as they are in `keep`. The thread starts with the first of them."""

    def __init__(self, authority: Authority, tally: SharedTally) -> None:
        self._authority = authority
        self._tally = tally
        self._changed = threading.Condition()
        self._wakes_at = float("inf")
        self._due: dict[Lease, tuple[float, str]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def keep(self, lease: Lease, worker_id: str) -> Iterator[None]:
        """Extend the lease until the block ends, or tell it why that is no longer possible."""
        with self._changed:
            at = _clock.now() + lease.next_extension_in
            self._due[lease] = (at, worker_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="celeriac-leases", daemon=True)
                self._thread.start()
            elif at < self._wakes_at:  # most tasks end long before: the thread sleeps through them
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(lease, None)

    def _run(self) -> None:
        while True:
            for lease, worker_id in self._wait_for_due():
                self._extend(lease, worker_id)

    def _wait_for_due(self) -> list[tuple[Lease, str]]:
        with self._changed:
            self._wakes_at = min((at for at, _ in self._due.values()), default=_clock.now() + IDLE_SECONDS)
            self._changed.wait(max(0.0, self._wakes_at - _clock.now()))
            now = _clock.now()
            return [(lease, worker_id) for lease, (at, worker_id) in self._due.items() if at <= now]

    def _extend(self, lease: Lease, worker_id: str) -> None:
        asked_at = _clock.now()
        try:
            if lease.ended:
                raise LeaseLost("the lease ran out before it could be extended", task_id=lease.task.task_id)
            lease.extended(asked_at, self._authority.extend(worker_id, lease.task))
            self._tally.count(extended=1)
            self._again(lease, lease.next_extension_in)
        except (Conflict, NotFound) as reason:
            self._lost(lease, reason)
        except CeleriacError as error:
            log.error("cannot extend the lease of task %s: %s", lease.task.task_id, error)
            self._again(lease, min(lease.duration / 6, max(lease.remaining, 0.0)))

    def _again(self, lease: Lease, seconds: float) -> None:
        with self._changed:
            if lease in self._due:
                self._due[lease] = (_clock.now() + seconds, self._due[lease][1])

    def _lost(self, lease: Lease, reason: Conflict | NotFound) -> None:
        with self._changed:
            # Gone meanwhile: the handler has returned and its outcome, reported beside us, ended the lease.
            held = self._due.pop(lease, None) is not None
        lease.end(reason)
        if held:
            log.warning("task %s is no longer ours: %s", lease.task.task_id, reason)
            self._tally.count(**{"canceled" if isinstance(reason, Canceled) else "leases_lost": 1})
