"""`celeriac`: one command line for those who run it.

Nothing but typer is imported before a command runs, so that `celeriac --help` is quick; each command imports what it
needs. Whatever leaves a command as an exception becomes one line on stderr and an exit code (app/cli/failures.py);
with CELERIAC_LOG_LEVEL=debug the traceback is printed before it.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from app.cli import (
    bpmn,
    definitions,
    demo,
    doctor_command,
    incidents,
    instances,
    keys,
    messages,
    migrate,
    operations,
    outbox,
    processes,
    schedules,
    servers,
    signals,
    tasks,
    test_database,
    types,
    up,
    workers,
)
from app.cli.exits import EXIT_CODES, ExitCode

INTERRUPTED = 130

application = typer.Typer(
    name="celeriac",
    help="Durable tasks: Postgres decides, Celery carries, Redis only rings the bell.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    migrate.migrate,
    up.up,
    servers.api,
    servers.maintenance,
    servers.beat,
    servers.flower,
    processes.deploy,
    processes.start,
    doctor_command.doctor,
    test_database.test_database,
):
    application.command(epilog=EXIT_CODES)(command)
for noun, group in {
    "demo": demo.group,
    "tasks": tasks.group,
    "signals": signals.group,
    "definitions": definitions.group,
    "instances": instances.group,
    "messages": messages.group,
    "incidents": incidents.group,
    "operations": operations.group,
    "schedules": schedules.group,
    "types": types.group,
    "keys": keys.group,
    "workers": workers.group,
    "outbox": outbox.group,
    "bpmn": bpmn.group,
}.items():
    application.add_typer(group, name=noun, epilog=EXIT_CODES)


@application.callback()
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(version_of("celeriac-server"))
        raise typer.Exit


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        application(args=list(arguments), prog_name="celeriac")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return reader_has_gone()
    except Exception as error:  # noqa: BLE001 - the last stop before the shell: nobody should see a traceback
        return report(error)
    return ExitCode.OK


def report(error: Exception) -> int:
    """Say what went wrong in one line; return the exit code."""
    from app.cli.failures import explain

    if os.environ.get("CELERIAC_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exception(error)
    stop = explain(error)
    print(f"celeriac: {stop.message}", file=sys.stderr, flush=True)
    return stop.code


def reader_has_gone() -> int:
    """`celeriac tasks list | head`: the reader has enough, which is no failure; Python must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.OK
