"""What fetches, lists, counts and trees of /engine-rest cost among 200 000 open external tasks, over HTTP.

The crowd is made of copies of an instance that the engine has begun, row by row: instances, scopes, tokens, variables,
timelines, tasks and their places in the queue. Of ten tasks eight are free (of three priorities), one is held, one of
twenty rests after a failure and one of twenty has failed for good. A quarter as many instances have ended.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
import psycopg

from app.dev.valkey import EmbeddedValkey
from benchmarks.callers import encoded
from benchmarks.figures import Figure, Goal, Measured
from benchmarks.http_connection import HttpConnection
from benchmarks.instances import chain, fork, open_office
from benchmarks.samples import median, spread
from benchmarks.servers import durable_postgres, new_database, running_api, server_version
from benchmarks.stopwatch import milliseconds

PAGE: Final = 50
RARE: Final = 200
"""Instances of a process whose tasks lie behind all others of their topic."""
DEEP: Final = 10_000
"""Where a page begins that is far from the head."""
ASKED_SECONDS: Final = 3.0
"""No query is asked for longer than this, once it has been asked twice."""

_MADE: Final = """
create temporary table made as
select n, at, celeriac.uuid_v7(at) as instance_id, celeriac.uuid_v7(at + interval '1 microsecond') as uid,
       celeriac.uuid_v7(at + interval '2 microseconds') as task_id
  from (select celeriac.now() - %(age)s::interval as began) m, generate_series(1, %(count)s) n,
       lateral (select m.began + n * interval '10 microseconds' as at) t"""

_COPIED: Final[Mapping[str, str]] = {
    "instance": "'id', m.instance_id, 'started_at', m.at, 'business_key', 'order-' || m.n",
    "scope": "'instance_id', m.instance_id",
    "variable": "'instance_id', m.instance_id",
    "token": "'instance_id', m.instance_id, 'uid', m.uid, 'entered_at', m.at",
    "event_wait": "'instance_id', m.instance_id, 'uid', celeriac.uuid_v7(m.at + interval '4 microseconds')",
    "task": (
        "'instance_id', m.instance_id, 'token_id', m.uid, 'id', m.task_id, 'created_at', m.at, 'priority', mod(m.n, 3)"
    ),
}
"""Of each table the fields in which a copy differs."""

_QUEUED: Final = """
insert into celeriac.queue
select r.* from celeriac.queue q join celeriac.task t on t.id = q.task_id and t.instance_id = %(instance)s
 cross join made m cross join lateral jsonb_populate_record(q, jsonb_build_object(
       'task_id', m.task_id, 'run_at', m.at, 'turn_at', m.at, 'priority', mod(m.n, 3))) r"""
_TOLD: Final = """
insert into celeriac.instance_history (instance_id, at, token, token_uid, what, node, host)
select m.instance_id, m.at, h.token, case when h.token_uid is not null then m.uid end, h.what, h.node, h.host
  from celeriac.instance_history h cross join made m where h.instance_id = %(instance)s order by m.n, h.number"""
_HELD: Final = """
update celeriac.queue q
   set state = 'LOCKED', fencing_token = nextval('celeriac.fencing_token'), attempts = 1, on_loss = 'free',
       lease_owner = 'w', lease_principal = 'p', leased_at = m.at,
       lease_expires_at = celeriac.now() + interval '1 day', reap_at = celeriac.now() + interval '1 day'
  from made m where q.task_id = m.task_id and mod(m.n, 10) = 9"""
_RESTING: Final = """
update celeriac.queue q
   set state = 'SCHEDULED', attempts = 1, run_at = celeriac.now() + interval '1 day', retries = 2, retries_told = true,
       last_owner = 'w', last_principal = 'p', last_until = celeriac.now() + interval '1 day'
  from made m where q.task_id = m.task_id and mod(m.n, 20) = 7"""
_FAILED: Final = (
    "delete from celeriac.queue q using made m where q.task_id = m.task_id and mod(m.n, 20) = 17",
    """
update celeriac.task t set state = 'FAILED', error = 'broken', started_at = m.at, ended_at = celeriac.now(),
       fencing_token = 1, worker_id = 'w', principal = 'p', attempts = 1
  from made m where t.id = m.task_id and mod(m.n, 20) = 17""",
    """
insert into celeriac.incident (id, task_id, kind, name, message, detail, created_at, instance_id, token_uid)
select celeriac.uuid_v7(m.at + interval '3 microseconds'), m.task_id, 'failed', 't0', 'broken', '{}',
       celeriac.now(), m.instance_id, m.uid
  from made m where mod(m.n, 20) = 17""",
)
_FAILURES: Final = """
insert into celeriac.history (at, task_id, kind, fencing_token, attempt, started_at, worker_id, principal, detail)
select celeriac.now(), m.task_id, 'failed', 1, 1, m.at, 'w', 'p',
       jsonb_build_object('error', 'broken', 'retries', case when mod(m.n, 20) = 7 then 2 else 0 end)
  from made m where mod(m.n, 20) in (7, 17)"""
_ENDED: Final = (
    "delete from celeriac.queue q using made m where q.task_id = m.task_id",
    """
update celeriac.task t set state = 'COMPLETED', result = '{}', started_at = m.at, ended_at = m.at + interval '1 second',
       fencing_token = 1, worker_id = 'w', principal = 'p', attempts = 1 from made m where t.id = m.task_id""",
    "delete from celeriac.token t using made m where t.instance_id = m.instance_id",
    """
update celeriac.instance i set status = 'COMPLETED', ended_at = m.at + interval '1 second'
  from made m where i.id = m.instance_id""",
    """
insert into celeriac.instance_history (instance_id, at, token, token_uid, what, node)
select m.instance_id, m.at + interval '1 second', h.token, m.uid, 'left', h.node
  from made m cross join (select token, node from celeriac.instance_history
                           where instance_id = %(instance)s and token_uid is not null and what = 'entered') h""",
)


@dataclass(frozen=True)
class Numbers:
    """Open tasks of the crowd, tokens of one instance, and how often each query is asked."""

    tasks: int
    tokens: int
    samples: int


FULL = Numbers(tasks=200_000, tokens=1_000, samples=20)
QUICK = Numbers(tasks=1_000, tokens=20, samples=3)

WORK: Final = Goal("≤", 20, "issue 5")
TREE: Final = Goal("≤", 200, "issue 5")


@dataclass(frozen=True)
class Query:
    """One question. `expected`: how many entries its answer must have, where that is known."""

    name: str
    path: str
    body: Mapping[str, Any] | None = None
    goal: Goal | None = None
    expected: int | None = None


def run(quick: bool) -> Measured:
    numbers = QUICK if quick else FULL
    with durable_postgres() as server, EmbeddedValkey() as valkey:
        database = new_database(server, "bench")
        with ExitStack() as opened:
            owner, office = opened.enter_context(open_office(database))
            office.deploy("chain", chain(1))
            office.deploy("wide", fork(numbers.tokens))
            one, wide = office.start("chain"), office.start("wide")
            add_crowd(owner, one, numbers.tasks, ended=False)
            add_crowd(owner, one, numbers.tasks // 4, ended=True)
            office.deploy("rare", chain(1))
            for _ in range(RARE):
                office.start("rare")
            owner.execute("vacuum (analyze)")
            owner.execute("checkpoint")
            api = opened.enter_context(running_api(database, valkey.url()))
            connection = opened.enter_context(closing(HttpConnection(api.port, api.key)))
            figures = tuple(measured(connection, query, numbers.samples) for query in queries(one, wide, numbers))
        version = server_version(server)
    return Measured(asdict(numbers), figures, version)


def add_crowd(owner: psycopg.Connection[Any], instance: str, count: int, *, ended: bool) -> None:
    """Copies of an instance that stands at its one task; ended ones began a day before the open ones."""
    with made_copies(owner, instance, count, age="2 days" if ended else "1 day"):
        for statement in (_QUEUED, *(_ENDED if ended else (_HELD, _RESTING, *_FAILED, _FAILURES))):
            owner.execute(statement, {"instance": instance})


@contextmanager
def made_copies(owner: psycopg.Connection[Any], instance: str, count: int, *, age: str) -> Iterator[None]:
    """Copies of an instance where it stands, but for the queue; the table `made` (n, instance_id, …) names them."""
    values = {"instance": instance, "count": count, "age": age}
    owner.execute(_MADE, values)
    for table, differs in _COPIED.items():
        key = "id" if table == "instance" else "instance_id"
        owner.execute(
            f"insert into celeriac.{table} select r.* from celeriac.{table} t cross join made m"
            f" cross join lateral jsonb_populate_record(t, jsonb_build_object({differs})) r"
            f" where t.{key} = %(instance)s",
            values,
        )
    owner.execute(_TOLD, values)
    yield
    owner.execute("drop table made")


def queries(instance: str, wide: str, numbers: Numbers) -> Iterator[Query]:
    """Those of clients first, then whatever a person may look at."""
    page = f"maxResults={PAGE}"
    deep = f"{page}&firstResult={min(DEEP, numbers.tasks // 2)}"
    urgent = {"sorting": [{"sortBy": "taskPriority", "sortOrder": "desc"}]}
    work = {"withRetriesLeft": True, "notLocked": True, **urgent}
    tasks, free = "/external-task", {"notLocked": True}
    yield Query("external-task, as fastbpmn asks", f"{tasks}?{page}", work, WORK, PAGE)
    yield Query(
        "external-task, as fastbpmn asks, of a topic", f"{tasks}?{page}", {**work, "topicName": "t0"}, WORK, PAGE
    )
    yield Query("external-task, notLocked", f"{tasks}?{page}", free, WORK, PAGE)
    by_age = {"sorting": [{"sortBy": "createTime", "sortOrder": "asc"}]}
    fetch = {"workerId": "w", "maxTasks": 10}
    topic = {"topicName": "t0", "lockDuration": 60_000}
    for way, asked_so, of_topic in (
        ("", {}, {}),
        (", oldest first", by_age, {}),
        (", urgent ones first and the oldest of them", {"usePriority": True, **by_age}, {}),
        (", of a process", {}, {"processDefinitionKey": "chain"}),
        (", of a process behind all others", {}, {"processDefinitionKey": "rare"}),
        (", of a process behind all others, oldest first", by_age, {"processDefinitionKey": "rare"}),
        (", of a process that is not there", {}, {"processDefinitionKey": "none"}),
        (", of a business key", {}, {"businessKey": "order-70"}),
    ):
        body = {**fetch, **asked_so, "topics": [{**topic, **of_topic}]}
        yield Query(f"fetchAndLock of 10{way}", "/external-task/fetchAndLock", body)
    yield Query("external-task, as fastbpmn asks, deep", f"{tasks}?{deep}", work, None, PAGE)
    for by in ("createTime", "lockExpirationTime", "id"):
        sorting = {"sorting": [{"sortBy": by, "sortOrder": "asc"}]}
        yield Query(f"external-task, notLocked by {by}", f"{tasks}?{page}", {**free, **sorting}, None, PAGE)
        yield Query(f"external-task, notLocked by {by}, deep", f"{tasks}?{deep}", {**free, **sorting}, None, PAGE)
    yield Query("external-task, all", f"{tasks}?{page}", {}, None, PAGE)
    yield Query("external-task, locked", f"{tasks}?{page}", {"locked": True}, None, PAGE)
    yield Query("external-task, noRetriesLeft", f"{tasks}?{page}", {"noRetriesLeft": True}, None, PAGE)
    yield Query("external-task, of one instance", tasks, {"processInstanceId": instance}, None, 1)
    yield Query("external-task/count", f"{tasks}/count", {})
    yield Query("external-task/count, notLocked", f"{tasks}/count", free)
    yield Query("external-task/topic-names", f"{tasks}/topic-names")
    yield Query("external-task/topic-names, withUnlockedTasks", f"{tasks}/topic-names?withUnlockedTasks=true")
    yield Query(
        f"activity-instances of {numbers.tokens:,} tokens", f"/process-instance/{wide}/activity-instances", None, TREE
    )
    for name, path, sorts in (
        ("process-instance", "/process-instance", ("businessKey",)),
        ("execution", "/execution", ("instanceId",)),
        ("variable-instance", "/variable-instance", ("variableName",)),
        ("incident", "/incident", ("incidentTimestamp",)),
        ("job", "/job", ()),
        ("history/process-instance", "/history/process-instance", ("startTime", "endTime")),
        ("history/activity-instance", "/history/activity-instance", ("startTime",)),
        ("history/variable-instance", "/history/variable-instance", ("variableName",)),
        ("history/incident", "/history/incident", ("createTime",)),
        ("history/external-task-log", "/history/external-task-log", ("timestamp",)),
    ):
        yield Query(name, f"{path}?{page}")
        yield Query(f"{name}, deep", f"{path}?{deep}")
        yield Query(f"{name}, of one instance", f"{path}?{page}&processInstanceId={instance}")
        yield Query(f"{name}/count", f"{path}/count")
        for by in sorts:
            yield Query(f"{name} by {by}", f"{path}?{page}&sortBy={by}&sortOrder=desc")
    yield Query(
        "history/process-instance, finished", f"/history/process-instance?{page}", {"finished": True}, None, PAGE
    )
    yield Query("history/activity-instance, unfinished", f"/history/activity-instance?{page}", {"unfinished": True})
    yield Query("process-instance by business key", "/process-instance", {"businessKey": "order-77"}, None, 1)
    yield Query(
        "process-instance by variable", f"/process-instance?{page}",
        {"variables": [{"name": "order", "operator": "eq", "value": 4711}]}, None, PAGE,
    )  # fmt: skip
    yield Query("history/external-task-log, failureLog", f"/history/external-task-log?{page}", {"failureLog": True})


def measured(connection: HttpConnection, query: Query, samples: int) -> Figure:
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < samples and (len(taken) < 2 or time.perf_counter() - began < ASKED_SECONDS):
        with milliseconds() as took:
            answer = asked(connection, query)
        taken.append(took.ms)
    if query.expected is not None and len(orjson.loads(answer)) != query.expected:
        raise RuntimeError(f"{query.name}: not {query.expected} entries: {answer[:300]!r}")
    return Figure(f"{query.name}: median", median(taken), "ms", query.goal, spread(taken))


def asked(connection: HttpConnection, query: Query) -> bytes:
    path = f"/engine-rest{query.path}"
    return connection.get(path) if query.body is None else connection.post(path, encoded(query.body))
