"""`celeriac bpmn`: look at models before they are deployed. No server is asked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.exits import ExitCode, Stop
from app.cli.options import Json
from app.cli.output import cell, document

if TYPE_CHECKING:
    from app.bpmn.options import Options
    from app.bpmn.problems import Finding
    from app.bpmn.reader import Reading

group = typer.Typer(help="Check models before they are deployed.", no_args_is_help=True)

ENDINGS: Final = (".bpmn", ".bpmn20.xml")
BESIDE: Final = (".dmn", ".dmn11.xml", ".cmmn", ".cmmn11.xml", ".form")
"""Endings of other files of Camunda 7, which are not read."""


TOPICS_OF_WORKERS: Final = "Topics of external tasks, and how many of the models that can be deployed have them:"
TOPICS_OF_CODE: Final = (
    "Java code and decisions that --delegates topics makes topics of; workers for them are to be written:"
)


class Delegates(StrEnum):
    ERROR = "error"
    TOPICS = "topics"


@dataclass(frozen=True)
class Checked:
    """One file, and the fewest options with which it deploys; None when it does not. `best`: with all that may help;
    `plain`: as its external tasks are, without topics for Java code. `stated`: it says isExecutable="true" somewhere.
    """

    file: str
    reading: Reading
    options: Options | None
    best: Reading
    plain: Reading
    stated: bool

    @property
    def deploys(self) -> bool:
        return not self.reading.report.errors

    @property
    def reasons(self) -> set[str]:
        """What stands in the way, whatever the options."""
        return {error.message for error in self.best.report.errors}

    @property
    def topics(self) -> set[str]:
        """Which topics workers must serve; one that an expression says is its text."""
        return _topics(self.best)

    @property
    def made_topics(self) -> set[str]:
        """Those among them that are Java code or a decision, for which there is no worker yet."""
        return self.topics - _topics(self.plain)

    @property
    def processes(self) -> list[str]:
        return [model.graph.process for model in self.reading.models]


def _topics(reading: Reading) -> set[str]:
    works = [node.work for model in reading.models for node in model.graph.nodes.values() if node.work]
    return {work.topic if isinstance(work.topic, str) else work.topic.text for work in works}


@group.command("check")
def check_models(
    path: Annotated[Path, typer.Argument(help="A model, or a folder with models in it.")],
    delegates: Annotated[
        Delegates, typer.Option(help="What Java classes and beans become: an error, or topics of their names.")
    ] = Delegates.ERROR,
    ignore_unrunnable: Annotated[
        bool, typer.Option("--ignore-unrunnable", help="Ignore listeners and scripts that cannot be run.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say whether models can be deployed, and everything that is wrong with them.

    A folder gives a report for a migration: how many can be deployed, with which options, why the others cannot, which
    topics have workers and which need one.
    """
    from app.bpmn.options import Options

    options = Options(delegates.value, "ignore" if ignore_unrunnable else "error")
    if not path.exists():
        raise Stop(ExitCode.FAILED, f"there is no file {path}")
    files = sorted(_models(path)) if path.is_dir() else [path]
    if not files:
        raise Stop(ExitCode.FAILED, f"there is no model in {path} ({' or '.join('*' + ending for ending in ENDINGS)})")
    checked = [_checked(file, path, options) for file in files]
    beside = _beside(path) if path.is_dir() else {}
    if as_json:
        shown = [_shown(one) for one in checked]
        document({"files": shown, "deployable": sum(one.deploys for one in checked), "beside": beside})
    elif path.is_dir():
        _print_summary(checked, options, beside)
    else:
        _print_findings(checked[0])
    if not all(one.deploys for one in checked):
        raise typer.Exit(ExitCode.FAILED)


def _models(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        if file.name.lower().endswith(ENDINGS) and (file.is_file() or not file.exists()):
            yield file


def _beside(folder: Path) -> dict[str, int]:
    """How many other files of Camunda 7 there are, by their endings."""
    names = [file.name.lower() for file in folder.rglob("*")]
    counts = {ending: sum(name.endswith(ending) for name in names) for ending in BESIDE}
    return {ending: count for ending, count in counts.items() if count}


def _checked(file: Path, root: Path, options: Options) -> Checked:
    from app.bpmn.markup import LARGEST_BYTES
    from app.bpmn.problems import Report
    from app.bpmn.reader import Reading, read

    shown = str(file.relative_to(root)) if root.is_dir() else str(file)
    name = os.fsencode(shown).decode(errors="replace")  # bytes that are no text can be neither printed nor sent
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
    except OSError as error:
        unread = Reading((), Report())
        unread.report.error(None, 1, f"the file cannot be read: {error.strerror}")
        return Checked(name, unread, None, unread, unread, stated=True)
    readings = {one: read(content, one) for one in _options_from(options)}
    fewest = next((one for one, reading in readings.items() if not reading.report.errors), None)
    best = list(readings.values())[-1]
    plain = read(content, replace(options, delegates="error"))
    stated = not best.models or bool(read(content, replace(options, executable="stated")).models)
    return Checked(name, readings[options], fewest, best, plain, stated)


def _options_from(given: Options) -> list[Options]:
    """The given options, then more of them, the least first."""
    from app.bpmn.options import Options

    more = [given, Options("topics", given.unrunnable), Options(given.delegates, "ignore"), Options("topics", "ignore")]
    return list(dict.fromkeys(more))


def _flags(options: Options | None) -> list[str]:
    if options is None:
        return []
    delegates = ["--delegates topics"] if options.delegates == "topics" else []
    return delegates + (["--ignore-unrunnable"] if options.unrunnable == "ignore" else [])


def _shown(one: Checked) -> dict[str, Any]:
    return {
        "file": one.file,
        "deployable": one.deploys,
        "processes": one.processes,
        "options": one.options and {"delegates": one.options.delegates, "unrunnable": one.options.unrunnable},
        "topics": sorted(one.topics),
        "made_topics": sorted(one.made_topics),
        "stated": one.stated,
        "findings": [asdict(finding) for finding in one.reading.report.findings],
    }


def _print_findings(one: Checked) -> None:
    for finding in one.reading.report.findings:
        print(f"{one.file}:{finding.line}: {_told(finding)}")
    if one.deploys:
        print(f"{one.file} can be deployed: {', '.join(one.processes)}")
    elif one.options is not None:
        print(f"{one.file} can be deployed with {' '.join(_flags(one.options))}")
    else:
        count = len(one.reading.report.errors)
        print(f"{one.file} cannot be deployed: {count} error{'s' if count != 1 else ''}")


def _told(finding: Finding) -> str:
    element = f"{finding.element}: " if finding.element else ""
    return f"{finding.severity}: {cell(element + finding.message)}"


def _print_summary(checked: Sequence[Checked], given: Options, beside: dict[str, int]) -> None:
    """One line a file; then how many deploy with which options, what workers are needed, and what stands in the way."""
    for one in checked:
        errors = one.reading.report.errors
        kind = "yes" if one.deploys else " ".join(_flags(one.options)) if one.options else "no"
        first = "" if one.deploys else f"  line {errors[0].line}: {_told(errors[0]).removeprefix('error: ')}"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        print(f"{kind:<4} {cell(one.file)}{first}{more}")
    movable = [one for one in checked if one.options is not None]
    stuck = [one for one in checked if one.options is None]
    print()
    for told, count in _steps(movable, given):
        print(f"{count:>5} of {len(checked)} can be deployed {told}")
    if silent := sum(not one.stated for one in movable):
        print(f'{silent:>5} of these without isExecutable="true": left out at /engine-rest, not by celeriac deploy')
    if stuck:
        print(f"{len(stuck):>5} of {len(checked)} cannot be deployed:")
    _print_counted("", (one.reasons for one in stuck))
    _print_counted(TOPICS_OF_WORKERS, (one.topics - one.made_topics for one in movable))
    _print_counted(TOPICS_OF_CODE, (one.made_topics for one in movable))
    if beside:
        print(f"\nBeside the models, and not read: {', '.join(f'{count} × *{end}' for end, count in beside.items())}")


def _steps(movable: Sequence[Checked], given: Options) -> Iterator[tuple[str, int]]:
    """How many deploy with the options that were given, then with more of them, as far as that helps any."""
    needed = [frozenset(_flags(one.options)) for one in movable]
    least = frozenset(_flags(given))
    for flags in sorted({least, *needed}, key=lambda one: (len(one), *sorted(one))):
        told = "with " + " ".join(sorted(flags)) if flags else "as they are"
        yield told, sum(need <= flags for need in needed)


def _print_counted(title: str, told: Iterable[set[str]]) -> None:
    """In how many of the models each thing is, the most frequent first."""
    counted = Counter(thing for things in told for thing in things)
    if counted and title:
        print(f"\n{title}")
    for thing, count in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])):
        print(f"{count:>9} × {cell(thing)}")
