"""What a user declares: a handler and what its task type is to be like."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celeriac.context import TaskContext

Handler = Callable[[TaskContext], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed attempt is tried again; None keeps what the task type has.

    `attempts` is how many may fail before the task is FAILED. The pause after a failure is `first` seconds, times
    `factor` for each further one, and never more than `cap` seconds.
    """

    attempts: int | None = None
    first: float | None = None
    factor: float | None = None
    cap: float | None = None


@dataclass(frozen=True, slots=True)
class DurableTask:
    """A handler with its task type. Calling it calls the handler, as a test of the handler would."""

    task_type: str
    handler: Handler
    version: int = 1
    lease: float | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    queue: str | None = None

    def __call__(self, ctx: TaskContext) -> dict[str, Any] | None:
        return self.handler(ctx)


def task(
    task_type: str,
    *,
    version: int = 1,
    lease: float | None = None,
    retry: RetryPolicy | None = None,
    queue: str | None = None,
) -> Callable[[Handler], DurableTask]:
    """Declare a handler for the tasks of one type and version; give what it returns to `install`.

    `lease` is in seconds: how soon another worker takes over when this one dies, not how long the handler may take.
    `queue` is the Celery queue whose workers run it (None: the app's default queue). Raises TypeError for a coroutine.
    """

    def declare(handler: Handler) -> DurableTask:
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"the handler of {task_type!r} is a coroutine; a fleet runs plain functions")
        return DurableTask(task_type, handler, version, lease, retry or RetryPolicy(), queue)

    return declare
