"""The one reader of the environment: every CELERIAC_* name, checked, in one frozen value.

A setting is named after its field: `database_url` is CELERIAC_DATABASE_URL. A name that starts with CELERIAC_ and is
not a field is refused, since a misspelt setting that is silently ignored is found in production. An empty value means
"not set", so that a compose file can pass a variable on without knowing whether it has one.
"""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "CELERIAC_"
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DATABASE_SCHEMES: Final = ("postgresql", "postgresql+psycopg", "postgres")
REDIS_SCHEMES: Final = ("redis", "rediss", "unix")
BROKER_SCHEMES: Final = ("redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp", "unix")

_HIDDEN: Final = "***"
_SECRETS: Final = frozenset({"jwt_secret", "flower_basic_auth"})


class SettingsError(ValueError):
    """The environment cannot be used; `problems` has one sentence for each setting that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """All that can be set from outside. Durations carry their unit in their name."""

    database_url: str
    """Postgres, `postgresql://user:password@host:port/name`; `postgresql+psycopg://` is accepted and means the same."""
    redis_url: str | None = None
    """Where wake-ups are published; without it nothing is woken and everybody polls."""
    broker_url: str | None = None
    """Celery's broker (Redis or RabbitMQ); the Redis of `redis_url` unless set."""
    host: str = "127.0.0.1"
    port: int = 8080
    api_processes: int = 1
    database_pool: int = 10
    """Connections a process may hold to Postgres."""
    log_level: str = "info"
    require_fencing_token: bool = False
    """Refuse worker calls that carry no fencing token."""
    metrics_public: bool = False
    """Serve /metrics without a key."""
    jwt_secret: str | None = None
    jwt_public_key: str | None = None
    """PEM text; the variable may also name a file that holds it."""
    jwt_jwks_url: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    retention_days: int = 30
    """How long an ended task is kept."""
    history_days: int = 90
    """How long the timeline is kept."""
    schedule_starts_per_second: int = 100
    """How many tasks all schedules together may start in a second, after an outage too."""
    flower_port: int = 5555
    flower_basic_auth: str | None = None
    """Who may log in to Flower: `user:password`, several separated by commas."""
    flower_open: bool = False
    """Start Flower although nobody has to log in: only behind a proxy that checks."""
    flower_controls: bool = False
    """Let those who log in to Flower act on workers and tasks of Celery, not only look."""
    camunda_open: bool = False
    """Let anybody use /engine-rest without a key: only where nobody but the workers can reach it."""
    camunda_lost_leases: str = "free"
    """What a lost lease of /engine-rest costs: nothing (`free`, as in Camunda 7) or one of the retries (`retry`)."""
    camunda_retries: str = "worker"
    """Who counts retries at /engine-rest: the `worker` (as in Camunda 7: null at first, none sent means none left), or
    the `engine`: shown from the start, as the model or the task type says, and one less when a failure sends none."""
    camunda_delegates: str = "error"
    """What a deployment over /engine-rest does with Java delegates: `error`, or `topics` named after them."""
    camunda_unrunnable: str = "error"
    """What it does with listeners and scripts that cannot run here: `error`, or `ignore` them with a warning."""
    camunda_polls: int = 200
    """How many long polls may wait at /engine-rest of one process."""
    state_dir: str = str(Path(tempfile.gettempdir()) / f"celeriac-{os.getuid()}")
    """Where long-running processes leave the sign of life that health checks read."""

    def __post_init__(self) -> None:
        if self.broker_url is None and self.redis_url is not None:
            object.__setattr__(self, "broker_url", re.sub(r"^unix:", "redis+socket:", self.redis_url))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read and check every CELERIAC_* variable; SettingsError names all that are wrong at once."""
        given = {name: text.strip() for name, text in environ.items() if name.startswith(PREFIX) and text.strip()}
        problems = [_unknown(name) for name in given if name not in _FIELD_OF]
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name in _FIELD_OF:
                try:
                    values[_FIELD_OF[name]] = _READERS.get(_FIELD_OF[name], str)(text)
                except ValueError as wrong:
                    problems.append(f"{name} {wrong}")
        if f"{PREFIX}DATABASE_URL" not in given:
            problems.append(f"{PREFIX}DATABASE_URL is not set: give the address of Postgres, postgresql://…")
        if problems:
            raise SettingsError(problems)
        return cls(**values)

    def to_env(self) -> dict[str, str]:
        """The variables that make `from_env` build this very value in a child process."""
        values = {name: getattr(self, field) for name, field in _FIELD_OF.items()}
        return {name: _write(value) for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={self._shown(field.name)!r}" for field in fields(self))
        return f"Settings({shown})"

    def _shown(self, name: str) -> object:
        value = getattr(self, name)
        if name in _SECRETS and value is not None:
            return _HIDDEN
        return hide_passwords(value) if name.endswith("_url") and value is not None else value


def hide_passwords(urls: str) -> str:
    """`urls` (one, or several separated by `;`) as they may be shown: no password, wherever in the URL it stands."""
    without_userinfo = re.sub(r"(://[^:/@;]*):[^/;]*@", rf"\1:{_HIDDEN}@", urls)
    return re.sub(r"(?i)([?&][^=&;]*password=)[^&;]*", rf"\1{_HIDDEN}", without_userinfo)


def _unknown(name: str) -> str:
    nearest = difflib.get_close_matches(name, _FIELD_OF, n=1, cutoff=0)
    return f"{name} is not a setting; the nearest one is {nearest[0]}"


def _write(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flag(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError(f"is {text!r}, but must be true or false")
    return known[text.lower()]


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"is {text!r}, but must be a whole number from {low} to {high}")
        return int(text)

    return read


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"is {text!r}, but must be one of {', '.join(words)}")
        return text.lower()

    return read


def _url(*schemes: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        for url in text.split(";"):
            if url.partition("://")[0] not in schemes or not url.partition("://")[2]:
                # Not the text itself: a URL with a password must not end in a log because its scheme is wrong.
                raise ValueError(f"must be a URL that starts with {' or '.join(s + '://' for s in schemes)}")
        return text

    return read


def _database_url(text: str) -> str:
    """One spelling inside the house; SQLAlchemy 2.1 and libpq both read it."""
    scheme, _, rest = _url(*DATABASE_SCHEMES)(text).partition("://")
    return f"{DATABASE_SCHEMES[0]}://{rest}" if scheme else text


def _pem(text: str) -> str:
    if text.startswith("-----BEGIN"):
        return text
    try:
        return Path(text).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise ValueError("must be a PEM text or the path of a file that holds one, and can be read") from wrong


def _logins(text: str) -> str:
    for login in text.split(","):
        user, _, password = login.partition(":")
        if not user.strip() or not password.strip():
            raise ValueError("must be user:password, several separated by commas")
    return text


_FIELD_OF: Final = {f"{PREFIX}{field.name.upper()}": field.name for field in fields(Settings)}

_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "database_url": _database_url,
    "redis_url": _url(*REDIS_SCHEMES),
    "broker_url": _url(*BROKER_SCHEMES),
    "port": _number(0, 65535),
    "api_processes": _number(1, 256),
    "database_pool": _number(1, 1000),
    "log_level": _one_of(*LOG_LEVELS),
    "require_fencing_token": _flag,
    "metrics_public": _flag,
    "jwt_public_key": _pem,
    "jwt_jwks_url": _url("https", "http"),
    "retention_days": _number(1, 36_500),
    "history_days": _number(1, 36_500),
    "schedule_starts_per_second": _number(1, 1_000_000),
    "flower_port": _number(0, 65535),
    "flower_basic_auth": _logins,
    "flower_open": _flag,
    "flower_controls": _flag,
    "camunda_open": _flag,
    "camunda_lost_leases": _one_of("free", "retry"),
    "camunda_retries": _one_of("worker", "engine"),
    "camunda_delegates": _one_of("error", "topics"),
    "camunda_unrunnable": _one_of("error", "ignore"),
    "camunda_polls": _number(1, 10_000),
}
