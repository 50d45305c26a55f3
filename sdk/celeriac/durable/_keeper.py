"""One thread a process that extends every lease the process holds, at each third of it.

Handlers that burn CPU in Python slow it down by Python's switching of threads, no more. C code that keeps the
interpreter's lock, or a greenlet that does not yield, for longer than the lease does stop it: then the lease runs out,
the handler is told, and its result is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from celeriac import _clock
from celeriac._lease import Lease
from celeriac.durable._authority import Authority
from celeriac.durable._tally import SharedTally
from celeriac.errors import Canceled, CeleriacError, Conflict, LeaseLost, NotFound

log = logging.getLogger("celeriac.durable")

IDLE_SECONDS: Final = 60.0
SOON: Final = 0.1
"""The share of a lease by which it may be extended early, so that one call serves many."""
AT_ONCE: Final = 500


class LeaseKeeper:
    """Keeps leases alive for as long as they are held here. The thread starts with the first of them."""

    def __init__(self, authority: Authority, tally: SharedTally) -> None:
        self._authority = authority
        self._tally = tally
        self._changed = threading.Condition()
        self._wakes_at = float("inf")
        self._due: dict[Lease, tuple[float, str]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def close(self) -> None:
        """Extend nothing any more, and let the thread end."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()

    @contextmanager
    def keep(self, lease: Lease, worker_id: str) -> Iterator[None]:
        """Extend the lease until the block ends, or tell it why that is no longer possible."""
        self.hold([lease], worker_id)
        try:
            yield
        finally:
            self.drop([lease])

    def hold(self, leases: Sequence[Lease], worker_id: str) -> None:
        """Extend these leases from now on."""
        with self._changed:
            at = float("inf")
            for lease in leases:
                due = _clock.now() + lease.next_extension_in
                self._due[lease] = (due, worker_id)
                at = min(at, due)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="celeriac-leases", daemon=True)
                self._thread.start()
            elif at < self._wakes_at:  # most tasks end long before: the thread sleeps through them
                self._changed.notify()

    def drop(self, leases: Iterable[Lease]) -> None:
        """Extend these no more."""
        with self._changed:
            for lease in leases:
                self._due.pop(lease, None)

    def end_all(self, reason: Conflict) -> None:
        """Tell all handlers that their tasks are no longer ours."""
        with self._changed:
            leases = list(self._due)
            self._due.clear()
        for lease in leases:
            lease.end(reason)

    def _run(self) -> None:
        while not self._closed:
            for worker_id, leases in self._wait_for_due().items():
                for first in range(0, len(leases), AT_ONCE):
                    self._extend(leases[first : first + AT_ONCE], worker_id)

    def _wait_for_due(self) -> dict[str, list[Lease]]:
        """All that is due, and what will be soon: one call for all of them, not one each."""
        with self._changed:
            self._wakes_at = min((at for at, _ in self._due.values()), default=_clock.now() + IDLE_SECONDS)
            if not self._closed:
                self._changed.wait(max(0.0, self._wakes_at - _clock.now()))
            now = _clock.now()
            due: dict[str, list[Lease]] = {}
            if any(at <= now for at, _ in self._due.values()):
                for lease, (at, worker_id) in self._due.items():
                    if at <= now + lease.duration * SOON:
                        due.setdefault(worker_id, []).append(lease)
            return due

    def _extend(self, leases: Sequence[Lease], worker_id: str) -> None:
        live = [lease for lease in leases if not self._is_over(lease)]
        if not live:
            return
        asked_at = _clock.now()
        try:
            answers = self._authority.extend(worker_id, [lease.task for lease in live])
        except CeleriacError as error:
            log.error("cannot extend the leases of %s: %s", ", ".join(lease.task.task_id for lease in live), error)
            for lease in live:
                self._again(lease, min(lease.duration / 6, max(lease.remaining, 0.0)))
            return
        for lease, answer in zip(live, answers, strict=True):
            if isinstance(answer, int):
                lease.extended(asked_at, answer)
                self._tally.count(extended=1)
                self._again(lease, lease.next_extension_in)
            elif isinstance(answer, Conflict | NotFound):
                self._lost(lease, answer)
            else:
                log.error("cannot extend the lease of task %s: %s", lease.task.task_id, answer)
                self._again(lease, lease.duration / 6)

    def _is_over(self, lease: Lease) -> bool:
        if lease.remaining > 0:
            return False
        self._lost(lease, LeaseLost("the lease ran out before it could be extended", task_id=lease.task.task_id))
        return True

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
