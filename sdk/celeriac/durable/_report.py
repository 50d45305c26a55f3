"""Telling the authority what an attempt came to, for as long as its lease lives."""

from __future__ import annotations

import logging
from typing import Final

from celeriac._backoff import Backoff
from celeriac._faults import point
from celeriac._lease import Lease
from celeriac.durable._authority import Authority
from celeriac.durable._failure import failure
from celeriac.durable._tally import SharedTally
from celeriac.errors import (
    Canceled,
    CeleriacError,
    Conflict,
    ConnectionFailed,
    Invalid,
    NotFound,
    TooLarge,
    UnexpectedAnswer,
)
from celeriac.values import Completion, Failure, Thrown

log = logging.getLogger("celeriac.durable")

LONGEST_PAUSE_SECONDS: Final = 5.0


def report(
    authority: Authority, tally: SharedTally, worker_id: str, lease: Lease, outcome: Completion | Failure | None
) -> str | None:
    """Tell the authority, for as long as the lease lives; the state the task is in then, None when it does not hold.

    A late outcome is sent, too: the authority is the judge. Without an outcome there is nothing to tell, but of a
    canceled task that its handler has stopped.
    """
    if outcome is None:
        _let_go(authority, worker_id, lease)
        return None
    try:
        return _deliver(authority, tally, worker_id, lease, outcome)
    except (Conflict, NotFound) as refused:
        was_refused(authority, tally, worker_id, lease, refused)
    except CeleriacError as error:
        log.error("the outcome of task %s cannot be told: %s", lease.task.task_id, error)
        tally.count(dropped=1)
    return None


def was_refused(
    authority: Authority, tally: SharedTally, worker_id: str, lease: Lease, reason: Conflict | NotFound
) -> None:
    """Note an outcome that came too late."""
    log.warning("the outcome of task %s was refused: %s", lease.task.task_id, reason)
    tally.count(refused=1)
    lease.end(reason)
    _let_go(authority, worker_id, lease)


def _let_go(authority: Authority, worker_id: str, lease: Lease) -> None:
    """Say that the handler of a canceled task has stopped: what it did is undone then, or when its lease ends."""
    if not isinstance(lease.ended, Canceled):
        return
    try:
        authority.release(worker_id, lease.task)
    except CeleriacError as error:
        log.debug("task %s is not to be let go of: %s", lease.task.task_id, error)


def _deliver(
    authority: Authority, tally: SharedTally, worker_id: str, lease: Lease, outcome: Completion | Failure
) -> str:
    if isinstance(outcome, Completion | Thrown):
        try:
            state = _insist(authority, worker_id, lease, outcome)
        except (Invalid, TooLarge) as error:
            outcome = failure(lease, f"the handler's result cannot be stored: {type(error).__name__}: {error}")
        else:
            tally.count(completed=1)
            return state
    log.warning("task %s failed: %s", lease.task.task_id, outcome.error)
    state = _insist(authority, worker_id, lease, outcome)
    tally.count(failed=1)
    return state


def _insist(authority: Authority, worker_id: str, lease: Lease, outcome: Completion | Failure) -> str:
    backoff = Backoff(cap_seconds=min(LONGEST_PAUSE_SECONDS, lease.duration / 6))
    failures = 0
    while True:
        try:
            point("report.before", lease.task.task_type)
            state = authority.report(worker_id, outcome)
            point("report.after", lease.task.task_type)
            return state
        except (ConnectionFailed, UnexpectedAnswer) as error:
            if lease.ended:
                raise
            failures += 1
            log.info("the report on task %s is repeated: %s", lease.task.task_id, error)
        lease.lost.wait(backoff.pause(failures))
