"""Where a handler stands: which of its durable calls have come to their end before, and which it makes now.

Every durable call has a place: its ordinal among the calls of its branch. The handler itself is the branch '', and the
i-th function of the gather at ordinal n is the branch `n.i`, and so on inside of it. A place is all that identifies a
call, so the order of calls must come from the handler's input and the results of its calls alone. Name and kind are
kept to notice when it does not: that is an incident, never another call's result.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from celeriac._lease import Lease
from celeriac.durable._failure import reason_of
from celeriac.durable._fork import parent_only
from celeriac.durable._form import NULL, Form
from celeriac.durable._ledger import Ledger, Record
from celeriac.durable._score import Ask, Score
from celeriac.durable._unwinding import OtherCode, RecordEnds, Unwinding
from celeriac.errors import Invalid, OutOfPlace, StepFailed

UNDO: Final = "undo"
LONGEST_NAME: Final = 255
GATHER: Final = "gather"


@dataclass(eq=False, slots=True)
class Branch:
    """One line of calls, each after the other, made by one thread or asyncio task."""

    path: str
    ordinal: int = 0
    busy: str | None = None
    unwinding: Unwinding | None = None
    failed: list[Callable[[], Score[None]]] = field(default_factory=list)
    """What writes down the failures that nobody has gone on from yet."""


@dataclass(slots=True)
class Place:
    """A durable call that is being made, and what was recorded of it (None: it has not come to its end before)."""

    branch: Branch
    ordinal: int
    kind: str
    name: str
    record: Record | None
    give_up: Callable[[str], Score[None]]
    """Write down that it failed and the handler went on; asked for before the next call, with the error's text."""

    def ended(self, result: str) -> Record:
        """The record of its result, JSON text."""
        return Record(self.branch.path, self.ordinal, self.kind, self.name, None if result == NULL else result)

    def failed(self, error: str) -> Record:
        """The record of its failure. It is a step, whatever it was to be: nothing else came of it."""
        return Record(self.branch.path, self.ordinal, "step", self.name, None, error)

    def __str__(self) -> str:
        return f"{_call(self.kind, self.name)} ({_where(self.branch.path, self.ordinal)})"


class Replay:
    """The record of one task, and how far its handler has come in it."""

    def __init__(self, lease: Lease, ledger: Ledger, records: Sequence[Record], here: Callable[[], Hashable]) -> None:
        self.lease = lease
        self.ledger = ledger
        self.undoing = lease.task.undoing
        self.tried: set[str] = set()
        """The operations whose `do` was called in this attempt."""
        self._here = here
        self._pid = os.getpid()
        self._records: dict[tuple[str, int], Record] = {}
        self._furthest: dict[str, int] = {}
        for record in records:
            if record.branch != UNDO:
                self.learn(record)
        self.rewind()

    def rewind(self) -> Branch:
        """The handler is about to run from its top, in the thread or asyncio task that calls this next."""
        self._ahead = set(self._records)
        self._branches: dict[Hashable, Branch] = {}
        self.root = Branch("")
        return self.root

    def learn(self, record: Record) -> None:
        """This call has come to its end."""
        self._records[record.branch, record.ordinal] = record
        branch, ordinal = record.branch, record.ordinal
        while True:
            self._furthest[branch] = max(ordinal, self._furthest.get(branch, 0))
            if not branch:
                return
            branch, _, step = branch.rpartition("/")
            ordinal = int(step.partition(".")[0])

    @contextmanager
    def within(self, branch: Branch) -> Iterator[Branch]:
        """The calls of this thread or asyncio task are those of the branch."""
        here = self._here()
        self._branches[here] = branch
        try:
            with parent_only():
                yield branch
        finally:
            del self._branches[here]

    @contextmanager
    def at(self, kind: str, name: str) -> Iterator[Place]:
        """The next place of whichever branch this is; raises what keeps a call from being made here."""
        _check_name(name)
        place = self._next(self._branch(), kind, name)
        branch = place.branch
        branch.busy = str(place)
        try:
            yield place
        except Unwinding as unwinding:
            branch.unwinding = unwinding
            raise
        except Exception as error:
            if place.record is None and kind != GATHER:
                branch.failed.append(functools.partial(place.give_up, reason_of(error)))
            raise
        finally:
            branch.busy = None

    def forks(self, place: Place, count: int) -> list[Branch]:
        """The branches of a gather."""
        prefix = f"{place.branch.path}/" if place.branch.path else ""
        return [Branch(f"{prefix}{place.ordinal}.{number}") for number in range(count)]

    def check_end(self) -> None:
        """The handler has returned: raises OtherCode when there are recorded calls that it has not come to."""
        if self._ahead:
            first = self._records[min(self._ahead)]
            where = _where(first.branch, first.ordinal)
            message = f"{where} is recorded as {_call(first.kind, first.name)}, but this code ends without it"
            raise self._mismatch(self.root, first.ordinal, first.name, message, first)

    def _branch(self) -> Branch:
        if os.getpid() != self._pid:
            raise OutOfPlace("a child of a fork cannot make durable calls: the task is its parent's")
        branch = self._branches.get(self._here())
        if branch is None:
            raise OutOfPlace(
                "a durable call must be made by the handler itself: in a thread or asyncio task of your own its place "
                "in the order of calls would be chance. Use ctx.gather to do several things at once"
            )
        if branch.unwinding is not None:  # in a `finally`, or the handler has caught what was not for it
            raise branch.unwinding
        if reason := self.lease.stopped:
            raise reason
        if branch.busy is not None:
            raise OutOfPlace(f"a durable call cannot be made inside of another one: {branch.busy} has not ended")
        return branch

    def go_on(self, place: Place) -> Score[None]:
        """From here on this call does what was not done before; so what failed until now is final."""
        if self.undoing:
            raise RecordEnds
        yield from self.settle_failures(place.branch)

    def settle_failures(self, branch: Branch) -> Score[None]:
        """The handler goes on, or ends well: it has made up its mind about what failed."""
        failed, branch.failed = branch.failed, []
        for write_down in failed:
            yield from write_down()

    def recall(self, place: Place, form: Form) -> Any:
        """The recorded result of a call. Raises StepFailed for one that failed, OtherCode for one of another type."""
        assert place.record is not None
        if place.record.error is not None:
            raise StepFailed(place.name, place.record.error)
        try:
            return form.read(place.record.result or NULL)
        except Invalid as error:
            message = f"the recorded result of {place} is not what this code expects: {error}"
            raise self._mismatch(place.branch, place.ordinal, place.name, message, place.record) from None

    def record(self, record: Record) -> None:
        """Write down a call that has ended."""
        self.ledger.record(record)
        self.learn(record)

    def _next(self, branch: Branch, kind: str, name: str) -> Place:
        branch.ordinal += 1
        where = (branch.path, branch.ordinal)
        record = self._records.get(where)
        if record is not None:
            self._ahead.discard(where)
            fits = record.name == name and (record.kind == kind or (record.kind == "step" and record.error is not None))
            if not fits:
                raise self._other_call(branch, kind, name, _call(record.kind, record.name), record)
        elif kind != GATHER and self._furthest.get(branch.path, 0) >= branch.ordinal:
            # A gather that did nothing durable leaves no trace, and is the only call that may be missing.
            raise self._other_call(branch, kind, name, _call(GATHER, GATHER), None)
        place = Place(branch, branch.ordinal, kind, name, record, give_up=lambda error: self._give_up(place, error))
        return place

    def _give_up(self, place: Place, error: str) -> Score[None]:
        yield Ask(lambda: self.record(place.failed(error)))

    def _other_call(self, branch: Branch, kind: str, name: str, recorded: str, record: Record | None) -> OtherCode:
        where = _where(branch.path, branch.ordinal)
        message = f"{where} is recorded as {recorded}, but this code makes {_call(kind, name)} there"
        return self._mismatch(branch, branch.ordinal, name, message, record, kind)

    def _mismatch(
        self, branch: Branch, ordinal: int, name: str, message: str, record: Record | None, kind: str | None = None
    ) -> OtherCode:
        detail = {
            "recorded": record and {"kind": record.kind, "name": record.name},
            "code": kind and {"kind": kind, "name": name},
        }
        branch.unwinding = OtherCode(branch.path, ordinal, name, message, detail)
        return branch.unwinding


def _check_name(name: str) -> None:
    """Before anything is done, since a name that is refused only with the record would refuse it every time."""
    if not isinstance(name, str):
        raise TypeError(f"a durable call needs a name that is text, not {type(name).__qualname__}")
    if not (1 <= len(name) <= LONGEST_NAME and name == name.strip() and name.isprintable()):
        raise Invalid("name must be 1 to 255 printable characters without surrounding space", field="name")


def _call(kind: str, name: str) -> str:
    return f"the {kind} {name!r}" if kind != GATHER else "a gather"


def _where(branch: str, ordinal: int) -> str:
    return f"call {ordinal}" + (f" of branch {branch}" if branch else "")
