"""`celeriac tasks`: look at tasks, cancel them, give failed ones another chance."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from app.cli.database import connection, select
from app.cli.exits import ExitCode, Stop
from app.cli.options import TIME_FORMATS, TIME_HELP, Json, Yes, in_utc
from app.cli.output import agreed, decoded, document, facts, paged, remark, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

group = typer.Typer(help="Look at tasks, cancel them, redrive failed ones.", no_args_is_help=True)

# One call redrives at most this many, so that a bulk redrive is many short transactions.
REDRIVE_BATCH = 1000
MOST_RESULT_BYTES = 4 << 20


class State(StrEnum):
    READY = "READY"
    SCHEDULED = "SCHEDULED"
    LOCKED = "LOCKED"
    BLOCKED = "BLOCKED"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class Order(StrEnum):
    OLDEST_FIRST = "created_at"
    NEWEST_FIRST = "-created_at"


@group.command("list")
def list_tasks(
    task_type: Annotated[str | None, typer.Option("--task-type", help="Only this task type.")] = None,
    state: Annotated[State | None, typer.Option(help="Only tasks in this state.", case_sensitive=False)] = None,
    business_key: Annotated[str | None, typer.Option(help="Only tasks with this business key.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Only the task with this idempotency key.")] = None,
    sort: Annotated[Order, typer.Option(help="By time of creation; '-' means newest first.")] = Order.NEWEST_FIRST,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Tasks on one page.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List tasks, one page at a time."""
    from db.listing import task_page

    page = task_page(
        task_type=task_type,
        state=state.value if state else None,
        business_key=business_key,
        idempotency_key=idempotency_key,
        newest_first=sort is Order.NEWEST_FIRST,
        limit=limit + 1,
        after=cursor,
    )
    with connection() as conn:
        found = [dict(row) for row in conn.execute(page).mappings()]
    columns = ["task_id", "task_type", "state", "retries", "attempts", "worker_id", "created_at", "error"]
    paged("tasks", found, limit, columns, "no task matches", as_json)


@group.command("show")
def show_task(task_id: UUID, as_json: Json = False) -> None:
    """Show one task. What is asked, what came of it, every attempt, and everything out of the ordinary."""
    with connection() as conn:
        task = whole_task(conn, task_id)
    if as_json:
        document(task)
        return
    attempts, timeline = task.pop("attempts"), task.pop("timeline")
    waits, compensations = task.pop("waits"), task.pop("compensations")
    facts(task)
    if waits:
        print("\nwaits for")
        table(["kind", "name", "topic", "key", "until", "child_id", "incident_id", "since"], waits, "")
    if compensations:
        print("\nundo")
        table(["number", "name", "state", "registered_at", "ended_at", "error"], compensations, "")
    print("\nattempts")
    table(["attempt", "worker_id", "fencing_token", "outcome", "started_at", "ended_at", "error"], attempts, "none yet")
    print("\ntimeline")
    table(["at", "kind", "fencing_token", "worker_id", "principal", "detail"], timeline, "nothing out of the ordinary")


def whole_task(conn: "Connection", task_id: UUID) -> dict[str, Any]:
    """The task as `GET /v1/tasks/{task_id}` shows it."""
    found = select(conn, "select * from celeriac.task_detail where task_id = :task_id", task_id=task_id)
    if not found:
        raise Stop(ExitCode.FAILED, f"task_id: there is no task {task_id}")
    task = dict(found[0])
    for name in ("variables", "result", "policy"):
        task[name] = decoded(task[name])
    attempts = select(conn, "select * from celeriac.task_attempts where task_id = :id order by attempt", id=task_id)
    timeline = select(conn, "select * from celeriac.task_timeline where task_id = :id order by at", id=task_id)
    waits = "select * from celeriac.waits where task_id = :id and armed order by branch, ordinal limit 1000"
    undos = "select * from celeriac.compensations where task_id = :id order by number desc limit 1000"
    task["waits"] = [without(row, "task_id", "task_type", "armed") for row in select(conn, waits, id=task_id)]
    task["compensations"] = [without(row, "task_id", "task_type") for row in select(conn, undos, id=task_id)]
    task["attempts"] = [without(attempt, "task_id") for attempt in attempts]
    task["timeline"] = [without(entry, "task_id") | {"detail": decoded(entry["detail"])} for entry in timeline]
    return task


def without(row: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in left_out}


@group.command("steps")
def list_steps(
    task_id: UUID,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Steps on one page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List what a durable task has done so far. In the order of its code, with the results that a replay is given."""
    from db.listing import step_page

    after = None if cursor is None else place(cursor)
    with connection() as conn:
        if not select(conn, "select 1 from celeriac.task_list where task_id = :task_id", task_id=task_id):
            raise Stop(ExitCode.FAILED, f"task_id: there is no task {task_id}")
        page = step_page(task_id, limit=limit, max_bytes=MOST_RESULT_BYTES, after=after)
        found = [dict(row) for row in conn.execute(page).mappings()]
    more = bool(found) and found[-1]["more"]
    next_cursor = f"{found[-1]['branch']}:{found[-1]['ordinal']}" if more else None
    steps = [
        {name: value for name, value in row.items() if name != "more"} | {"result": decoded(row["result"])}
        for row in found
    ]
    if as_json:
        document({"steps": steps, "next_cursor": next_cursor})
        return
    table(["branch", "ordinal", "kind", "name", "recorded_at", "error", "result"], steps, "no step yet")
    if next_cursor:
        remark(f"more: --cursor {next_cursor}")


def place(cursor: str) -> tuple[str, int]:
    """A place in a task, as a cursor of `tasks steps` names it: `1.0/2.1:17`, or `:17` in the handler itself."""
    branch, _, ordinal = cursor.rpartition(":")
    if not ordinal.isdecimal() or len(ordinal) > 9:
        raise Stop(ExitCode.USAGE, "--cursor: not the next_cursor of a list of steps")
    return branch, int(ordinal)


@group.command("cancel")
def cancel_tasks(
    task_ids: Annotated[list[UUID], typer.Argument(metavar="TASK_ID...")],
    reason: Annotated[str | None, typer.Option(help="Why; kept in the task's timeline.")] = None,
    compensate: Annotated[bool, typer.Option("--compensate", help="Let them undo first what they have done.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Cancel open tasks. A worker that holds one is told, and what it writes afterwards is refused."""
    if len(task_ids) > 1:
        agreed(f"Cancel {len(task_ids)} tasks?", yes)
    change_each(task_ids, as_json, "cancel_task", reason=reason, compensate=compensate)


@group.command("redrive")
def redrive_tasks(
    task_ids: Annotated[list[UUID] | None, typer.Argument(metavar="[TASK_ID...]")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every FAILED task that the filters below let through.")] = False,
    task_type: Annotated[str | None, typer.Option("--task-type", help="With --all: only this task type.")] = None,
    failed_after: Annotated[
        datetime | None,
        typer.Option(formats=TIME_FORMATS, metavar="TIME", help=f"With --all: failed since then. {TIME_HELP}"),
    ] = None,
    failed_before: Annotated[
        datetime | None, typer.Option(formats=TIME_FORMATS, metavar="TIME", help="With --all: failed before then.")
    ] = None,
    max_tasks: Annotated[int, typer.Option(min=1, help="With --all: at most this many tasks.")] = 1_000_000,
    retries: Annotated[
        int | None, typer.Option(min=1, help="Failures allowed from now on; the type's when absent.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give FAILED tasks another chance. The ones named, or with --all every one of a type or time."""
    filters = (task_type, failed_after, failed_before)
    if every == bool(task_ids) or (task_ids and any(filters)) or (every and retries):
        raise Stop(ExitCode.USAGE, "redrive takes either task ids (and --retries) or --all (and filters)")
    if every:
        agreed(f"Redrive every failed task{f' of type {task_type}' if task_type else ''}?", yes)
        redriven = redrive_all(task_type, failed_after, failed_before, max_tasks)
        if as_json:
            document({"task_ids": redriven})
        else:
            remark(f"{len(redriven)} tasks redriven")
        return
    change_each(task_ids or [], as_json, "redrive_task", retries=retries)


def redrive_all(
    task_type: str | None, failed_after: datetime | None, failed_before: datetime | None, max_tasks: int
) -> list[UUID]:
    """Redrive in batches what failed before now: a task that fails again meanwhile is not driven round and round."""
    from db.call import rows

    redriven: list[UUID] = []
    with connection() as conn:
        until = in_utc(failed_before) or select(conn, "select clock_timestamp() as now")[0]["now"]
        while len(redriven) < max_tasks:
            batch = rows(
                conn,
                "redrive_tasks",
                task_type=task_type,
                failed_after=in_utc(failed_after),
                failed_before=until,
                max_tasks=min(REDRIVE_BATCH, max_tasks - len(redriven)),
            )
            if not batch:
                break
            redriven += [row.task_id for row in batch]
    return redriven


def change_each(task_ids: list[UUID], as_json: bool, function: str, **arguments: object) -> None:
    """Call the function for each task and say what became of it; a refusal is exit code 1 and stops no other."""
    from db.call import one
    from db.errors import Refused

    changed, refusals = [], []
    with connection() as conn:
        for task_id in task_ids:
            try:
                row = one(conn, function, task_id=task_id, **arguments)
                changed.append({"task_id": row.task_id, "state": row.state})
            except Refused as refused:
                refusals.append(f"{task_id}: {refused.message} ({refused.code})")
    if as_json and changed:
        document({"tasks": changed})
    elif changed:
        table(["task_id", "state"], changed, "nothing was done")
    if refusals:
        raise Stop(ExitCode.FAILED, "; ".join(refusals))
