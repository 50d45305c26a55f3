"""Runs JUEL trees: variables in, a value out. Bounded by the size of the expression."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from app.expressions import meaning
from app.expressions.meaning import Misfit, truth
from app.expressions.syntax import OPERATORS, Call, Literal, Path, Tree, pieces
from app.kinds import reckoned

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "equal": meaning.equal,
    "unequal": lambda left, right: not meaning.equal(left, right),
    "less": meaning.compared(operator.lt),
    "greater": meaning.compared(operator.gt),
    "at_most": meaning.compared(operator.le),
    "at_least": meaning.compared(operator.ge),
    "add": meaning.calculated(operator.add),
    "subtract": meaning.calculated(operator.sub),
    "multiply": meaning.calculated(operator.mul),
    "divide": meaning.divide,
    "modulo": meaning.modulo,
    "negate": meaning.negate,
    "not": lambda value: not truth(value),
    "empty": meaning.is_empty,
}
BINARY: Final = frozenset(OPERATORS.values())


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an expression may know beside variables: the instance's keys, and the time as RFC 3339 text."""

    business_key: str | None = None
    instance_id: str | None = None
    now: str | None = None


class Unknown(Misfit):
    """A variable that is not there: in JUEL that is an error, not null."""


def run(text: str, variables: Mapping[str, Any], surroundings: Surroundings) -> Any:
    """The value of `${…}`; of text with expressions in it, text. Raises SyntaxFault and Misfit."""
    found = compiled(text)
    if len(found) == 1 and not isinstance(found[0], str):
        return _value(found[0], variables, surroundings)
    parts: list[str] = []
    left = meaning.LONGEST_TEXT
    for one in found:
        part = one if isinstance(one, str) else meaning.text(_value(one, variables, surroundings))
        left -= len(part)
        if left < 0:
            raise Misfit("the text becomes too long")
        parts.append(part)
    return "".join(parts)


@lru_cache(maxsize=4096)
def compiled(text: str) -> tuple[str | Tree, ...]:
    """The pieces of a template, read once. Raises SyntaxFault."""
    return tuple(pieces(text))


def _value(tree: Tree, variables: Mapping[str, Any], surroundings: Surroundings) -> Any:
    """The value of a tree. Chains such as `a + b + c …` lean to the left: they are worked off without recursion."""
    chain: list[Call] = []
    while isinstance(tree, Call) and tree.function in BINARY:
        chain.append(tree)
        tree = tree.arguments[0]
    value = _first(tree, variables, surroundings)
    for call in reversed(chain):
        if call.function in ("and", "or"):
            value = truth(value)
            if value is (call.function == "or"):
                continue  # it is decided, and the other side is not looked at
            value = truth(_value(call.arguments[1], variables, surroundings))
        else:
            value = reckoned(FUNCTIONS[call.function](value, _value(call.arguments[1], variables, surroundings)))
    return value


def _first(tree: Tree, variables: Mapping[str, Any], surroundings: Surroundings) -> Any:
    if isinstance(tree, Literal):
        return reckoned(tree.value)
    if isinstance(tree, Path):
        value = _variable(tree.variable, variables)
        for step in tree.inside:
            value = meaning.step_into(value, _value(step, variables, surroundings))
        return value
    return _called(tree, variables, surroundings)


def _called(call: Call, variables: Mapping[str, Any], surroundings: Surroundings) -> Any:
    def argument(place: int) -> Any:
        return _value(call.arguments[place], variables, surroundings)

    match call.function:
        case "choose":
            return argument(1) if truth(argument(0)) else argument(2)
        case "variable":
            # Asked for by its name, a missing variable is null.
            return variables.get(_name(argument(0)))
        case "has_variable":
            return _name(argument(0)) in variables
        case "now" | "business_key" | "instance_id":
            return getattr(surroundings, call.function)
    return reckoned(FUNCTIONS[call.function](argument(0)))


def _variable(name: str, variables: Mapping[str, Any]) -> Any:
    if name not in variables:
        raise Unknown(f"there is no variable {name}")
    return variables[name]


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("a variable is named by text")
    return value
