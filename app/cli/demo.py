"""`celeriac demo`: the main job, and `celeriac demo saga`: both with real servers and real trouble (app/demo)."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.exits import EXIT_CODES, ExitCode, Stop

group = typer.Typer(invoke_without_command=True)

Keep = Annotated[bool, typer.Option("--keep", help="Keep the logs, the database and what else was made.")]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout, all else on stderr.")]


@group.callback()
def demo(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Folder to copy; Python's standard library if absent."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option(help="Where the copy goes: a new or an empty folder; temporary if absent.")
    ] = None,
    files: Annotated[int | None, typer.Option(min=1, help="Copy only this many files.")] = None,
    pause_ms: Annotated[
        int, typer.Option(min=0, max=10_000, help="Slow every copy down by this many milliseconds.")
    ] = 0,
    keep: Keep = False,
    as_json: Json = False,
) -> None:
    """Copy a folder durably while servers and workers die; or see the command below.

    Half of the files go to external workers over HTTP, half to a Celery fleet, whose tasks have steps. Workers are
    killed and frozen, Redis is flushed, Postgres is restarted; then all is counted. Starts its own Postgres, Redis,
    API, chores, two external workers and two Celery workers, and stops them again. Exit code 0 only when no file was
    lost, no completion was accepted twice and no business row was written twice.
    """
    if context.invoked_subcommand is not None:
        if any((source, target, files, pause_ms, keep, as_json)):
            raise Stop(ExitCode.USAGE, f"put the options behind the word {context.invoked_subcommand}")
        return
    from app.demo.run import Job, run_demo

    job = Job(source=source, target=target, files=files, pause_ms=pause_ms, keep=keep, as_json=as_json)
    if not run_demo(job):
        raise typer.Exit(ExitCode.FAILED)


@group.command(epilog=EXIT_CODES)
def saga(
    orders: Annotated[int, typer.Option(min=1, max=10_000, help="Place this many orders.")] = 300,
    svg: Annotated[Path | None, typer.Option(help="Write pictures of the process into this folder.")] = None,
    pause_ms: Annotated[
        int, typer.Option(min=0, max=1000, help="Slow every task down by this many milliseconds.")
    ] = 20,
    keep: Keep = False,
    as_json: Json = False,
) -> None:
    """Ship orders, or undo them in order, while servers and workers die.

    Each order is an instance of a BPMN process: reserve stock and check credit at once, wait, charge, ship. Workers in
    JavaScript and Python serve it over HTTP, and a Celery fleet. Every tenth order is refused for good, and must be
    undone. Workers and the API are killed, workers are frozen, Redis is flushed, Postgres is restarted; then what was
    done is compared with what was ordered. Exit code 0 only when every order was shipped once or undone once, newest
    first.
    """
    from app.demo.saga.run import Job, run_saga

    if not run_saga(Job(orders=orders, svg=svg, pause_ms=pause_ms, keep=keep, as_json=as_json)):
        raise typer.Exit(ExitCode.FAILED)
