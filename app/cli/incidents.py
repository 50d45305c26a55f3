"""`celeriac incidents`: what a person must look at, and what was decided."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from app.cli.advancing import advance_now
from app.cli.database import connection, select
from app.cli.exits import ExitCode, Stop
from app.cli.options import Json
from app.cli.output import decoded, document, facts, paged, remark

group = typer.Typer(help="Look at incidents and decide about them.", no_args_is_help=True)


class Shown(StrEnum):
    OPEN = "OPEN"
    RESOLVED = "RESOLVED"
    ALL = "ALL"


class Kind(StrEnum):
    OPERATION_UNKNOWN = "operation_unknown"
    OTHER_CODE = "other_code"
    UNDO_FAILED = "undo_failed"
    EXPRESSION = "expression"
    MODEL = "model"
    LOOP = "loop"
    FAILED = "failed"


class Resolution(StrEnum):
    RETRY = "retry"
    FAIL = "fail"
    SKIP = "skip"


@group.command("list")
def list_incidents(
    state: Annotated[Shown, typer.Option(help="Which incidents.", case_sensitive=False)] = Shown.OPEN,
    kind: Annotated[Kind | None, typer.Option(help="Only this kind.", case_sensitive=False)] = None,
    task_id: Annotated[UUID | None, typer.Option(help="Only of this task.")] = None,
    task_type: Annotated[str | None, typer.Option("--task-type", help="Only of this task type.")] = None,
    instance_id: Annotated[UUID | None, typer.Option(help="Only of this process instance.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Incidents on one page.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List incidents, newest first. Open ones, unless --state says otherwise."""
    from db.listing import incident_page

    page = incident_page(
        state=state.value,
        kind=kind.value if kind else None,
        task_id=task_id,
        task_type=task_type,
        instance_id=instance_id,
        limit=limit + 1,
        after=cursor,
    )
    with connection() as conn:
        found = [dict(row) for row in conn.execute(page).mappings()]
    columns = [
        "incident_id", "kind", "task_type", "task_id", "instance_id", "name", "operation_id", "created_at", "message",
    ]  # fmt: skip
    decided = [] if state is Shown.OPEN else ["resolution", "resolved_by", "note"]
    paged("incidents", found, limit, [*columns, *decided], "no incident", as_json)


@group.command("show")
def show_incident(incident_id: UUID, as_json: Json = False) -> None:
    """Show one incident with its details."""
    with connection() as conn:
        found = select(conn, "select * from celeriac.incidents where incident_id = :id", id=incident_id)
    if not found:
        raise Stop(ExitCode.FAILED, f"incident_id: there is no incident {incident_id}")
    incident = found[0] | {"detail": decoded(found[0]["detail"])}
    if as_json:
        document(incident)
    else:
        facts(incident)


@group.command("resolve")
def resolve_incident(
    incident_id: UUID,
    resolution: Annotated[Resolution, typer.Argument(case_sensitive=False)],
    note: Annotated[str | None, typer.Option(help="Why; kept with the incident and in the task's timeline.")] = None,
    as_json: Json = False,
) -> None:
    """Decide about an incident. other_code: retry or fail; undo_failed: retry or skip; of an instance: retry.

    retry: the task goes on, with the code that runs by now; the instance tries again what it could not do. skip: this
    undo is left out. One of the kind operation_unknown is resolved by
    `celeriac operations resolve`, which says what came of the operation.
    """
    from db.call import one

    with connection() as conn:
        row = one(conn, "resolve_incident", incident_id=incident_id, resolution=resolution.value, note=note)
        if row.instance_id is not None:
            advance_now(conn, [row.instance_id])
    if as_json:
        shown = ("incident_id", "task_id", "instance_id", "resolution")
        document({name: getattr(row, name) for name in shown})
    else:
        what = f"instance {row.instance_id}" if row.instance_id is not None else f"task {row.task_id}"
        remark(f"incident {row.incident_id} is resolved: {row.resolution}; {what} goes on")
