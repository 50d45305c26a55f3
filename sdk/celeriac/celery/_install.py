"""Joining durable tasks to a Celery app."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from celery import Celery, Task
from celery.signals import celeryd_init, worker_shutting_down

from celeriac.celery._broker import RING_TASK, prepare_broker
from celeriac.celery._enrolment import enrolment_step
from celeriac.celery._fleet import Fleet, Slice
from celeriac.durable._declaration import DurableTask
from celeriac.durable._roster import Roster

FLEET: Final = "celeriac_fleet"
"""Where an app keeps its Fleet."""


def install(
    celery_app: Celery,
    *,
    database_url: str,
    tasks: Iterable[DurableTask],
    slice_tasks: int = 50,
    slice_seconds: float = 1.0,
) -> Fleet:
    """Let the workers of `celery_app` run `tasks`. Connects to nothing; a program that only sends is not changed.

    `database_url` is Celeriac's Postgres; its user needs no more than the role `celeriac_fleet`. One ring keeps a slot
    of the pool for at most `slice_tasks` tasks, and no task is begun after `slice_seconds`. Raises ValueError for
    declarations that contradict each other and for a second install into the same app.
    """
    if hasattr(celery_app, FLEET):
        raise ValueError("durable tasks are installed in this app already; give all of them to one install")
    fleet = Fleet(celery_app, database_url, Roster(tasks), Slice(slice_tasks, slice_seconds))
    setattr(celery_app, FLEET, fleet)
    _add_ring_task(celery_app, fleet)
    celery_app.steps["consumer"].add(enrolment_step(fleet))
    _listen(celery_app, fleet)
    return fleet


def _add_ring_task(app: Celery, fleet: Fleet) -> None:
    """The one Celery task. Late acknowledgement only keeps a busy worker from hoarding rings: none is ever missed."""

    @app.task(  # type: ignore[untyped-decorator]
        name=RING_TASK,
        base=Task,
        shared=False,
        bind=True,
        acks_late=True,
        reject_on_worker_lost=False,
        ignore_result=True,
        track_started=False,
        send_events=False,
        max_retries=0,
    )
    def ring(self: Any, task_type: str) -> None:
        fleet.hear(task_type, self.request.hostname)


def _listen(app: Celery, fleet: Fleet) -> None:
    def before_the_worker(instance: Any, conf: Any, **_: Any) -> None:
        if instance.app is app:
            prepare_broker(conf)

    celeryd_init.connect(before_the_worker, weak=False)
    worker_shutting_down.connect(fleet.stopping.set, weak=False)
