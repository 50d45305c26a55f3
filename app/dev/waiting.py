"""Wait for a condition instead of for a time."""

import time
from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.1


class ConditionNotMet(TimeoutError):
    """The condition was still false when the time was over."""


def wait_until(condition: Callable[[], object], seconds: float = 30, *, what: str = "the condition") -> None:
    """Return as soon as ``condition()`` is true; raise ConditionNotMet after ``seconds``.

    The condition is asked at least once, and once more when the time is over: a machine that stood still
    for the whole wait must not turn a true condition into a failure.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS
    while not condition():
        if time.monotonic() >= deadline:
            raise ConditionNotMet(f"waited {seconds:g} s for {what}")
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
