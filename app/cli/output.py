"""How the command line speaks: tables for people, one JSON document for programs, remarks on stderr.

What is shown comes from tasks, and so from anybody who may enqueue: control characters (terminal escapes among them)
are replaced, and rich's own markup is never interpreted in a cell.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# Wide enough that a table sent to a file or a pipe is never cut.
PIPE_WIDTH = 400


def document(value: object) -> None:
    """Print `value` as one JSON document on one line of stdout."""
    print(json.dumps(value, default=plain, ensure_ascii=False, separators=(",", ":")), flush=True)


def plain(value: object) -> object:
    """What JSON has no word for: times become RFC 3339 text, ids their canonical text."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decoded(text: str | None) -> Any:
    """A jsonb column, which comes as its exact JSON text."""
    return None if text is None else json.loads(text)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], nothing: str) -> None:
    """Print one line a row; `nothing` is said on stderr when there is no row, so that a pipe stays empty."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = list(rows)
    if not listed:
        remark(nothing)
        return
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in listed:
        grid.add_row(*(Text(cell(row[column])) for column in columns))
    console.print(grid)


def paged(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    limit: int,
    columns: Sequence[str],
    nothing: str,
    as_json: bool,
    cells: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda row: row,
) -> None:
    """Print one page of a list. Its first column is what the next page begins after; `cells` are what a table shows.

    `rows` has one row more than `limit` when there is a next page: that is known without a look at it.
    """
    shown = rows[:limit]
    next_cursor = shown[-1][columns[0]] if len(rows) > limit else None
    if as_json:
        document({name: shown, "next_cursor": next_cursor})
        return
    table(columns, map(cells, shown), nothing)
    if next_cursor is not None:
        remark(f"more: --cursor {shlex.quote(str(next_cursor))}")


def facts(values: Mapping[str, Any]) -> None:
    """Print one `name  value` line for every value that is known."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        if value is not None:
            print(f"{name:<{width}}  {cell(value)}")


def cell(value: object) -> str:
    """One value as a person reads it, on one line and without control characters."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    text = json.dumps(value, default=plain, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\n", " \N{DOWNWARDS ARROW WITH CORNER LEFTWARDS} "))


def remark(text: str) -> None:
    """One line for people on stderr."""
    print(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), file=sys.stderr, flush=True)


def agreed(question: str, yes: bool) -> None:
    """Return when the person at the terminal agrees (or said --yes before); end with exit code 1 when not."""
    from app.cli.exits import ExitCode, Stop

    if yes:
        return
    if not sys.stdin.isatty():
        raise Stop(ExitCode.USAGE, f"{question} Nobody is there to ask: say --yes.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Stop(ExitCode.FAILED, "nothing was done")
