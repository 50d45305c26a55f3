"""Runs CEL, for scripts and for conditions that say so. The library evaluates; here its numbers are looked after.

CEL has whole numbers of 64 bits and floats: larger ones are refused rather than rounded, decimals become floats. What
would take too long, or too much memory, is refused before it begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import cel

from app.expressions.cel_work import MOST_WORK, Outline, outline
from app.expressions.meaning import Misfit
from app.expressions.syntax import LONGEST, SyntaxFault

LARGEST: Final = 2**63 - 1
MOST_VALUES: Final = 100_000
"""Values in the variables of one script, texts counted by 16 characters."""

MOST_WALKS: Final = 2


def run(text: str, variables: Mapping[str, Any], left: int = MOST_WORK) -> tuple[Any, int]:
    """The value of a CEL expression, and how much work it was, at most `left`. Raises SyntaxFault and Misfit."""
    program, drawn = compiled(text)
    wanted: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name in program.variables():
        if name in variables:
            seen = [0]
            wanted[name] = _plain(variables[name], seen)
            sizes[name] = seen[0]
    work = drawn.work(sizes)
    if work > min(left, MOST_WORK):
        raise Misfit("a script must not do so much with variables of this size")
    try:
        return program.execute(wanted), work
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if unknown := re.match(r"Undefined variable or function: '(\w+)'", str(error)):
            raise Misfit(f"there is no variable or function {unknown[1]}") from None
        raise Misfit(f"the script fails: {type(error).__name__}") from None


@lru_cache(maxsize=1024)
def compiled(text: str) -> tuple[cel.Program, Outline]:
    """The program and what it does, read once. Raises SyntaxFault."""
    if len(text) > LONGEST:
        raise SyntaxFault(f"a script must not have over {LONGEST} characters")
    drawn = outline(text)
    if len(drawn.walks) > MOST_WALKS:
        raise SyntaxFault("a script must not walk over lists more than twice")
    try:
        return cel.compile(text), drawn
    except ValueError:
        raise SyntaxFault("this is no CEL expression") from None


def _plain(value: Any, seen: list[int]) -> Any:
    seen[0] += 1 + (len(value) // 16 if isinstance(value, str) else 0)
    if seen[0] > MOST_VALUES:
        raise Misfit("a variable is too large for a script")
    if isinstance(value, Mapping):
        return {name: _plain(inner, seen) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner, seen) for inner in value]
    if isinstance(value, int) and abs(value) > LARGEST:
        raise Misfit("a number is too large for CEL, which has 64 bits")
    return float(value) if isinstance(value, Decimal) else value
