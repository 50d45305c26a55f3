"""SQL files reach the server as they are: the driver reads no `:name` and no `%` where no values are given."""

from pathlib import Path

from sqlalchemy import Connection


def run_file(connection: Connection, file: Path) -> None:
    """Runs all statements of a file in the connection's transaction."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(file.read_text(encoding="utf-8"))
    finally:
        cursor.close()
