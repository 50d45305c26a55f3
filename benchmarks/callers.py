"""What a client does with tasks, whichever way it reaches them: enqueue, fetch, complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

LEASE_MS = 600_000
RESULT = {"ok": True}


@dataclass(frozen=True)
class Held:
    """A task under our lease."""

    task_id: str
    fencing_token: int


class Refused(RuntimeError):
    """A call had another outcome than the benchmark measures; figures of wrong work are worth nothing."""


class Worker(Protocol):
    """One client with one connection. Calls with one task use the single form, others the batch form."""

    def fetch(self, count: int) -> Sequence[Held]: ...
    def complete(self, held: Sequence[Held]) -> None: ...
    def close(self) -> None: ...


class Caller(Worker, Protocol):
    """One that brings the tasks as well."""

    def enqueue(self, count: int) -> None: ...


def variables(number: int) -> Mapping[str, Any]:
    """A payload of about 150 bytes of JSON, different for each task."""
    return {
        "source": f"/srv/media/incoming/2024/11/{number:012d}/master.mov",
        "target": f"/srv/media/archive/{number:012d}.mov",
        "size": 734003200 + number,
        "checked": False,
    }


def new_task(task_type: str, number: int) -> Mapping[str, Any]:
    return {"task_type": task_type, "variables": variables(number)}


def completion(held: Held) -> Mapping[str, Any]:
    return {"task_id": held.task_id, "fencing_token": held.fencing_token, "variables": RESULT}


def encoded(value: Any) -> bytes:
    return orjson.dumps(value)
