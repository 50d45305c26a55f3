"""Joining durable tasks to a Celery app."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from celery import Celery, Task
from celery.signals import celeryd_init, worker_process_shutdown, worker_shutdown, worker_shutting_down

from celeriac.celery._broker import RING_TASK, prepare_broker
from celeriac.celery._control import FLEET
from celeriac.celery._enrolment import enrolment_step, stop_step
from celeriac.celery._fleet import Fleet
from celeriac.celery._slice import Slice
from celeriac.durable._declaration import DurableTask
from celeriac.durable._roster import Roster

NEVER: Final = 10 * 365 * 24 * 3600.0
"""A time limit for rings, in seconds: Celery's own would count for a whole slice, and durable tasks have theirs."""


def install(
    celery_app: Celery,
    *,
    database_url: str,
    tasks: Iterable[DurableTask],
    slice_tasks: int = 50,
    slice_seconds: float = 1.0,
    events: bool = True,
    transactions: Any = None,
) -> Fleet:
    """Let the workers of `celery_app` run `tasks`. Connects to nothing; a program that only sends is not changed.

    `database_url` is Celeriac's Postgres; its user needs no more than the role `celeriac_fleet`. One ring keeps a slot
    of the pool for at most `slice_tasks` round trips (one task each; with batch=True many), and no task is begun after
    `slice_seconds`. `events=False` sends none to Flower even while it watches. `transactions` is where
    ctx.transaction() gets its sessions or connections (None: connections to `database_url`). Raises ValueError for
    declarations that contradict each other, a slice without tasks, and a second install into the same app.
    """
    if hasattr(celery_app, FLEET):
        raise ValueError("durable tasks are installed in this app already; give all of them to one install")
    if slice_tasks < 1:
        raise ValueError(f"slice_tasks must be 1 or more, not {slice_tasks}")  # else rings would ring for ever
    fleet = Fleet(
        celery_app,
        database_url,
        Roster(tasks),
        Slice(slice_tasks, slice_seconds),
        events=events,
        transactions=transactions,
    )
    setattr(celery_app, FLEET, fleet)
    _add_ring_task(celery_app, fleet)
    celery_app.steps["consumer"].add(enrolment_step(fleet))
    celery_app.steps["worker"].add(stop_step(fleet))
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
        time_limit=NEVER,
        soft_time_limit=NEVER,
    )
    def ring(self: Any, task_type: str, passed: int = 0) -> None:
        came_through = (self.request.delivery_info or {}).get("routing_key")
        fleet.hear(task_type, self.request.hostname, came_through, passed)


def _listen(app: Celery, fleet: Fleet) -> None:
    def before_the_worker(instance: Any, conf: Any, options: dict[str, Any], **_: Any) -> None:
        if instance.app is app:
            prepare_broker(conf)
            fleet.begin_worker(
                options.get("soft_time_limit") or conf.task_soft_time_limit,
                options.get("time_limit") or conf.task_time_limit,
            )

    celeryd_init.connect(before_the_worker, weak=False)
    worker_shutting_down.connect(fleet.stop, weak=False)
    worker_process_shutdown.connect(fleet.close, weak=False)
    worker_shutdown.connect(fleet.close, weak=False)
