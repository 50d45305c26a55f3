"""How a handler is left before its end: by exceptions that are not for it to catch.

They are no `Exception`, so `except Exception` lets them pass and `finally` runs. What they ask for is done only after
they have come all the way up, under the lease that still holds: so one that was swallowed can be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class Unwinding(BaseException):
    """Leave the handler. Which one goes first when the branches of a gather leave it differently: `rank`, lowest."""

    rank: int


@dataclass(eq=False)
class OtherCode(Unwinding):
    """What was recorded is not what this code does: a person must look at it."""

    rank = 0

    branch: str
    ordinal: int
    name: str
    message: str
    detail: Mapping[str, Any]


@dataclass(eq=False)
class Undecided(Unwinding):
    """Nobody knows whether an operation took effect: a person must find out."""

    rank = 1

    operation_id: str
    name: str
    why: str


@dataclass(eq=False)
class RecordEnds(Unwinding):
    """The task is being undone, and this is where it had come to."""

    rank = 3


@dataclass(eq=False)
class Suspended(Unwinding):
    """Nothing can be done before one of these waits is over."""

    rank = 4

    waits: Sequence[Mapping[str, Any]]


def leading(raised: Sequence[BaseException]) -> BaseException | None:
    """Of what the branches of a gather raised, in their order: what the gather raises. None when they all returned.

    An error goes before a wait: what the handler does about it cannot depend on who is still waited for.
    """
    if not raised:
        return None
    first = min(raised, key=lambda error: error.rank if isinstance(error, Unwinding) else 2)
    if isinstance(first, Suspended):
        return Suspended([wait for error in raised if isinstance(error, Suspended) for wait in error.waits])
    return first
