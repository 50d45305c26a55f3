"""The maintenance worker: a Celery worker for the ticks of beat, and beside it the upkeep that needs no Celery.

    beat ──ticks──► Celery worker (threads) ──┐
    bell ──wake-up──► upkeep ─────────────────┴─► runner ──► chores ──► Postgres

Any number may run. None keeps anything that matters: it may be killed at any moment.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from threading import Event, Timer
from typing import Any, Final

from celery import Celery
from celery.signals import worker_shutting_down
from celery.worker import state
from celery.worker.control import Panel

from app.bell import SyncBell
from app.settings import Settings
from db.engine import sync_engine
from workers.broker import Broker
from workers.celery_app import make_app
from workers.chore import Chore, Tools
from workers.logs import set_up_logging
from workers.roster import CHORES, DISPATCH_OUTBOX
from workers.runner import Runner
from workers.upkeep import Upkeep

STOP_SECONDS: Final = 15.0
"""How long a stop may take: a call to Postgres that has to run into its deadline, and some. Then we just go."""

WORKER_PAUSE_SECONDS: Final = 1.0

STOP_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})

HARMLESS_COMMANDS: Final = frozenset(
    {
        *("ping", "hello", "clock", "heartbeat", "report", "stats", "conf", "registered", "active_queues"),
        *("active", "reserved", "scheduled", "revoked", "query_task", "enable_events", "disable_events"),
    }
)

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Be a maintenance worker until SIGTERM or SIGINT; ends by SystemExit with the exit code."""
    set_up_logging(settings)
    if settings.broker_url is None:
        # Before any thread starts, so that all inherit it and the signal waits for `_wait_for_signal`.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    else:
        # Until the Celery worker has handlers of its own.
        signal.signal(signal.SIGTERM, _end)
    app = make_app(settings)
    tools = open_tools(settings, app)
    runner = Runner(CHORES, tools)
    upkeep = Upkeep(settings, runner, DISPATCH_OUTBOX, tools.stopping)
    upkeep.start()
    try:
        exit_code = _wait_for_signal() if settings.broker_url is None else _consume_ticks(app, runner, tools.stopping)
    finally:
        _leave_in_time()
        upkeep.stop()
        close_tools(tools)
    log.info("maintenance worker ended")
    raise SystemExit(exit_code)


def open_tools(settings: Settings, app: Celery) -> Tools:
    """What the chores of one process share; nothing connects before it is used."""
    # A chore runs once at a time in a process, and uses one connection at a time.
    engine = sync_engine(settings.database_url, pool_size=len(CHORES), max_overflow=0, pool_timeout=5)
    return Tools(settings, engine, SyncBell(settings.redis_url), Broker(app), Event())


def close_tools(tools: Tools) -> None:
    tools.engine.dispose()
    tools.bell.close()
    tools.broker.close()


def register_chores(app: Celery, runner: Runner) -> None:
    """Give `app` a task for each chore. The frequent ones send no events: they would push all others out of Flower."""
    for chore in runner.chores:
        app.task(_task_of(chore, runner), name=chore.task_name, send_events=chore.period_seconds >= 60)


def _task_of(chore: Chore, runner: Runner) -> Any:
    def tick() -> None:
        runner.tick(chore)

    return tick


def _consume_ticks(app: Celery, runner: Runner, stopping: Event) -> int:
    """Run Celery workers, one after the other, until a signal ends them; answers the exit code of the last one.

    A worker ends by itself when it finds something in a queue that is no message. The chores know nothing of that, and
    the next worker finds the queue without it.
    """
    register_chores(app, runner)
    _forget_commands()

    def stop(**_: Any) -> None:
        _leave_in_time()
        stopping.set()

    worker_shutting_down.connect(stop, weak=False, dispatch_uid="celeriac.maintenance")
    while True:
        worker = make_worker(app, runner)
        worker.start()
        if stopping.is_set():
            return int(worker.exitcode or 0)
        log.error("the Celery worker ended with %s: starting another one", worker.exitcode)
        state.should_stop = state.should_terminate = None
        state.reset_state()
        if stopping.wait(WORKER_PAUSE_SECONDS):
            return 0


def make_worker(app: Celery, runner: Runner) -> Any:
    """A Celery worker with a thread and a queue for each chore."""
    return app.Worker(
        hostname=f"maintenance-{os.getpid()}@{socket.gethostname()}",
        pool="threads",
        concurrency=len(runner.chores),
        queues=[chore.queue for chore in runner.chores],
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )


def _forget_commands() -> None:
    """Unlearn the remote-control commands that change this worker: whoever reaches the broker could send them."""
    for command in set(Panel.data) - HARMLESS_COMMANDS:
        Panel.data.pop(command, None)
        Panel.meta.pop(command, None)


def _wait_for_signal() -> int:
    log.info("no broker: chores keep their period by themselves")
    signal.sigwait(STOP_SIGNALS)
    return 0


def _end(_number: int, _frame: Any) -> None:
    raise SystemExit(0)


def _leave_in_time() -> None:
    """End this process in STOP_SECONDS even if something hangs: nothing that we hold is lost by that."""
    timer = Timer(STOP_SECONDS, os._exit, [1])
    timer.daemon = True
    timer.start()
