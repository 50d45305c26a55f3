"""The SQL files as they are shipped, and changed copies of them for a test database."""

from pathlib import Path

from sqlalchemy import Connection

import db.migrate

FUNCTIONS = db.migrate.HERE / "functions"
# The one statement of claim_ready by which a claim lets those after it begin further on.
RAISES_A_FLOOR = "perform celeriac.raise_floor(stream, picked[1], moment);"


def shipped(name: str) -> Path:
    """The file of a function."""
    (file,) = FUNCTIONS.rglob(f"{name}.sql")
    return file


def replaced(file: Path, old: str, new: str) -> str:
    """The text of a file with one thing changed in it. AssertionError when it does not hold that thing exactly once."""
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} holds {text.count(old)} times: {old}"
    return text.replace(old, new)


def install(connection: Connection, script: str) -> None:
    """Runs a script of statements; bodies are checked when they are called, as in a migrate."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(f"set check_function_bodies = off; {script}")
    finally:
        cursor.close()
