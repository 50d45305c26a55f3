"""Runs CEL, for scripts and for conditions that say so. The library evaluates; here its numbers are looked after.

CEL has whole numbers of 64 bits and floats: larger ones are refused rather than rounded, decimals become floats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import cel

from app.expressions.meaning import Misfit
from app.expressions.syntax import LONGEST, SyntaxFault

LARGEST: Final = 2**63 - 1
MOST_VALUES: Final = 100_000
"""Values in the variables that one script may look at: it could walk over them, once for each of them."""

_WALKS: Final = (".map(", ".filter(", ".all(", ".exists(", ".exists_one(")


def run(text: str, variables: Mapping[str, Any]) -> Any:
    """The value of a CEL expression. Raises SyntaxFault and Misfit."""
    program = compiled(text)
    wanted = {name: _plain(variables[name]) for name in program.variables() if name in variables}
    try:
        return program.execute(wanted)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if unknown := re.match(r"Undefined variable or function: '(\w+)'", str(error)):
            raise Misfit(f"there is no variable or function {unknown[1]}") from None
        raise Misfit(f"the script fails: {type(error).__name__}") from None


@lru_cache(maxsize=1024)
def compiled(text: str) -> cel.Program:
    """The program, read once. Raises SyntaxFault."""
    if len(text) > LONGEST:
        raise SyntaxFault(f"a script must not have over {LONGEST} characters")
    if sum(text.count(walk) for walk in _WALKS) > 2:
        raise SyntaxFault("a script must not walk over lists more than twice")
    try:
        return cel.compile(text)
    except ValueError:
        raise SyntaxFault("this is no CEL expression") from None


def _plain(value: Any, seen: list[int] | None = None) -> Any:
    seen = [0] if seen is None else seen
    seen[0] += 1
    if seen[0] > MOST_VALUES:
        raise Misfit("a variable is too large for a script")
    if isinstance(value, Mapping):
        return {name: _plain(inner, seen) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner, seen) for inner in value]
    if isinstance(value, int) and abs(value) > LARGEST:
        raise Misfit("a number is too large for CEL, which has 64 bits")
    return float(value) if isinstance(value, Decimal) else value
