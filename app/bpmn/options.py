"""What a deployment may ask for beside the model itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """`delegates`: what becomes of Java classes, delegate expressions and decisions: an error, or a topic of that name.

    `unrunnable`: what becomes of listeners and scripts in languages that we do not run: an error, or ignored with a
    warning (a script task then passes its token on).

    `executable`: which processes of a file are meant: all that do not deny it, or those alone that say so (as in
    Camunda 7); then a file may have none. It changes no graph, so it is no part of what tells two deployments apart.
    """

    delegates: Literal["error", "topics"] = "error"
    unrunnable: Literal["error", "ignore"] = "error"
    executable: Literal["unless_denied", "stated"] = field(default="unless_denied", repr=False)
