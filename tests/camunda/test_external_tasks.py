"""/external-task: fetch and lock, and what a worker does with what it holds: camunda7.md, sections 1.1 to 1.9."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, deploy, error, start
from tests.camunda.work import act, done, fetch, fetched, shown
from tests.clock import Clock

DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000")
PROPERTIES = (
    "<extensionElements><camunda:properties>"
    '<camunda:property name="queue" value="fast"/></camunda:properties></extensionElements>'
)
EXTRAS = model(
    '<startEvent id="s"/>'
    + task("a", 'camunda:taskPriority="7"', PROPERTIES)
    + '<endEvent id="e"/>'
    + flow("s", "a", "e"),
    process='id="p" isExecutable="true" camunda:versionTag="1.2-beta"',
)
CAUGHT = model(
    '<startEvent id="s"/>' + task("a")
    + '<boundaryEvent id="no" attachedToRef="a"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    + task("b") + task("c") + '<endEvent id="e"/>' + flow("s", "a", "b", "e") + flow("no", "c", "e"),
    '<error id="E" errorCode="SOLD_OUT"/>',
)  # fmt: skip
NO_TOPICS: dict[str, Any] = {"topics": None}
ENTRY = [
    "activityId", "activityInstanceId", "errorMessage", "errorDetails", "executionId", "id", "lockExpirationTime",
    "createTime", "processDefinitionId", "processDefinitionKey", "processDefinitionVersionTag", "processInstanceId",
    "retries", "suspended", "workerId", "topicName", "tenantId", "variables", "priority", "businessKey",
    "extensionProperties",
]  # fmt: skip
COMMANDS: dict[str, dict[str, Any]] = {
    "complete": {}, "failure": {"retries": 1}, "bpmnError": {"errorCode": "X"}, "extendLock": {"newDuration": 1000},
}  # fmt: skip
NOT_YOURS = {
    "complete": "External Task {} cannot be completed by worker '{}'. It is locked by worker '{}'.",
    "failure": "Failure of External Task {} cannot be reported by worker '{}'. It is locked by worker '{}'.",
    "bpmnError": "Bpmn error of External Task {} cannot be reported by worker '{}'. It is locked by worker '{}'.",
    "extendLock": "The lock of the External Task {} cannot be extended by worker '{}'. It is locked by worker '{}'.",
    "lock": "External Task {} cannot be locked by worker '{}'. It is locked by worker '{}'.",
}


async def begin(camunda: httpx.AsyncClient, content: bytes = TWO, **body: Any) -> str:
    """An instance that stands at its first task."""
    await deploy(camunda, content)
    return str((await start(camunda, **body))["id"])


def moment(text: str) -> datetime:
    assert DATE.fullmatch(text)
    return datetime.fromisoformat(text)


class TestFetch:
    async def test_an_entry_has_every_key_and_says_where_it_belongs(self, camunda: httpx.AsyncClient) -> None:
        definition = await deploy(camunda, EXTRAS)
        variables = {"x": {"value": 1}, "o": {"value": {"a": [1]}}, "n": {"value": None, "type": "Null"}}
        instance = await start(camunda, businessKey="B-1", variables=variables)
        task = await fetch(camunda, deserializeValues=True, includeExtensionProperties=True)
        assert sorted(task) == sorted(ENTRY)
        execution = task["executionId"]
        assert {name: UUID(task[name]) for name in ("id", "executionId", "processInstanceId")}
        assert execution != task["processInstanceId"] == instance["id"]
        assert task | {"lockExpirationTime": 0, "createTime": 0, "id": 0} == {
            "activityId": "a", "activityInstanceId": f"a:{execution}", "errorMessage": None, "errorDetails": None,
            "executionId": execution, "id": 0, "lockExpirationTime": 0, "createTime": 0,
            "processDefinitionId": definition["id"], "processDefinitionKey": "p",
            "processDefinitionVersionTag": "1.2-beta", "processInstanceId": instance["id"], "retries": None,
            "suspended": False, "workerId": "w", "topicName": "a", "tenantId": None, "priority": 7,
            "businessKey": "B-1", "extensionProperties": {"queue": "fast"},
            "variables": {
                "x": {"value": 1, "type": "Integer", "valueInfo": {}},
                "n": {"value": None, "type": "Null", "valueInfo": {}},
                "o": {
                    "value": {"a": [1]}, "type": "Object",
                    "valueInfo": {
                        "objectTypeName": "java.util.LinkedHashMap", "serializationDataFormat": "application/json",
                    },
                },
            },
        }  # fmt: skip
        held = moment(task["lockExpirationTime"]) - moment(task["createTime"])
        assert 59 < held.total_seconds() < 120

    async def test_a_locked_task_is_nobody_elses(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        assert len(await fetched(camunda)) == 1
        assert await fetched(camunda) == await fetched(camunda, worker="other") == []

    async def test_extensions_and_objects_are_plain_unless_asked_for(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda, EXTRAS, variables={"o": {"value": {"a": [1]}}})
        task = await fetch(camunda)
        assert (task["extensionProperties"], task["variables"]["o"]["value"]) == ({}, '{"a":[1]}')

    @pytest.mark.parametrize(
        ("asked", "names"),
        [
            ({"variables": None}, {"x", "y", "in"}),
            ({"variables": []}, set()),
            ({"variables": ["x", "in", "unknown"]}, {"x", "in"}),
            ({"localVariables": True}, {"in"}),
            ({"localVariables": None}, {"x", "y", "in"}),
            ({"localVariables": True, "variables": ["x"]}, set()),
        ],
    )
    async def test_the_variables_that_are_asked_for(
        self, camunda: httpx.AsyncClient, asked: dict[str, Any], names: set[str]
    ) -> None:
        given = (
            '<camunda:inputOutput><camunda:inputParameter name="in">1</camunda:inputParameter></camunda:inputOutput>'
        )
        inside = task("a", inside=f"<extensionElements>{given}</extensionElements>")
        await deploy(camunda, model('<startEvent id="s"/>' + inside + '<endEvent id="e"/>' + flow("s", "a", "e")))
        await start(camunda, variables={"x": {"value": 1}, "y": {"value": 2}})
        assert (await fetch(camunda, **asked))["variables"].keys() == names

    async def test_at_most_max_tasks_over_all_topics(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda, parallel(3))
        await start(camunda)
        topics = [{"topicName": name, "lockDuration": 1000} for name in ("t0", "t1", "t2", "none")]
        body = {"workerId": "w", "maxTasks": 2, "topics": topics}
        first = (await camunda.post("/external-task/fetchAndLock", json=body)).json()
        second = (await camunda.post("/external-task/fetchAndLock", json=body)).json()
        assert (len(first), len(second)) == (2, 1)
        assert {task["topicName"] for task in first + second} == {"t0", "t1", "t2"}

    @pytest.mark.parametrize(
        "body", [{"maxTasks": 0}, {}, {"maxTasks": 5, "topics": []}, {"maxTasks": 5, "topics": None}]
    )
    async def test_nothing_asked_is_nothing_answered(self, camunda: httpx.AsyncClient, body: dict[str, Any]) -> None:
        await begin(camunda)
        asked = {"workerId": "w", "topics": [{"topicName": "a", "lockDuration": 1000}], **body}
        answered = await camunda.post("/external-task/fetchAndLock", json=asked)
        assert (answered.status_code, answered.json()) == (200, [])

    async def test_of_a_topic_that_is_named_twice_the_last_holds(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        twice = [{"topicName": "a", "lockDuration": 1000}, {"topicName": "a", "lockDuration": 3_600_000}]
        body = {"workerId": "w", "maxTasks": 5, "topics": twice}
        (task,) = (await camunda.post("/external-task/fetchAndLock", json=body)).json()
        held = moment(task["lockExpirationTime"]) - moment(task["createTime"])
        assert held.total_seconds() > 3000

    async def test_the_oddities_of_clients_are_taken(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        odd = {
            "sorting": None, "asyncResponseTimeout": None, "usePriority": 1, "includeExtensionProperties": True,
            "somethingElse": {"x": 1},
        }  # fmt: skip
        nulls = dict.fromkeys(("variables", "localVariables", "businessKey", "processDefinitionId", "tenantIdIn"))
        task = await fetch(camunda, "a", 17, more=odd, **nulls, processVariables={}, withoutTenantId=True, other=[])
        assert task["workerId"] == "17"
        await done(camunda, task, worker=17)

    async def test_high_priority_first_and_oldest_first_among_equals(self, camunda: httpx.AsyncClient) -> None:
        prioritised = task("a", 'camunda:taskPriority="${p}"')
        await deploy(camunda, model('<startEvent id="s"/>' + prioritised + '<endEvent id="e"/>' + flow("s", "a", "e")))
        for priority in (1, 5, 1, 5):
            await start(camunda, variables={"p": {"value": priority}})
        tasks = await fetched(camunda, most=10, more={"usePriority": True})
        assert [one["priority"] for one in tasks] == [5, 5, 1, 1]
        created = [one["createTime"] for one in tasks]
        assert created[:2] == sorted(created[:2])
        assert created[2:] == sorted(created[2:])

    @pytest.mark.parametrize("order", ["asc", "desc"])
    async def test_sorting_by_the_time_of_creation(self, camunda: httpx.AsyncClient, order: str) -> None:
        await deploy(camunda)
        instances = [(await start(camunda))["id"] for _ in range(3)]
        tasks = await fetched(camunda, most=10, more={"sorting": [{"sortBy": "createTime", "sortOrder": order}]})
        assert [one["processInstanceId"] for one in tasks] == (instances if order == "asc" else instances[::-1])

    async def test_filters_of_a_topic(self, camunda: httpx.AsyncClient) -> None:
        definition = await deploy(camunda, EXTRAS)
        wanted = (await start(camunda, businessKey="B-1"))["id"]
        uuid = definition["id"].rpartition(":")[2]
        for misses in (
            {"businessKey": "B-2"}, {"processDefinitionId": f"p:1:{uuid4()}"}, {"processDefinitionId": "nonsense"},
            {"processDefinitionIdIn": [f"p:1:{uuid4()}"]}, {"processDefinitionKey": "q"}, {"tenantIdIn": ["t"]},
            {"processDefinitionKeyIn": ["q", "r"]}, {"processDefinitionVersionTag": "2%"},
            {"processDefinitionKey": "p", "processDefinitionKeyIn": ["q"]},
        ):  # fmt: skip
            assert await fetched(camunda, **misses) == [], misses
        for hits in (
            {"businessKey": "B-1"}, {"processDefinitionId": definition["id"]}, {"processDefinitionId": uuid},
            {"processDefinitionIdIn": [f"p:1:{uuid4()}", uuid]}, {"processDefinitionKey": "p"},
            {"processDefinitionKeyIn": ["q", "p"]}, {"processDefinitionVersionTag": "1.2%"},
            {"processDefinitionVersionTag": "1.2-beta", "businessKey": "B-1", "withoutTenantId": True},
        ):  # fmt: skip
            (task,) = await fetched(camunda, **hits)
            assert task["processInstanceId"] == wanted, hits
            await done(camunda, task, "unlock")

    async def test_process_variables_are_alternatives_and_compare_their_type(self, camunda: httpx.AsyncClient) -> None:
        variables = {"i": {"value": 1}, "l": {"value": 1, "type": "Long"}, "s": {"value": "1"}, "n": {"value": None}}
        await begin(camunda, variables=variables)
        for misses in ({"i": 2}, {"i": "1"}, {"l": 1}, {"s": 1}, {"i": True}, {"unknown": 1}, {"n": 0}):
            assert await fetched(camunda, processVariables=misses) == [], misses
        for hits in ({"i": 1}, {"s": "1"}, {"n": None}, {"i": 2, "s": "1"}, {}):
            await done(camunda, (await fetched(camunda, processVariables=hits))[0], "unlock")

    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            ({"workerId": None}, (500, "NullValueException", "workerId is null")),
            ({"maxTasks": -1}, (500, "ProcessEngineException", "maxResults is not greater than or equal to 0")),
            ({"topics": [{"lockDuration": 1}]}, (500, "NullValueException", "topicName is null")),
            ({"topics": [{"topicName": "a"}]}, (500, "ProcessEngineException", "lockTime is not greater than 0")),
            (
                {"topics": [{"topicName": "a", "lockDuration": -1}]},
                (500, "ProcessEngineException", "lockTime is not greater than 0"),
            ),
            (
                {"asyncResponseTimeout": 1_800_001},
                (
                    400,
                    "InvalidRequestException",
                    "The asynchronous response timeout cannot be set to a value greater than 1800000 milliseconds",
                ),
            ),
            (
                {"sorting": [{"sortBy": "id", "sortOrder": "asc"}]},
                (400, "InvalidRequestException", "Cannot set query sortBy parameter to value id"),
            ),
            (
                {"sorting": [{"sortBy": "createTime", "sortOrder": "ASC"}]},
                (400, "InvalidRequestException", "Cannot set query sortOrder parameter to value ASC"),
            ),
        ],
    )
    async def test_what_is_refused(
        self, camunda: httpx.AsyncClient, body: dict[str, Any], refusal: tuple[int, str, str]
    ) -> None:
        asked = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "a", "lockDuration": 1000}], **body}
        answered = await camunda.post("/external-task/fetchAndLock", json=asked)
        assert error(answered) == refusal
        assert answered.json()["code"] == (0 if refusal[0] == 500 else None)

    @pytest.mark.parametrize(
        "body", [{"topics": 1}, {"topics": [1]}, {"maxTasks": "x"}, {"topics": [{"topicName": {}}]}]
    )
    async def test_what_cannot_be_read_is_a_400(self, camunda: httpx.AsyncClient, body: dict[str, Any]) -> None:
        asked = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "a", "lockDuration": 1000}], **body}
        status, type_, _ = error(await camunda.post("/external-task/fetchAndLock", json=asked))
        assert (status, type_) == (400, "InvalidRequestException")

    async def test_objects_cannot_be_compared(self, camunda: httpx.AsyncClient) -> None:
        topic = {"topicName": "a", "lockDuration": 1000, "processVariables": {"x": [1]}}
        body = {"workerId": "w", "maxTasks": 1, "topics": [topic]}
        status, type_, _ = error(await camunda.post("/external-task/fetchAndLock", json=body))
        assert (status, type_) == (500, "ProcessEngineException")

    async def test_twenty_pollers_on_many_tasks_get_no_empty_answer(self, camunda: httpx.AsyncClient) -> None:
        """Case B09: a task that another poller takes at the same time is made up for by the next one."""
        await deploy(camunda, parallel(20))
        for _ in range(20):
            await start(camunda)
        topics = [{"topicName": f"t{number}", "lockDuration": 60_000} for number in range(20)]

        async def poll(worker: int) -> list[str]:
            body = {"workerId": f"w{worker}", "maxTasks": 5, "topics": topics}
            found: list[str] = []
            for _ in range(3):
                tasks = (await camunda.post("/external-task/fetchAndLock", json=body)).json()
                assert tasks
                found += [task["id"] for task in tasks]
            return found

        everybodys = [id_ for ids in await asyncio.gather(*(poll(worker) for worker in range(20))) for id_ in ids]
        assert len(set(everybodys)) == len(everybodys)
        assert await at(camunda, "/external-task/count", notLocked="true") == {"count": 400 - len(everybodys)}


def parallel(width: int) -> bytes:
    """That many tasks side by side, of the topics t0, t1 …"""
    names = [f"t{number}" for number in range(width)]
    body = '<startEvent id="s"/><parallelGateway id="g"/><endEvent id="e"/>' + flow("s", "g")
    return model(body + "".join(task(name) + flow("g", name, "e") for name in names))


class TestLocks:
    """Section 1.5."""

    async def test_complete_moves_the_instance_on_and_its_task_is_forgotten(self, camunda: httpx.AsyncClient) -> None:
        instance = await begin(camunda)
        first = await fetch(camunda)
        await done(camunda, first, variables={"y": {"value": 2, "type": "Long"}}, localVariables={"z": {"value": 3}})
        second = await fetch(camunda, "b")
        assert second["processInstanceId"] == instance
        assert second["variables"] == {"y": {"value": 2, "type": "Long", "valueInfo": {}}}
        for verb, body in COMMANDS.items():
            gone = await act(camunda, first, verb, **body)
            assert error(gone) == (404, "RestException", f"External task with id {first['id']} does not exist")
            assert gone.json()["code"] == 0

    @pytest.mark.parametrize("verb", ["complete", "failure", "bpmnError"])
    async def test_an_expired_lock_that_nobody_took_is_still_good(
        self, camunda: httpx.AsyncClient, clock: Clock, verb: str
    ) -> None:
        await begin(camunda)
        task = await fetch(camunda, lockDuration=1000)
        clock.advance(5000)
        await done(camunda, task, verb, **COMMANDS[verb])

    async def test_it_is_also_good_when_the_chore_has_taken_it_back(
        self, camunda: httpx.AsyncClient, clock: Clock
    ) -> None:
        await begin(camunda)
        task = await fetch(camunda, lockDuration=1000)
        clock.advance(5000)
        assert (await fetched(camunda, "b")) == []
        await done(camunda, task)

    async def test_after_another_worker_took_it_the_first_is_refused(
        self, camunda: httpx.AsyncClient, clock: Clock
    ) -> None:
        await begin(camunda)
        task = await fetch(camunda, lockDuration=1000)
        clock.advance(5000)
        assert (await fetch(camunda, worker="other"))["id"] == task["id"]
        for verb, body in COMMANDS.items():
            refused = await act(camunda, task, verb, **body)
            assert error(refused) == (400, "RestException", NOT_YOURS[verb].format(task["id"], "w", "other"))
            assert refused.json()["code"] == 0
        await done(camunda, task, worker="other")

    async def test_who_never_locked_is_told_that_nobody_did(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        task = await fetch(camunda)
        await done(camunda, task, "unlock")
        for verb, body in COMMANDS.items():
            refused = await act(camunda, task, verb, **body)
            assert error(refused) == (400, "RestException", NOT_YOURS[verb].format(task["id"], "w", "null"))

    async def test_extend_counts_from_now_and_fails_once_expired(
        self, camunda: httpx.AsyncClient, clock: Clock
    ) -> None:
        await begin(camunda)
        task = await fetch(camunda, lockDuration=60_000)
        await done(camunda, task, "extendLock", newDuration=10_000)
        assert moment((await shown(camunda, task))["lockExpirationTime"]) < moment(task["lockExpirationTime"])
        clock.advance(11_000)
        status, type_, message = error(await act(camunda, task, "extendLock", newDuration=10_000))
        assert (status, type_) == (400, "RestException")
        assert re.fullmatch(
            r"Cannot extend a lock that expired: lockExpirationTime is not greater than or equal to \d{13}", message
        )

    async def test_lock_takes_what_is_free_or_ones_own(self, camunda: httpx.AsyncClient, clock: Clock) -> None:
        await begin(camunda)
        (listed,) = await at(camunda, "/external-task")
        await done(camunda, listed, "lock", lockDuration=1000)
        assert (await shown(camunda, listed))["workerId"] == "w"
        await done(camunda, listed, "lock", lockDuration=5000)
        refused = await act(camunda, listed, "lock", "other", lockDuration=1000)
        assert error(refused) == (400, "RestException", NOT_YOURS["lock"].format(listed["id"], "other", "w"))
        clock.advance(6000)
        await done(camunda, listed, "lock", lockDuration=1000)
        clock.advance(2000)
        await done(camunda, listed, "lock", "other", lockDuration=60_000)
        await done(camunda, listed, worker="other")

    async def test_unlock_asks_nobody_and_takes_any_body(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        task = await fetch(camunda)
        address = f"/external-task/{task['id']}/unlock"
        for body in (
            {},
            {"content": b"null", "headers": {"Content-Type": "application/json"}},
            {"json": {"workerId": "x"}},
        ):
            answered = await camunda.post(address, **body)  # type: ignore[arg-type]
            assert (answered.status_code, answered.content) == (204, b"")
            free = await shown(camunda, task)
            assert (free["workerId"], free["lockExpirationTime"], free["retries"]) == (None, None, None)
            assert (await fetch(camunda))["id"] == task["id"]

    @pytest.mark.parametrize("verb", [*COMMANDS, "lock", "unlock"])
    @pytest.mark.parametrize("unknown", ["0b7a4d0e-5f51-4c0c-9d0b-4a4f5e1c9a11", "no-uuid"])
    async def test_what_is_not_there(self, camunda: httpx.AsyncClient, verb: str, unknown: str) -> None:
        body = COMMANDS.get(verb, {"lockDuration": 1000})
        answered = await act(camunda, unknown, verb, **body)
        assert error(answered) == (404, "RestException", f"External task with id {unknown} does not exist")

    @pytest.mark.parametrize(
        ("verb", "body", "refusal"),
        [
            ("complete", {"workerId": None}, (500, "NullValueException", "workerId is null")),
            ("failure", {"workerId": None}, (500, "NullValueException", "workerId is null")),
            ("bpmnError", {"workerId": None}, (500, "NullValueException", "workerId is null")),
            ("lock", {"workerId": None}, (500, "NullValueException", "workerId is null")),
            ("extendLock", {"workerId": None}, (500, "NullValueException", "workerId is null")),
            ("bpmnError", {}, (500, "NullValueException", "errorCode is null")),
            ("lock", {}, (400, "RestException", "lockDuration is not greater than 0")),
            ("extendLock", {"newDuration": 0}, (400, "RestException", "lockTime is not greater than 0")),
            (
                "failure",
                {"retries": -1},
                (500, "ProcessEngineException", "retries is not greater than or equal to 0"),
            ),
            (
                "failure",
                {"retryTimeout": -1},
                (500, "ProcessEngineException", "retryDuration is not greater than or equal to 0"),
            ),
            (
                "complete",
                {"variables": {"x": {"value": 1, "type": "JSON"}}},
                (400, "RestException", "Unsupported value type 'JSON'"),
            ),
            (
                "complete",
                {"variables": {"x": {"value": "x", "type": "Integer"}}},
                (400, "InvalidRequestException", None),
            ),
            ("complete", {"variables": []}, (400, "InvalidRequestException", None)),
        ],
    )  # fmt: skip
    async def test_input_is_looked_at_before_the_task(
        self, camunda: httpx.AsyncClient, verb: str, body: dict[str, Any], refusal: tuple[int, str, str | None]
    ) -> None:
        status, type_, message = error(await act(camunda, str(uuid4()), verb, **{"workerId": "w"} | body))
        assert (status, type_, refusal[2] and message) == refusal

    async def test_a_malformed_body_is_a_400(self, camunda: httpx.AsyncClient) -> None:
        headers = {"Content-Type": "application/json"}
        answered = await camunda.post(f"/external-task/{uuid4()}/complete", content=b"{", headers=headers)
        assert error(answered)[:2] == (400, "InvalidRequestException")

    async def test_a_suspended_instance_holds_its_tasks_still(self, camunda: httpx.AsyncClient) -> None:
        instance = await begin(camunda)
        held = await fetch(camunda)
        await suspend(camunda, instance, suspended=True)
        for verb, body in COMMANDS.items():
            refused = await act(camunda, held, verb, **body)
            assert error(refused) == (
                400, "RestException", f"ENGINE-03043 ExternalTask with id '{held['id']}' is suspended.",
            )  # fmt: skip
        assert (await shown(camunda, held))["suspended"] is True
        await done(camunda, held, "unlock")
        assert await fetched(camunda) == []
        await done(camunda, held, "lock", lockDuration=1000)
        await suspend(camunda, instance, suspended=False)
        await done(camunda, held)

    async def test_a_repeated_completion_does_not_happen_twice(self, camunda: httpx.AsyncClient) -> None:
        """Case B10: the answer was lost, the client asks once more, and reports a failure in the end."""
        await begin(camunda)
        task = await fetch(camunda)
        answers = await asyncio.gather(*(act(camunda, task, "complete") for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [204, 404, 404, 404, 404]
        assert (await act(camunda, task, "failure")).status_code == 404
        assert len(await fetched(camunda, "b", most=5)) == 1


async def suspend(camunda: httpx.AsyncClient, instance: str, *, suspended: bool) -> None:
    answered = await camunda.put(f"/process-instance/{instance}/suspended", json={"suspended": suspended})
    assert answered.status_code == 204, answered.text


class TestRetries:
    """Sections 1.5 and 1.6; cases B11 and B19."""

    async def test_none_sent_is_none_left_and_an_incident(self, camunda: httpx.AsyncClient) -> None:
        instance = await begin(camunda)
        task = await fetch(camunda)
        await done(camunda, task, "failure", errorMessage="no paper", errorDetails="tray 2\nempty")
        assert await fetched(camunda) == []
        failed = await shown(camunda, task)
        assert (failed["retries"], failed["workerId"], failed["errorMessage"]) == (0, "w", "no paper")
        details = await camunda.get(f"/external-task/{task['id']}/errorDetails")
        assert (details.status_code, details.text) == (200, "tray 2\nempty")
        assert details.headers["content-type"].startswith("text/plain")
        (incident,) = await at(camunda, "/incident", processInstanceId=instance)
        assert (incident["incidentType"], incident["configuration"], incident["incidentMessage"]) == (
            "failedExternalTask", task["id"], "no paper",
        )  # fmt: skip

    @pytest.mark.parametrize("retries", [None, 0])
    async def test_the_same_worker_may_still_complete_it(self, camunda: httpx.AsyncClient, retries: Any) -> None:
        instance = await begin(camunda)
        task = await fetch(camunda)
        await done(camunda, task, "failure", retries=retries, errorMessage="x")
        refused = await act(camunda, task, "complete", "other")
        assert error(refused) == (400, "RestException", NOT_YOURS["complete"].format(task["id"], "other", "w"))
        await done(camunda, task)
        assert (await fetch(camunda, "b"))["processInstanceId"] == instance
        assert await at(camunda, "/incident", processInstanceId=instance) == []

    async def test_set_to_more_it_is_fetched_again_under_its_id(self, camunda: httpx.AsyncClient) -> None:
        instance = await begin(camunda)
        task = await fetch(camunda)
        await done(camunda, task, "failure", errorMessage="x", errorDetails="y")
        answered = await camunda.put(f"/external-task/{task['id']}/retries", json={"retries": 3})
        assert (answered.status_code, answered.content) == (204, b"")
        assert await at(camunda, "/incident", processInstanceId=instance) == []
        again = await fetch(camunda, worker="other")
        assert (again["id"], again["retries"], again["errorMessage"], again["errorDetails"]) == (
            task["id"],
            3,
            "x",
            "y",
        )
        await done(camunda, again, worker="other")

    async def test_the_number_that_is_sent_is_the_number_that_is_left(
        self, camunda: httpx.AsyncClient, clock: Clock
    ) -> None:
        await begin(camunda)
        for retries in (2, 2, 5):
            task = await fetch(camunda)
            await done(camunda, task, "failure", retries=retries, retryTimeout=10_000, errorMessage="m" * 700)
            assert await fetched(camunda, worker="other") == []
            resting = await shown(camunda, task)
            assert (resting["retries"], resting["workerId"], len(resting["errorMessage"])) == (retries, "w", 666)
            assert resting["lockExpirationTime"] is not None
            clock.advance(11_000)
        assert (await fetch(camunda))["retries"] == 5

    async def test_while_it_rests_its_worker_may_complete_it(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        task = await fetch(camunda)
        await done(camunda, task, "failure", retries=1, retryTimeout=600_000)
        await done(camunda, task)
        assert len(await fetched(camunda, "b")) == 1

    async def test_variables_of_a_failure_stay(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda)
        task = await fetch(camunda)
        sent = {"variables": {"tries": {"value": 1}}, "localVariables": {"mine": {"value": 2}}}
        await done(camunda, task, "failure", retries=1, **sent)
        again = await fetch(camunda)
        assert {name: one["value"] for name, one in again["variables"].items()} == {"tries": 1, "mine": 2}

    async def test_a_worker_that_dies_costs_nothing(self, camunda: httpx.AsyncClient, clock: Clock) -> None:
        await begin(camunda)
        for _ in range(12):
            assert (await fetch(camunda, lockDuration=1000))["retries"] is None
            clock.advance(2000)

    @pytest.mark.parametrize(
        ("body", "status"), [({}, 400), ({"retries": None}, 400), ({"retries": -1}, 400), ({"retries": 2**40}, 400)]
    )
    async def test_retries_that_are_none(self, camunda: httpx.AsyncClient, body: Any, status: int) -> None:
        answered = await camunda.put(f"/external-task/{uuid4()}/retries", json=body)
        assert error(answered)[0] == status

    async def test_retries_and_priority_of_nothing(self, camunda: httpx.AsyncClient) -> None:
        for unknown in (str(uuid4()), "x"):
            for what in ("retries", "priority"):
                answered = await camunda.put(f"/external-task/{unknown}/{what}", json={what: 1})
                assert error(answered) == (404, "RestException", f"External task with id {unknown} does not exist")

    async def test_priority_is_set_and_shown(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda)
        for _ in range(2):
            await start(camunda)
        first, second = await at(camunda, "/external-task", sortBy="createTime", sortOrder="asc")
        assert (await camunda.put(f"/external-task/{second['id']}/priority", json={"priority": 9})).status_code == 204
        tasks = await fetched(camunda, most=5, more={"usePriority": True})
        assert [(one["id"], one["priority"]) for one in tasks] == [(second["id"], 9), (first["id"], 0)]

    async def test_no_priority_is_a_400(self, camunda: httpx.AsyncClient) -> None:
        assert error(await camunda.put(f"/external-task/{uuid4()}/priority", json={}))[0] == 400


class TestErrors:
    """Section 1.7."""

    async def test_a_caught_error_goes_its_way_with_its_variables(self, camunda: httpx.AsyncClient) -> None:
        await begin(camunda, CAUGHT)
        task = await fetch(camunda)
        sent = {"errorCode": "SOLD_OUT", "errorMessage": "none left", "variables": {"left": {"value": 0}}}
        await done(camunda, task, "bpmnError", **sent)
        assert (await fetch(camunda, "c"))["variables"]["left"]["value"] == 0

    async def test_an_error_that_nobody_catches_ends_its_path_quietly(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda, parallel(2))
        instance = (await start(camunda))["id"]
        await done(camunda, await fetch(camunda, "t0"), "bpmnError", errorCode="UNKNOWN")
        assert (await camunda.get(f"/process-instance/{instance}")).status_code == 200
        await done(camunda, await fetch(camunda, "t1"))
        ended = await at(camunda, f"/history/process-instance/{instance}")
        assert (ended["state"], await at(camunda, "/incident")) == ("COMPLETED", [])


class TestRights:
    async def test_a_key_sees_and_touches_its_own_types_alone(
        self, camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
    ) -> None:
        await begin(camunda)
        (task,) = await at(camunda, "/external-task")
        async with client_of(camunda_app, keys.make(types=("other.*",))) as foreign:
            base = "/engine-rest/external-task"
            assert (await foreign.get(base)).json() == []
            assert (await foreign.get(f"{base}/count")).json() == {"count": 0}
            assert (await foreign.get(f"{base}/topic-names")).json() == []
            assert (await foreign.get(f"{base}/{task['id']}")).status_code == 404
            assert (await foreign.get(f"{base}/{task['id']}/errorDetails")).status_code == 404
            topics = [{"topicName": "a", "lockDuration": 1000}]
            body = {"workerId": "w", "maxTasks": 1, "topics": topics}
            refused = await foreign.post(f"{base}/fetchAndLock", json=body)
            assert error(refused)[:2] == (403, "AuthorizationException")
            for verb, more in (COMMANDS | {"lock": {"lockDuration": 1000}, "unlock": {}}).items():
                answered = await foreign.post(f"{base}/{task['id']}/{verb}", json={"workerId": "w", **more})
                assert answered.status_code == 404, verb
            for what in ("retries", "priority"):
                assert (await foreign.put(f"{base}/{task['id']}/{what}", json={what: 1})).status_code == 404

    async def test_reading_is_not_working(self, camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys) -> None:
        await begin(camunda)
        (task,) = await at(camunda, "/external-task")
        base = "/engine-rest/external-task"
        async with client_of(camunda_app, keys.make("read")) as reader:
            assert len((await reader.get(base)).json()) == 1
            body = {"workerId": "w", "maxTasks": 1, "topics": []}
            assert error(await reader.post(f"{base}/fetchAndLock", json=body))[:2] == (403, "AuthorizationException")
            assert (await reader.post(f"{base}/{task['id']}/complete", json={"workerId": "w"})).status_code == 403
            assert (await reader.put(f"{base}/{task['id']}/retries", json={"retries": 1})).status_code == 403
        async with client_of(camunda_app, keys.make("work")) as worker:
            assert (await worker.get(base)).status_code == 403
