"""Telling the authority what an attempt came to, for as long as its lease lives."""

from __future__ import annotations

import logging
from typing import Final

from celeriac._backoff import Backoff
from celeriac._lease import Lease
from celeriac.durable._authority import Authority
from celeriac.durable._failure import failure
from celeriac.durable._tally import SharedTally
from celeriac.errors import (
    CeleriacError,
    Conflict,
    ConnectionFailed,
    Invalid,
    NotFound,
    TooLarge,
    UnexpectedAnswer,
)
from celeriac.values import Completion, Failure

log = logging.getLogger("celeriac.fleet")

LONGEST_PAUSE_SECONDS: Final = 5.0


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
            outcome = failure(lease, f"the handler's result cannot be stored: {type(error).__name__}: {error}")
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
