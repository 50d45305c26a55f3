"""`celeriac types`: the defaults that a task type gives to its tasks."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.database import connection, select
from app.cli.options import Json
from app.cli.output import document, facts, table

group = typer.Typer(help="Look at task types and set their defaults.", no_args_is_help=True)


class Delivery(StrEnum):
    PULL = "pull"
    CELERY = "celery"


@group.command("list")
def list_types(as_json: Json = False) -> None:
    """List task types with their defaults."""
    with connection() as conn:
        found = select(conn, "select * from celeriac.task_types order by name")
    if as_json:
        document({"task_types": found})
        return
    columns = ["name", "lease_ms", "retries", "backoff_first_ms", "backoff_factor", "backoff_cap_ms", "backoff_jitter"]
    columns += ["expirations", "delivery", "queue", "concurrency", "rate_tasks", "rate_ms"]
    table(columns, found, "no task type is registered")


@group.command("set")
def set_type(
    name: str,
    lease_ms: Annotated[int | None, typer.Option(help="How long a worker holds a task, in milliseconds.")] = None,
    retries: Annotated[int | None, typer.Option(help="Failures until a task is FAILED.")] = None,
    backoff_first_ms: Annotated[int | None, typer.Option(help="Wait after the first failure, in milliseconds.")] = None,
    backoff_factor: Annotated[float | None, typer.Option(help="The wait grows by this factor each time.")] = None,
    backoff_cap_ms: Annotated[int | None, typer.Option(help="The longest wait, in milliseconds.")] = None,
    backoff_jitter: Annotated[float | None, typer.Option(help="Share of the wait that is random, 0 to 1.")] = None,
    expirations: Annotated[int | None, typer.Option(help="Lost leases until a task is FAILED.")] = None,
    delivery: Annotated[Delivery | None, typer.Option(help="Workers pull, or a Celery queue is rung.")] = None,
    queue: Annotated[str | None, typer.Option(help="The Celery queue to ring.")] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Tasks of one concurrency key that run at once; 0: no limit.")
    ] = None,
    rate_tasks: Annotated[int | None, typer.Option(help="Tasks handed out in --rate-ms at most; 0: no limit.")] = None,
    rate_ms: Annotated[int | None, typer.Option(help="The period of --rate-tasks, in milliseconds.")] = None,
    as_json: Json = False,
) -> None:
    """Register a task type or change its defaults; what is not given stays. Tasks that exist keep their policy."""
    from db.call import one

    given: dict[str, Any] = {
        "lease_ms": lease_ms,
        "retries": retries,
        "backoff_first_ms": backoff_first_ms,
        "backoff_factor": backoff_factor,
        "backoff_cap_ms": backoff_cap_ms,
        "backoff_jitter": backoff_jitter,
        "expirations": expirations,
        "delivery": delivery.value if delivery else None,
        "queue": queue,
        "concurrency": concurrency,
        "rate_tasks": rate_tasks,
        "rate_ms": rate_ms,
    }
    settings = {setting: value for setting, value in given.items() if value is not None}
    with connection() as conn:
        task_type = dict(one(conn, "register_task_type", name=name, **settings)._mapping)
    if as_json:
        document(task_type)
    else:
        facts(task_type)


@group.command("stuck")
def list_stuck(as_json: Json = False) -> None:
    """List versions with open work that no live worker runs. Workers that have not registered are not known here."""
    with connection() as conn:
        found = select(conn, "select * from celeriac.stuck_versions order by oldest_created_at, task_type, version")
    if as_json:
        document({"stuck_versions": found})
        return
    table(
        ["task_type", "version", "open_tasks", "waiting_tasks", "oldest_created_at"],
        found,
        "every version has a live worker",
    )
