"""Calls: the one way from Python to the functions of the schema.

    rows(connection, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=1)

A statement is built from the names of the arguments alone, so sync and async connections share it. A refusal is raised
as `db.errors.Refused`, an outage as `db.errors.Unavailable`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import sqlalchemy.exc
from sqlalchemy import Connection, Row, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from db.errors import Invalid, Refused, Unavailable, translate


class Json(str):
    """JSON text that is already encoded; it reaches jsonb digit for digit."""

    __slots__ = ()


def rows(connection: Connection, function: str, **arguments: Any) -> Sequence[Row[Any]]:
    """All rows that `celeriac.<function>` answers with."""
    with refusals():
        return connection.execute(*statement(function, arguments)).all()


def one(connection: Connection, function: str, **arguments: Any) -> Row[Any]:
    """The only row that `celeriac.<function>` answers with."""
    with refusals():
        return connection.execute(*statement(function, arguments)).one()


async def arows(connection: AsyncConnection, function: str, **arguments: Any) -> Sequence[Row[Any]]:
    """`rows` on an AsyncConnection."""
    with refusals():
        return (await connection.execute(*statement(function, arguments))).all()


async def aone(connection: AsyncConnection, function: str, **arguments: Any) -> Row[Any]:
    """`one` on an AsyncConnection."""
    with refusals():
        return (await connection.execute(*statement(function, arguments))).one()


def statement(function: str, arguments: Mapping[str, Any]) -> tuple[TextClause, dict[str, Any]]:
    """The call as SQLAlchemy takes it: statement and parameters."""
    json_names = tuple(name for name, value in arguments.items() if isinstance(value, Json | dict))
    values = {name: _encoded(value) for name, value in arguments.items()}
    return _call(function, tuple(arguments), json_names), values


def json_list(items: Sequence[Any]) -> "Json":
    """A JSON array argument from Python values; a bare list would be taken for a Postgres array."""
    return Json(json.dumps(list(items), allow_nan=False))


@cache
def _call(function: str, names: tuple[str, ...], json_names: tuple[str, ...]) -> TextClause:
    given = ", ".join(
        f"{name} => cast(:{name} as jsonb)" if name in json_names else f"{name} => :{name}" for name in names
    )
    return text(f"select * from celeriac.{function}({given})")  # noqa: S608 - names are ours, values are bound


def _encoded(value: Any) -> Any:
    if isinstance(value, Json):
        return str(value)
    if isinstance(value, dict):
        return json.dumps(value, allow_nan=False)
    return value


@contextmanager
def refusals() -> Iterator[None]:
    """Raises our exceptions in place of the driver's; a fault of ours goes through as it is."""
    try:
        yield
    except UnicodeEncodeError:
        raise Invalid("a value cannot be stored: a lone surrogate is not a character") from None
    except sqlalchemy.exc.TimeoutError as error:
        raise Unavailable("all database connections are in use") from error
    except sqlalchemy.exc.DBAPIError as error:
        ours = translate(error)
        if ours is None:
            raise
        # The server's own words about bad input quote the input: they are for nobody's log.
        raise ours from (None if isinstance(ours, Refused) else error)
