"""`celeriac instances`: where processes stand; stop them, let them stand still, change what they know."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from app.cli.advancing import advance_now
from app.cli.database import connection, select
from app.cli.exits import ExitCode, Stop
from app.cli.options import TIME_FORMATS, TIME_HELP, Json, Yes, in_utc, json_option
from app.cli.output import agreed, decoded, document, facts, paged, remark, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

group = typer.Typer(help="Look at process instances, stop, suspend and change them.", no_args_is_help=True)

MOST_SHOWN = 1000


class Status(StrEnum):
    OPEN = "OPEN"
    ACTIVE = "ACTIVE"
    COMPENSATING = "COMPENSATING"
    COMPLETED = "COMPLETED"
    FAILED_COMPENSATED = "FAILED_COMPENSATED"
    CANCELED = "CANCELED"


@group.command("list")
def list_instances(
    key: Annotated[str | None, typer.Option(help="Only of this process.")] = None,
    version: Annotated[int | None, typer.Option(min=1, help="Only of this version of it.")] = None,
    status: Annotated[
        Status | None, typer.Option(help="Only with this status; OPEN: that have not ended.", case_sensitive=False)
    ] = None,
    business_key: Annotated[str | None, typer.Option(help="Only with this business key.")] = None,
    with_incident: Annotated[bool, typer.Option("--with-incident", help="Only with open incidents.")] = False,
    suspended: Annotated[bool, typer.Option("--suspended", help="Only those that stand still.")] = False,
    started_after: Annotated[datetime | None, typer.Option(formats=TIME_FORMATS, help=TIME_HELP)] = None,
    started_before: Annotated[datetime | None, typer.Option(formats=TIME_FORMATS, help=TIME_HELP)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Instances on one page.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List instances, the latest started first, one page at a time."""
    from db.listing import instance_page

    page = instance_page(
        process_key=key,
        process_version=version,
        status=status.value if status else None,
        business_key=business_key,
        has_incident=True if with_incident else None,
        suspended=True if suspended else None,
        started_after=in_utc(started_after),
        started_before=in_utc(started_before),
        limit=limit + 1,
        after=cursor,
    )
    with connection() as conn:
        found = [_without_topics(dict(row)) for row in conn.execute(page).mappings()]
    columns = [
        "instance_id", "process_key", "process_version", "business_key", "status", "suspended", "incidents",
        "started_at", "ended_at",
    ]  # fmt: skip
    paged("instances", found, limit, columns, "no instance matches", as_json)


@group.command("show")
def show_instance(
    instance_id: UUID,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write its picture there.")] = None,
    as_json: Json = False,
) -> None:
    """Show one instance. Where its tokens stand, what they wait for, what it knows, what can be undone."""
    with connection() as conn:
        instance = whole_instance(conn, instance_id)
        if svg is not None:
            svg.write_text(picture(conn, instance), encoding="utf-8")
    if as_json:
        document(instance)
        return
    parts = {name: instance.pop(name) for name in ("tokens", "waits", "undos", "open_incidents", "local_variables")}
    variables = instance.pop("variables")
    facts(instance)
    print("\ntokens")
    table(["node", "phase", "stuck", "undoing", "entered_at", "token_id"], parts["tokens"], "none")
    if parts["waits"]:
        print("\nwaits for")
        table(["node", "kind", "name", "due_at", "fired", "opened_at"], parts["waits"], "")
    if parts["open_incidents"]:
        print("\nincidents")
        table(["incident_id", "kind", "node", "message", "created_at"], parts["open_incidents"], "")
    print("\nvariables")
    table(["name", "value"], [{"name": name, "value": value} for name, value in variables.items()], "none")
    if parts["local_variables"]:
        print("\nvariables inside")
        table(["scope", "name", "value"], parts["local_variables"], "")
    if parts["undos"]:
        print("\nto undo")
        table(["activity", "handler", "used"], parts["undos"], "")


@group.command("history")
def show_history(
    instance_id: UUID,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Lines on one page.")] = 200,
    cursor: Annotated[int, typer.Option(min=0, help="Where the last page ended (its next_cursor).")] = 0,
    as_json: Json = False,
) -> None:
    """Show what has happened in an instance, oldest first."""
    with connection() as conn:
        row_of(conn, instance_id)
        found = select(
            conn,
            "select number, at, token, what, node, task_id, worker_id from celeriac.instance_timeline"
            " where instance_id = :id and number > :after order by number limit :most",
            id=instance_id,
            after=cursor,
            most=limit + 1,
        )
    columns = ["number", "at", "what", "node", "token", "worker_id", "task_id"]
    paged("history", found, limit, columns, "nothing has happened", as_json)


@group.command("cancel")
def cancel_instance(
    instance_id: UUID,
    reason: Annotated[str | None, typer.Option(help="Why; kept with the instance.")] = None,
    compensate: Annotated[
        bool, typer.Option("--compensate", help="Undo what it has done first, the newest first.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Stop an instance and its open tasks."""
    from db.call import one
    from db.errors import AlreadyEnded

    agreed(f"Cancel instance {instance_id}?", yes)
    with connection() as conn:
        one(conn, "stop_instance", instance_id=instance_id, reason=reason, compensate=compensate)
        advance_now(conn, [instance_id])
        if (status := row_of(conn, instance_id)["status"]) in ("COMPLETED", "FAILED_COMPENSATED"):
            raise AlreadyEnded(f"the instance has ended as {status}")
        _say_status(conn, instance_id, as_json)


@group.command("migrate")
def migrate_instance(instance_id: UUID, version: int, as_json: Json = False) -> None:
    """Let an open instance go on in another version of its process, from where it stands."""
    from sqlalchemy import text

    from db.call import one
    from db.errors import NotFound

    statement = """
        select d.definition_id from celeriac.definitions d join celeriac.instances i on i.process_key = d.key
         where i.instance_id = :instance and d.version = :version"""
    with connection() as conn:
        found = conn.execute(text(statement), {"instance": instance_id, "version": version}).scalar_one_or_none()
        if found is None:
            raise NotFound("there is no such instance, or its process has no such version")
        one(conn, "migrate_instance", instance_id=instance_id, definition_id=found)
        advance_now(conn, [instance_id])
        _say_status(conn, instance_id, as_json)


@group.command("suspend")
def suspend_instance(instance_id: UUID, as_json: Json = False) -> None:
    """Let an instance stand still. What happens to it is kept until it is resumed."""
    from db.call import one

    with connection() as conn:
        one(conn, "suspend_instance", instance_id=instance_id, suspended=True)
        _say_status(conn, instance_id, as_json)


@group.command("resume")
def resume_instance(instance_id: UUID, as_json: Json = False) -> None:
    """Let a suspended instance go on."""
    from db.call import one

    with connection() as conn:
        one(conn, "suspend_instance", instance_id=instance_id, suspended=False)
        advance_now(conn, [instance_id])
        _say_status(conn, instance_id, as_json)


@group.command("variables")
def change_variables(
    instance_id: UUID,
    put: Annotated[
        str | None, typer.Option("--set", metavar="JSON", help="A JSON object: variables to set at the root.")
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A variable to remove; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Show the variables of an instance, or set and remove some of an open one."""
    from db.call import one

    given = json_option(put, "--set")
    with connection() as conn:
        if given is not None or remove:
            one(conn, "set_variables", instance_id=instance_id, variables=given or "{}", drop_names=remove or [])
        variables = whole_instance(conn, instance_id)["variables"]
    if as_json:
        document({"instance_id": instance_id, "variables": variables})
    else:
        table(["name", "value"], [{"name": name, "value": value} for name, value in variables.items()], "none")


@group.command("complete")
def complete_token(
    instance_id: UUID,
    token_id: UUID,
    variables: Annotated[str, typer.Option(metavar="JSON", help="What came of it: a JSON object.")] = "{}",
    as_json: Json = False,
) -> None:
    """Complete the user task or receive task that a token stands on."""
    from db.call import one

    given = json_option(variables, "--variables")
    with connection() as conn:
        tokens = whole_instance(conn, instance_id)["tokens"]
        if token_id not in [token["token_id"] for token in tokens]:
            raise Stop(ExitCode.FAILED, f"token_id: there is no token {token_id} in this instance")
        one(conn, "complete_token", token_uid=token_id, variables=given)
        advance_now(conn, [instance_id])
        _say_status(conn, instance_id, as_json)


def whole_instance(conn: "Connection", instance_id: UUID) -> dict[str, Any]:
    """The instance as `GET /v1/process-instances/{instance_id}` shows it."""
    from db.instance_parts import PARTS

    instance = row_of(conn, instance_id)
    for part, statement in PARTS.items():
        instance[part] = select(conn, statement, id=instance_id, most=MOST_SHOWN)
    variables = [row | {"value": decoded(row["value"])} for row in instance["variables"]]
    instance["variables"] = {row["name"]: row["value"] for row in variables if row["root"]}
    instance["local_variables"] = [
        {name: value for name, value in row.items() if name != "root"} for row in variables if not row["root"]
    ]
    return instance


def row_of(conn: "Connection", instance_id: UUID) -> dict[str, Any]:
    found = select(conn, "select * from celeriac.instances where instance_id = :id", id=instance_id)
    if not found:
        raise Stop(ExitCode.FAILED, f"instance_id: there is no instance {instance_id}")
    return _without_topics(found[0])


def picture(conn: "Connection", instance: dict[str, Any]) -> str:
    """The SVG of where an instance stands."""
    from app.diagram.drawing import drawing
    from app.diagram.svg import Marks
    from db.instance_parts import COUNTS

    counts = {
        name: {row["node"]: row["number"] for row in select(conn, statement, id=instance["instance_id"])}
        for name, statement in COUNTS.items()
    }
    (model,) = select(
        conn,
        "select g.graph, r.content from celeriac.definition_graphs g join celeriac.definitions d using (definition_id)"
        " join celeriac.resources r on r.deployment_id = d.deployment_id and r.name = d.resource"
        " where g.definition_id = :id",
        id=instance["definition_id"],
    )
    return drawing(model["graph"], bytes(model["content"]), Marks(**counts))


def _say_status(conn: "Connection", instance_id: UUID, as_json: bool) -> None:
    instance = row_of(conn, instance_id)
    if as_json:
        document({name: instance[name] for name in ("instance_id", "status", "suspended")})
    else:
        still = ", suspended" if instance["suspended"] else ""
        remark(f"instance {instance_id} is {instance['status']}{still}")


def _without_topics(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "topics"}
