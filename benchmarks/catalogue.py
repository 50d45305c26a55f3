"""All benchmarks by name, in the order in which they run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks import (
    camunda_queries,
    camunda_throughput,
    claim_latency,
    enqueue,
    fleet_latency,
    fleet_throughput,
    http_throughput,
    idle_polls,
    instances,
    messages,
    peer_throughput,
    sql_throughput,
    wakeup,
    wal,
)
from benchmarks.figures import Measured


@dataclass(frozen=True)
class Benchmark:
    """What it asks, and how it is run: `run(quick)` starts and stops its own servers."""

    question: str
    run: Callable[[bool], Measured]


BENCHMARKS: Mapping[str, Benchmark] = {
    "claim_latency": Benchmark("Does a fetch get slower with what else is in the database?", claim_latency.run),
    "enqueue": Benchmark("What does it cost a program to hand over a task?", enqueue.run),
    "wal": Benchmark("How much write-ahead log does a task cost?", wal.run),
    "sql_throughput": Benchmark("How many tasks a second go through the SQL functions?", sql_throughput.run),
    "http_throughput": Benchmark("What does HTTP cost next to direct SQL?", http_throughput.run),
    "camunda_throughput": Benchmark("What does the face of Camunda 7 cost next to our own?", camunda_throughput.run),
    "camunda_queries": Benchmark("What do lists of the face of Camunda 7 cost in a crowd?", camunda_queries.run),
    "fleet_throughput": Benchmark("What do durable tasks cost on a Celery fleet?", fleet_throughput.run),
    "fleet_latency": Benchmark(
        "How soon does a fleet begin, and what does a backlog cost its broker?", fleet_latency.run
    ),
    "peer_throughput": Benchmark(
        "How many tasks a second, beside others that keep them in Postgres?", peer_throughput.run
    ),
    "messages": Benchmark("What does a message cost when very many wait for its name?", messages.run),
    "instances": Benchmark("What do processes cost, and what grows with a model?", instances.run),
    "wakeup": Benchmark("How long after its commit has a waiting worker its task?", wakeup.run),
    "idle_polls": Benchmark("What do a thousand waiting workers cost?", idle_polls.run),
}
