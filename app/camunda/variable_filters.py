"""Filters by variables: `name_operator_value,…` in an address, [{name, operator, value}] in a body.

In an address values are texts; such a text fits a number or a truth value that is written so, too. In a body a value
fits one of its JSON type alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from sqlalchemy import ColumnElement, TableClause, Text, and_, cast, column, false, func, literal, or_, select, table
from sqlalchemy.dialects.postgresql import JSONB

from app.api import strict_json
from app.camunda.errors import invalid
from app.camunda.listing import Filter, pattern
from app.camunda.sent import Sent, demand_few

COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq, "neq": operator.ne, "gt": operator.gt, "gteq": operator.ge, "lt": operator.lt,
    "lteq": operator.le,
}  # fmt: skip
OPERATORS: Final = (*COMPARE, "like", "notLike")
MOST_JOINED: Final = 4
_VARIABLES: Final = table(
    "instance_variables", column("instance_id"), column("root"), column("name"), column("value"), schema="celeriac"
)


def variables(name: str, instance: str = "instance_id") -> Filter:
    """Rows whose process instance (the column `instance`) has every one of these variables at its root."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        names, values = asked.boolean("variableNamesIgnoreCase"), asked.boolean("variableValuesIgnoreCase")
        asked_for = list(conditions(asked, name))
        found = [
            select(literal(1))
            .select_from(_VARIABLES)
            .where(
                _VARIABLES.c.instance_id == view.c[instance],
                _VARIABLES.c.root,
                func.lower(_VARIABLES.c.name) == variable.lower() if names else _VARIABLES.c.name == variable,
                fits(_VARIABLES.c.value, word, candidates, folded=values),
            )
            # With an offset each is a question of its own: as joins, 40 of them take a minute to plan.
            .offset(0 if len(asked_for) > MOST_JOINED else None)
            .exists()
            for variable, word, candidates in asked_for
        ]
        return and_(*found) if found else None

    return narrow


def conditions(asked: Sent, name: str) -> Iterator[tuple[str, str, list[Any]]]:
    """The name, the operator, and the values that fit: all of them are meant."""
    given = asked.values.get(name)
    if isinstance(given, str):
        parts = asked.parts(name)
        demand_few(name, parts)
        yield from (_of_address(name, part) for part in parts)
        return
    for one in asked.list_of_sent(name):
        variable, word = one.text("name"), one.text("operator")
        if variable is None:
            raise invalid(f"{name}: a variable has a name")
        if word not in OPERATORS:
            raise invalid(f"{name}: Invalid variable comparator specified: {word}")
        yield variable, word, [one.values.get("value")]


def _of_address(name: str, part: str) -> tuple[str, str, list[Any]]:
    """`my_name_eq_5`: names may have underscores, operators have none; the first operator decides."""
    words = part.split("_")
    place = next((at for at, word in enumerate(words[:-1]) if at and word in OPERATORS), None)
    if place is None:
        raise invalid(f"{name}: variable query parameter has to have format VARIABLENAME_OPERATOR_VALUE: {part}")
    value = "_".join(words[place + 1 :])
    candidates: list[Any] = [value]
    try:
        plain = strict_json.loads(value.encode())
    except ValueError:
        plain = None
    if isinstance(plain, bool | int | float):
        candidates.append(plain)
    return "_".join(words[:place]), words[place], candidates


def fits(value: ColumnElement[Any], word: str, candidates: list[Any], *, folded: bool) -> ColumnElement[bool]:
    """Whether a stored value compares so with one of those that are meant."""
    stored = cast(value, JSONB)
    plain = stored.op("#>>", return_type=Text())(literal("{}", literal_execute=True))
    if word in ("like", "notLike"):
        text = candidates[0]
        if not isinstance(text, str):
            return false()
        alike = plain.op("ilike" if folded else "like", is_comparison=True)(pattern(text))
        return and_(func.jsonb_typeof(stored) == "string", alike if word == "like" else ~alike)
    tests = []
    for candidate in candidates:
        if folded and isinstance(candidate, str):
            is_text = func.jsonb_typeof(stored) == "string"
            tests.append(and_(is_text, COMPARE[word](func.lower(plain), candidate.lower())))
            continue
        wanted = cast(literal(strict_json.dumps(candidate)), JSONB)
        test = COMPARE[word](stored, wanted)
        same = func.jsonb_typeof(stored) == func.jsonb_typeof(wanted)
        tests.append(test if word in ("eq", "neq") else and_(same, test))
    return and_(*tests) if word == "neq" else or_(*tests)
