"""`celeriac signals`: tell waiting tasks something."""

from typing import Annotated

import typer

from app.cli.database import connection
from app.cli.options import Json, json_option
from app.cli.output import document, remark

group = typer.Typer(help="Send signals to tasks that wait for them.", no_args_is_help=True)

WEEK_MS = 604_800_000


@group.command("send")
def send_signal(
    topic: str,
    key: Annotated[str | None, typer.Option(help="Only to those who wait for the topic with this key.")] = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="What is told: any JSON.")] = None,
    ttl_ms: Annotated[int, typer.Option(help="How long it is kept when nobody waits yet, in milliseconds.")] = WEEK_MS,
    dedupe_id: Annotated[str | None, typer.Option(help="A second one with this id (and topic, key) is none.")] = None,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="To all who wait, not only to the one that has waited longest.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a signal. To the task that waits longest for it, or to the first that will."""
    from db.call import one

    told = json_option(payload, "--payload")
    with connection() as conn:
        row = one(
            conn,
            "send_signal",
            topic=topic,
            key=key,
            payload=told,
            ttl_ms=ttl_ms,
            dedupe_id=dedupe_id,
            broadcast=broadcast,
        )
    if as_json:
        document({"signal_id": row.signal_id, "created": row.created, "delivered": row.delivered})
    elif not row.created:
        remark(f"signal {row.signal_id} was sent before")
    elif row.delivered:
        remark(f"signal {row.signal_id} woke {row.delivered} tasks")
    else:
        remark(f"signal {row.signal_id} is kept: no task waits for it now")
