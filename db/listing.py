"""Pages of tasks: keyset pages over the views, newest or oldest first. Only names from this file reach an ORDER BY."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Select, column, literal, or_, select, table, text

OPEN_STATES = ("READY", "SCHEDULED", "LOCKED")
STATES = (*OPEN_STATES, "WAITING", "COMPLETED", "FAILED", "CANCELED")

# fmt: off
_COLUMNS = (
    "task_id", "task_type", "version", "business_key", "state", "priority", "retries", "attempts", "expirations",
    "redrives", "idempotency_key", "fairness_key", "worker_id", "principal", "fencing_token", "lock_expires_at",
    "run_at", "created_at", "started_at", "ended_at", "error",
)
# fmt: on


def task_page(
    *,
    task_type: str | None = None,
    state: str | None = None,
    business_key: str | None = None,
    idempotency_key: str | None = None,
    only_types: Sequence[str] | None = None,
    newest_first: bool = True,
    limit: int = 50,
    after: UUID | None = None,
) -> Select[Any]:
    """A select of at most `limit` tasks beyond `after` (the last task_id of the page before), in order of creation."""
    # A list of open work starts from the narrow queue; anything else walks the ids, which sort by creation.
    view = table("open_task_list" if state in OPEN_STATES else "task_list", *map(column, _COLUMNS), schema="celeriac")
    statement = select(view)
    for name, value in {
        "task_type": task_type,
        "state": state,
        "business_key": business_key,
        "idempotency_key": idempotency_key,
    }.items():
        if value is not None:
            statement = statement.where(view.c[name] == value)
    if only_types is not None:
        statement = statement.where(or_(*(view.c.task_type.like(pattern) for pattern in only_types), text("false")))
    if after is not None:
        statement = statement.where(view.c.task_id < after if newest_first else view.c.task_id > after)
    order = view.c.task_id.desc() if newest_first else view.c.task_id.asc()
    return statement.order_by(order).limit(limit)


def view_rows(view: str, **equal: Any) -> Select[Any]:
    """All rows of one of our views, by equality on columns of it."""
    statement = select(text("*")).select_from(table(view, schema="celeriac"))
    for name, value in equal.items():
        statement = statement.where(column(name) == literal(value))
    return statement
