"""Tasks a second through the SQL functions, without any server of ours in between."""

from dataclasses import asdict
from itertools import product

from benchmarks.figures import Figure, Measured
from benchmarks.servers import durable_postgres, new_database, server_version
from benchmarks.sql_caller import SqlCaller
from benchmarks.throughput import TASK_TYPE, WORKS, Cell, Rounds, measure_rates

FULL = Rounds(rounds=5, seconds=2.0, backlog=40_000)
QUICK = Rounds(rounds=2, seconds=0.5, backlog=6_000)
BATCHES = (1, 50)
CONNECTIONS = (1, 2, 4)


def run(quick: bool) -> Measured:
    rounds = QUICK if quick else FULL
    cells = [Cell("sql", *parts) for parts in product(WORKS, BATCHES, CONNECTIONS)]
    with durable_postgres() as server:
        database = new_database(server, "bench")
        rates = measure_rates(
            cells,
            rounds,
            database,
            {"postgres": server.pid},
            lambda cell, number: SqlCaller(database.api_url, f"worker-{number}", TASK_TYPE),
        )
        version = server_version(server)
    figures = tuple(
        Figure(cell.label, rates[cell].per_second, "tasks/s", None, rates[cell].details()) for cell in cells
    )
    return Measured(asdict(rounds), figures, version)
