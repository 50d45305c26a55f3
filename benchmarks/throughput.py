"""The rounds that sql_throughput and http_throughput share: cells of (way, work, batch, connections), interleaved."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any, Literal

import psycopg

from benchmarks.callers import Caller
from benchmarks.load import Rate, Work, drive, fetch_and_complete, whole_life
from benchmarks.samples import interleaved, median
from benchmarks.servers import Database
from benchmarks.shapes import settle, top_up

Way = Literal["sql", "http"]
TASK_TYPE = "bench.throughput"
WORKS: Mapping[str, Work[Caller]] = {"enqueue + fetch + complete": whole_life, "fetch + complete": fetch_and_complete}


@dataclass(frozen=True)
class Cell:
    """One thing whose rate is measured."""

    way: Way
    work: str
    batch: int
    connections: int

    @property
    def label(self) -> str:
        size = "single" if self.batch == 1 else f"batches of {self.batch}"
        return f"{self.way.upper()} {self.work}, {size}, {self.connections} conn."

    def on(self, way: Way) -> "Cell":
        return replace(self, way=way)


@dataclass(frozen=True)
class Rounds:
    """How long and how often every cell is measured. The backlog is topped up before each stretch, unmeasured."""

    rounds: int
    seconds: float
    backlog: int


@dataclass(frozen=True)
class Rates:
    """All stretches of one cell."""

    stretches: Sequence[Rate]

    @property
    def per_second(self) -> float:
        return median([stretch.per_second for stretch in self.stretches])

    @property
    def cpu_ms(self) -> float:
        """CPU time a task, of everybody together; it hardly moves when the machine is busy with other things."""
        return median([sum(stretch.cpu_ms.values()) for stretch in self.stretches])

    def details(self) -> Mapping[str, Any]:
        names = self.stretches[0].cpu_ms
        return {
            "tasks_per_s": [round(stretch.per_second, 1) for stretch in self.stretches],
            "cpu_ms_a_task": {name: round(median([s.cpu_ms[name] for s in self.stretches]), 4) for name in names},
            "client_cpu_share": round(median([_client_share(stretch) for stretch in self.stretches]), 3),
        }


MakeCaller = Callable[[Cell, int], Caller]


def measure_rates(
    cells: Sequence[Cell], rounds: Rounds, database: Database, servers: Mapping[str, int], make: MakeCaller
) -> Mapping[Cell, Rates]:
    """Rates of all cells. `make(cell, number)` opens one client; each cell keeps its clients over all rounds."""
    stretches: dict[Cell, list[Rate]] = defaultdict(list)
    with ExitStack() as open_things:
        owner = open_things.enter_context(psycopg.connect(database.owner_url, autocommit=True))
        top_up(owner, TASK_TYPE, rounds.backlog)
        settle(owner)
        callers = {
            cell: [open_things.enter_context(closing(make(cell, number))) for number in range(cell.connections)]
            for cell in cells
        }
        for cell in interleaved(cells, rounds.rounds):
            top_up(owner, TASK_TYPE, rounds.backlog)
            rate = drive(callers[cell], WORKS[cell.work], cell.batch, rounds.seconds, servers)
            stretches[cell].append(rate)
    return {cell: Rates(stretches[cell]) for cell in cells}


def _client_share(stretch: Rate) -> float:
    """CPU time of the client by elapsed time: 1.0 means that one core was busy with the client alone."""
    return stretch.cpu_ms["client"] / 1000 * stretch.tasks / stretch.seconds
