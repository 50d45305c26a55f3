"""What has happened to an instance. One about something that is gone changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Started:
    """The instance begins: at its none start event, or at the start event that something happened to."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    start: str | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """What a token stands on was done. Only the named variables change; local ones are seen by the activity alone."""

    token: int
    variables: Mapping[str, Any] = field(default_factory=dict)
    local_variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The work of a token failed for good: undo what can be undone, else, or without `undo`, it is an incident."""

    token: int
    message: str
    undo: bool = True


@dataclass(frozen=True, slots=True)
class Thrown:
    """The work of a token reported a business error, which the model may catch."""

    token: int
    code: str
    message: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changed:
    """Variables were set from where a token stands, and nothing moves: local ones are seen by its activity alone."""

    token: int
    variables: Mapping[str, Any] = field(default_factory=dict)
    local_variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Happened:
    """A timer fired, or a message or signal came, for an open wait. Local variables are for what waited alone."""

    wait: int
    variables: Mapping[str, Any] = field(default_factory=dict)
    local_variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Continued:
    """A token goes on from a commit point, or is tried again after an incident.

    `open`: its failed work is open again already, so nothing is asked for.
    """

    token: int
    open: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """Somebody canceled the instance, asking for what was done to be undone, or not."""

    compensate: bool = False


Fact = Started | Completed | Failed | Thrown | Changed | Happened | Continued | Stopped
