"""Dying at a chosen place, as often as a test wants to see it.

The durable part of the SDK passes named points: before and after everything that is committed or done outside. A crash
here is an exception that is raised at such a point and, since a dead process does nothing more, at every later one of
the same attempt. What the attempt comes to is thrown away, and its lease is left behind, as SIGKILL leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from celeriac import _faults

# Where a crash hurts most: the effect is there, its record is not (or the answer to it is lost).
SHORT_FORMS: Final = {
    "step": "step.record.before",
    "operation": "operation.settle.before",
    "transaction": "transaction.commit.after",
    "enqueue": "enqueue.after",
    "undo": "undo.settle.before",
}


class Crashed(BaseException):
    """The process of this attempt is dead. Not to be caught: no exception of a user's is like it."""


@dataclass(frozen=True, slots=True)
class Point:
    """One place that an attempt comes to: `step.record.before` of the step `charge`."""

    name: str
    subject: str

    def __str__(self) -> str:
        return f"{self.name}:{self.subject}" if self.subject else self.name


class Crash:
    """A context manager: inside of it, the attempt that comes to the point dies there, once.

    `where` is a point by name (`step.do.before:charge`, or `attempt.end` for any task), or the short form of the place
    where it hurts most (`step:charge`, `operation:…`, `transaction:…`, `enqueue:…`, `undo:…`); None never crashes and
    just looks on. `place` is the number of the point instead, from 0, whatever its name.

    Leaving the block without having come there raises AssertionError: such a test would show nothing.
    """

    def __init__(self, where: str | None = None, *, place: int | None = None) -> None:
        kind, _, subject = (where or "").partition(":")
        self._wanted = Point(SHORT_FORMS.get(kind, kind), subject) if where else None
        self._place = place
        self.passed: list[Point] = []
        """The points that attempts came to, in their order; the last one is where it crashed."""
        self.happened = False
        """Whether it has crashed."""
        self.dying = False
        """Whether the process is dead and not yet buried."""

    def __str__(self) -> str:
        return str(self.passed[-1]) if self.happened else str(self._wanted or "no crash")

    def __enter__(self) -> Self:
        global _armed
        _armed = self
        _faults.arm(self._at)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _armed
        _faults.disarm()
        _armed, self.dying = None, False
        if error is None and not self.happened and (self._wanted is not None or self._place is not None):
            passed = "".join(f"\n  {point}" for point in dict.fromkeys(self.passed)) or " none"
            raise AssertionError(
                f"nothing came to {self._wanted or f'point {self._place}'}; points that were passed:{passed}"
            )

    def _at(self, name: str, subject: str) -> None:
        if self.dying:
            raise Crashed
        point = Point(name, subject)
        place = len(self.passed)
        self.passed.append(point)
        if not self.happened and (place == self._place or self._is_wanted(point)):
            self.happened = self.dying = True
            raise Crashed

    def _is_wanted(self, point: Point) -> bool:
        wanted = self._wanted
        return wanted is not None and point.name == wanted.name and wanted.subject in ("", point.subject)


_armed: Crash | None = None


def is_dying() -> bool:
    """Whether the process that makes attempts has died, and nothing of it may be used."""
    return _armed is not None and _armed.dying


def bury() -> None:
    """What comes next is another process."""
    if _armed is not None:
        _armed.dying = False


def crash_at(where: str) -> Crash:
    """Let the attempt that comes to this point die there: `with crash_at("step:charge"): runner.run()`."""
    return Crash(where)


def every_crash() -> Iterator[Crash]:
    """A round without a crash, then one for each point that it passed, with a crash there.

        for crash in every_crash():
            task_id = runner.enqueue(order, {"id": str(crash)})
            with crash:
                runner.run()
            runner.run()  # somebody else takes over
            assert …

    Each round has to do the same anew.
    """
    first = Crash()
    yield first
    for place in range(len(first.passed)):
        yield Crash(place=place)
