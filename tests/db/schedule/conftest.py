"""Schedules as a test puts them: minutes that are due, seen and fired by hand."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Row

from tests.clock import Clock
from tests.db.clerk import Clerk

Put = Callable[..., Row[Any]]


@pytest.fixture
def put(clerk: Clerk, clock: Clock) -> Put:
    """`put("nightly", in_seconds=60, cron=…)`: a schedule whose next slot comes then; the clock stands still."""
    clock.freeze()

    def put_one(name: str = "nightly", in_seconds: float = 60, **changed: Any) -> Row[Any]:
        arguments = {"task": {"task_type": "mail"}, "cron": None if "every" in changed else "* * * * *"} | changed
        return clerk.one("put_schedule", name=name, next_at=moment_after(clock, in_seconds), **arguments)

    return put_one


def moment_after(clock: Clock, seconds: float) -> datetime:
    from datetime import timedelta

    return clock.now() + timedelta(seconds=seconds)
