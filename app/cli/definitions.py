"""`celeriac definitions`: which processes are deployed, in which versions."""

from typing import Annotated
from uuid import UUID

import typer

from app.cli.database import connection
from app.cli.options import Json
from app.cli.output import paged

group = typer.Typer(help="Look at the processes that are deployed.", no_args_is_help=True)


@group.command("list")
def list_definitions(
    key: Annotated[str | None, typer.Option(help="Only of this process (its id in the model).")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Versions on one page.")] = 50,
    cursor: Annotated[UUID | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List processes with all their versions, the latest deployed first, one page at a time."""
    from db.listing import definition_page

    page = definition_page(key=key, limit=limit + 1, after=cursor)
    with connection() as conn:
        found = [dict(row) for row in conn.execute(page).mappings()]
    columns = ["definition_id", "key", "version", "name", "resource", "topics", "suspended", "deployed_at"]
    paged("definitions", found, limit, columns, "no process is deployed", as_json)
