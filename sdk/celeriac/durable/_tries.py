"""Trying again inside of an attempt, while the lease is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from celeriac._backoff import Backoff
from celeriac._lease import Lease
from celeriac.durable._declaration import RetryPolicy
from celeriac.durable._failure import reason_of
from celeriac.durable._score import Pause, Score
from celeriac.errors import HandlerVerdict, OutOfPlace, SoftTimeLimitExceeded, StepFailed

T = TypeVar("T")

ONCE = RetryPolicy(attempts=1)
PASSED_ON = (HandlerVerdict, SoftTimeLimitExceeded, OutOfPlace)
"""What says that the whole attempt should end: trying again would be against it."""


def tries(lease: Lease, policy: RetryPolicy, name: str, attempt: Callable[[], Score[T]]) -> Score[T]:
    """What the attempt returns in one of its tries. Raises StepFailed from the error of the last one."""
    backoff = Backoff(
        first_seconds=1.0 if policy.first is None else policy.first,
        factor=2.0 if policy.factor is None else policy.factor,
        cap_seconds=60.0 if policy.cap is None else policy.cap,
    )
    failures = 0
    while True:
        try:
            return (yield from attempt())
        except PASSED_ON:
            raise
        except Exception as error:
            failures += 1
            if lease.stopped:
                raise
            if failures >= (policy.attempts or 1) or isinstance(error, policy.never):
                raise StepFailed(name, reason_of(error)) from error
        yield Pause(lease, backoff.longest(failures))
