"""Where an instance stands: tokens, scopes, waits, and what could be undone. Values; `advance` makes new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from app.process.graph import EventKind

INSTANCE: Final = 0
"""The run of a whole instance that is undone, where a run is otherwise named by the token that threw it."""


class Status(StrEnum):
    """How an instance is. Those after COMPENSATING are final."""

    ACTIVE = "ACTIVE"
    COMPENSATING = "COMPENSATING"
    COMPLETED = "COMPLETED"
    FAILED_COMPENSATED = "FAILED_COMPENSATED"
    CANCELED = "CANCELED"


class Phase(StrEnum):
    """What a token does at its node."""

    STANDING = "STANDING"
    """It waits for a fact, or for what is inside its subprocess."""
    JOINING = "JOINING"
    """It waits at a gateway for others."""
    ENTERING = "ENTERING"
    """It goes on when told: at a commit point, or after an incident on the way in."""
    LEAVING = "LEAVING"
    """The same on the way out."""


@dataclass(frozen=True, slots=True)
class Token:
    """One place where the instance stands, with a number of its own for each visit. `via` is the flow it came by."""

    id: int
    node: str
    scope: int
    phase: Phase = Phase.ENTERING
    via: str | None = None
    stuck: bool = False
    """There is an incident: nothing moves it but a retry."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Local to the activity it stands on: its input parameters, and what is completed locally."""
    undoes: int | None = None
    """The subscription that it is undoing, if it stands on a handler."""
    run: int | None = None
    """The run of compensation that it belongs to then."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One run of the process itself (`parent` is None) or of a subprocess, with variables of its own.

    `alive` counts its tokens. An ended scope is kept while something in it may be undone, its variables as they were.
    """

    id: int
    node: str
    parent: int | None = None
    host: int | None = None
    """The token that stands on the subprocess."""
    alive: int = 0
    ended: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """An event that a token waits for: at the node itself, or at a boundary event of it, or behind a gateway."""

    id: int
    token: int
    node: str
    kind: EventKind
    name: str | None = None
    when: str | None = None
    fired: int = 0
    """How often it has happened: timers with a cycle happen again."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """An activity that was completed and can be undone. Newer ones have higher ids. Used once.

    `inner` is the ended scope of a subprocess that has no handler of its own: undoing it undoes what is inside.
    """

    id: int
    activity: str
    scope: int
    handler: str | None = None
    inner: int | None = None
    used: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A compensation that is under way: what is still to be undone, the next one first, and how many handlers run."""

    id: int
    pending: tuple[int, ...]
    running: int = 0


@dataclass(frozen=True)
class State:
    """All of an instance, or a part of it (`whole` is False): then NeedsMore asks for what is missing."""

    status: Status = Status.ACTIVE
    number: int = 0
    """The last number that was given to anything of this instance."""
    tokens: Mapping[int, Token] = field(default_factory=dict)
    scopes: Mapping[int, Scope] = field(default_factory=dict)
    waits: Mapping[int, Wait] = field(default_factory=dict)
    subscriptions: Mapping[int, Subscription] = field(default_factory=dict)
    runs: Mapping[int, Run] = field(default_factory=dict)
    outcome: Status | None = None
    """How an instance that is being undone will have ended."""
    whole: bool = True

    @property
    def ended(self) -> bool:
        return self.status in (Status.COMPLETED, Status.FAILED_COMPENSATED, Status.CANCELED)


class NeedsMore(Exception):
    """The loaded part of a state is not enough to decide: load all of it and decide again."""
