"""advance: works in what has happened to instances and nobody has advanced yet; fires the timers of processes.

Each instance is a transaction of its own. One that fails is logged, and left alone by this run.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime
from typing import Final

from app.engine import Advanced, next_start
from app.engine import advance as advance_instance
from db import call
from db.errors import Refused, Unavailable
from workers.chore import Counts, Tools
from workers.deadline import deadline

BATCH: Final = 100
ROUNDS: Final = 100
MOST_ASKED: Final = 10_000
COMMIT_POINTS: Final = 20
"""So many transactions an instance may go on for at once: others wait, too."""
OLDER_THAN_MS: Final = 300
"""Whoever wrote a fact advances at once; it is ours when that has not happened by then."""

log = logging.getLogger(__name__)


def advance(tools: Tools) -> Counts:
    """Fire what is due, then advance every instance that has facts, the oldest first."""
    counts: Counter[str] = Counter()
    counts["timers"] = len(tools.rows("fire_event_timers"))
    counts["started"] = fire_starts(tools)
    failed: set[str] = set()
    for _ in tools.rounds(ROUNDS):
        # Those that fail are the oldest before long: they must not fill the batch.
        most = min(BATCH + len(failed), MOST_ASKED)
        due = [
            str(row.instance_id) for row in tools.rows("due_instances", older_than_ms=OLDER_THAN_MS, max_instances=most)
        ]
        fresh = [instance for instance in due if instance not in failed]
        if not fresh:
            break
        for instance in fresh:
            if not advance_one(tools, instance):
                failed.add(instance)
        counts["advanced"] += len(fresh)
    counts["failed"] = len(failed)
    return counts


def advance_one(tools: Tools, instance: str) -> bool:
    """One instance, over its commit points; False when it did not move (somebody is at it, or it fails)."""
    moved = False
    for _ in range(COMMIT_POINTS):
        done = _advance_once(tools, instance)
        if done is None:
            break
        moved = True
        tools.bell.ring(done.task_types)
        if not done.more:
            break
    return moved


def _advance_once(tools: Tools, instance: str) -> Advanced | None:
    try:
        with call.refusals(), tools.engine.connect() as connection, deadline(connection):
            transaction = connection.execution_options(isolation_level="READ COMMITTED").begin()
            with transaction:
                return advance_instance(connection, instance, skip=True)
    except Unavailable:
        raise
    except Refused as refused:
        log.warning("instance %s: %s", instance, refused)
    except Exception:  # logged; one instance that cannot be advanced must not keep the others from it
        log.exception("instance %s cannot be advanced", instance)
    return None


def fire_starts(tools: Tools) -> int:
    """Begin an instance for each timer start event that is due."""
    fired = 0
    for due in tools.rows("due_starts"):
        now: datetime = tools.one("now")[0]
        following = next_start(due.timing, due.opened_at, due.fired, now)
        fired += len(
            tools.rows(
                "fire_start", definition_id=due.definition_id, node=due.node, due_at=due.due_at, next_at=following
            )
        )
    return fired
