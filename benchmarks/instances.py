"""Instances a second of a process of five nodes with three external tasks, beside the bare writes that they come to.

Ours: start, then three times fetch and complete, each completion with its advance in the same transaction; through the
SQL functions and the engine, one connection. Bare: the same rows written by plain statements, as many transactions,
nothing decided or checked. Then what grows with a model: a fork into many branches and their join, and a loop.
"""

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import psycopg
from sqlalchemy import Connection

from app.bpmn.options import Options
from app.deployment import Resource, prepared
from app.engine import advance
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.samples import interleaved, median
from benchmarks.servers import Database, durable_postgres, new_database, server_version
from benchmarks.shapes import settle
from db import call
from db.engine import sync_engine

HEAD: Final = '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:camunda="http://camunda.org/schema/1.0/bpmn">'
VARIABLES: Final = {"order": 4711, "customer": "c-1", "amount": 12.5}


@dataclass(frozen=True)
class Numbers:
    """Instances of a stretch, its rounds, and how wide a fork and how long a loop is."""

    instances: int
    rounds: int
    branches: tuple[int, int]
    turns: tuple[int, int]


FULL = Numbers(instances=150, rounds=5, branches=(50, 200), turns=(25, 100))
QUICK = Numbers(instances=5, rounds=1, branches=(5, 10), turns=(5, 10))


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with durable_postgres() as server:
        with open_office(new_database(server, "bench")) as (owner, office):
            office.deploy("chain", chain(3))
            settle(owner)
            rates: dict[str, list[float]] = {"ours": [], "bare": []}
            for way in interleaved(["ours", "bare"], numbers.rounds):
                began = time.perf_counter()
                for number in range(numbers.instances):
                    office.one_chain() if way == "ours" else bare_chain(owner, number)
                rates[way].append(numbers.instances / (time.perf_counter() - began))
            grown = list(growth(office, numbers))
        version = server_version(server)
    ours, bare = median(rates["ours"]), median(rates["bare"])
    figures = (
        Figure("instances: ours / bare writes", ours / bare, "", Goal("≥", 0.5, "issue 4"), rates),
        Figure("instances of five nodes, ours", ours, "1/s"),
        Figure("instances of five nodes, bare writes", bare, "1/s"),
        *grown,
    )
    return Measured(asdict(numbers), figures, version)


def growth(office: "Office", numbers: Numbers) -> Iterator[Figure]:
    """Time a completion in a narrow and in a wide model: 1 would be linear."""
    for name, sizes, model in (
        ("branches of a fork", numbers.branches, fork),
        ("turns of a loop", numbers.turns, loop),
    ):
        seconds = []
        for size in sizes:
            office.deploy(f"grow{size}", model(size))
            began = time.perf_counter()
            office.work(office.start(f"grow{size}", size), "work")
            seconds.append((time.perf_counter() - began) / size)
        few, many = sizes
        yield Figure(
            f"time of one completion with {many} {name} / with {few}", seconds[1] / seconds[0], "", None,
            {"ms": [round(1000 * second, 2) for second in seconds]},
        )  # fmt: skip


@contextmanager
def open_office(database: Database) -> "Iterator[tuple[psycopg.Connection[Any], Office]]":
    """A connection of the owner in autocommit, and an office on another."""
    engine = sync_engine(database.owner_url)
    with engine.connect() as connection, psycopg.connect(database.owner_url, autocommit=True) as owner:
        yield owner, Office(connection.execution_options(isolation_level="READ COMMITTED"))
    engine.dispose()


class Office:
    """Deploys, starts and works, each call and its advance in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def deploy(self, key: str, body: str, roots: str = "") -> None:
        content = f'{HEAD}{roots}<process id="{key}" isExecutable="true">{body}</process></definitions>'.encode()
        with self._connection.begin():
            call.rows(
                self._connection,
                "deploy_models",
                **prepared(key, [Resource("m.bpmn", content)], Options(), datetime.now(UTC)),
            )
            self._definitions = {
                row.key: row.definition_id
                for row in self._connection.exec_driver_sql("select key, definition_id from celeriac.definitions")
            }

    def start(self, key: str, size: int = 0) -> str:
        with self._connection.begin():
            row = call.one(
                self._connection, "start_instance", definition_id=self._definitions[key],
                variables=call.Json(json.dumps(VARIABLES | {"turns": size})),
            )  # fmt: skip
            advance(self._connection, str(row.instance_id))
        return str(row.instance_id)

    def one_chain(self) -> None:
        instance = self.start("chain")
        for number in range(3):
            self.work(instance, f"t{number}")

    def work(self, instance: str, task_type: str) -> None:
        """Do all tasks of this type, one after the other."""
        while True:
            with self._connection.begin():
                rows = call.rows(self._connection, "fetch_tasks", worker_id="w", task_types=[task_type], max_tasks=1)
            if not rows:
                return
            variables = json.loads(rows[0].variables)
            result = {"turns": variables["turns"] - 1} if variables["turns"] else {}
            with self._connection.begin():
                call.one(
                    self._connection, "complete_task", task_id=rows[0].task_id, worker_id="w",
                    fencing_token=rows[0].fencing_token, variables=call.Json(json.dumps(result)),
                )  # fmt: skip
                advance(self._connection, instance)
            if task_type != "work":
                return


def service(name: str, topic: str) -> str:
    return f'<serviceTask id="{name}" camunda:type="external" camunda:topic="{topic}"/>'


def flow(source: str, target: str, inside: str = "") -> str:
    return f'<sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}">{inside}</sequenceFlow>'


def chain(length: int) -> str:
    stops = ["s", *(f"t{number}" for number in range(length)), "e"]
    tasks = "".join(service(name, name) for name in stops[1:-1])
    flows = "".join(flow(a, b) for a, b in pairwise(stops))
    return f'<startEvent id="s"/>{tasks}<endEvent id="e"/>{flows}'


def fork(branches: int) -> str:
    tasks = "".join(service(f"b{n}", "work") + flow("f", f"b{n}") + flow(f"b{n}", "j") for n in range(branches))
    gateways = '<startEvent id="s"/><parallelGateway id="f"/><parallelGateway id="j"/><endEvent id="e"/>'
    return gateways + flow("s", "f") + tasks + flow("j", "e")


def loop(_: int) -> str:
    more = "<conditionExpression>${turns &gt; 0}</conditionExpression>"
    nodes = f'<startEvent id="s"/>{service("a", "work")}<exclusiveGateway id="g" default="g-e"/><endEvent id="e"/>'
    return nodes + flow("s", "a") + flow("a", "g") + flow("g", "a", more) + flow("g", "e")


def bare_chain(owner: psycopg.Connection[Any], number: int) -> None:
    """The rows of one instance by plain statements: start, then fetch and complete three times."""
    instance = str(uuid.uuid4())
    payload = psycopg.types.json.Jsonb(VARIABLES)
    with closing(owner.cursor()) as cursor:
        task = _bare(cursor, _START, instance=instance, payload=payload, task=str(uuid.uuid4()), uid=str(uuid.uuid4()))
        for place in range(3):
            _bare(cursor, _FETCH, task=task)
            following = str(uuid.uuid4())
            statement = _COMPLETE if place < 2 else _END
            _bare(
                cursor, statement, instance=instance, payload=payload, task=task, following=following,
                uid=str(uuid.uuid4()), number=place + 3,
            )  # fmt: skip
            task = following


def _bare(cursor: psycopg.Cursor[Any], statements: Sequence[str], **values: Any) -> Any:
    with cursor.connection.transaction():
        for statement in statements:
            cursor.execute(statement, values)
    return values.get("task")


_TASK = """
    with t as (insert into celeriac.task (id, token_id, instance_id, created_at, version, priority, retries, task_type,
                                          variables)
               values (%({0})s, %(uid)s, %(instance)s, now(), 1, 0, 3, 'bare', %(payload)s))
    insert into celeriac.queue (task_id, fencing_token, run_at, turn_at, version, priority, retries, payload_bytes,
                                state, task_type)
    values (%({0})s, 0, now(), now(), 1, 0, 3, 60, 'READY', 'bare')"""
_NOTES = """
    insert into celeriac.instance_history (instance_id, at, token, what, node)
    select %(instance)s, now(), n, 'entered', 'x' from generate_series(1, {0}) n"""
_START: Final = (
    """with i as (insert into celeriac.instance (id, definition_id, started_at, number, principal)
                  values (%(instance)s, %(instance)s, now(), 3, 'p')),
            s as (insert into celeriac.scope (instance_id, id, alive, ended, node)
                  values (%(instance)s, 1, 1, false, 'p')),
            v as (insert into celeriac.variable (instance_id, scope, name, value)
                  select %(instance)s, 1, key, value from jsonb_each(%(payload)s))
       insert into celeriac.token (instance_id, id, uid, entered_at, scope, stuck, phase, node, variables)
       values (%(instance)s, 2, %(uid)s, now(), 1, false, 'STANDING', 't', '{}')""",
    _TASK.format("task"),
    _NOTES.format(3),
)
_FETCH: Final = (
    """update celeriac.queue set state = 'LOCKED', fencing_token = nextval('celeriac.fencing_token'), attempts = 1,
              lease_owner = 'w', lease_principal = 'p', leased_at = now(), lease_expires_at = now() + interval '30 s',
              reap_at = now() + interval '30 s' where task_id = %(task)s""",
)
_ENDED = """
    with q as (delete from celeriac.queue where task_id = %(task)s)
    update celeriac.task
       set state = 'COMPLETED', result = '{}', ended_at = now(), started_at = now(), fencing_token = 1,
           worker_id = 'w', principal = 'p', attempts = 1
     where id = %(task)s"""
_MOVED = """
    with t as (delete from celeriac.token where instance_id = %(instance)s)
    update celeriac.instance set number = %(number)s where id = %(instance)s"""
_COMPLETE: Final = (
    _ENDED,
    _MOVED,
    """insert into celeriac.token (instance_id, id, uid, entered_at, scope, stuck, phase, node, variables)
       values (%(instance)s, %(number)s, %(uid)s, now(), 1, false, 'STANDING', 't', '{}')""",
    _TASK.format("following"),
    _NOTES.format(2),
)
_END: Final = (
    _ENDED,
    _MOVED,
    "update celeriac.instance set status = 'COMPLETED', ended_at = now() where id = %(instance)s",
    _NOTES.format(3),
)
