"""What the database refuses, and what to call it.

DatabaseError
├── Unavailable            the server is gone, read-only or shutting down: try again (503)
└── Refused                the state machine said no; nothing was changed
    ├── NotFound           not_found             404   also: of a type that the caller may not touch
    ├── Forbidden          forbidden             403
    ├── Invalid            invalid               422   `field` names the input
    ├── TooLarge           too_large             413
    └── Conflict                                 409
        ├── LeaseLost              lease_lost            nobody, or another worker, holds the task
        ├── LeaseExpired           lease_expired         the lease ran out before the write came
        ├── StaleToken             stale_token           the task has been handed over since
        ├── AlreadyEnded           already_ended         terminal is final
        ├── Canceled               canceled
        ├── IdempotencyConflict    idempotency_conflict  same key, other input; `detail["task_id"]` has the first task
        └── Suspended              suspended             the process instance stands still
"""

import json
from typing import Any, ClassVar

import psycopg
import sqlalchemy.exc


class DatabaseError(Exception):
    """The root of what `db.call` raises."""


class Unavailable(DatabaseError):
    """The database cannot take the call now; it may be made again. A connection that was lost has been dropped."""


class Refused(DatabaseError):
    """A call that the state machine refused; it changed nothing."""

    code: ClassVar[str] = "refused"
    status: ClassVar[int] = 400

    def __init__(self, message: str, field: str | None = None, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.detail = detail or {}


class NotFound(Refused):
    code, status = "not_found", 404


class Forbidden(Refused):
    code, status = "forbidden", 403


class Invalid(Refused):
    code, status = "invalid", 422


class TooLarge(Refused):
    code, status = "too_large", 413


class Conflict(Refused):
    status = 409


class LeaseLost(Conflict):
    code = "lease_lost"


class LeaseExpired(Conflict):
    code = "lease_expired"


class StaleToken(Conflict):
    code = "stale_token"


class AlreadyEnded(Conflict):
    code = "already_ended"


class Canceled(Conflict):
    code = "canceled"


class IdempotencyConflict(Conflict):
    code = "idempotency_conflict"


class Suspended(Conflict):
    code = "suspended"


BY_SQLSTATE: dict[str, type[Refused]] = {
    "TK403": Forbidden,
    "TK404": NotFound,
    "TK413": TooLarge,
    "TK422": Invalid,
    "TK901": LeaseLost,
    "TK902": LeaseExpired,
    "TK903": StaleToken,
    "TK904": AlreadyEnded,
    "TK905": Canceled,
    "TK906": IdempotencyConflict,
    "TK907": Suspended,
}
BY_CODE: dict[str, type[Refused]] = {refusal.code: refusal for refusal in BY_SQLSTATE.values()}

# What Postgres itself says of input that no type of ours can hold: NUL in text, numbers and dates out of range, bad
# UTF-8, JSON too deep, patterns that end in the middle. The field is not known here; the door of each face names it
# before it gets this far.
_BAD_INPUT = {
    *("22003", "22007", "22008", "22009", "22021", "22023", "22025", "22030", "22032", "22P02", "22P05"),
    *("54000", "54001"),
}

# Busy: a lock that did not come in time, or two transactions in each other's way. The connection is as good as before.
_BUSY = {"40001", "40P01", "55P03"}

# Lost: shut-downs, crash recovery, a server turned read-only, too many connections.
_LOST = {"25006", "57P01", "57P02", "57P03", "57P05", "53300", "53200", "53100"}


def translate(error: sqlalchemy.exc.DBAPIError | psycopg.Error) -> DatabaseError | None:
    """Our exception for a driver's error; None when it is neither a refusal nor an outage, but a fault of ours."""
    cause = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
    if not isinstance(cause, psycopg.Error):
        return None
    state = cause.sqlstate
    if state in BY_SQLSTATE:
        diag = cause.diag
        detail = json.loads(diag.message_detail) if diag.message_detail else {}
        return BY_SQLSTATE[state](diag.message_primary or "", diag.column_name or None, detail)
    if state in _BAD_INPUT or (state is None and isinstance(cause, psycopg.DataError)):
        return Invalid("a value cannot be stored: " + (cause.diag.message_primary or str(cause)).splitlines()[0])
    if state in _BUSY or lost(error):
        return Unavailable("the database is not available")
    return None


def lost(error: sqlalchemy.exc.DBAPIError | psycopg.Error) -> bool:
    """Whether the error means that this connection is of no more use and the server may be back later."""
    cause = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else error
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.connection_invalidated:
        return True
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
    return state in _LOST or str(state).startswith("08")
