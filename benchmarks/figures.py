"""What a benchmark answers with: figures, some of them with a goal."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["met", "missed", "no goal"]


@dataclass(frozen=True)
class Goal:
    """The limit that a figure must keep, in the figure's own unit."""

    sign: Literal["≤", "≥", "="]
    limit: float
    source: str = "issue 2"

    def is_met_by(self, value: float) -> bool:
        return bool(_COMPARE[self.sign](value, self.limit))


_COMPARE = {"≤": operator.le, "≥": operator.ge, "=": operator.eq}


@dataclass(frozen=True)
class Figure:
    """One measured value. `details` holds what it was computed from (rounds, percentiles, CPU)."""

    name: str
    value: float
    unit: str
    goal: Goal | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        if self.goal is None:
            return "no goal"
        return "met" if self.goal.is_met_by(self.value) else "missed"


@dataclass(frozen=True)
class Measured:
    """All of one run: the numbers it was run with, the server's settings, and its figures in the order of reading."""

    settings: Mapping[str, Any]
    figures: tuple[Figure, ...]
    postgres: str
    """The server's version."""
