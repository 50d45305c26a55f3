"""Turns whatever went wrong into one clear line and an exit code; a password never gets into the line."""

import os
import re

from app.cli.exits import ExitCode, Stop

SECRET_IN_URL = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@]+(?P<tail>@)", re.IGNORECASE)
SECRET_IN_PAIR = re.compile(r"(?P<head>\bpassword\s*=\s*)('[^']*'|\S+)", re.IGNORECASE)


def explain(error: Exception) -> Stop:
    """The Stop for any exception that left a command."""
    from redis.exceptions import RedisError
    from sqlalchemy.exc import ArgumentError, DBAPIError

    from app.settings import SettingsError
    from db.errors import Refused, Unavailable

    match error:
        case Stop():
            return error
        case SettingsError():
            return Stop(ExitCode.USAGE, one_line(error))
        case Refused():
            field = "" if not error.field or error.message.startswith(error.field) else f"{error.field}: "
            return Stop(ExitCode.FAILED, one_line(f"{field}{error.message} ({error.code})"))
        case Unavailable():
            return Stop(ExitCode.UNREACHABLE, one_line(f"database (CELERIAC_DATABASE_URL): {error}"))
        case ArgumentError():
            return Stop(ExitCode.USAGE, "CELERIAC_DATABASE_URL is not a database URL (postgresql://user@host/name)")
        case DBAPIError():
            return from_database(error.orig or error)
        case RedisError():
            return Stop(ExitCode.UNREACHABLE, one_line(f"Redis (CELERIAC_REDIS_URL): {error}"))
        case OSError():
            return Stop(ExitCode.FAILED, one_line(error))
    return Stop(ExitCode.FAILED, one_line(f"{type(error).__name__}: {error}"))


def from_database(error: BaseException) -> Stop:
    """What the driver says: no connection is one thing, a database that is not migrated or not ours another."""
    state = getattr(error, "sqlstate", None)
    if state is None or state.startswith(("08", "28", "3D", "53", "57P")):
        return Stop(ExitCode.UNREACHABLE, one_line(f"database (CELERIAC_DATABASE_URL): {error}"))
    if state in {"3F000", "42P01", "42883"}:
        return Stop(ExitCode.FAILED, one_line(f"the database is not migrated (celeriac migrate): {error}"))
    if state == "42501":
        return Stop(ExitCode.FAILED, one_line(f"the role of CELERIAC_DATABASE_URL may not do this: {error}"))
    return Stop(ExitCode.FAILED, one_line(f"database: {error}"))


def one_line(message: object) -> str:
    """The text on one line, with every password in it replaced."""
    text = " ".join(str(message).split())
    for name in ("CELERIAC_DATABASE_URL", "CELERIAC_REDIS_URL", "CELERIAC_BROKER_URL"):
        text = text.replace(os.environ.get(name) or "\0", f"${name}")
    text = SECRET_IN_URL.sub(r"\g<head>***\g<tail>", text)
    return SECRET_IN_PAIR.sub(r"\g<head>***", text)
