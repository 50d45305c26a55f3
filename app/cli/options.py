"""Options that mean the same in every command, and how their texts are read."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.exits import ExitCode, Stop

if TYPE_CHECKING:
    import db.call

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, names as in the HTTP API.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

TIME_FORMATS = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
TIME_HELP = "Like 2030-01-31T12:00:00+02:00; without a zone it is UTC."


def in_utc(time: datetime | None) -> datetime | None:
    """A time without a zone is UTC, on whatever machine the command runs."""
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def words(text: str) -> list[str]:
    """A list given as one option: `work,read`."""
    return [word.strip() for word in text.split(",") if word.strip()]


def json_option(text: str | None, option: str) -> "db.call.Json | None":
    """The JSON that an option brings, digit for digit; Stop when it is none."""
    from db.call import Json as JsonText

    if text is None:
        return None
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Stop(ExitCode.USAGE, f"{option}: not JSON") from None
    return JsonText(text)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
