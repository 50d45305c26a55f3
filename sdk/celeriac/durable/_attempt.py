"""One attempt at one task: run the handler under its lease, and report what it came to."""

from __future__ import annotations

import logging
from typing import Final

from celeriac._backoff import Backoff
from celeriac._lease import Lease
from celeriac._outcome import error_text, sendable
from celeriac.context import TaskContext
from celeriac.durable._authority import Authority
from celeriac.durable._declaration import Handler
from celeriac.durable._tally import SharedTally
from celeriac.errors import (
    CeleriacError,
    Conflict,
    ConnectionFailed,
    Fatal,
    Invalid,
    NotFound,
    Retry,
    TooLarge,
    UnexpectedAnswer,
)
from celeriac.values import Completion, Failure

log = logging.getLogger("celeriac.fleet")

LONGEST_PAUSE_SECONDS: Final = 5.0


def run(handler: Handler, lease: Lease) -> Completion | Failure | None:
    """What the handler came to; None when it stopped since the task was no longer ours.

    SystemExit and the like end the attempt, not the worker.
    """
    try:
        result = handler(TaskContext(lease))
    except BaseException as error:  # noqa: BLE001
        return _raised(lease, error)
    if result is not None and not isinstance(result, dict):
        return _failure(lease, f"the handler returned {type(result).__qualname__}; a result is a dict or None")
    return Completion(lease.task.task_id, lease.task.fencing_token, result)


def report(
    authority: Authority, tally: SharedTally, worker_id: str, lease: Lease, outcome: Completion | Failure
) -> None:
    """Tell the authority, for as long as the lease lives. A late outcome is sent, too: the authority is the judge."""
    try:
        _deliver(authority, tally, worker_id, lease, outcome)
    except (Conflict, NotFound) as refused:
        log.warning("the outcome of task %s was refused: %s", lease.task.task_id, refused)
        tally.count(refused=1)
    except CeleriacError as error:
        log.error("the outcome of task %s cannot be told: %s", lease.task.task_id, error)
        tally.count(dropped=1)


def _deliver(
    authority: Authority, tally: SharedTally, worker_id: str, lease: Lease, outcome: Completion | Failure
) -> None:
    if isinstance(outcome, Completion):
        try:
            _insist(authority, worker_id, lease, outcome)
        except (Invalid, TooLarge) as error:
            outcome = _failure(lease, f"the handler's result cannot be stored: {type(error).__name__}: {error}")
        else:
            tally.count(completed=1)
            return
    log.warning("task %s failed: %s", lease.task.task_id, outcome.error)
    _insist(authority, worker_id, lease, outcome)
    tally.count(failed=1)


def _insist(authority: Authority, worker_id: str, lease: Lease, outcome: Completion | Failure) -> None:
    backoff = Backoff(cap_seconds=min(LONGEST_PAUSE_SECONDS, lease.duration / 6))
    failures = 0
    while True:
        try:
            return authority.report(worker_id, outcome)
        except (ConnectionFailed, UnexpectedAnswer) as error:
            if lease.ended:
                raise
            failures += 1
            log.info("the report on task %s is repeated: %s", lease.task.task_id, error)
        lease.lost.wait(backoff.pause(failures))


def _raised(lease: Lease, error: BaseException) -> Failure | None:
    if lease.ended:
        log.info("the handler of task %s stopped: %s", lease.task.task_id, error_text(error))
        return None
    if isinstance(error, Retry):
        return _failure(lease, f"Retry: {error}", retry_after=error.after)
    if isinstance(error, Fatal):
        return _failure(lease, f"Fatal: {error}", retries=0)
    return _failure(lease, error_text(error))


def _failure(lease: Lease, reason: str, *, retry_after: float | None = None, retries: int | None = None) -> Failure:
    return Failure(lease.task.task_id, sendable(reason), lease.task.fencing_token, retry_after, retries)
