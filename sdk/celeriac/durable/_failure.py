"""A failed attempt as it is reported, and a failed call as it is recorded."""

from __future__ import annotations

from celeriac._lease import Lease
from celeriac._outcome import headline, sendable
from celeriac.errors import BpmnError, StepFailed
from celeriac.values import Failure, Thrown


def failure(lease: Lease, reason: str, *, retry_after: float | None = None, retries: int | None = None) -> Failure:
    """A report that Postgres takes, whatever the text holds; `retries=0` fails the task for good."""
    return Failure(lease.task.task_id, sendable(reason), lease.task.fencing_token, retry_after, retries)


def thrown(lease: Lease, error: BpmnError) -> Thrown:
    """The report of a business error."""
    said, task = sendable(error.message or error.code), lease.task
    return Thrown(task.task_id, said, task.fencing_token, code=error.code, variables=error.variables)


def reason_of(error: Exception) -> str:
    """`ValueError: message`: what is recorded of an error, and so the same in the first run and in every replay."""
    return sendable(error.error if isinstance(error, StepFailed) else headline(error))
