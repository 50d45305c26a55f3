"""The test kit's clock, moved through a SQLAlchemy connection."""

from typing import Any, cast

import psycopg
from sqlalchemy import Connection

from celeriac import testing


class Clock(testing.Clock):
    """The clock of one database. It runs with the real one, ahead or behind, until it is frozen."""

    def __init__(self, conn: Connection) -> None:
        super().__init__(cast(psycopg.Connection[Any], conn.connection.driver_connection))
