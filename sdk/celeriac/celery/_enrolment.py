"""A worker that starts makes its task types and itself known, and says every few seconds that it lives.

On the timer of Celery's consumer, since a thread in a process that forks is asking for trouble. When Postgres is away a
call may hold up that loop for its time-out of seconds; the worker has nothing else to do then.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any, Final

from celery import bootsteps

from celeriac._link import VERSION
from celeriac.celery._fleet import Fleet
from celeriac.errors import CeleriacError, Refused

log = logging.getLogger("celeriac.fleet")

BEAT_SECONDS: Final = 10.0


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
            consumer.timer.call_repeatedly(BEAT_SECONDS, self._beat, (consumer,))

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

    return Enrolment


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
    fleet.authority.register_worker(consumer.hostname, fleet.roster.versions(fleet.roster.newest), details)
