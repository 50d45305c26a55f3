"""Lists and counts of /engine-rest: filters, sorting, pages; alike for GET (in the address) and POST (in the body).

    JOBS = Listing("jobs", "job_id", columns=(…), filters=(equal("jobId", "job_id", AS_ID), …), sorts={…})

    rows = await found(call, JOBS)
    number = await counted(call, JOBS)

firstResult and maxResults are in the address always. A filter that is absent, null or false asks for nothing; an id
that can be nothing's matches nothing. Only names from a Listing reach an ORDER BY.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Select,
    TableClause,
    Text,
    Uuid,
    bindparam,
    column,
    false,
    func,
    literal,
    literal_column,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import ARRAY

from app.camunda.errors import invalid
from app.camunda.identifiers import definition_uuid
from app.camunda.route import CamundaCall
from app.camunda.sent import Sent, demand_few, uuid_of
from db.listing import within

MOST_ROWS: Final = 10_000
"""Rows of one answer, however many are asked for or there are: a client that wants more pages."""
MOST_CHANGED: Final = 10_000
"""Things that one call changes: it is one transaction."""
ORDERS: Final = ("asc", "desc")

Filter = Callable[[Sent, TableClause], ColumnElement[bool] | None]
"""What rows are asked for; None: nothing is asked. Raises CamundaError."""
Compare = Callable[[Any, Any], ColumnElement[bool]]


@dataclass(frozen=True)
class Kind:
    """What a text of a filter is. `value` gives None for what can be the value of no row."""

    type: Any
    value: Callable[[str], Any]


def _uuid(given: str | None) -> UUID | None:
    known = uuid_of(given)
    return None if known is None else UUID(known)


AS_TEXT: Final = Kind(Text, str)
AS_ID: Final = Kind(Uuid, _uuid)
AS_DEFINITION: Final = Kind(Uuid, lambda given: _uuid(definition_uuid(given)))


@dataclass(frozen=True)
class Listing:
    """A view of ours as a list. `key` is its unique column, which decides among equals in every order.

    One of its columns, shown or hidden, is `task_type` or `topics`: a caller sees what their rights are about.
    """

    view: str
    key: str
    columns: Sequence[str]
    filters: Sequence[Filter]
    sorts: Mapping[str, str]
    """sortBy -> column."""
    hidden: Sequence[str] = ()
    """Columns that filters ask about and rows do not show."""
    order: Sequence[str] = ()
    """How rows are sorted when nobody asks: columns, `-` before those that descend."""
    most: int = MOST_ROWS

    @cached_property
    def table(self) -> TableClause:
        return table(self.view, *map(column, dict.fromkeys((self.key, *self.columns, *self.hidden))), schema="celeriac")

    def select(self, asked: Sent, only_types: Sequence[str] | None) -> Select[Any]:
        """All rows that the filters let through, in no order."""
        return select(*(self.table.c[name] for name in self.columns)).where(*self.conditions(asked, only_types))

    def conditions(self, asked: Sent, only_types: Sequence[str] | None) -> list[ColumnElement[bool]]:
        found = [condition for one in self.filters if (condition := one(asked, self.table)) is not None]
        return found if only_types is None else [*found, within(self.table, only_types)]

    def ordered(self, statement: Select[Any], asked: Sent) -> Select[Any]:
        """In the order that was asked for, sorting[] in a body or sortBy and sortOrder in an address; never in none."""
        known = set()
        for sorting in sortings(asked):
            by, order = sorting.text("sortBy") or "", sorting.text("sortOrder") or ""
            if by not in self.sorts:
                raise invalid(f"Cannot set query sortBy parameter to value {by}")
            if order not in ORDERS:
                raise invalid(f"Cannot set query sortOrder parameter to value {order}")
            if by not in known:
                statement = statement.order_by(_directed(self.table.c[self.sorts[by]], order))
            known.add(by)
        if not sortings(asked):
            for name in self.order:
                ascends = not name.startswith("-")
                statement = statement.order_by(_directed(self.table.c[name.lstrip("-")], "asc" if ascends else "desc"))
        return statement.order_by(self.table.c[self.key])


async def found(call: CamundaCall, listing: Listing, *more: ColumnElement[bool]) -> list[dict[str, Any]]:
    """The page that was asked for; `more`: conditions that the filters do not know."""
    asked = call.asked_anyhow
    first, most = page_of(call, listing.most)
    statement = listing.ordered(listing.select(asked, call.principal.only_types).where(*more), asked)
    statement = statement.limit(most).offset(literal(first, BigInteger))
    return [dict(row._mapping) for row in await call.parts.database.view(statement)]


async def counted(call: CamundaCall, listing: Listing, *more: ColumnElement[bool]) -> int:
    """How many there are; nothing of sorting and pages counts."""
    conditions = listing.conditions(call.asked_anyhow, call.principal.only_types)
    statement = select(func.count()).select_from(listing.table).where(*conditions, *more)
    return int((await call.parts.database.view(statement))[0][0])


async def keys(call: CamundaCall, listing: Listing, asked: Sent) -> list[UUID]:
    """The keys of what a query finds, in an order in which any two requests lock them; at most one more than a call may
    change, which shows that they are too many."""
    key = listing.table.c[listing.key]
    conditions = listing.conditions(asked, call.principal.only_types)
    statement = select(key).where(*conditions).order_by(key).limit(MOST_CHANGED + 1)
    return [row[0] for row in await call.parts.database.view(statement)]


async def one(call: CamundaCall, listing: Listing, given: str | None, kind: Kind = AS_ID) -> dict[str, Any] | None:
    """The row with this key, if there is one and the caller may see it."""
    value = None if given is None else kind.value(given)
    if value is None:
        return None
    conditions = [listing.table.c[listing.key] == value]
    if call.principal.only_types is not None:
        conditions.append(within(listing.table, call.principal.only_types))
    statement = select(*(listing.table.c[name] for name in listing.columns)).where(*conditions)
    rows = await call.parts.database.view(statement)
    return dict(rows[0]._mapping) if rows else None


def page_of(call: CamundaCall, most: int = MOST_ROWS) -> tuple[int, int]:
    """firstResult, and maxResults or `most`."""
    first, asked = call.asked.integer("firstResult", 0) or 0, call.asked.integer("maxResults")
    return max(first, 0), most if asked is None else min(max(asked, 0), most)


# Filters. `name` is what it is called in the request, `at` the column.


def equal(name: str, at: str, kind: Kind = AS_TEXT) -> Filter:
    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.text(name)
        if given is None:
            return None
        value = kind.value(given)
        return false() if value is None else view.c[at] == value

    return narrow


def one_of(name: str, at: str, kind: Kind = AS_TEXT, *, others: bool = False) -> Filter:
    """One of a list; with `others` none of it. An empty list asks for nothing, as in Camunda."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.names(name)
        if not given:
            return None
        values = [value for value in map(kind.value, given) if value is not None]
        within_ = view.c[at] == func.any(bindparam(None, values, type_=ARRAY(kind.type)))
        return ~within_ if others else within_

    return narrow


def like(name: str, at: str, *, folded: bool = False, others: bool = False) -> Filter:
    """SQL's LIKE, with % and _ as the caller wrote them; `folded`: in any case of letters."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.text(name)
        if given is None:
            return None
        fits = view.c[at].op("ilike" if folded else "like")(literal(pattern(given)))
        return ~fits if others else fits

    return narrow


def number(name: str, at: str, compare: Compare = operator.eq) -> Filter:
    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.integer(name)
        return None if given is None else compare(view.c[at], literal(given, BigInteger))

    return narrow


def moment(name: str, at: str, compare: Compare) -> Filter:
    """A date; it is compared in milliseconds, as it is shown, so that what was shown is found again."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.moment(name)
        return None if given is None else compare(func.date_trunc("milliseconds", view.c[at]), _whole(given))

    return narrow


def moments(name: str, at: str) -> Filter:
    """`gt_DATE,lt_DATE` in an address, [{operator, value}] in a body."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.values.get(name)
        if isinstance(given, str):
            pairs = [part.partition("_")[::2] for part in asked.parts(name)]
        else:
            pairs = [
                (one_.text("operator") or "", Sent({name: one_.values.get("value")}).text(name) or "")
                for one_ in asked.list_of_sent(name)
            ]
        demand_few(name, pairs)
        condition: ColumnElement[bool] | None = None
        for word, value in pairs:
            if word not in ("gt", "lt"):
                raise invalid(f"Invalid {name} comparator specified: {word}")
            wanted = moment(name, at, getattr(operator, word))(Sent({name: value}), view)
            condition = wanted if condition is None or wanted is None else condition & wanted
        return condition

    return narrow


def holds(condition: str) -> ColumnElement[bool]:
    """SQL of ours on the view's columns."""
    return literal_column(f"({condition})", Boolean)


def flag(name: str, condition: str) -> Filter:
    """A truth value that is only asked for when it is true; `condition` is SQL on the view's columns."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        return holds(condition) if asked.boolean(name) else None

    return narrow


def whether(name: str, condition: str) -> Filter:
    """A truth value that is asked for when it is there, true or false."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        if name not in asked:
            return None
        return holds(condition if asked.boolean(name) else f"not ({condition})")

    return narrow


def nothing(*names: str) -> Filter:
    """Filters by what is not there: with any value they match nothing."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        return false() if any(_is_asked(asked, name) for name in names) else None

    return narrow


TENANTS: Final = nothing("tenantIdIn", "tenantId")
"""There are none here; withoutTenantId therefore lets everything through."""


def sortings(asked: Sent) -> Sequence[Sent]:
    """[{sortBy, sortOrder}], from wherever they are; 400 for one without the other."""
    by, order = asked.text("sortBy"), asked.text("sortOrder")
    if (by is None) != (order is None):
        raise invalid("Only a single sorting parameter specified. sortBy and sortOrder required")
    return asked.list_of_sent("sorting") if by is None else [Sent({"sortBy": by, "sortOrder": order})]


def _directed(at: ColumnElement[Any], order: str) -> ColumnElement[Any]:
    return at.desc() if order == "desc" else at.asc()


def _is_asked(asked: Sent, name: str) -> bool:
    value = asked.values.get(name)
    return value not in (None, False, "", []) and str(value).lower() != "false"


def _whole(given: datetime) -> datetime:
    return given.replace(microsecond=given.microsecond // 1000 * 1000)


def pattern(given: str) -> str:
    """A backslash at the end escapes nothing, which Postgres refuses."""
    return given + "\\" if (len(given) - len(given.rstrip("\\"))) % 2 else given
