"""One attempt at one task: run the handler under its lease, and report what it came to."""

from __future__ import annotations

import logging

from celeriac._lease import Lease
from celeriac._outcome import error_text
from celeriac.context import TaskContext
from celeriac.durable._declaration import Handler
from celeriac.durable._failure import failure
from celeriac.durable._report import report as report
from celeriac.errors import Fatal, Retry
from celeriac.values import Completion, Failure

log = logging.getLogger("celeriac.fleet")


def run(handler: Handler, lease: Lease) -> Completion | Failure | None:
    """What the handler came to; None when it stopped since the task was no longer ours.

    SystemExit and the like end the attempt, not the worker.
    """
    try:
        result = handler(TaskContext(lease))
    except BaseException as error:  # noqa: BLE001
        return _raised(lease, error)
    if result is not None and not isinstance(result, dict):
        return failure(lease, f"the handler returned {type(result).__qualname__}; a result is a dict or None")
    return Completion(lease.task.task_id, lease.task.fencing_token, result)


def _raised(lease: Lease, error: BaseException) -> Failure | None:
    if lease.ended:
        log.info("the handler of task %s stopped: %s", lease.task.task_id, error_text(error))
        return None
    if isinstance(error, Retry):
        return failure(lease, f"Retry: {error}", retry_after=error.after)
    if isinstance(error, Fatal):
        return failure(lease, f"Fatal: {error}", retries=0)
    return failure(lease, error_text(error))
