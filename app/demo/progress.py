"""What a person sees while the demo runs, always on stderr: a bar on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PLAIN_LINE_SECONDS = 2.0


class Display(Protocol):
    """Something that shows how far the work is, and what happens meanwhile."""

    def say(self, text: str) -> None: ...
    def show(self, done: int, total: int, remark: str) -> None: ...


@dataclass
class PlainLines:
    """For logs and pipes: every remark at once, the count every two seconds."""

    done_is: str
    began: float = field(default_factory=time.monotonic)
    shown_at: float = 0.0

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:5.1f} s  {text}", file=sys.stderr, flush=True)

    def show(self, done: int, total: int, remark: str) -> None:
        if time.monotonic() - self.shown_at >= PLAIN_LINE_SECONDS:
            self.shown_at = time.monotonic()
            self.say(f"{done} of {total} {self.done_is}  {remark}")


@dataclass
class Bar:
    """For a terminal: a bar with the remarks above it."""

    progress: "Progress"
    bar: "TaskID"

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def show(self, done: int, total: int, remark: str) -> None:
        self.progress.update(self.bar, completed=done, total=total, remark=remark)


@contextmanager
def display(done_is: str) -> Iterator[Display]:
    """The display that fits stderr; `done_is` says what has happened to what is counted as done."""
    if not sys.stderr.isatty():
        yield PlainLines(done_is)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[remark]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield Bar(progress, progress.add_task(done_is, total=None, remark=""))
