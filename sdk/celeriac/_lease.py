"""A lease as its holder sees it.

The server owns the lease and judges every call under it. What is kept here is a cautious guess of its end, so that
a handler learns early, and without asking, that it should stop: the time a lease was asked for (never the time its
answer came) plus its duration, on a clock that goes on while the process is frozen and the machine sleeps. Nobody else
can hold the task before that end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from celeriac import _clock
from celeriac.errors import Canceled, Conflict, LeaseLost, NotFound
from celeriac.values import Task


class Lease:
    """The hold on one task. Threads may share it: it ends once, in whoever finds out first."""

    def __init__(self, task: Task, began_at: float) -> None:
        self.task = task
        self.duration = task.lock_duration_ms / 1000
        self.ends_at = began_at + self.duration
        self.lost = threading.Event()
        self.canceled = threading.Event()
        self.tempo = 1.0
        """How long the pauses between the tries of a step are, as a share of what they should be; 0 in tests."""
        self._reason: Conflict | NotFound | None = None
        self._interruption: Exception | None = None
        self._listeners: list[Callable[[], object]] = []
        self._turn = threading.Lock()

    @property
    def remaining(self) -> float:
        """Seconds until the guessed end; 0 or less when it is over."""
        return self.ends_at - _clock.now()

    @property
    def next_extension_in(self) -> float:
        """Seconds until a third of the lease is used."""
        return self.remaining - self.duration * 2 / 3

    @property
    def ended(self) -> Conflict | NotFound | None:
        """Why the task is no longer ours, or None while it is. Looks at the clock."""
        if self._reason is None and self.remaining <= 0:
            self.end(LeaseLost("the lease ran out before it could be extended", task_id=self.task.task_id))
        return self._reason

    @property
    def stopped(self) -> Exception | None:
        """Why the handler should stop: the task is no longer ours, or its time is up; None while it may go on."""
        return self.ended or self._interruption

    def extended(self, asked_at: float, lock_duration_ms: int) -> None:
        """The server granted an extension that was asked for at `asked_at`."""
        self.duration = lock_duration_ms / 1000
        self.ends_at = max(self.ends_at, asked_at + self.duration)

    def end(self, reason: Conflict | NotFound) -> None:
        """The task is no longer ours: set the flags and tell the listeners. Only the first reason counts."""
        with self._turn:
            if self._reason is not None:
                return
            self._reason = reason
            (self.canceled if isinstance(reason, Canceled) else self.lost).set()
        self._tell()

    def interrupt(self, error: Exception) -> None:
        """The handler should stop with `error` although the task is still ours. Only the first one counts."""
        with self._turn:
            if self._reason is not None or self._interruption is not None:
                return
            self._interruption = error
        self._tell()

    def when_stopped(self, tell: Callable[[], object]) -> None:
        """Call `tell` once when the handler should stop, at once if so; from any thread, so it must return quickly."""
        with self._turn:
            if self._reason is None and self._interruption is None:
                self._listeners.append(tell)
                return
        tell()

    def wait(self, seconds: float) -> None:
        """Let time pass, until the handler should stop."""
        stopped = threading.Event()
        self.when_stopped(stopped.set)
        stopped.wait(min(seconds, threading.TIMEOUT_MAX))

    def _tell(self) -> None:
        with self._turn:
            listeners, self._listeners = self._listeners, []
        for tell in listeners:
            tell()
