"""What follows from facts: the state afterwards, and what the world must do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.process.state import State


@dataclass(frozen=True, slots=True)
class MakeTask:
    """Enqueue work for a token. `variables` are those that it sees. `again`: what it had before failed for good."""

    token: int
    node: str
    topic: str
    variables: Mapping[str, Any]
    priority: int | None = None
    retry: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    again: bool = False


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Work for a person: a token stands on a user task. Times are texts still; who knows the clock reads them."""

    token: int
    node: str
    assignee: str | None = None
    candidate_users: tuple[str, ...] = ()
    candidate_groups: tuple[str, ...] = ()
    due: str | None = None
    follow_up: str | None = None
    priority: int | None = None
    name: str | None = None
    description: str | None = None
    form_key: str | None = None


@dataclass(frozen=True, slots=True)
class DropTask:
    """The work of a token is no longer wanted."""

    token: int


@dataclass(frozen=True, slots=True)
class ThrowSignal:
    """Everything that waits for this signal, in any instance, is to hear of it."""

    name: str
    variables: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RaiseIncident:
    """A token cannot go on by itself: why (expression, failed, loop, model), and what a person needs to know."""

    token: int
    node: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the instance's history: `what` is entered, left, canceled, happened, undone."""

    what: str
    node: str
    token: int
    host: int | None = None
    """The token on the subprocess that it happened in."""


Action = MakeTask | AskPerson | DropTask | ThrowSignal | RaiseIncident | Note


@dataclass(frozen=True, slots=True)
class Decision:
    """The state afterwards and the actions, in order. `again`: some token stands at a commit point and is to go on."""

    state: State
    actions: tuple[Action, ...] = ()
    again: tuple[int, ...] = ()
