"""How long a fetch takes, whatever else the database holds: other shapes must not slow it down."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from benchmarks.figures import Figure, Goal, Measured
from benchmarks.samples import interleaved, median, spread
from benchmarks.servers import Database, durable_postgres, new_database, server_version
from benchmarks.shapes import add_ended, add_open, settle
from benchmarks.sql_caller import SqlCaller
from benchmarks.stopwatch import milliseconds

TASK_TYPE = "bench.claim"
OTHER_TYPE = "bench.a_other"  # sorts before ours in every index
SIZES = (1, 10)
PIN_BATCH = 50
SIX_SHAPES = Goal("≤", 2.0)
PINNED = Goal("≤", 2.0, "DESIGN §9")

Fill = Callable[[psycopg.Connection[Any]], None]
Samples = Mapping[tuple[str, int], Sequence[float]]


@dataclass(frozen=True)
class Numbers:
    """Rows of the shapes; samples a round, shape and size; tasks that pass by while a snapshot is pinned."""

    open_rows: int
    ended_rows: int
    other_rows: int
    passed_by: int
    rounds: int
    samples: int


FULL = Numbers(open_rows=200_000, ended_rows=1_000_000, other_rows=20_000, passed_by=20_000, rounds=70, samples=6)
QUICK = Numbers(open_rows=2_000, ended_rows=4_000, other_rows=1_000, passed_by=2_000, rounds=5, samples=4)


def shapes(numbers: Numbers) -> Mapping[str, Fill]:
    """What each database holds besides the tasks that are fetched."""
    return {
        "empty": lambda conn: None,
        f"{numbers.open_rows:,} ready": lambda conn: add_open(conn, TASK_TYPE, numbers.open_rows, "READY"),
        f"{numbers.open_rows:,} scheduled": lambda conn: add_open(conn, TASK_TYPE, numbers.open_rows, "SCHEDULED"),
        f"{numbers.ended_rows:,} ended": lambda conn: add_ended(conn, TASK_TYPE, numbers.ended_rows),
        f"{numbers.other_rows:,} of another type ahead": lambda conn: add_open(
            conn, OTHER_TYPE, numbers.other_rows, "READY"
        ),
        f"{numbers.open_rows:,} leased": lambda conn: add_open(conn, TASK_TYPE, numbers.open_rows, "LOCKED"),
    }


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with durable_postgres() as server:
        template = new_database(server, "template_of_all")
        filled = {
            name: _filled(new_database(server, f"shape_{number}", template), fill)
            for number, (name, fill) in enumerate(shapes(numbers).items())
        }
        durable = _measure(filled, numbers, wait_for_disk=True)
        bare = _measure(filled, numbers, wait_for_disk=False)
        pinned = new_database(server, "pinned", template)
        pinned_figures = _pinned(filled["empty"], _filled(pinned, lambda conn: None), numbers)
        idle = _idle_fetch(filled["empty"], numbers)
        version = server_version(server)
    figures = [*_judged(bare, "claim alone"), *_judged(durable, "claim and commit"), *pinned_figures, idle]
    return Measured(asdict(numbers), tuple(figures), version)


def _filled(database: Database, fill: Fill) -> Database:
    with psycopg.connect(database.owner_url, autocommit=True) as conn:
        fill(conn)
        settle(conn)
    return database


def _measure(databases: Mapping[str, Database], numbers: Numbers, *, wait_for_disk: bool) -> Samples:
    """Milliseconds of every fetch, by shape and number of tasks. Shapes take turns within every round."""
    samples: dict[tuple[str, int], list[float]] = defaultdict(list)
    with ExitStack() as open_things:
        callers = {
            name: open_things.enter_context(_caller(database, wait_for_disk=wait_for_disk))
            for name, database in databases.items()
        }
        for name in callers:
            _sample(callers[name], SIZES[-1], numbers.samples)  # warm caches, prepared statements; not kept
        cells = [(name, size) for size in SIZES for name in databases]
        for name, size in interleaved(cells, numbers.rounds):
            samples[name, size] += _sample(callers[name], size, numbers.samples)
    return samples


@contextmanager
def _caller(database: Database, *, wait_for_disk: bool) -> Iterator[SqlCaller]:
    with closing(SqlCaller(database.api_url, "worker", TASK_TYPE)) as caller:
        if not wait_for_disk:
            caller.conn.execute("set synchronous_commit = off")
        yield caller


def _sample(caller: SqlCaller, size: int, count: int) -> list[float]:
    """As many tasks come as are taken, so the shape stays what it is; only the fetch is timed."""
    samples = []
    for _ in range(count):
        caller.enqueue(size)
        with milliseconds() as took:
            held = caller.fetch(size)
        samples.append(took.ms)
        caller.complete(held)
        if len(held) != size:
            raise RuntimeError(f"asked for {size} tasks and got {len(held)}")
    return samples


def _judged(samples: Samples, what: str) -> Iterator[Figure]:
    for size in SIZES:
        medians = {name: median(found) for (name, of_size), found in samples.items() if of_size == size}
        slowest, fastest = max(medians.values()), min(medians.values())
        yield Figure(f"{what}, {size} a fetch: slowest / fastest median", slowest / fastest, "", SIX_SHAPES)
        for name, value in medians.items():
            yield Figure(f"{what}, {size} a fetch, {name}: median", value, "ms", None, spread(samples[name, size]))


def _pinned(empty: Database, pinned: Database, numbers: Numbers) -> list[Figure]:
    """Somebody's REPEATABLE READ transaction stays open while tasks pass by: their dead rows cannot be removed."""
    both = {"empty": empty, "pinned": pinned}
    with psycopg.connect(pinned.owner_url) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from celeriac.queue")
        with _caller(pinned, wait_for_disk=False) as caller:
            for _ in range(numbers.passed_by // PIN_BATCH):
                caller.enqueue(PIN_BATCH)
                caller.complete(caller.fetch(PIN_BATCH))
        held = _measure(both, numbers, wait_for_disk=False)
    with psycopg.connect(pinned.owner_url, autocommit=True) as conn:
        conn.execute("vacuum celeriac.queue")  # what autovacuum does within a minute
    after = _measure(both, numbers, wait_for_disk=False)
    name = f"{numbers.passed_by:,} tasks passed by a pinned snapshot"
    return [
        figure
        for size in SIZES
        for figure in (
            _against_empty(held, size, f"claim alone, {size} a fetch, {name}: median / empty", PINNED),
            _against_empty(
                after, size, f"claim alone, {size} a fetch, {name}, after its end and a vacuum: / empty", None
            ),
        )
    ]


def _against_empty(samples: Samples, size: int, name: str, goal: Goal | None) -> Figure:
    ratio = median(samples["pinned", size]) / median(samples["empty", size])
    details = {shape: spread(samples[shape, size]) for shape in ("empty", "pinned")}
    return Figure(name, ratio, "", goal, details)


def _idle_fetch(empty: Database, numbers: Numbers) -> Figure:
    """A fetch that finds nothing does other work: it expires and promotes a few, and looks again."""
    samples = []
    with _caller(empty, wait_for_disk=True) as caller:
        for _ in range(numbers.samples):
            with milliseconds() as took:
                if caller.fetch(1):
                    raise RuntimeError("the empty shape was not empty")
            samples.append(took.ms)
    return Figure("a fetch that finds nothing: median", median(samples), "ms", None, spread(samples))
