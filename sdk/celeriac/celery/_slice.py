"""One slice: what a slot of the pool does with the ring that it heard.

    ring ──► fetch ──► attempt ──► complete and fetch the next ──► attempt … until nothing is left or the slice is over

A failure is told by itself. Tasks of types with batch=True are taken many at once and completed together.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from celeriac import _clock
from celeriac._faults import point
from celeriac._lease import Lease
from celeriac._outcome import error_text
from celeriac.celery._board import Board
from celeriac.celery._events import Events
from celeriac.celery._limits import Limits, TimeLimits
from celeriac.celery._pace import Pace
from celeriac.durable import _attempt
from celeriac.durable._authority import Authority, Wanted
from celeriac.durable._failure import failure
from celeriac.durable._keeper import LeaseKeeper
from celeriac.durable._ledger import Ledger
from celeriac.durable._report import report, was_refused
from celeriac.durable._roster import Roster
from celeriac.durable._tally import SharedTally
from celeriac.durable._transactions import Transactions
from celeriac.errors import CeleriacError, Conflict, NotFound, SoftTimeLimitExceeded
from celeriac.values import Completion, Failure

log = logging.getLogger("celeriac.fleet")

PATIENCE_SECONDS = 1.0
"""What of a batch has not begun after this long is given back: somebody else may be free."""


@dataclass(frozen=True, slots=True)
class Slice:
    """How long one ring may occupy a slot of the pool before other messages have their turn.

    `tasks` counts round trips: with batch=True each brings many tasks.
    """

    tasks: int = 50
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Offer:
    """What the rings of one queue stand for: all its types, and those of them that are taken in batches."""

    all: Wanted
    batched: Wanted | None
    only_batched: bool
    batched_types: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tools:
    """What one process has for running tasks."""

    authority: Authority
    keeper: LeaseKeeper
    tally: SharedTally
    events: Events
    limits: TimeLimits
    transactions: Transactions
    roster: Roster
    board: Board


@dataclass(frozen=True, slots=True)
class Unreported:
    """A completion that the authority has not heard of yet."""

    lease: Lease
    completion: Completion
    began_at: float


class SliceOfWork:
    """One slice in one slot. Raises CeleriacError when it cannot look for work."""

    def __init__(self, tools: Tools, offer: Offer, pace: Pace, node: str, worker_id: str, default: Limits) -> None:
        self._tools = tools
        self._offer = offer
        self._pace = pace
        self._node = node
        self._worker_id = worker_id
        self._default = default
        self._batch_next = offer.only_batched
        self.found = False
        """Whether there has been anything to do."""

    def work(self, slice_: Slice) -> bool:
        """Run tasks until the slice is over; True when nothing was left."""
        ends_at = _clock.now() + slice_.seconds
        done: list[Unreported] = []
        for _ in range(slice_.tasks):
            if self._tools.board.stopping:
                break
            began_at = _clock.now()
            leases = self._turn_over(done, self._how_many())
            if not leases and self._batch_next and not self._offer.only_batched:
                self._batch_next, done = False, []  # only what is taken in batches was asked for
                continue
            if not leases:
                return True
            self.found = True
            done = self._attempt_all(leases)
            self._pace.took(len(leases), _clock.now() - began_at)
            self._batch_next = self._offer.only_batched or (
                not self._batch_next and leases[0].task.task_type in self._offer.batched_types
            )
            if _clock.now() >= ends_at:
                break
        if done:
            self._turn_over(done, 0)
        return False

    def _how_many(self) -> int:
        return self._pace.size if self._batch_next else 1

    def _turn_over(self, done: Sequence[Unreported], max_tasks: int) -> list[Lease]:
        """Tell what is done, and take what is next, under leases that are kept from now on."""
        wanted = self._offer.batched if self._batch_next and self._offer.batched else self._offer.all
        completions = [one.completion for one in done]
        if done:
            point("report.before", done[0].lease.task.task_type)
        try:
            answer = self._tools.authority.turn_over(self._worker_id, completions, wanted, max_tasks)
        except CeleriacError:
            if not done:
                raise
            # One of them spoils the call, or there was no answer: each by itself, for as long as its lease lives.
            for one in done:
                self._report(one.lease, one.completion, one.began_at)
            if not max_tasks:
                return []
            answer = self._tools.authority.turn_over(self._worker_id, [], wanted, max_tasks)
            self._tools.tally.count(fetched=len(answer.leases))
        else:
            if done:
                point("report.after", done[0].lease.task.task_type)
            for place, one in enumerate(done):
                self._told(one, answer.refused.get(place))
            self._tools.tally.count(completed=len(done) - len(answer.refused), fetched=len(answer.leases))
        if answer.leases:
            self._tools.keeper.hold(answer.leases, self._worker_id)
        return answer.leases

    def _told(self, done: Unreported, refused: CeleriacError | None) -> None:
        if refused is None:
            self._tools.events.ended(done.lease, self._node, done.began_at, done.completion, "COMPLETED")
        elif isinstance(refused, Conflict | NotFound):
            was_refused(self._tools.authority, self._tools.tally, self._worker_id, done.lease, refused)
        else:
            self._report(done.lease, done.completion, done.began_at)

    def _attempt_all(self, leases: Sequence[Lease]) -> list[Unreported]:
        """Run the handlers one after another. Failures are told at once, completions are the caller's to tell."""
        leases, done = self._without_suspects(leases), []
        patience_ends_at = _clock.now() + PATIENCE_SECONDS
        for place, lease in enumerate(leases):
            if place and (self._tools.board.stopping or _clock.now() > patience_ends_at):
                self._give_back(leases[place:])
                break
            if (one := self._attempt(lease)) is not None:
                done.append(one)
        self._tools.keeper.drop(one.lease for one in done)
        return done

    def _without_suspects(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """What has lost a lease may have killed its worker: it must not take the others of a batch with it."""
        suspects = [lease for lease in leases if lease.task.expirations]
        if not suspects:
            return leases
        self._pace.one_by_one()
        if len(leases) == 1:
            return leases
        self._give_back(suspects)
        return [lease for lease in leases if lease not in suspects]

    def _attempt(self, lease: Lease) -> Unreported | None:
        if lease.ended:
            log.warning("task %s came when its lease was over", lease.task.task_id)
            self._tools.keeper.drop([lease])
            self._tools.tally.count(leases_lost=1)
            return None
        began_at = self._tools.events.began(lease, self._node)
        ledger = Ledger(self._tools.authority.database, self._worker_id, lease)
        outcome = self._outcome(lease, ledger)
        if isinstance(outcome, Completion):
            return Unreported(lease, outcome, began_at)
        if outcome is not None and _is_told_to_end():
            # What failed the handler was the SystemExit of a cold shutdown, not the task.
            self._give_back([lease])
            raise SystemExit
        self._tools.keeper.drop([lease])
        if outcome is None:
            self._tools.events.ended(lease, self._node, began_at, None, ledger.undone_as)
            report(self._tools.authority, self._tools.tally, self._worker_id, lease, None)
        else:
            self._report(lease, outcome, began_at)
        return None

    def _outcome(self, lease: Lease, ledger: Ledger) -> Completion | Failure | None:
        task = self._tools.roster.task(lease.task.task_type, lease.task.version)
        watch = self._tools.limits.begin(lease, task, self._default)
        try:
            try:
                return _attempt.run(task, lease, ledger, self._tools.transactions)
            finally:
                self._tools.limits.end(watch)
        except SoftTimeLimitExceeded as error:  # the signal may strike a moment after the handler has returned
            self._tools.limits.end(watch)
            return failure(lease, error_text(error))

    def _report(self, lease: Lease, outcome: Completion | Failure, began_at: float) -> None:
        state = report(self._tools.authority, self._tools.tally, self._worker_id, lease, outcome)
        if state is not None:
            self._tools.events.ended(lease, self._node, began_at, outcome, state)

    def _give_back(self, leases: Sequence[Lease]) -> None:
        self._tools.keeper.drop(leases)
        for lease in leases:
            try:
                point("release.before", lease.task.task_type)
                self._tools.authority.release(self._worker_id, lease.task)
                point("release.after", lease.task.task_type)
                self._tools.tally.count(released=1)
            except CeleriacError as error:
                log.warning("task %s cannot be given back: %s", lease.task.task_id, error)


def _is_told_to_end() -> bool:
    """Whether the parent has asked this child of the prefork pool to end: that raises SystemExit in its main thread."""
    common = sys.modules.get("billiard.common")
    return bool(getattr(common, "_should_have_exited", [False])[0])
