"""Engines: how every process of ours reaches Postgres.

AUTOCOMMIT: one call of a function is one transaction and one round trip. No server-side prepared statements and no
session state, so a pooler in transaction mode may stand in between. jsonb comes back as its very text: nothing of ours
turns a number into a float. A connection that has seen a shut-down or a read-only server is dropped at once, and TCP
settings notice a half-open one within 30 s.
"""

from typing import Any

import sqlalchemy
from psycopg import AsyncConnection, Connection
from psycopg.adapt import Dumper
from psycopg.types.string import TextLoader
from sqlalchemy import event
from sqlalchemy.engine import URL, Engine, ExceptionContext, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from db.errors import lost

# Seconds; tcp_user_timeout in ms. A lost peer shows after 10 + 3 * 5 s when idle, after 20 s with data in flight.
_CONNECT = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "prepare_threshold": None,
    "application_name": "celeriac",
}


class UntypedNumber(Dumper):
    """Sends a number as text is sent, without a type: the function's own signature gives it one.

    The driver would choose the type by the size of the value, so that a number too large for its argument would look
    for a function that is not there. Like this it is out of range (and Invalid).
    """

    def dump(self, obj: float) -> bytes:
        return repr(obj).encode()


def sync_engine(url: str, *, pool_size: int = 5, **options: Any) -> Engine:
    """An Engine on psycopg 3 for a `postgresql://` URL. Make it after the fork: a pool must not cross one."""
    engine = sqlalchemy.create_engine(driver_url(url), **_options(pool_size, options))
    _prepare(engine)
    return engine


def async_engine(url: str, *, pool_size: int = 5, **options: Any) -> AsyncEngine:
    """The same for asyncio."""
    engine = create_async_engine(driver_url(url), **_options(pool_size, options))
    _prepare(engine.sync_engine)
    return engine


def driver_url(url: str) -> URL:
    """The URL with our driver named, whatever a `postgresql://` means to the SQLAlchemy at hand."""
    return make_url(url).set(drivername="postgresql+psycopg")


def _options(pool_size: int, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "isolation_level": "AUTOCOMMIT",
        "pool_size": pool_size,
        "max_overflow": 0,
        "pool_timeout": 5,
        "pool_recycle": 1800,
        "hide_parameters": True,  # values may be secrets; error texts end up in logs
        "connect_args": _CONNECT | options.pop("connect_args", {}),
        **options,
    }


def _prepare(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def keep_values_as_they_are(_dbapi_connection: Any, record: ConnectionPoolEntry) -> None:
        connection: Connection[Any] | AsyncConnection[Any] | Any = record.driver_connection
        for name in ("json", "jsonb"):
            connection.adapters.register_loader(name, TextLoader)
        for number in (int, float):
            connection.adapters.register_dumper(number, UntypedNumber)

    @event.listens_for(engine, "handle_error")
    def drop_lost_connections(context: ExceptionContext) -> None:
        error = context.sqlalchemy_exception
        if isinstance(error, sqlalchemy.exc.DBAPIError) and lost(error):
            context.is_disconnect = True
            # The others may be as good as ever (a killed backend) or as lost (a fail-over): each tells when it is used.
            context.invalidate_pool_on_disconnect = getattr(error.orig, "sqlstate", None) != "57P01"
