"""The refusals of the SQL functions, whatever driver brings them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from celeriac.errors import Refused, refusal

CODES: Final[Mapping[str, str]] = {
    "TK403": "forbidden",
    "TK404": "not_found",
    "TK413": "too_large",
    "TK422": "invalid",
    "TK901": "lease_lost",
    "TK902": "lease_expired",
    "TK903": "stale_token",
    "TK904": "already_ended",
    "TK905": "canceled",
    "TK906": "idempotency_conflict",
    "TK907": "suspended",
}


def refusal_in(error: BaseException) -> Refused | None:
    """The refusal inside a driver's error (or SQLAlchemy's wrapper of it); None when it is something else."""
    original = getattr(error, "orig", None) or error
    code = CODES.get(getattr(original, "sqlstate", None) or getattr(original, "pgcode", None) or "")
    if code is None:
        return None
    message, detail, field = _diagnosis(original)
    return refusal(code, message, field=field, task_id=_task_id_in(detail))


def _diagnosis(original: Any) -> tuple[str, str | None, str | None]:
    """Message, detail and field: psycopg and psycopg2 keep them in `diag`, asyncpg on the error it was made from."""
    if diag := getattr(original, "diag", None):
        return diag.message_primary or str(original), diag.message_detail, diag.column_name or None
    source = original.__cause__ or original
    message = getattr(source, "message", None) or str(original)
    return message, getattr(source, "detail", None), getattr(source, "column_name", None) or None


def _task_id_in(detail: str | None) -> str | None:
    """The task that a refusal's detail (JSON text) names, if it names one."""
    named = json.loads(detail) if detail else None
    return str(named["task_id"]) if isinstance(named, dict) and "task_id" in named else None
