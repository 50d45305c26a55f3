"""How much work a CEL script can be, reckoned before it runs: the library goes on to the end, however long that takes.

A script goes through its variables once for each time it names them, and once more for each `+`. A walk (`map`,
`filter` and their kind) whose body names something large beside its own element does that once for each element.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MOST_WORK: Final = 1_000_000
"""Values that one script may look at or make, texts counted by 16 characters: about a tenth of a second."""

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
    |(?P<raw>[bB]?[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"[^\"\n]*\"|'[^'\n]*'))
    |(?P<text>[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
_WORDS: Final = frozenset({"true", "false", "null", "in"})


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over a list or object: the name of its element, and what else its body names, with repetitions."""

    own: str
    parts: int
    """What is written out in its body, by its commas."""
    names: tuple[str, ...]
    around: frozenset[str]
    """The elements of the walks that it is inside of."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a script does, as far as it makes work."""

    tokens: int
    mentions: int
    pluses: int
    walks: tuple[Walk, ...]

    def work(self, sizes: Mapping[str, int]) -> int:
        """How many values it can come to, at most about, with variables of these sizes."""
        total = self.tokens + sum(sizes.values())
        work = (1 + self.mentions) * (1 + self.pluses) * total
        for walk in self.walks:
            work *= 1 + walk.parts + sum(sizes.get(name, total if name in walk.around else 0) for name in walk.names)
        return work


def outline(text: str) -> Outline:
    """Reads a script, which need not be a good one."""
    tokens = [(kind, found.group()) for found in _TOKEN.finditer(text) if (kind := str(found.lastgroup)) != "skip"]
    walks = [walk for place in range(len(tokens)) if (walk := _walk(tokens, place)) is not None]
    spans = [(own, begin, end) for own, begin, end in walks]
    return Outline(
        len(tokens),
        len(_names(tokens, 0, len(tokens))),
        sum(token == ("sign", "+") for token in tokens),
        tuple(
            Walk(
                own,
                sum(token == ("sign", ",") for token in tokens[begin:end]),
                tuple(name for name in _names(tokens, begin, end) if name != own),
                frozenset(other for other, first, last in spans if first < begin and end < last),
            )
            for own, begin, end in spans
        ),
    )


def _walk(tokens: list[tuple[str, str]], place: int) -> tuple[str, int, int] | None:
    """`.map(x, …)` with its name at this place: x, and where its body begins and ends."""
    if place == 0 or tokens[place][0] != "name" or tokens[place - 1][1] not in (".", "?"):
        return None
    head = tokens[place + 1 : place + 4]
    if len(head) < 3 or head[0][1] != "(" or head[1][0] != "name" or head[2][1] != ",":
        return None
    depth, end = 1, place + 4
    while end < len(tokens) and depth:
        kind, said = tokens[end]
        depth += (said in "([{") - (said in ")]}") if kind == "sign" else 0
        end += 1
    return head[1][1], place + 4, end


def _names(tokens: list[tuple[str, str]], begin: int, end: int) -> list[str]:
    """The variables that are named between two places: after a dot comes a field, before a bracket a function."""
    found = []
    for place in range(begin, end):
        kind, said = tokens[place]
        before = tokens[place - 1][1] if place else ""
        after = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if kind == "name" and said not in _WORDS and before != "." and after != "(":
            found.append(said)
    return found
