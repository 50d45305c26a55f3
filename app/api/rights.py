"""Who is asking, and what they may do: verbs, and patterns of the task types they may touch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

from app.api.problems import Problem

Verb = Literal["work", "enqueue", "read", "manage", "admin"]
VERBS: Final = frozenset(get_args(Verb))


@dataclass(frozen=True)
class Principal:
    """A caller that has proved who they are. `expires_at` is in seconds since the epoch; `key_id` is None for a JWT."""

    name: str
    verbs: frozenset[str]
    patterns: tuple[str, ...]
    key_id: str | None = None
    expires_at: float | None = None

    @cached_property
    def only_types(self) -> list[str] | None:
        """The patterns as SQL's LIKE wants them; None when every type is allowed."""
        return None if "*" in self.patterns else [like_pattern(pattern) for pattern in self.patterns]

    def may_touch(self, task_type: str) -> bool:
        return any(fits(pattern, task_type) for pattern in self.patterns)


def demand(principal: Principal, verb: Verb) -> None:
    """403 unless the principal has the verb."""
    if verb not in principal.verbs:
        raise Problem(403, f"this key does not have the verb {verb}")


def demand_types(principal: Principal, task_types: Iterable[str], field_of: str) -> None:
    """403 for the whole call when one of the named types is not the principal's: nothing is served in part."""
    if not all(principal.may_touch(task_type) for task_type in task_types):
        raise Problem(403, "names a task type that this key may not touch", field=field_of)


def like_pattern(pattern: str) -> str:
    """`media.*` as LIKE reads it: only `*` is a wildcard."""
    escaped = re.sub(r"([\\%_])", r"\\\1", pattern)
    return escaped.replace("*", "%")


def fits(pattern: str, task_type: str) -> bool:
    """Whether the pattern holds the task type. In one pass: a regular expression with many `.*` can take hours."""
    start, *rest = pattern.split("*")
    if not rest:
        return task_type == start
    *middle, end = rest
    if not task_type.startswith(start):
        return False
    position = len(start)
    for part in middle:
        found = task_type.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return task_type.endswith(end) and position + len(end) <= len(task_type)
