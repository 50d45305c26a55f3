"""Time limits of single attempts.

                   a child of the prefork pool            threads, gevent, solo
    soft limit     raised in the handler, by a signal     raised by ctx.check() and by each durable call
    hard limit     the parent fails the attempt, then     the attempt is failed and fenced off: the handler is told by
                   kills the child                        ctx.check(), and its result is refused

A handler in one process with others cannot be stopped from outside: nothing is ever thrown into somebody's thread.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import billiard
from billiard.exceptions import SoftTimeLimitExceeded as CelerySoftTimeLimitExceeded

from celeriac import _clock
from celeriac._lease import Lease
from celeriac.celery._board import PLACES, Board, Deadline
from celeriac.durable._declaration import DurableTask
from celeriac.errors import LeaseLost, SoftTimeLimitExceeded

log = logging.getLogger("celeriac.fleet")

FOR_EVER: Final = float("inf")
SOFT_SIGNAL: Final = signal.SIGUSR1


class _TimeIsUp(SoftTimeLimitExceeded, CelerySoftTimeLimitExceeded):  # type: ignore[misc]
    """What handlers know from Celery, and what they know from Celeriac."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that an attempt may take; None: as long as it likes."""

    soft: float | None = None
    hard: float | None = None

    def or_else(self, default: Limits) -> Limits:
        return Limits(
            default.soft if self.soft is None else self.soft, default.hard if self.hard is None else self.hard
        )


def text_of_hard(seconds: float) -> str:
    return f"the hard time limit of {seconds:g} s was exceeded"


@dataclass(eq=False, slots=True)
class Watch:
    """One attempt whose time is looked after."""

    lease: Lease
    limits: Limits
    by_signal: bool
    place: int | None
    soft_at: float
    hard_at: float
    struck: bool = False


class TimeLimits:
    """The limits of all attempts in this process. `fail` reports an attempt as failed and raises nothing."""

    def __init__(self, board: Board, fail: Callable[[Lease, str], object]) -> None:
        self._board = board
        self._fail = fail
        self._changed = threading.Condition()
        self._watches: set[Watch] = set()
        self._wakes_at = FOR_EVER
        self._thread: threading.Thread | None = None
        self._in_signal: Watch | None = None
        self._before: Any = None

    def begin(self, lease: Lease, task: DurableTask, default: Limits) -> Watch | None:
        """Look after the time of an attempt that begins now; hand the answer to `end`."""
        limits = Limits(task.soft_time_limit, task.time_limit).or_else(default)
        if limits.soft is None and limits.hard is None:
            return None
        now, place = _clock.now(), place_in_pool()
        watch = Watch(
            lease,
            limits,
            by_signal=place is not None and not task.is_async,
            place=place,
            soft_at=now + limits.soft if limits.soft is not None else FOR_EVER,
            hard_at=now + limits.hard if limits.hard is not None else FOR_EVER,
        )
        if place is not None and limits.hard is not None:
            self._board.set_deadline(
                place,
                Deadline(
                    watch.hard_at,
                    lease.task.task_id,
                    lease.task.fencing_token,
                    limits.hard,
                    lease.duration,
                    os.getpid(),
                ),
            )
            watch.hard_at = FOR_EVER
        if watch.by_signal and limits.soft is not None:
            self._take_signal()
            self._in_signal = watch
        with self._changed:
            self._watches.add(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="celeriac-limits", daemon=True)
                self._thread.start()
            elif min(watch.soft_at, watch.hard_at) < self._wakes_at:  # most attempts end long before
                self._changed.notify()
        return watch

    def end(self, watch: Watch | None) -> None:
        """The attempt is over. Harmless to repeat."""
        if watch is None:
            return
        self._in_signal = None
        if watch.place is not None:
            self._board.clear_deadline(watch.place)
        with self._changed:
            self._watches.discard(watch)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._wakes_at = min((min(watch.soft_at, watch.hard_at) for watch in self._watches), default=FOR_EVER)
                self._changed.wait(None if self._wakes_at == FOR_EVER else max(0.0, self._wakes_at - _clock.now()))
                now = _clock.now()
                soft = [watch for watch in self._watches if watch.soft_at <= now]
                hard = [watch for watch in self._watches if watch.hard_at <= now]
                for watch in soft:
                    watch.soft_at = FOR_EVER
                for watch in hard:
                    watch.hard_at = FOR_EVER
            for watch in soft:
                self._remind(watch)
            for watch in hard:
                self._fence_off(watch)

    def _remind(self, watch: Watch) -> None:
        log.warning("task %s has exceeded its soft time limit of %g s", watch.lease.task.task_id, watch.limits.soft)
        if watch.by_signal:
            watch.struck = True
            signal.pthread_kill(threading.main_thread().ident or 0, SOFT_SIGNAL)
        else:
            watch.lease.interrupt(self._error(watch))

    def _fence_off(self, watch: Watch) -> None:
        reason = text_of_hard(watch.limits.hard or 0)
        log.error(
            "task %s: %s; its handler cannot be stopped from outside in this pool", watch.lease.task.task_id, reason
        )
        self._fail(watch.lease, reason)
        watch.lease.end(LeaseLost(reason, task_id=watch.lease.task.task_id))

    def _take_signal(self) -> None:
        if self._before is None:
            self._before = signal.signal(SOFT_SIGNAL, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        watch = self._in_signal
        if watch is not None and watch.struck:
            watch.struck = False
            raise self._error(watch)
        if callable(self._before):  # a soft limit of a plain Celery task in the same child
            self._before(number, frame)

    def _error(self, watch: Watch) -> Exception:
        return _TimeIsUp(f"the soft time limit of {watch.limits.soft:g} s was exceeded")


def place_in_pool() -> int | None:
    """Which child of a prefork pool this is, when its parent can see the board and its main thread runs the handler."""
    if threading.current_thread() is not threading.main_thread() or billiard.get_start_method() != "fork":
        return None
    place = getattr(billiard.current_process(), "index", None)
    return place if isinstance(place, int) and place < PLACES else None
