"""`celeriac test-database`: a Postgres to throw away, for tests that need a migrated database.

The SDK's test kit starts it as a child process, so that the kit needs nothing of the server but this command. It ends
when its standard input does: whoever started it may be killed in any way, and leaves no server behind.
"""

import os
import threading
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from app.dev.postgres_binaries import Version

READ_BYTES = 4096
STANDARD_INPUT = 0


def test_database(
    postgres: Annotated[
        Literal["18", "16", "system"], typer.Option(help="Version of the wheel, or what this machine has.")
    ] = "18",  # noqa: PT028 - a command, not a test
) -> None:
    """Run an empty migrated Postgres until standard input ends. Prints its URL; nothing is kept.

    For tests in any language: read one line, copy that database for each test (create database … template celeriac),
    and close the pipe at the end. Ctrl-D or Ctrl-C in a terminal. Give it to nobody but tests: it trusts whoever
    connects on this machine, and does without fsync.
    """
    import db.migrate
    from app.cli.up import DATABASE_NAME, create_database, stop_signals
    from app.dev.postgres import EmbeddedPostgres

    versions: dict[str, Version] = {"18": 18, "16": 16, "system": "system"}
    with stop_signals() as stopping:
        # First of all: the one who started us may be gone before the server is up.
        threading.Thread(target=_watch_input, args=(stopping,), daemon=True).start()
        with EmbeddedPostgres(version=versions[postgres], durable=False) as server:
            create_database(server.url(), DATABASE_NAME)
            db.migrate.migrate(server.url(DATABASE_NAME))
            print(server.url(DATABASE_NAME), flush=True)
            stopping.wait()


def _watch_input(stopping: threading.Event) -> None:
    # Not sys.stdin: its buffer has a lock, and Python may not end while a thread is reading inside it.
    try:
        while os.read(STANDARD_INPUT, READ_BYTES):
            pass
    except OSError:  # it was never open
        pass
    stopping.set()
