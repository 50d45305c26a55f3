"""A database in which there is something of everything, for tests that ask for anything."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from sqlalchemy import Connection, text

from tests.app.engine.conftest import flow, model, task

WAITING = {
    "u": '<userTask id="u" camunda:candidateGroups="g"/>',
    "r": '<receiveTask id="r"/>',
    "t": '<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>P1D</timeDuration></timerEventDefinition>'
    "</intermediateCatchEvent>",
    "m": '<intermediateCatchEvent id="m"><messageEventDefinition messageRef="message"/></intermediateCatchEvent>',
    "g": '<intermediateCatchEvent id="g"><signalEventDefinition signalRef="signal"/></intermediateCatchEvent>',
    "x": '<scriptTask id="x" scriptFormat="juel" camunda:resultVariable="y"><script>${missing + 1}</script>'
    "</scriptTask>",
}
EVERYTHING = model(
    '<startEvent id="s"/><parallelGateway id="all"/>' + task("a") + task("b") + "".join(WAITING.values())
    + flow("s", "all") + "".join(flow("all", one) for one in ("a", "b", *WAITING)),
    roots='<message id="message" name="message"/><signal id="signal" name="signal"/>',
)  # fmt: skip
BEGINNINGS = model(
    '<startEvent id="s"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition></startEvent>'
    '<startEvent id="o"><messageEventDefinition messageRef="open"/></startEvent>'
    + task("c") + flow("s", "c") + flow("o", "c"),
    roots='<message id="open" name="open"/>',
    process='id="q" isExecutable="true"',
)  # fmt: skip
VARIABLES: Mapping[str, Mapping[str, Any]] = {
    "string": {"value": "ü 🙂", "type": "String"},
    "long": {"value": 2**63 - 1, "type": "Long"},
    "short": {"value": 1, "type": "Short"},
    "double": {"value": -0.5},
    "boolean": {"value": True},
    "nothing": {"value": None},
    "date": {"value": "9999-12-31T23:59:59.999+0000", "type": "Date"},
    "bytes": {"value": "aGVsbG8=", "type": "Bytes"},
    "json": {"value": '{"a": [1, 2.50]}', "type": "Json"},
    "xml": {"value": "<a/>", "type": "Xml"},
    "object": {
        "value": '{"a": 1}', "type": "Object",
        "valueInfo": {"objectTypeName": "a.B", "serializationDataFormat": "application/json"},
    },
    "file": {
        "value": base64.b64encode(b"content").decode(), "type": "File",
        "valueInfo": {"filename": "ü\"\n.txt", "mimetype": "text/plain", "encoding": "UTF-8"},
    },
}  # fmt: skip
INSTANCES = 8

_IDS = {
    "external_task": "select id from celeriac.external_tasks",
    "user_task": "select token_id from celeriac.camunda_user_tasks",
    "job": "select job_id from celeriac.camunda_jobs",
    "incident": "select incident_id from celeriac.camunda_incidents",
    "instance": "select instance_id from celeriac.instances",
    "execution": "select execution_id from celeriac.camunda_executions",
    "variable": "select variable_id from celeriac.variable_instances",
    "activity": "select node || ':' || visit_id from celeriac.camunda_activities",
    "deployment": "select deployment_id from celeriac.deployments",
    "resource": "select resource_id from celeriac.resources",
    "definition": "select key || ':' || version || ':' || definition_id from celeriac.definitions",
}
_TABLES = (
    "select oid::regclass::text from pg_class where relnamespace = 'celeriac'::regnamespace and relkind in ('r', 'p')"
)


@dataclass(frozen=True)
class World:
    """What is there. `tasks`, …: ids of every kind as they are now."""

    conn: Connection
    client: httpx.Client

    def ids(self) -> dict[str, list[str]]:
        return {
            kind: [str(row[0]) for row in self.conn.execute(text(f"{query} order by 1"))]
            for kind, query in _IDS.items()
        }

    def state(self, but: Sequence[str] = ()) -> dict[str, Any]:
        """A digest of every table; of what only counts calls, none."""
        names = [name for (name,) in self.conn.execute(text(_TABLES)) if name.split(".")[-1] not in but]
        digests = " union all ".join(
            f"select '{name}', count(*), sum(hashtextextended(t::text, 0)::numeric) from {name} t" for name in names
        )
        return {name: (count, digest) for name, count, digest in self.conn.execute(text(digests))}


def populate(client: httpx.Client, conn: Connection) -> World:
    """Deploys, starts and works, so that every list of /engine-rest has rows."""
    for name, content in (("everything", EVERYTHING), ("beginnings", BEGINNINGS)):
        _did(client.post("/deployment/create", data={"deployment-name": name}, files={"f": (f"{name}.bpmn", content)}))
    started = [
        _did(client.post("/process-definition/key/p/start", json={"variables": VARIABLES, "businessKey": f"b{number}"}))
        for number in range(INSTANCES)
    ]
    for topic, verb, more in (
        ("a", "failure", {"errorMessage": "no", "errorDetails": "why", "retries": 0}),
        ("a", "failure", {"retries": 2, "retryTimeout": 60_000}),
        ("a", "complete", {"variables": VARIABLES, "localVariables": VARIABLES}),
        ("b", "bpmnError", {"errorCode": "e"}),
        ("b", None, {}),
    ):
        asked = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": topic, "lockDuration": 600_000}]}
        (taken,) = _did(client.post("/external-task/fetchAndLock", json=asked))
        if verb is not None:
            _did(client.post(f"/external-task/{taken['id']}/{verb}", json={"workerId": "w", **more}))
    _did(client.put(f"/process-instance/{started[-1]['id']}/suspended", json={"suspended": True}))
    _did(client.delete(f"/process-instance/{started[-2]['id']}"))
    return World(conn, client)


def _did(answered: httpx.Response) -> Any:
    assert answered.status_code in (200, 204), answered.text
    return answered.json() if answered.content else None


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, the whole of it first."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from leaves(one, (*path, key))
