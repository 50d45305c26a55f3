"""`celeriac schedules`: what is enqueued again and again, and when."""

import json
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.database import connection, select
from app.cli.exits import ExitCode, Stop
from app.cli.options import TIME_FORMATS, TIME_HELP, Json, Yes, in_utc, json_option
from app.cli.output import agreed, decoded, document, facts, paged, remark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from app.cron import Timing

group = typer.Typer(help="Put schedules, look at them, pause, resume and delete them.", no_args_is_help=True)

TRIES = 5


class CatchUp(StrEnum):
    ONE = "one"
    ALL = "all"
    NONE = "none"


@group.command("put")
def put_schedule(
    name: str,
    task_type: Annotated[str, typer.Option(help="What to enqueue at each slot.")],
    cron: Annotated[str | None, typer.Option(help="'minute hour day month weekday', or @daily and the like.")] = None,
    every: Annotated[str | None, typer.Option(help="A period: PT90S, PT15M, P1D, P1W, P1M, P1Y.")] = None,
    time_zone: Annotated[str, typer.Option(help="Whose clocks the slots go by: Europe/Berlin.")] = "UTC",
    anchor_at: Annotated[datetime | None, typer.Option(formats=TIME_FORMATS, metavar="TIME", help=TIME_HELP)] = None,
    catch_up: Annotated[CatchUp, typer.Option(help="Slots that nobody fired in time.")] = CatchUp.ONE,
    variables: Annotated[str | None, typer.Option(metavar="JSON", help="Variables of each task: an object.")] = None,
    slot_variable: Annotated[str | None, typer.Option(help="The variable that tells a task its slot.")] = None,
    version: Annotated[int | None, typer.Option(help="The version of the task type.")] = None,
    priority: Annotated[int | None, typer.Option(help="The highest goes first.")] = None,
    retries: Annotated[int | None, typer.Option(help="Failures until a task is FAILED.")] = None,
    as_json: Json = False,
) -> None:
    """Make a schedule or change it. The same timing again leaves its next slot as it is."""
    from app.cron import InvalidTiming, first_slot, timing
    from db.call import Json as JsonText
    from db.call import one

    fields = {"task_type": task_type, "version": version, "priority": priority, "retries": retries}
    task = json.dumps({name: value for name, value in fields.items() if value is not None})
    given = json_option(variables, "--variables")
    if given is not None:
        task = f'{task[:-1]}, "variables": {given}}}'  # digit for digit
    with connection() as conn:
        try:
            when = timing(cron=cron, every=every, time_zone=time_zone, anchor_at=in_utc(anchor_at))
            next_at = first_slot(when, now(conn))
        except InvalidTiming as wrong:
            raise Stop(ExitCode.FAILED, f"{wrong} (invalid)") from None
        row = one(
            conn,
            "put_schedule",
            name=name,
            task=JsonText(task),
            next_at=next_at,
            catch_up=catch_up.value,
            slot_variable=slot_variable,
            **when.columns(),
        )
    show(dict(row._mapping), as_json)


@group.command("list")
def list_schedules(
    task_type: Annotated[str | None, typer.Option("--task-type", help="Only those of this task type.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Schedules on one page.")] = 200,
    cursor: Annotated[str | None, typer.Option(help="Where the last page ended (its next_cursor).")] = None,
    as_json: Json = False,
) -> None:
    """List schedules by name, one page at a time."""
    with connection() as conn:
        found = select(
            conn,
            "select * from celeriac.schedules where name > :after"
            " and (cast(:task_type as text) is null or task_type = :task_type) order by name limit :limit",
            after=cursor or "",
            task_type=task_type,
            limit=limit + 1,
        )
    columns = ["name", "task_type", "when", "time_zone", "next_at", "last_slot_at", "fired", "missed", "paused"]
    paged(
        "schedules", [written(row) for row in found], limit, [*columns, "error"], "there is no schedule", as_json, cells
    )


@group.command("show")
def show_schedule(name: str, as_json: Json = False) -> None:
    """Show one schedule and the slots that come next."""
    from app.cron import InvalidTiming

    with connection() as conn:
        schedule = find(conn, name)
    show(schedule, as_json)
    if as_json or schedule["next_at"] is None:
        return
    try:
        when = timing_of(schedule)
    except InvalidTiming:
        return
    print("\nslots")
    slot: datetime | None = schedule["next_at"]
    for _ in range(5):
        if slot is not None:
            print(slot.isoformat())
            slot = when.after(slot)


@group.command("pause")
def pause_schedule(name: str, as_json: Json = False) -> None:
    """Fire no more until resumed. What comes due meanwhile is neither fired nor missed."""
    from db.call import one

    with connection() as conn:
        show(dict(one(conn, "pause_schedule", name=name, paused=True)._mapping), as_json)


@group.command("resume")
def resume_schedule(name: str, as_json: Json = False) -> None:
    """Fire again from the next slot on. Also for a schedule that stands still because it could not be read."""
    from app.cron import InvalidTiming, first_slot
    from db.call import rows

    with connection() as conn:
        for _ in range(TRIES):
            seen = find(conn, name)
            try:
                next_at = first_slot(timing_of(seen), now(conn))
            except InvalidTiming as wrong:
                raise Stop(ExitCode.FAILED, f"{wrong} (invalid)") from None
            resumed = rows(conn, "pause_schedule", name=name, paused=False, next_at=next_at, seen_at=seen["updated_at"])
            if resumed:
                show(dict(resumed[0]._mapping), as_json)
                return
    raise Stop(ExitCode.FAILED, f"schedule {name} is being changed by somebody else: try again")


@group.command("delete")
def delete_schedule(name: str, yes: Yes = False, as_json: Json = False) -> None:
    """Delete a schedule. Tasks that it has enqueued go on."""
    from db.call import one

    agreed(f"Delete schedule {name}?", yes)
    with connection() as conn:
        one(conn, "delete_schedule", name=name)
    if as_json:
        document({"name": name})
    else:
        remark(f"schedule {name} is deleted")


def find(conn: "Connection", name: str) -> dict[str, Any]:
    found = select(conn, "select * from celeriac.schedules where name = :name", name=name)
    if not found:
        raise Stop(ExitCode.FAILED, "name: there is no such schedule (not_found)")
    return found[0]


def now(conn: "Connection") -> datetime:
    moment: datetime = select(conn, "select celeriac.now() as now")[0]["now"]
    return moment


def timing_of(row: "Mapping[str, Any]") -> "Timing":
    """The timing of a row; raises InvalidTiming."""
    from app.cron import timing

    return timing(cron=row["cron"], every=row["every"], time_zone=row["time_zone"], anchor_at=row["anchor_at"])


def written(row: "Mapping[str, Any]") -> dict[str, Any]:
    """The schedule as `GET /v1/schedules/{name}` shows it."""
    return {name: value for name, value in row.items() if name != "task_type"} | {"task": decoded(row["task"])}


def cells(row: "Mapping[str, Any]") -> "Mapping[str, Any]":
    """The schedule as a line of the list."""
    when, paused = row["cron"] or row["every"], "yes" if row["paused"] else ""
    return {**row, "task_type": row["task"]["task_type"], "when": when, "paused": paused}


def show(row: "Mapping[str, Any]", as_json: bool) -> None:
    if as_json:
        document(written(row))
    else:
        facts(written(row))
