"""fetchAndLock of ten and ten completions over /engine-rest, next to the same work at /v1 and by the SQL functions.

Each task is the only one of its instance, so every completion advances an instance to its end, whichever way it came.
"""

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import orjson
import psycopg
from sqlalchemy import Connection

from app.bpmn.options import Options
from app.deployment import Resource, prepared
from app.dev.valkey import EmbeddedValkey
from app.engine import advance
from benchmarks.callers import LEASE_MS, RESULT, Held, Refused, encoded, variables
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.http_caller import HttpCaller
from benchmarks.http_connection import HttpConnection
from benchmarks.instances import HEAD, chain
from benchmarks.load import Rate, drive, fetch_and_complete
from benchmarks.samples import interleaved, median
from benchmarks.servers import Api, Database, durable_postgres, new_database, running_api, server_version
from benchmarks.shapes import settle
from db import call
from db.engine import sync_engine

WORKERS: Final = 4
BATCH: Final = 10
TOPIC: Final = "t0"
"""Of the one task of `chain(1)`."""


@dataclass(frozen=True)
class Rounds:
    """How long and how often each way is measured. The backlog is topped up before each stretch, unmeasured."""

    rounds: int
    seconds: float
    backlog: int


FULL = Rounds(rounds=7, seconds=2.0, backlog=3_000)
QUICK = Rounds(rounds=1, seconds=0.3, backlog=300)


def run(quick: bool) -> Measured:
    rounds = QUICK if quick else FULL
    with durable_postgres() as server, EmbeddedValkey() as valkey:
        database = new_database(server, "bench")
        with ExitStack() as opened:
            api = opened.enter_context(running_api(database, valkey.url()))
            owner = opened.enter_context(psycopg.connect(database.owner_url, autocommit=True))
            engine = sync_engine(database.owner_url)
            opened.callback(engine.dispose)
            starter = opened.enter_context(engine.connect()).execution_options(isolation_level="READ COMMITTED")
            definition = deploy(starter)
            ways: Mapping[str, Callable[[str], Worker]] = {
                "engine-rest": partial(CamundaWorker, api),
                "v1": partial(NativeWorker, api),
                "sql": partial(SqlWorker, database),
            }
            workers = {
                way: [opened.enter_context(closing(make(f"{way}-{number}"))) for number in range(WORKERS)]
                for way, make in ways.items()
            }
            servers = {"postgres": server.pid, "api": api.process.pid}
            stretches: dict[str, list[Rate]] = defaultdict(list)
            for way in interleaved(list(ways), rounds.rounds):
                top_up(starter, owner, definition, rounds.backlog)
                settle(owner)
                stretches[way].append(drive(workers[way], fetch_and_complete, BATCH, rounds.seconds, servers))
        version = server_version(server)
    return Measured(asdict(rounds) | {"workers": WORKERS, "batch": BATCH}, figures(stretches), version)


def figures(stretches: Mapping[str, Sequence[Rate]]) -> tuple[Figure, ...]:
    rates = {way: [stretch.per_second for stretch in these] for way, these in stretches.items()}

    def ratio(other: str, goal: Goal | None) -> Figure:
        by_round = [round(ours / theirs, 3) for ours, theirs in zip(rates["engine-rest"], rates[other], strict=True)]
        value = median(rates["engine-rest"]) / median(rates[other])
        return Figure(f"engine-rest / {other}", value, "", goal, {"ratio_by_round": by_round})

    absolute = [
        Figure(
            f"fetch {BATCH}, complete {BATCH}, {WORKERS} workers, {way}", median(rates[way]), "tasks/s", None,
            {
                "tasks_per_s": [round(rate, 1) for rate in rates[way]],
                "cpu_ms_a_task": {
                    name: round(median([one.cpu_ms[name] for one in stretches[way]]), 4)
                    for name in stretches[way][0].cpu_ms
                },
            },
        )
        for way in rates
    ]  # fmt: skip
    return ratio("v1", Goal("≥", 0.8, "issue 5")), ratio("sql", None), *absolute


def deploy(connection: Connection) -> str:
    """The id of the definition of a process with one external task."""
    content = f'{HEAD}<process id="one" isExecutable="true">{chain(1)}</process></definitions>'.encode()
    asked = prepared("one", [Resource("m.bpmn", content)], Options(), datetime.now(UTC))
    with connection.begin():
        call.rows(connection, "deploy_models", **asked)
        found = connection.exec_driver_sql("select definition_id from celeriac.definitions where key = 'one'")
        return str(found.scalar_one())


def top_up(connection: Connection, owner: psycopg.Connection[Any], definition: str, wanted: int) -> None:
    """Start instances until as many tasks are ready."""
    row = owner.execute(
        "select count(*) from celeriac.queue where task_type = %s and state = 'READY'", [TOPIC]
    ).fetchone()
    for number in range(wanted - (row[0] if row else 0)):
        given = call.Json(json.dumps(variables(number)))
        with connection.begin():
            started = call.one(connection, "start_instance", definition_id=definition, variables=given)
            advance(connection, str(started.instance_id))


class Worker(ABC):
    """One worker with one connection, as benchmarks.callers.Worker; the tasks come from instances."""

    @abstractmethod
    def fetch(self, count: int) -> Sequence[Held]: ...

    def complete(self, held: Sequence[Held]) -> None:
        for one in held:
            self.complete_one(one)

    @abstractmethod
    def complete_one(self, held: Held) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class CamundaWorker(Worker):
    """What the clients of Camunda send, as lean as HttpConnection sends it."""

    def __init__(self, api: Api, worker_id: str) -> None:
        self._connection = HttpConnection(api.port, api.key)
        self._worker_id = worker_id
        result = {name: {"value": value} for name, value in RESULT.items()}
        self._completion = encoded({"workerId": worker_id, "variables": result})

    def fetch(self, count: int) -> Sequence[Held]:
        topic = {"topicName": TOPIC, "lockDuration": LEASE_MS}
        asked = {"workerId": self._worker_id, "maxTasks": count, "topics": [topic]}
        answer = self._connection.post("/engine-rest/external-task/fetchAndLock", encoded(asked))
        return [Held(task["id"], 0) for task in orjson.loads(answer)]

    def complete_one(self, held: Held) -> None:
        self._connection.post(f"/engine-rest/external-task/{held.task_id}/complete", self._completion)

    def close(self) -> None:
        self._connection.close()


class NativeWorker(Worker):
    """The same requests at /v1: a fetch of ten, ten completions."""

    def __init__(self, api: Api, worker_id: str) -> None:
        self._caller = HttpCaller(api, worker_id, TOPIC)

    def fetch(self, count: int) -> Sequence[Held]:
        return self._caller.fetch(count)

    def complete_one(self, held: Held) -> None:
        self._caller.complete([held])

    def close(self) -> None:
        self._caller.close()


class SqlWorker(Worker):
    """The functions and the engine on a connection of their own: what both faces do for a worker, without HTTP."""

    def __init__(self, database: Database, worker_id: str) -> None:
        self._engine = sync_engine(database.api_url)
        self._connection = self._engine.connect().execution_options(isolation_level="READ COMMITTED")
        self._worker_id = worker_id
        self._instances: dict[str, str] = {}

    def fetch(self, count: int) -> Sequence[Held]:
        with self._connection.begin():
            rows = call.rows(
                self._connection, "fetch_tasks", worker_id=self._worker_id, task_types=[TOPIC], max_tasks=count,
                lock_duration_ms=LEASE_MS,
            )  # fmt: skip
        self._instances = {str(row.task_id): str(row.instance_id) for row in rows}
        return [Held(str(row.task_id), row.fencing_token) for row in rows]

    def complete_one(self, held: Held) -> None:
        with self._connection.begin():
            ended = call.one(
                self._connection, "complete_task", task_id=held.task_id, worker_id=self._worker_id,
                fencing_token=held.fencing_token, variables=call.Json(json.dumps(RESULT)),
            )  # fmt: skip
            advance(self._connection, self._instances[held.task_id])
        if ended.state != "COMPLETED":
            raise Refused(f"a completion came to {ended.state}")

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()
