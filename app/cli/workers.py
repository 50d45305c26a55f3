"""`celeriac workers`: who has registered, and who is alive."""

import json

import typer

from app.cli.database import connection, select
from app.cli.options import Json
from app.cli.output import document, table

group = typer.Typer(help="Look at workers.", no_args_is_help=True)


@group.command("list")
def list_workers(as_json: Json = False) -> None:
    """List workers, the ones heard last first."""
    with connection() as conn:
        found = select(conn, "select * from celeriac.worker_list order by heartbeat_at desc")
    for worker in found:
        worker |= {name: json.loads(worker[name]) for name in ("versions", "details") if worker.get(name) is not None}
    if as_json:
        document({"workers": found})
    else:
        table(["worker_id", "kind", "task_types", "live", "heartbeat_at"], found, "no worker has registered")
