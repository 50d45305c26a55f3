"""`celeriac messages`: tell processes that something has happened."""

from typing import Annotated, Any
from uuid import UUID

import typer

from app.cli.advancing import advance_now
from app.cli.database import connection
from app.cli.options import Json, json_option
from app.cli.output import document, remark

group = typer.Typer(help="Send messages and signals to processes that wait for them.", no_args_is_help=True)

Variables = Annotated[str, typer.Option(metavar="JSON", help="What is told: a JSON object.")]
TtlMs = Annotated[int, typer.Option(help="How long it is kept when nobody waits for it, in milliseconds.")]


@group.command("send")
def send_message(
    name: str,
    business_key: Annotated[str | None, typer.Option(help="Only to an instance with this business key.")] = None,
    correlation: Annotated[
        str, typer.Option(metavar="JSON", help="Only where these variables have these values: a JSON object.")
    ] = "{}",
    instance_id: Annotated[UUID | None, typer.Option(help="Only to this instance.")] = None,
    variables: Variables = "{}",
    everyone: Annotated[bool, typer.Option("--everyone", help="To all that wait and fit, not to exactly one.")] = False,
    ttl_ms: TtlMs = 0,
    as_json: Json = False,
) -> None:
    """Send a BPMN message. To the one instance that waits for it, or to the process that it starts."""
    _throw(
        as_json,
        kind="message",
        name=name,
        business_key=business_key,
        correlation=json_option(correlation, "--correlation"),
        instance_id=instance_id,
        variables=json_option(variables, "--variables"),
        everyone=everyone,
        ttl_ms=ttl_ms,
    )


@group.command("signal")
def send_signal(name: str, variables: Variables = "{}", ttl_ms: TtlMs = 0, as_json: Json = False) -> None:
    """Send a BPMN signal to all that wait for it. (Signals of durable tasks: celeriac signals.)"""
    _throw(as_json, kind="signal", name=name, variables=json_option(variables, "--variables"), ttl_ms=ttl_ms)


def _throw(as_json: bool, **event: Any) -> None:
    from db.call import rows

    with connection() as conn:
        reached = rows(conn, "throw_event", **event)
        advance_now(conn, [row.instance_id for row in reached])
    kept = not reached and event["ttl_ms"] > 0
    if as_json:
        shown = [
            {"instance_id": row.instance_id, "definition_id": row.definition_id, "started": row.started}
            for row in reached
        ]
        document({"reached": shown, "kept": kept})
        return
    for row in reached:
        remark(f"instance {row.instance_id} was {'started' if row.started else 'reached'}")
    if not reached:
        remark("it is kept: nobody waits for it now" if kept else "nobody waits for it")
