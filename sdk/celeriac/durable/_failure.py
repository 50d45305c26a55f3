"""A failed attempt as it is reported."""

from __future__ import annotations

from celeriac._lease import Lease
from celeriac._outcome import sendable
from celeriac.values import Failure


def failure(lease: Lease, reason: str, *, retry_after: float | None = None, retries: int | None = None) -> Failure:
    """A report that Postgres takes, whatever the text holds; `retries=0` fails the task for good."""
    return Failure(lease.task.task_id, sendable(reason), lease.task.fencing_token, retry_after, retries)
