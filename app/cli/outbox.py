"""`celeriac outbox`: what must leave Postgres and does not, and another try for it."""

import json
from typing import Annotated

import typer

from app.cli.database import connection, select
from app.cli.options import Json, Yes
from app.cli.output import agreed, document, remark, table

group = typer.Typer(help="Look at the outbox, send parked rows again.", no_args_is_help=True)


@group.command("list")
def list_outbox(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Parked rows to show.")] = 50, as_json: Json = False
) -> None:
    """List the channels with what waits (pending), and the rows that were given up (parked) with the reason."""
    with connection() as conn:
        depths = select(conn, "select * from celeriac.outbox_depth order by channel")
        found = select(conn, "select * from celeriac.parked_outbox order by id limit :limit", limit=limit)
    parked = [dict(row) | {"payload": json.loads(row["payload"])} for row in found]
    if as_json:
        document({"channels": depths, "parked": parked})
        return
    table(["channel", "pending", "parked", "oldest_due_at"], depths, "the outbox is empty")
    if parked:
        print()
        table(["id", "channel", "key", "attempts", "parked_at", "error", "payload"], parked, "")


@group.command("resend")
def resend_outbox(
    max_rows: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many rows.")] = 1000,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give parked rows back to the dispatcher, once what made them fail is mended."""
    from db.call import one

    agreed(f"Send up to {max_rows} parked rows again?", yes)
    with connection() as conn:
        resent = one(conn, "resend_outbox", max_rows=max_rows).resent
    if as_json:
        document({"resent": resent})
    else:
        remark(f"{resent} rows will be sent again")
