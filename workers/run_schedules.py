"""run_schedules: enqueues a task for each slot of a schedule that has come.

    ask what is due ──► read the timing, say which slots to fire ──► fire each, if the schedule still is as it was seen

Rows decide: a slot and the move to the next one are one transaction that compares what it finds with what was seen, so
any number of these may run, be killed and run again, and each slot fires once. In each second as many schedules start
as the settings say, whoever starts them; the others wait for the next second, the oldest slot first.

A schedule that cannot be read or fired says why in its own row, and stops no other.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row

from app.cron import InvalidTiming, Turn, timing, turn
from db.errors import Refused, Unavailable
from workers.chore import Counts, Tools

BATCH: Final = 200
ROUNDS: Final = 50

log = logging.getLogger(__name__)


@dataclass
class Due:
    """A schedule whose slot has come: what is known of its row, and what is left to do with it."""

    name: str
    seen_at: datetime
    next_at: datetime | None
    slots: deque[datetime]
    after: datetime | None
    missed: int
    error: str | None = None

    def move(self) -> dict[str, Any]:
        """The arguments of fire_schedule for the next slot, or for passing on when no slot is left."""
        slot = self.slots[0] if self.slots else None
        following = self.slots[1] if len(self.slots) > 1 else self.after
        return {
            "name": self.name,
            "due_at": self.next_at,
            "seen_at": self.seen_at,
            "slot_at": slot,
            "next_at": following,
            "missed": self.missed,
            "error": self.error,
        }

    def moved(self) -> None:
        """What was asked for has happened."""
        self.next_at = self.slots[1] if len(self.slots) > 1 else self.after
        if self.slots:
            self.slots.popleft()
        self.missed, self.error = 0, None


@dataclass
class Round:
    """One pass over what is due."""

    tools: Tools
    counts: Counter[str] = field(default_factory=Counter)
    ready: set[str] = field(default_factory=set)
    is_full: bool = False
    """As many have started in this second as may."""

    def run(self, due: Iterable[Due]) -> None:
        """Fire what is due in turns, a slot each, so that one with many slots does not keep the others waiting."""
        waiting = deque(due)
        while waiting and not self.is_full and not self.tools.stopping.is_set():
            schedule = waiting.popleft()
            if self._fire(schedule) and schedule.slots:
                waiting.append(schedule)

    def _fire(self, schedule: Due) -> bool:
        """Fire one slot; False when there is nothing more to do with this schedule now."""
        move = schedule.move()
        try:
            done = self._call(move)
        except Unavailable:
            raise
        except Refused as refused:
            # It would be refused the next time as well: this slot is missed, and the row says why.
            move |= {"slot_at": None, "missed": schedule.missed + 1, "error": f"{refused.code}: {refused.message}"}
            done = self._note(move)
        except Exception as fault:  # a fault of ours; it must not come first, and end the round, each second
            log.exception("schedule %s cannot fire", schedule.name)
            schedule.slots.clear()
            move |= {"slot_at": None, "next_at": None, "missed": schedule.missed + 1, "error": describe(fault)}
            done = self._note(move)
        if done.outcome in ("GONE", "LATER"):
            self.is_full = done.outcome == "LATER"
            return False
        self.counts["missed"] += move["missed"]
        if done.outcome == "FIRED":
            self.counts["fired"] += 1
            if done.state == "READY":
                self.ready.add(done.task_type)
        schedule.moved()
        return True

    def _note(self, move: dict[str, Any]) -> Row[Any]:
        """Go on without a task, and leave the reason in the row."""
        log.warning("schedule %s did not fire: %s", move["name"], move["error"])
        self.counts["failed"] += 1
        return self._call(move)

    def _call(self, move: dict[str, Any]) -> Row[Any]:
        per_second = self.tools.settings.schedule_starts_per_second
        return self.tools.one("fire_schedule", **move, starts_per_second=per_second)


def run_schedules(tools: Tools) -> Counts:
    """Fire what is due until nothing is, or as many have started as may."""
    totals: Counter[str] = Counter()
    for _ in tools.rounds(ROUNDS):
        rows = tools.rows("due_schedules", max_schedules=BATCH)
        one_round = Round(tools)
        try:
            one_round.run([read(row) for row in rows])
        finally:
            tools.bell.ring(sorted(one_round.ready))
            totals.update(one_round.counts)
        if one_round.is_full or len(rows) < BATCH:
            break
    return {"fired": totals["fired"], "missed": totals["missed"], "failed": totals["failed"]}


def read(row: Row[Any]) -> Due:
    """What is to be done with a schedule that is due; one that cannot be read stands still and says why."""
    try:
        when = timing(cron=row.cron, every=row.every, time_zone=row.time_zone, anchor_at=row.anchor_at)
        todo = turn(when, row.next_at, row.now_at, row.catch_up)
        error = None
    except InvalidTiming as wrong:
        todo, error = Turn((), None, 1), str(wrong)
    except Exception as fault:  # a fault of ours, and of this one schedule
        log.exception("schedule %s cannot be read", row.name)
        todo, error = Turn((), None, 1), describe(fault)
    return Due(row.name, row.seen_at, row.next_at, deque(todo.slots), todo.next_at, todo.missed, error)


def describe(fault: Exception) -> str:
    """The kind of fault only: its text may quote a payload."""
    return f"a fault of the server: {type(fault).__name__}; its log has more"
