"""`python -m benchmarks [--quick] [--results FOLDER] [name …]`: run all benchmarks, or the named ones."""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.catalogue import BENCHMARKS
from benchmarks.machine import describe_machine
from benchmarks.readme import write_figures
from benchmarks.record import HERE, QUICK_RESULTS, RESULTS, Run, document, write
from benchmarks.show import show

# Names of figures are sentences; a file or a pipe has room for them.
PIPE_WIDTH = 140


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    folder = asked.results or (QUICK_RESULTS if asked.quick else RESULTS)
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)
    for name in asked.names or BENCHMARKS:
        with console.status(f"{name} …"):
            run = _run(name, asked.quick)
        write(run, folder)
        show(document(run), console)
    if folder == RESULTS:
        write_figures(HERE / "README.md", RESULTS)
    console.print(f"results: {folder}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Celeriac on real servers.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="tiny numbers: shows that it runs, measures nothing")
    parser.add_argument("--results", type=Path, help="folder for the JSON files")
    return parser


def _run(name: str, quick: bool) -> Run:
    benchmark = BENCHMARKS[name]
    machine = describe_machine()
    began, clock = datetime.now(UTC), time.monotonic()
    measured = benchmark.run(quick)
    return Run(name, benchmark.question, quick, began, time.monotonic() - clock, machine, measured)


if __name__ == "__main__":
    main()
