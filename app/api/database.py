"""The API's way to the authority: a connection for one call, given back before anything else is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy import Executable, Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from db import call
from db.hang_up import hang_up

CALL_SECONDS: Final = 15.0
"""How long a call may take. No bounded batch takes nearly as long: then nobody answers any more."""


class Database:
    """Calls functions and reads views, each on a connection of its own from the pool."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection from the pool, for CALL_SECONDS at most; Unavailable when none can be had."""
        with call.refusals():
            connection = await self.engine.connect()
        raw: Any = await connection.get_raw_connection()
        deadline = asyncio.get_running_loop().call_later(CALL_SECONDS, hang_up, raw.driver_connection)
        try:
            yield connection
        finally:
            deadline.cancel()
            await connection.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction of several calls: all of them hold, or none. Refused or Unavailable."""
        async with self.connection() as connection:
            await connection.execution_options(isolation_level="READ COMMITTED")
            with call.refusals():
                async with connection.begin():
                    yield connection

    async def rows(self, function: str, **arguments: Any) -> Sequence[Row[Any]]:
        """What the function returns; Refused or Unavailable."""
        async with self.connection() as connection:
            return await call.arows(connection, function, **arguments)

    async def one(self, function: str, **arguments: Any) -> Row[Any]:
        """The one row that the function returns; Refused or Unavailable."""
        async with self.connection() as connection:
            return await call.aone(connection, function, **arguments)

    async def view(self, statement: str | Executable, **values: Any) -> Sequence[Row[Any]]:
        """The rows of a fixed statement on views; Unavailable when the database is gone."""
        asked = text(statement) if isinstance(statement, str) else statement
        async with self.connection() as connection:
            with call.refusals():
                return (await connection.execute(asked, values)).all()
