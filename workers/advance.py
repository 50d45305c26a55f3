"""advance: works in what has happened to instances and nobody has advanced yet; fires the timers of processes.

Each instance is a transaction of its own. One that fails is logged, and left alone by this run.
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime
from typing import Final

from app.engine import advance as advance_instance
from app.engine import next_start
from db import call
from db.errors import Refused
from workers.chore import Counts, Tools
from workers.deadline import deadline

BATCH: Final = 100
ROUNDS: Final = 100
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
        due = [
            str(row.instance_id)
            for row in tools.rows("due_instances", older_than_ms=OLDER_THAN_MS, max_instances=BATCH)
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
    """One instance; False when it could not be advanced now (somebody is at it, or it fails)."""
    try:
        with call.refusals(), tools.engine.connect() as connection, deadline(connection):
            transaction = connection.execution_options(isolation_level="READ COMMITTED").begin()
            with transaction:
                done = advance_instance(connection, instance, skip=True)
    except Refused as refused:
        log.warning("instance %s: %s", instance, refused)
        return False
    if done is None:
        return False
    tools.bell.ring(done.task_types)
    return True


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
