"""What a handler gets."""

from __future__ import annotations

import logging
import threading
from collections.abc import MutableMapping
from typing import Any

from celeriac._lease import Lease
from celeriac.values import Task

log = logging.getLogger("celeriac.task")


class TaskContext:
    """One attempt at one task: its data, and whether it is still ours.

    A handler that runs for long looks at `lease_lost` and `canceled` now and then, or calls `check()`, and stops when
    they say so. What it returns after that is refused by the server: stopping late costs time but never correctness
    inside Celeriac. Outside effects are guarded by handing `fencing_token` on to whoever can compare it.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.task: Task = lease.task
        """The task as it was fetched."""
        self.log = _TaskLog(log, {"task_id": self.task.task_id, "task_type": self.task.task_type})
        """A logger that puts task type, id and attempt in front of every line."""
        self.log.prefix = f"{self.task.task_type} {self.task.task_id} attempt {self.task.attempt}: "

    @property
    def task_id(self) -> str:
        return self.task.task_id

    @property
    def task_type(self) -> str:
        return self.task.task_type

    @property
    def version(self) -> int:
        return self.task.version

    @property
    def variables(self) -> dict[str, Any]:
        return self.task.variables

    @property
    def business_key(self) -> str | None:
        return self.task.business_key

    @property
    def instance_id(self) -> str | None:
        """The process instance that the task belongs to; None for a task of its own."""
        return self.task.instance_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1; released and lost attempts count, too."""
        return self.task.attempt

    @property
    def retries(self) -> int:
        """How many failures are left before the task is FAILED, this attempt's included."""
        return self.task.retries

    @property
    def fencing_token(self) -> int:
        """Grows with every hand-over of the task. Compare it where effects are made, and refuse lower ones."""
        return self.task.fencing_token

    @property
    def lease_lost(self) -> threading.Event:
        """Set once the lease is lost, has run out, or was given back at shutdown; can be waited for."""
        self._lease.ended  # noqa: B018 - looks at the clock: after a freeze nobody may have had the time to
        return self._lease.lost

    @property
    def canceled(self) -> threading.Event:
        """Set once the worker has learned (within a third of the lease) that the task was canceled."""
        return self._lease.canceled

    def check(self) -> None:
        """Raise Canceled or LeaseLost (or a sibling of it) when the task is no longer ours, or why its time is up."""
        if reason := self._lease.stopped:
            raise reason


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    prefix = ""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return f"{self.prefix}{msg}", kwargs
