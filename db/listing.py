"""Pages of tasks, incidents and operations: keyset pages over the views, newest or oldest first; and of a task's steps.

Only names from this file reach an ORDER BY. The ids sort by the time at which things came to be.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    TableClause,
    TextClause,
    column,
    func,
    literal,
    not_,
    or_,
    select,
    table,
    text,
)

OPEN_STATES = ("READY", "SCHEDULED", "LOCKED", "BLOCKED")
ENDED_STATES = ("COMPLETED", "FAILED", "CANCELED")
STATES = (*OPEN_STATES, "WAITING", *ENDED_STATES)
# A list of one state starts from where such tasks are, not from all that ever was.
_VIEW_OF = (
    dict.fromkeys(OPEN_STATES, "open_task_list")
    | {"WAITING": "waiting_task_list"}
    | dict.fromkeys(ENDED_STATES, "ended_task_list")
)

# No payloads: a page of them could be hundreds of megabytes.
# fmt: off
_TASK = (
    "task_id", "task_type", "version", "business_key", "state", "priority", "retries", "attempts", "expirations",
    "redrives", "idempotency_key", "fairness_key", "concurrency_key", "undoing", "worker_id", "principal",
    "fencing_token", "lock_expires_at", "run_at", "created_at", "started_at", "ended_at", "error",
)
_INCIDENT = (
    "incident_id", "task_id", "task_type", "kind", "state", "operation_id", "branch", "ordinal", "name", "message",
    "created_at", "resolved_at", "resolution", "resolved_by", "note", "instance_id", "token_id",
)
_OPERATION = (
    "operation_id", "task_id", "task_type", "branch", "ordinal", "name", "state", "attempt", "fencing_token", "error",
    "started_at", "unknown_at", "ended_at",
)
_DEFINITION = (
    "definition_id", "key", "version", "name", "version_tag", "deployment_id", "resource", "topics", "startable",
    "suspended", "deployed_at",
)
_INSTANCE = (
    "instance_id", "definition_id", "process_key", "process_version", "business_key", "status", "suspended",
    "started_at", "ended_at", "outcome", "reason", "principal", "incidents", "topics",
)
OPEN_STATUSES = ("ACTIVE", "COMPENSATING")
STATUSES = (*OPEN_STATUSES, "COMPLETED", "FAILED_COMPENSATED", "CANCELED")
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
    equal = {
        "task_type": task_type,
        "state": state,
        "business_key": business_key,
        "idempotency_key": idempotency_key,
    }
    view = "task_list" if state is None else _VIEW_OF[state]
    return _page(view, _TASK, equal, only_types, newest_first, limit, after)


def incident_page(
    *,
    state: str = "OPEN",
    kind: str | None = None,
    task_id: UUID | str | None = None,
    task_type: str | None = None,
    instance_id: UUID | str | None = None,
    only_types: Sequence[str] | None = None,
    newest_first: bool = True,
    limit: int = 50,
    after: UUID | None = None,
) -> Select[Any]:
    """A select of at most `limit` incidents beyond `after`; `state` is OPEN, RESOLVED or ALL."""
    equal = {
        "kind": kind,
        "task_id": task_id and UUID(str(task_id)),
        "task_type": task_type,
        "instance_id": instance_id and UUID(str(instance_id)),
    }
    page = _page("incidents", _INCIDENT, equal, only_types, newest_first, limit, after)
    resolved_at = page.selected_columns["resolved_at"]
    if state == "OPEN":
        # In the words of the index, which holds open ones alone.
        return page.where(resolved_at.is_(None))
    return page.where(resolved_at.is_not(None)) if state == "RESOLVED" else page


def operation_page(
    *,
    state: str | None = None,
    task_id: UUID | str | None = None,
    task_type: str | None = None,
    only_types: Sequence[str] | None = None,
    newest_first: bool = True,
    limit: int = 50,
    after: UUID | None = None,
) -> Select[Any]:
    """A select of at most `limit` operations beyond `after`, in the order in which they began."""
    equal = {"state": state, "task_id": task_id and UUID(str(task_id)), "task_type": task_type}
    page = _page("operations", _OPERATION, equal, only_types, newest_first, limit, after)
    # In the words of the index, which holds these alone.
    return page.where(text("unknown_at is not null")) if state == "UNKNOWN" else page


def definition_page(
    *,
    key: str | None = None,
    version: int | None = None,
    deployment_id: UUID | str | None = None,
    only_types: Sequence[str] | None = None,
    newest_first: bool = True,
    limit: int = 50,
    after: UUID | None = None,
) -> Select[Any]:
    """A select of at most `limit` process definitions beyond `after`, in the order in which they were deployed."""
    equal = {"key": key, "version": version, "deployment_id": deployment_id and UUID(str(deployment_id))}
    return _page("definitions", _DEFINITION, equal, only_types, newest_first, limit, after)


def instance_page(
    *,
    process_key: str | None = None,
    process_version: int | None = None,
    definition_id: UUID | str | None = None,
    status: str | None = None,
    suspended: bool | None = None,
    business_key: str | None = None,
    has_incident: bool | None = None,
    started_after: datetime | None = None,
    started_before: datetime | None = None,
    only_types: Sequence[str] | None = None,
    newest_first: bool = True,
    limit: int = 50,
    after: UUID | None = None,
) -> Select[Any]:
    """A select of at most `limit` instances beyond `after`, in the order of their start; `status` OPEN: open ones."""
    equal = {
        "process_key": process_key,
        "process_version": process_version,
        "definition_id": definition_id and UUID(str(definition_id)),
        "status": None if status == "OPEN" else status,
        "suspended": suspended,
        "business_key": business_key,
    }
    page = _page("instances", _INSTANCE, equal, only_types, newest_first, limit, after)
    columns = page.selected_columns
    if status in ("OPEN", *OPEN_STATUSES):
        # In the words of the index, which holds open ones alone.
        page = page.where(columns["ended_at"].is_(None))
    if has_incident is not None:
        page = page.where(text(_WITH_INCIDENT if has_incident else f"not {_WITH_INCIDENT}"))
    # The ids sort by the start, and have an index; what is left of a millisecond the time itself decides.
    if started_after is not None:
        page = page.where(columns["instance_id"] >= _first_id(started_after), columns["started_at"] >= started_after)
    if started_before is not None:
        page = page.where(columns["started_at"] < started_before)
        page = page.where(columns["instance_id"] < _first_id(started_before + timedelta(milliseconds=1)))
    return page


_WITH_INCIDENT = (
    "instance_id in (select i.instance_id from celeriac.incidents i where i.resolved_at is null"
    " and i.instance_id is not null)"
)


def _first_id(moment: datetime) -> UUID:
    """The smallest id of its millisecond."""
    return UUID(int=max(int(moment.timestamp() * 1000), 0) << 80)


# `more`: the task has steps after this one. Step by step, so that only what is shown is unpacked, and one more.
_STEPS = text("""
    with recursive page as (
        (select s.*, coalesce(octet_length(s.result::text), 0)::bigint as bytes, 1 as number
           from celeriac.task_steps s
          where s.task_id = cast(:task_id as uuid)
            and (s.branch, s.ordinal) > (cast(:branch as text), cast(:ordinal as integer))
          order by s.branch, s.ordinal limit 1)
         union all
        select n.*, p.bytes + coalesce(octet_length(n.result::text), 0), p.number + 1
          from page p
         cross join lateral (select * from celeriac.task_steps s
                              where s.task_id = p.task_id and (s.branch, s.ordinal) > (p.branch, p.ordinal)
                              order by s.branch, s.ordinal limit 1) n
         where p.number <= :limit and (p.number = 1 or p.bytes <= :max_bytes))
    select branch, ordinal, kind, name, result, error, fencing_token, recorded_at, more
      from (select p.*, number < count(*) over () as more from page p) p
     where number = 1 or (number <= :limit and bytes <= :max_bytes)
     order by number
""")


def step_page(task_id: UUID | str, *, limit: int, max_bytes: int, after: tuple[str, int] | None = None) -> TextClause:
    """A select of at most `limit` steps beyond `after` (branch and ordinal of the last one of the page before).

    It stops before their results are more than `max_bytes`, but has always one; `more` says whether others follow it.
    """
    branch, ordinal = after or ("", 0)
    return _STEPS.bindparams(task_id=str(task_id), branch=branch, ordinal=ordinal, limit=limit, max_bytes=max_bytes)


def _page(
    view_name: str,
    columns: Sequence[str],
    equal: Mapping[str, Any],
    only_types: Sequence[str] | None,
    newest_first: bool,
    limit: int,
    after: UUID | None,
) -> Select[Any]:
    """Rows of a view in the order of its first column, which is their id."""
    view = table(view_name, *map(column, columns), schema="celeriac")
    statement = select(view)
    for name, value in equal.items():
        if value is not None:
            statement = statement.where(view.c[name] == value)
    if only_types is not None:
        statement = statement.where(within(view, only_types))
    key = view.c[columns[0]]
    if after is not None:
        statement = statement.where(key < after if newest_first else key > after)
    return statement.order_by(key.desc() if newest_first else key.asc()).limit(limit)


def within(view: TableClause, only_types: Sequence[str]) -> ColumnElement[bool]:
    """What a key may see. Of tasks: their type is one of the patterns'; of processes: every one they ask for is."""
    if "topics" not in view.c:
        return or_(*(view.c.task_type.like(pattern) for pattern in only_types), text("false"))
    topic = func.unnest(view.c.topics).column_valued("topic")
    foreign = select(topic).where(not_(or_(*(topic.like(pattern) for pattern in only_types), text("false"))))
    return not_(foreign.exists())


def view_rows(view: str, **equal: Any) -> Select[Any]:
    """All rows of one of our views, by equality on columns of it."""
    statement = select(text("*")).select_from(table(view, schema="celeriac"))
    for name, value in equal.items():
        statement = statement.where(column(name) == literal(value))
    return statement
