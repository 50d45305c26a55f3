"""Filters about what belongs to a row: its tokens, its incidents, what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, TableClause, and_, column, literal, or_, select, table, text

from app.camunda.errors import invalid
from app.camunda.listing import Filter, equal, holds
from app.camunda.sent import Sent, demand_few

MOST_OR_QUERIES: Final = 20


def having(view_name: str, by: str | tuple[str, str], narrow: Filter, at: str, only: str | None = None) -> Filter:
    """Rows to which a row of another view belongs that `narrow` lets through.

    `by`: the column in which both are equal (or that of the other view, and that of this one). `at`: the column that
    `narrow` looks at. `only`: SQL on columns of the other view that holds always.
    """
    theirs, ours = (by, by) if isinstance(by, str) else by
    other = table(view_name, *map(column, dict.fromkeys((theirs, at))), schema="celeriac")

    def related(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        wanted = narrow(asked, other)
        if wanted is None:
            return None
        found = select(literal(1)).select_from(other).where(other.c[theirs] == view.c[ours], wanted)
        return (found if only is None else found.where(text(only))).exists()

    return related


def always(condition: str) -> Filter:
    """What holds of every row of a list; `condition` is SQL on the view's columns."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        return holds(condition)

    return narrow


def unknown(*names: str) -> Filter:
    """Refuses what it would be wrong to pass over."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        for name in names:
            if asked.values.get(name):
                raise invalid(f"{name} is not known here")
        return None

    return narrow


def either(filters: Sequence[Filter]) -> Filter:
    """`orQueries`: of each of them, what fits one of its filters."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        groups = []
        queries = asked.list_of_sent("orQueries")
        demand_few("orQueries", queries, MOST_OR_QUERIES)
        demand_few("orQueries", [one for sent in queries for one in _comparisons(sent)])
        for sent in queries:
            conditions = [condition for one in filters if (condition := one(sent, view)) is not None]
            if conditions:
                groups.append(or_(*conditions))
        return and_(*groups) if groups else None

    return narrow


def _comparisons(sent: Sent) -> Iterator[Any]:
    """The objects in lists: each of them is a question of its own to the database."""
    for value in sent.values.values():
        if isinstance(value, list):
            yield from (one for one in value if isinstance(one, dict))


def waiting(name: str, kind: str) -> Filter:
    """Executions that wait for the message or signal of this name."""
    narrow = equal(name, "name")
    return having("instance_waits", ("token_id", "execution_id"), narrow, "name", f"kind = '{kind}'")
