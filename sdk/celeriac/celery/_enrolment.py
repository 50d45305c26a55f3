"""What the parent of a fleet's processes does on Celery's own timer.

It makes its task types and itself known, says every few seconds that it lives, tells its children whether somebody
watches the events of tasks, and ends attempts whose hard time limit is over. No thread does it: one in a process that
forks is asking for trouble.

When Postgres is away a call may hold up that loop for its time-out of seconds; the worker has nothing else to do then.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from contextlib import suppress
from typing import Any, Final

from celery import bootsteps

from celeriac import _clock
from celeriac._link import VERSION
from celeriac.celery._fleet import Fleet
from celeriac.errors import CeleriacError, Refused

log = logging.getLogger("celeriac.fleet")

BEAT_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.5
CELERYS_PREFETCH: Final = 4


def enrolment_step(fleet: Fleet) -> type[Any]:
    """The step for the consumer of the app's workers; it starts again after each reconnect, which clears the timer."""

    class Enrolment(bootsteps.StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def __init__(self, consumer: Any, **options: Any) -> None:
            super().__init__(consumer, **options)
            self._types_are_known = False

        def start(self, consumer: Any) -> None:
            """Raises Refused, which ends the worker: nothing that it declares wrongly gets right by waiting."""
            try:
                self._enrol(consumer)
            except Refused:
                raise
            except CeleriacError as error:
                log.warning("cannot make this worker known yet: %s", error)
            self._look(consumer)
            consumer.timer.call_repeatedly(BEAT_SECONDS, self._beat, (consumer,))
            consumer.timer.call_repeatedly(LOOK_SECONDS, self._look, (consumer,))

        def _beat(self, consumer: Any) -> None:
            try:
                self._enrol(consumer)
            except CeleriacError as error:
                log.warning("cannot say that this worker lives: %s", error)

        def _enrol(self, consumer: Any) -> None:
            if not self._types_are_known:
                register_types(fleet)
                self._types_are_known = True
                log.info("%s runs %s", consumer.hostname, ", ".join(fleet.roster.newest))
            register_worker(fleet, consumer)

        def _look(self, consumer: Any) -> None:
            fleet.board.watched = _is_watched(consumer)
            if fleet.has_hard_limits:
                end_what_is_overdue(fleet, consumer)

    return Enrolment


def stop_step(fleet: Fleet) -> type[Any]:
    """The step of the worker that tells its children when it stops, however it was told to, and gives leases back."""

    class Stop(bootsteps.StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.components:Pool",)

        def __init__(self, worker: Any, **options: Any) -> None:
            super().__init__(worker, **options)
            take_what_can_run(worker)

        def start(self, worker: Any) -> None:
            fleet.board.stopping = False
            wait = worker.wait_for_soft_shutdown

            def stop_and_wait() -> None:
                """A cold shutdown begins: Celery says so to nobody before it has waited and killed its children."""
                fleet.stop()
                wait()
                if not _is_prefork(worker.pool):
                    # The handlers run in this process, and it does not end before they do.
                    fleet.release_all(worker.hostname)

            worker.wait_for_soft_shutdown = stop_and_wait

        def close(self, worker: Any) -> None:
            fleet.stop()

        def stop(self, worker: Any) -> None:
            """In order: what runs is finished and reported by the pool, which stops after this."""

        def terminate(self, worker: Any) -> None:
            """At once: children with a task were killed before."""
            fleet.release_all(worker.hostname)

    return Stop


def take_what_can_run(worker: Any) -> None:
    """Let a worker take no more messages than it has slots, where the user has set no number: an idle one could answer
    the rest of the rings.
    """
    is_default = worker.prefetch_multiplier == CELERYS_PREFETCH
    if is_default and not worker.app.conf.value_set_for("worker_prefetch_multiplier"):
        worker.prefetch_multiplier = 1


def register_types(fleet: Fleet) -> None:
    """Make all declared task types known, with the settings of their newest version."""
    for task in fleet.roster.newest.values():
        fleet.authority.register_type(task, task.queue or fleet.default_queue)


def register_worker(fleet: Fleet, consumer: Any) -> None:
    """Say what this worker runs; its children work under its name."""
    details = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "pool": type(consumer.pool).__module__.rsplit(".", 1)[-1],
        "concurrency": consumer.controller.concurrency,
        "sdk": VERSION,
    }
    worker_id = fleet.worker_id(consumer.hostname)
    fleet.authority.register_worker(worker_id, fleet.roster.versions(fleet.roster.newest), details)


def end_what_is_overdue(fleet: Fleet, consumer: Any) -> None:
    """Fail attempts whose hard limit is over, and kill the children that make them: Celery starts new ones."""
    if not _is_prefork(consumer.pool) or consumer.pool._pool is None:
        return
    children = {child.index: child for child in consumer.pool._pool._pool}
    now, killed = _clock.now(), False
    for place, deadline in fleet.board.deadlines(max(children, default=-1) + 1).items():
        if deadline.ends_at > now or place not in children or children[place].pid != deadline.pid:
            continue
        if fleet.end_by_force(consumer.hostname, place, deadline) is not None:
            fleet.board.clear_deadline(place)
            with suppress(ProcessLookupError):
                os.kill(deadline.pid, signal.SIGKILL)
            killed = True
    if killed:
        fleet.ring_for_all()


def _is_prefork(pool: Any) -> bool:
    return type(pool).__module__ == "celery.concurrency.prefork"


def _is_watched(consumer: Any) -> bool:
    events = getattr(consumer, "event_dispatcher", None)
    return bool(events is not None and events.enabled and (not events.groups or "task" in events.groups))
