"""Requests as clients write them that are not run here: Camunda's own for Java, and camunda-worker-node.

Byte for byte what they send, headers included: nulls for what was not set, maps that are empty, `null` as a body.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest

from tests.app.bpmn.writing import extended
from tests.app.engine.conftest import flow, model, task
from tests.camunda.conftest import Keys, Served
from tests.camunda.runtime import at, deploy, start

HEADERS: Final = {
    "User-Agent": "Camunda External Task Client",
    "Content-Type": "application/json",
    "Accept-Encoding": "gzip, x-gzip, deflate",
    "Upgrade": "TLS/1.2",
    "Connection": "Upgrade",
}
TOPIC: Final = (
    b'{"topicName":"a","lockDuration":20000,"variables":null,"localVariables":false,"businessKey":null,'
    b'"processDefinitionId":null,"processDefinitionIdIn":null,"processDefinitionKey":null,'
    b'"processDefinitionKeyIn":null,"processDefinitionVersionTag":null,"processVariables":null,'
    b'"withoutTenantId":false,"tenantIdIn":null,"includeExtensionProperties":false}'
)
FETCH: Final = b'{"workerId":"host-1","maxTasks":10,"usePriority":true,"topics":[%s],"sorting":%s}'
PROPERTIES = extended('<camunda:properties><camunda:property name="queue" value="fast"/></camunda:properties>')
ONE: Final = model(
    '<startEvent id="s"/>' + task("a", inside=PROPERTIES.replace("bpmn:", ""))
    + '<boundaryEvent id="b" attachedToRef="a"><errorEventDefinition errorRef="r"/></boundaryEvent>'
    '<userTask id="look"/><userTask id="caught"/>'
    + flow("s", "a", "look") + flow("b", "caught"),
    '<error id="r" errorCode="REFUSED"/>',
)  # fmt: skip


@pytest.fixture
async def engine(served: Served, keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    """With a key as the password, which is how such clients show one."""
    auth = httpx.BasicAuth("anybody", keys.make())
    async with httpx.AsyncClient(base_url=f"{served.url}/engine-rest", auth=auth, timeout=30) as client:
        await deploy(client, ONE)
        yield client


async def send(engine: httpx.AsyncClient, path: str, body: bytes) -> httpx.Response:
    """As the client for Java does; whatever is not done says why in JSON."""
    answered = await engine.post(path, content=body, headers=HEADERS)
    assert answered.headers.get("content-encoding") is None
    return answered


async def do(engine: httpx.AsyncClient, path: str, body: bytes) -> None:
    answered = await send(engine, path, body)
    assert (answered.status_code, answered.content) == (204, b""), answered.text


async def fetch(engine: httpx.AsyncClient, topic: bytes = TOPIC, sorting: bytes = b"[]") -> list[dict[str, Any]]:
    answered = await send(engine, "/external-task/fetchAndLock", FETCH % (topic, sorting))
    assert (answered.status_code, answered.headers["content-type"]) == (200, "application/json"), answered.text
    return list(answered.json())


async def stands_at(engine: httpx.AsyncClient, instance: dict[str, Any]) -> list[str]:
    tree = await at(engine, f"/process-instance/{instance['id']}/activity-instances")
    return [child["activityId"] for child in tree["childActivityInstances"]]


VARIABLES: Final = (
    b'{"text":{"value":"gr\xc3\xb6\xc3\x9fer","type":"String","valueInfo":{}},'
    b'"none":{"value":null,"type":"Null","valueInfo":{}},'
    b'"long":{"value":9223372036854775807,"type":"Long","valueInfo":{}},'
    b'"short":{"value":3,"type":"Short","valueInfo":{}},'
    b'"double":{"value":1.0,"type":"Double","valueInfo":{}},'
    b'"when":{"value":"2024-01-02T03:04:05.678+0200","type":"Date","valueInfo":{}},'
    b'"bytes":{"value":"AP8K","type":"Bytes","valueInfo":{}},'
    b'"json":{"value":"{\\"a\\":1}","type":"Json","valueInfo":{}},'
    b'"xml":{"value":"<a/>","type":"Xml","valueInfo":{}},'
    b'"object":{"value":"{\\"a\\":[1]}","type":"Object","valueInfo":'
    b'{"objectTypeName":"org.acme.Order","serializationDataFormat":"application/json"}},'
    b'"file":{"value":"aGk=","type":"File","valueInfo":'
    b'{"filename":"a.txt","mimetype":"text/plain","encoding":"UTF-8","transient":false}},'
    b'"passing":{"value":"gone","type":"String","valueInfo":{"transient":true}}}'
)


async def test_java_fetches_and_completes_with_every_type(engine: httpx.AsyncClient) -> None:
    instance = await start(engine, businessKey="B")
    [locked] = await fetch(engine)
    assert (locked["workerId"], locked["businessKey"], locked["extensionProperties"]) == ("host-1", "B", {})
    body = b'{"workerId":"host-1","variables":%s,"localVariables":{}}' % VARIABLES
    await do(engine, f"/external-task/{locked['id']}/complete", body)
    assert await stands_at(engine, instance) == ["look"]
    found = await at(engine, f"/process-instance/{instance['id']}/variables", deserializeValues="false")
    sent = json.loads(VARIABLES)
    assert found.keys() == sent.keys() - {"passing"}
    assert {name: found[name]["type"] for name in found} == {name: sent[name]["type"] for name in found}
    changed = {"when": "2024-01-02T01:04:05.678+0000", "file": None}
    assert {name: found[name]["value"] for name in found} == {
        name: changed.get(name, sent[name]["value"]) for name in found
    }
    assert found["object"]["valueInfo"] == sent["object"]["valueInfo"]


async def test_java_sets_variables_while_it_works_and_reads_a_file_by_the_execution(engine: httpx.AsyncClient) -> None:
    await start(engine)
    [locked] = await fetch(engine)
    body = b'{"workerId":"host-1","modifications":%s}' % VARIABLES
    await do(engine, f"/process-instance/{locked['processInstanceId']}/variables", body)
    for id_ in (locked["processInstanceId"], locked["executionId"]):
        path = f"/process-instance/{id_}/variables/file/data"
        read = await engine.get(path, headers=HEADERS)
        assert (read.status_code, read.content) == (200, base64.b64decode("aGk="))
    with_all = TOPIC.replace(b'"includeExtensionProperties":false', b'"includeExtensionProperties":true')
    await do(engine, f"/external-task/{locked['id']}/unlock", b"null")
    [again] = await fetch(engine, with_all, b'[{"sortBy":"createTime","sortOrder":"desc"}]')
    assert again["extensionProperties"] == {"queue": "fast"}
    # The client takes the first letter of a type's name: each has one.
    assert all(typed["type"] and typed["valueInfo"] is not None for typed in again["variables"].values())


async def test_java_extends_locks_fails_and_refuses(engine: httpx.AsyncClient) -> None:
    instance = await start(engine)
    [locked] = await fetch(engine)
    path = f"/external-task/{locked['id']}"
    await do(engine, f"{path}/extendLock", b'{"workerId":"host-1","newDuration":60000}')
    await do(engine, f"{path}/lock", b'{"workerId":"host-1","lockDuration":60000}')
    failure = (
        b'{"workerId":"host-1","errorMessage":"m","errorDetails":"d","retries":%d,"retryTimeout":0,'
        b'"variables":{},"localVariables":{}}'
    )
    await do(engine, f"{path}/failure", failure % 1)
    [again] = await fetch(engine)
    assert (again["retries"], again["errorMessage"], again["errorDetails"]) == (1, "m", "d")
    await do(engine, f"{path}/failure", failure % 0)
    assert await fetch(engine) == []
    assert len(await at(engine, "/incident", processInstanceId=instance["id"])) == 1
    # It holds the task still: what was reported last does not keep it from saying more.
    refusal = b'{"workerId":"host-1","errorCode":"REFUSED","errorMessage":null,"variables":{}}'
    await do(engine, f"{path}/bpmnError", refusal)
    assert await stands_at(engine, instance) == ["caught"]
    late = await send(engine, f"{path}/complete", b'{"workerId":"host-1","variables":{},"localVariables":{}}')
    assert (late.status_code, late.json()["type"]) == (404, "RestException")


async def test_worker_node_writes_dates_with_utc_and_an_offset(engine: httpx.AsyncClient) -> None:
    instance = await start(engine)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    topics = b'[{"topicName":"a","variables":["when"],"lockDuration":10000}]'
    body = b'{"maxTasks":2,"workerId":"w","usePriority":true,"topics":%s}' % topics
    [locked] = (await engine.post("/external-task/fetchAndLock", content=body, headers=headers)).json()
    date = b'{"value":"2024-01-02T03:04:05.678UTC+00:00","type":"Date"}'
    done = b'{"workerId":"w","variables":{"when":%s},"localVariables":{}}' % date
    answered = await engine.post(f"/external-task/{locked['id']}/complete", content=done, headers=headers)
    assert answered.status_code == 204, answered.text
    found = await at(engine, f"/process-instance/{instance['id']}/variables")
    assert found["when"]["value"] == "2024-01-02T03:04:05.678+0000"
