"""What a deployment may ask for beside the model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """`delegates`: what becomes of Java classes, delegate expressions and decisions: an error, or a topic of that name.

    `unrunnable`: what becomes of listeners and scripts in languages that we do not run: an error, or ignored with a
    warning (a script task then passes its token on).
    """

    delegates: Literal["error", "topics"] = "error"
    unrunnable: Literal["error", "ignore"] = "error"
