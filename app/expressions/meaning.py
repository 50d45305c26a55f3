"""What JUEL's operators mean: its coercions, on exact numbers.

Whole numbers are exact whatever their size. Fractions are decimals and stay exact in `+ - *` and in comparisons; `/`
gives a decimal of 28 digits. Only where a variable is a float (a program gave it) is the arithmetic that of floats.
`null` is 0 in arithmetic, nothing as text, false as a condition; an order with it is false.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, DivisionByZero, InvalidOperation, localcontext
from typing import Any, Final

LONGEST_TEXT: Final = 1_048_576
MOST_DIGITS: Final = 1000

Number = int | float | Decimal


class Misfit(ValueError):
    """An operator was given what it has no meaning for; the text names types, never values."""


def truth(value: Any) -> bool:
    """A condition: booleans, the texts true and false, and null (false)."""
    if value is None or value == "":
        return False
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise Misfit(f"{kind(value)} is no condition")


def number(value: Any) -> Number:
    """Numbers as they are, null and empty text as 0, text that is a number."""
    if value is None or value == "":
        return 0
    if isinstance(value, bool):
        raise Misfit("a boolean is no number")
    if isinstance(value, int | float | Decimal):
        return value
    if isinstance(value, str) and len(value) <= MOST_DIGITS and re.fullmatch(r"\s*-?\d+\s*", value):
        return int(value)
    if isinstance(value, str) and re.fullmatch(
        r"\s*-?(\d{1,400}\.?\d{0,400}|\.\d{1,400})([eE][+-]?\d{1,3})?\s*", value
    ):
        return Decimal(value.strip())
    raise Misfit(f"{kind(value)} is no number")


def text(value: Any) -> str:
    """How a value stands in a template: null is nothing, numbers keep every digit."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float | Decimal):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    raise Misfit(f"{kind(value)} cannot stand within text")


def kind(value: Any) -> str:
    """What a value is, in words of JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float | Decimal):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, Mapping) else "a list"


def equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return truth(left) == truth(right)
    if _is_number(left) or _is_number(right):
        try:
            return _compare(operator.eq, number(left), number(right))
        except Misfit:
            return False
    return bool(left == right)


def compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """An order operator: numbers if one side is a number, else text; false with null."""

    def operate(left: Any, right: Any) -> bool:
        if left is None or right is None:
            return False
        if _is_number(left) or _is_number(right):
            return _compare(compare, number(left), number(right))
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        raise Misfit(f"{kind(left)} and {kind(right)} have no order")

    return operate


def calculated(calculate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Number]:
    """An arithmetic operator on numbers: floats make floats, else the result is exact."""

    def operate(left: Any, right: Any) -> Number:
        first, second = number(left), number(right)
        if isinstance(first, float) or isinstance(second, float):
            first, second = float(first), float(second)
        return _bounded(calculate, first, second)

    return operate


def divide(left: Any, right: Any) -> Number:
    first, second = number(left), number(right)
    if isinstance(first, float) or isinstance(second, float):
        return _bounded(operator.truediv, float(first), float(second))
    return _bounded(operator.truediv, Decimal(first), Decimal(second))


def modulo(left: Any, right: Any) -> Number:
    """The rest has the sign of the first, as in Java."""
    first, second = number(left), number(right)
    if isinstance(first, int) and isinstance(second, int):
        rest = _bounded(operator.mod, abs(first), abs(second))
        return -rest if first < 0 else rest
    if isinstance(first, float) or isinstance(second, float):
        first, second = float(first), float(second)
        if second == 0:
            raise Misfit("nothing can be divided by 0")
        return math.fmod(first, second)
    return _bounded(operator.mod, Decimal(first), Decimal(second))


def negate(value: Any) -> Number:
    return -number(value)


def is_empty(value: Any) -> bool:
    """null, empty text, an empty list or object."""
    return value is None or (isinstance(value, str | Mapping | Sequence) and len(value) == 0)


def step_into(value: Any, name: Any) -> Any:
    """One step of a path: a name of an object, or a position in a list, from 0. A missing one is a Misfit."""
    if isinstance(value, Mapping):
        if isinstance(name, str) and name in value:
            return value[name]
        raise Misfit("an object on the path does not have that name")
    if isinstance(value, Sequence) and not isinstance(value, str):
        position = number(name)
        if isinstance(position, int) and 0 <= position < len(value):
            return value[position]
        raise Misfit("a list on the path does not have that position")
    raise Misfit(f"there is nothing inside {kind(value)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _compare(compare: Callable[[Any, Any], bool], left: Number, right: Number) -> bool:
    return compare(_exact(left), _exact(right))


def _exact(value: Number) -> Number:
    # As its JSON text says: 0.1 equals the 0.1 of an expression.
    return Decimal(repr(value)) if isinstance(value, float) else value


def _bounded(calculate: Callable[[Any, Any], Any], left: Number, right: Number) -> Number:
    try:
        with localcontext() as context:
            context.prec = 28 if calculate is operator.truediv else MOST_DIGITS
            result: Number = calculate(left, right)
    except (ZeroDivisionError, DivisionByZero):
        raise Misfit("nothing can be divided by 0") from None
    except (OverflowError, InvalidOperation):
        raise Misfit("the result is too large a number") from None
    if isinstance(result, int) and result.bit_length() > 3 * MOST_DIGITS:
        raise Misfit("the result is too large a number")
    if isinstance(result, float) and result - result != 0:
        raise Misfit("the result is too large a number")
    return result
