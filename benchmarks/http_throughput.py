"""Tasks a second through HTTP, next to direct SQL in the same run: what the face costs."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import product

from app.dev.valkey import EmbeddedValkey
from benchmarks.callers import Caller
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.http_caller import HttpCaller
from benchmarks.servers import Api, Database, durable_postgres, new_database, running_api, server_version
from benchmarks.sql_caller import SqlCaller
from benchmarks.throughput import TASK_TYPE, WORKS, Cell, Rates, Rounds, Way, measure_rates

FULL = Rounds(rounds=7, seconds=2.0, backlog=30_000)
QUICK = Rounds(rounds=2, seconds=0.5, backlog=6_000)
CONNECTIONS = (1, 4)
WAYS: tuple[Way, ...] = ("sql", "http")
GOALS = {1: Goal("≥", 0.30), 50: Goal("≥", 0.40)}


def run(quick: bool) -> Measured:
    rounds = QUICK if quick else FULL
    pairs = [Cell("sql", *parts) for parts in product(WORKS, GOALS, CONNECTIONS)]
    # Each HTTP stretch runs next to the SQL stretch that it is compared with.
    cells = [pair.on(way) for pair in pairs for way in WAYS]
    with durable_postgres() as server, EmbeddedValkey() as valkey:
        database = new_database(server, "bench")
        with running_api(database, valkey.url()) as api:
            servers = {"postgres": server.pid, "api": api.process.pid}
            rates = measure_rates(
                cells, rounds, database, servers, lambda cell, number: _caller(cell, number, database, api)
            )
        version = server_version(server)
    ratios = tuple(_ratio(pair, rates) for pair in pairs)
    absolutes = tuple(
        Figure(cell.label, rates[cell].per_second, "tasks/s", None, rates[cell].details()) for cell in cells
    )
    return Measured(asdict(rounds), ratios + absolutes, version)


def _caller(cell: Cell, number: int, database: Database, api: Api) -> Caller:
    worker_id = f"{cell.way}-{number}"
    if cell.way == "sql":
        return SqlCaller(database.api_url, worker_id, TASK_TYPE)
    return HttpCaller(api, worker_id, TASK_TYPE)


def _ratio(pair: Cell, rates: Mapping[Cell, Rates]) -> Figure:
    direct, http = rates[pair.on("sql")], rates[pair.on("http")]
    by_round = [round(h.per_second / s.per_second, 3) for h, s in zip(http.stretches, direct.stretches, strict=True)]
    size = "single" if pair.batch == 1 else f"batches of {pair.batch}"
    name = f"HTTP / SQL {pair.work}, {size}, {pair.connections} conn."
    details = {"ratio_by_round": by_round, "cpu_ratio": round(direct.cpu_ms / http.cpu_ms, 3)}
    return Figure(name, http.per_second / direct.per_second, "", GOALS[pair.batch], details)
