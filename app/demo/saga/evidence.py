"""Evidence of what happened to orders that does not come from Celeriac's own states.

Two records of effects, each kept by those who have them: the ledger of the systems outside (app/demo/saga/outside.py),
and the rows that the till's tasks committed (demo.effect). Neither has a unique key over order and step: a step that is
done twice, by whatever two tasks, is there twice.

And one of order: a trigger of the demo's own writes down every completion, with its transaction and the snapshot that
it saw. A completion that another one saw came before it. That needs no clock, and leaves open what was open: of two
completions at the same time neither saw the other, and either may be undone first. Times are compared only where an
effect must follow a completion: all of this runs on one machine, by one clock.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.demo.saga.outside import read_ledger

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True)
class Effect:
    """A step was done, in the name of a task and a lease; `at` is Unix time."""

    step: str
    task_id: str
    fencing_token: int
    at: float


@dataclass(frozen=True)
class Snapshot:
    """What a transaction saw, as Postgres writes it: `xmin:xmax:xip,xip`."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def read(cls, text: str) -> "Snapshot":
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in running.split(",") if xid))

    def saw(self, xid: int) -> bool:
        """Whether this transaction had been committed (its row is there, so it was not rolled back)."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


@dataclass(frozen=True)
class Completion:
    """A task became COMPLETED; `at` is Unix time, from before the commit."""

    xid: int
    saw: Snapshot
    at: float

    def came_before(self, other: "Completion") -> bool:
        return other.saw.saw(self.xid)


@dataclass(frozen=True)
class Evidence:
    """Effects by order, completions by task, and how often somebody outside was called again for the same task."""

    effects: Mapping[str, Sequence[Effect]]
    completions: Mapping[str, Sequence[Completion]]
    calls_repeated: int


def gather(conn: "Connection", ledger: Path) -> Evidence:
    """All there is; effects in the order in which they happened."""
    effects: dict[str, list[Effect]] = defaultdict(list)
    calls = read_ledger(ledger)
    for call in calls:
        if not call.again:
            effects[call.order].append(Effect(call.step, call.key, call.fencing_token, call.at))
    rows = conn.exec_driver_sql(
        "select order_id, step, task_id::text, fencing_token, extract(epoch from at)::float8 from demo.effect"
    )
    for order, *effect in rows:
        effects[order].append(Effect(*effect))
    completions: dict[str, list[Completion]] = defaultdict(list)
    rows = conn.exec_driver_sql(
        "select task_id::text, xid::text, saw::text, extract(epoch from at)::float8 from demo.completion"
    )
    for task_id, xid, saw, at in rows:
        completions[task_id].append(Completion(int(xid), Snapshot.read(saw), at))
    return Evidence(
        {order: sorted(done, key=lambda effect: effect.at) for order, done in effects.items()},
        completions,
        sum(call.again for call in calls),
    )
