"""`celeriac demo`: the main job, with real servers and real trouble (app/demo)."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.exits import ExitCode


def demo(
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
    keep: Annotated[bool, typer.Option("--keep", help="Keep the copy, the logs and the database.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout, all else on stderr.")] = False,
) -> None:
    """Copy a folder durably while servers and workers die.

    Half of the files go to external workers over HTTP, half to a Celery fleet, whose tasks have steps. Workers are
    killed and frozen, Redis is flushed, Postgres is restarted; then all is counted. Starts its own Postgres, Redis,
    API, chores, two external workers and two Celery workers, and stops them again. Exit code 0 only when no file was
    lost, no completion was accepted twice and no business row was written twice.
    """
    from app.demo.run import Job, run_demo

    job = Job(source=source, target=target, files=files, pause_ms=pause_ms, keep=keep, as_json=as_json)
    if not run_demo(job):
        raise typer.Exit(ExitCode.FAILED)
