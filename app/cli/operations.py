"""`celeriac operations`: steps with an effect outside, and what came of those that nobody could reconcile."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from app.cli.database import connection, select
from app.cli.exits import ExitCode, Stop
from app.cli.options import Json, json_option
from app.cli.output import decoded, document, facts, paged, remark

group = typer.Typer(help="Look at operations, say what came of unknown ones.", no_args_is_help=True)


class State(StrEnum):
    STARTED = "STARTED"
    DONE = "DONE"
    NOT_DONE = "NOT_DONE"
    UNKNOWN = "UNKNOWN"
    FAILED = "FAILED"


class Outcome(StrEnum):
    DONE = "DONE"
    NOT_DONE = "NOT_DONE"
    FAILED = "FAILED"


@group.command("list")
def list_operations(
    state: Annotated[State | None, typer.Option(help="Only in this state.", case_sensitive=False)] = None,
    task_id: Annotated[UUID | None, typer.Option(help="Only of this task.")] = None,
    task_type: Annotated[str | None, typer.Option("--task-type", help="Only of this task type.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Operations on one page.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List operations, newest first. --state unknown are those that somebody must decide about."""
    from db.listing import operation_page

    page = operation_page(
        state=state.value if state else None, task_id=task_id, task_type=task_type, limit=limit + 1, after=cursor
    )
    with connection() as conn:
        found = [dict(row) for row in conn.execute(page).mappings()]
    columns = ["operation_id", "state", "task_type", "task_id", "name", "attempt", "started_at", "unknown_at", "error"]
    paged("operations", found, limit, columns, "no operation", as_json)


@group.command("show")
def show_operation(operation_id: UUID, as_json: Json = False) -> None:
    """Show one operation with its plan, which was written before the effect, and its result."""
    with connection() as conn:
        found = select(conn, "select * from celeriac.operations where operation_id = :id", id=operation_id)
    if not found:
        raise Stop(ExitCode.FAILED, f"operation_id: there is no operation {operation_id}")
    operation = found[0] | {name: decoded(found[0][name]) for name in ("plan", "result")}
    if as_json:
        document(operation)
    else:
        facts(operation)


@group.command("resolve")
def resolve_operation(
    operation_id: UUID,
    outcome: Annotated[Outcome, typer.Argument(case_sensitive=False)],
    result: Annotated[str | None, typer.Option(metavar="JSON", help="With DONE: what it returned.")] = None,
    note: Annotated[str | None, typer.Option(help="Why; with FAILED it is the error that the task is given.")] = None,
    as_json: Json = False,
) -> None:
    """Say what came of an operation that is UNKNOWN. DONE (with its result), NOT_DONE (it is done again) or FAILED."""
    from db.call import one

    came = json_option(result, "--result")
    with connection() as conn:
        row = one(conn, "resolve_operation", operation_id=operation_id, outcome=outcome.value, result=came, note=note)
    if as_json:
        document({"operation_id": row.operation_id, "task_id": row.task_id, "state": row.state})
    else:
        remark(f"operation {row.operation_id} is {row.state}; task {row.task_id} goes on")
