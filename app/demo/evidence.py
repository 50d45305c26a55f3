"""Evidence of what happened that does not come from Celeriac's own states.

Two witnesses, since each can see what the other cannot:

* The business side of the database. A trigger of the demo's own sees every write that turns a task COMPLETED,
  whoever makes it and whatever the functions think about it, and appends a row to `demo.completion` in the same
  transaction. That table has no unique key on purpose: a second completion must be *seen*, not prevented.
* The workers. Each appends to a file of its own what it began, what it wrote to the end, and which of its completions
  the API accepted (HTTP 200), with the fencing token of the hand-over it held. A worker that is killed may lose its
  last line, which can hide an acceptance that the trigger has seen; it can never invent one.

A file is *doubled* when the trigger saw more than one completion of its task, or workers were told "accepted" under
more than one fencing token. A repeated answer under the same token is the same completion: its first answer was lost.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

BEGUN = "begun"
WRITTEN = "written"
REPORTING = "reporting"
ACCEPTED = "accepted"
REFUSED = "refused"


@dataclass(frozen=True)
class Line:
    """One thing a worker saw."""

    what: str
    task_id: str
    fencing_token: int


class Diary:
    """The append-only file of one worker process; lines from many threads stay whole."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)
        self._turn = Lock()

    def write(self, what: str, task_id: str, fencing_token: int) -> None:
        line = json.dumps([what, task_id, fencing_token]) + "\n"
        with self._turn:
            self._file.write(line.encode())


def read_diaries(folder: Path, worker: str = "") -> Iterator[Line]:
    """Every line of every worker (or of one); the last line of a killed worker may be cut and is then left out."""
    for file in sorted(folder.glob(f"{worker or '*'}.*.diary")):
        for text in file.read_bytes().split(b"\n")[:-1]:
            fields: list[Any] = json.loads(text)
            yield Line(*fields)


def accepted_twice(lines: Iterable[Line]) -> set[str]:
    """The tasks whose completion was accepted under more than one fencing token."""
    tokens: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        if line.what == ACCEPTED:
            tokens[line.task_id].add(line.fencing_token)
    return {task_id for task_id, seen in tokens.items() if len(seen) > 1}
