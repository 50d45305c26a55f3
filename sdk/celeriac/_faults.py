"""Named places where a test can let the process die, a connection drop, or an error strike. Nothing unless armed.

    point("step.record.before", "charge")

A name says what is about to happen or has just happened; the subject is the user's name for it, or the task type.
"""

from __future__ import annotations

from collections.abc import Callable

Fault = Callable[[str, str], None]

_armed: Fault | None = None


def point(name: str, subject: str = "") -> None:
    """Hand name and subject to whoever has armed this process."""
    if _armed is not None:
        _armed(name, subject)


def arm(fault: Fault) -> None:
    """Call `fault` at every point from now on; what it raises is raised there."""
    global _armed
    _armed = fault


def disarm() -> None:
    """Do nothing at any point again."""
    global _armed
    _armed = None
