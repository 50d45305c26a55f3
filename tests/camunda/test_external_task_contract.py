"""What camunda7.md says of external tasks beside the beaten track: sections 1.1 to 1.9, statement by statement."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from app.camunda.errors import CamundaError
from app.camunda.moments import read_moment
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import TWO, at, create, deploy, error, start
from tests.camunda.work import act, done, fetch, fetched, shown

PARAMETERS = "<extensionElements><camunda:inputOutput>{}</camunda:inputOutput></extensionElements>"


def giving(name: str, value: str) -> str:
    return f'<camunda:inputParameter name="{name}">{value}</camunda:inputParameter>'


def taking(name: str, value: str) -> str:
    return f'<camunda:outputParameter name="{name}">{value}</camunda:outputParameter>'


def one_task(inside: str = "", attributes: str = "", process: str = 'id="p" isExecutable="true"') -> bytes:
    body = '<startEvent id="s"/>' + task("a", attributes, inside) + '<endEvent id="e"/>' + flow("s", "a", "e")
    return model(body, process=process)


class TestRequests:
    """Section 1.1."""

    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("2024-01-02T03:04:05.678+0200", "2024-01-02T01:04:05.678"),
            ("2024-01-02T03:04:05.678+02:00", "2024-01-02T01:04:05.678"),
            ("2024-01-02T03:04:05.678-0530", "2024-01-02T08:34:05.678"),
            ("2024-01-02T03:04:05.678Z", "2024-01-02T03:04:05.678"),
            ("2024-01-02T03:04:05.678UTC", "2024-01-02T03:04:05.678"),
            ("2024-01-02T03:04:05", "2024-01-02T03:04:05"), ("2024-01-02T03:04Z", "2024-01-02T03:04:00"),
            ("2024-01-02", "2024-01-02T00:00:00"), ("2024-01-02T03:04:05.678901+0000", "2024-01-02T03:04:05.678901"),
            ("2024-01-02T03:04:05.6+0000", "2024-01-02T03:04:05.6"),
        ],
    )  # fmt: skip
    def test_a_date_is_read_in_any_spelling(self, text: str, moment: str) -> None:
        assert read_moment(text, "due") == datetime.fromisoformat(moment).replace(tzinfo=UTC)

    @pytest.mark.parametrize(
        "text", ["", "tomorrow", "2024-13-01", "2024-02-30T00:00:00Z", "2024-01-02T25:00:00Z", "1"]
    )
    def test_what_is_no_date_is_a_400(self, text: str) -> None:
        with pytest.raises(CamundaError) as caught:
            read_moment(text, "due")
        assert (caught.value.status, caught.value.type) == (400, "InvalidRequestException")

    async def test_commands_take_the_oddities_of_clients(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda)
        await start(camunda)
        found = await fetch(camunda, worker=1)
        more: dict[str, Any] = {"unknown": [1], "variables": None, "localVariables": None}
        await done(camunda, found, "extendLock", 1, newDuration="60000", **more)
        await done(camunda, found, "lock", 1, lockDuration=60_000.0, **more)
        await done(camunda, found, "failure", 1, retries="3", retryTimeout=None, errorMessage=17, **more)
        assert ((await shown(camunda, found))["errorMessage"], (await fetch(camunda, worker=1))["retries"]) == ("17", 3)
        await done(camunda, found, worker=1, **more)

    async def test_the_engine_may_be_named_everywhere(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda)
        await start(camunda)
        base = "/engine/default/external-task"
        body = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "a", "lockDuration": 1000}]}
        (found,) = (await camunda.post(f"{base}/fetchAndLock", json=body)).json()
        assert (await camunda.get(f"{base}/{found['id']}")).json()["workerId"] == "w"
        assert (await camunda.post(f"{base}/{found['id']}/complete", json={"workerId": "w"})).status_code == 204


class TestFetch:
    """Section 1.2."""

    async def test_inner_variables_shadow_outer_ones(self, camunda: httpx.AsyncClient) -> None:
        box = (
            '<subProcess id="box">' + PARAMETERS.format(giving("x", "box") + giving("y", "box"))
            + '<startEvent id="bs"/>' + task("a", inside=PARAMETERS.format(giving("x", "task")))
            + '<endEvent id="be"/>' + flow("bs", "a", "be") + "</subProcess>"
        )  # fmt: skip
        await deploy(camunda, model('<startEvent id="s"/>' + box + '<endEvent id="e"/>' + flow("s", "box", "e")))
        await start(camunda, variables={name: {"value": "root"} for name in "xyz"})

        async def seen(**asked: Any) -> dict[str, Any]:
            found = await fetch(camunda, **asked)
            await done(camunda, found, "unlock")
            return {name: one["value"] for name, one in found["variables"].items()}

        assert await seen() == {"x": "task", "y": "box", "z": "root"}
        assert await seen(variables=["y", "x"]) == {"x": "task", "y": "box"}
        assert await seen(localVariables=True) == {"x": "task"}
        # Only what the instance itself has is looked at by the filter.
        assert await fetched(camunda, processVariables={"x": "task"}) == []
        assert await fetched(camunda, processVariables={"y": "box"}) == []
        assert len(await fetched(camunda, processVariables={"x": "root"})) == 1

    @pytest.mark.parametrize("most", [1001, 2**31 - 1, 2**63 - 1, "5"])
    async def test_any_number_of_tasks_may_be_asked_for(self, camunda: httpx.AsyncClient, most: Any) -> None:
        await deploy(camunda)
        for _ in range(3):
            await start(camunda)
        assert len(await fetched(camunda, most=most)) == 3

    @pytest.mark.parametrize(
        "body",
        [
            {"maxTasks": 2**63}, {"maxTasks": 1.5}, {"maxTasks": "many"}, {"asyncResponseTimeout": "long"},
            {"workerId": {}}, {"workerId": ""}, {"workerId": "w" * 256}, {"workerId": "a\u200bb"}, {"workerId": " "},
            {"topics": [{"topicName": "a", "lockDuration": 2**63 - 1}]}, {"topics": {"topicName": "a"}},
            {"topics": [{"topicName": "a", "lockDuration": "soon"}]}, {"topics": [None]},
            {"topics": [{"topicName": "", "lockDuration": 1}]},
            {"topics": [{"topicName": "x" * 256, "lockDuration": 1}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "variables": {"x": 1}}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "variables": [[]]}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "processVariables": ["x"]}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "localVariables": {}}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "businessKey": []}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "tenantIdIn": 1}]},
            {"topics": [{"topicName": "a", "lockDuration": 1, "processDefinitionKeyIn": "p", "businessKey": {}}]},
            {"usePriority": {}}, {"sorting": [{}]}, {"sorting": {"sortBy": "createTime"}},
        ],
    )  # fmt: skip
    async def test_what_cannot_be_is_refused_and_takes_nothing(
        self, camunda: httpx.AsyncClient, body: dict[str, Any]
    ) -> None:
        await deploy(camunda)
        await start(camunda)
        asked = {"workerId": "w", "maxTasks": 1, "topics": [{"topicName": "a", "lockDuration": 1000}], **body}
        assert error(await camunda.post("/external-task/fetchAndLock", json=asked))[0] == 400
        assert await at(camunda, "/external-task/count", notLocked="true") == {"count": 1}

    @pytest.mark.parametrize("order", ["asc", "desc"])
    async def test_priority_comes_before_the_sorting_if_it_is_used(
        self, camunda: httpx.AsyncClient, order: str
    ) -> None:
        await deploy(camunda, one_task(attributes='camunda:taskPriority="${p}"'))
        for priority in (1, 5, 3, 5):
            await start(camunda, variables={"p": {"value": priority}})
        by_time = {"sorting": [{"sortBy": "createTime", "sortOrder": order}] * 2}
        made = [1, 5, 3, 5] if order == "asc" else [5, 3, 5, 1]
        for more, wanted in ((by_time, made), (by_time | {"usePriority": True}, [5, 5, 3, 1]), ({"sorting": []}, None)):
            found = await fetched(camunda, most=4, more=more)
            assert wanted is None or [one["priority"] for one in found] == wanted
            for one in found:
                await done(camunda, one, "unlock")

    async def test_odd_names_of_topics_are_served_letter_by_letter(self, camunda: httpx.AsyncClient) -> None:
        names = ["ü/ä?&#%25", "a b", "'; drop", '{"x":1}', "*", "%", "_", "A" * 255]
        body = '<startEvent id="s"/><parallelGateway id="g"/><endEvent id="e"/>' + flow("s", "g")
        for number, name in enumerate(names):
            said = name.replace("&", "&amp;").replace('"', "&quot;")
            body += f'<serviceTask id="t{number}" camunda:type="external" camunda:topic="{said}"/>'
            body += flow("g", f"t{number}", "e")
        await deploy(camunda, model(body))
        await start(camunda)
        assert await at(camunda, "/external-task/topic-names") == sorted(names)
        for name in names:
            (listed,) = await at(camunda, "/external-task", topicName=name)
            found = await fetch(camunda, name)
            assert (found["topicName"], found["id"]) == (name, listed["id"])
            await done(camunda, found)


class TestCommands:
    """Sections 1.3 and 1.5."""

    async def test_variables_go_where_their_names_are(self, camunda: httpx.AsyncClient) -> None:
        """To the nearest scope that has the name, else to the instance; local ones to the task and its outputs."""
        box = (
            '<subProcess id="box">' + PARAMETERS.format(giving("boxed", "old"))
            + '<startEvent id="bs"/>'
            + task("a", inside=PARAMETERS.format(giving("own", "old") + taking("kept", "${own}")))
            + task("b") + '<endEvent id="be"/>' + flow("bs", "a", "b", "be") + "</subProcess>"
        )  # fmt: skip
        await deploy(camunda, model('<startEvent id="s"/>' + box + '<endEvent id="e"/>' + flow("s", "box", "e")))
        instance = (await start(camunda, variables={"outer": {"value": "old"}}))["id"]
        sent = {name: {"value": "new"} for name in ("boxed", "outer", "fresh")}
        local = {"own": {"value": 2**53 + 1, "type": "Long"}, "passing": {"value": 1}}
        await done(camunda, await fetch(camunda), variables=sent, localVariables=local)
        root = await at(camunda, f"/execution/{instance}/localVariables")
        kept = {"outer": "new", "fresh": "new", "kept": 2**53 + 1}
        assert {name: one["value"] for name, one in root.items()} == kept
        found = await fetch(camunda, "b")
        assert {name: one["value"] for name, one in found["variables"].items()} == kept | {"boxed": "new"}

    async def test_what_a_failure_says_may_be_long_and_odd(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda)
        await start(camunda)
        message, details = "ü😀'\"<b>" * 200_000, "line\n😀" * 300_000
        for retries in (1, 0):
            found = await fetch(camunda)
            await done(camunda, found, "failure", retries=retries, errorMessage=message, errorDetails=details)
            assert (await shown(camunda, found))["errorMessage"] == message[:666]
            kept = (await camunda.get(f"/external-task/{found['id']}/errorDetails")).content.decode()
            assert details.startswith(kept)
            assert len(kept) > 300_000
        (incident,) = await at(camunda, "/incident")
        assert message.startswith(incident["incidentMessage"])

    @pytest.mark.parametrize("text", ["", None, "\x00", 5, {}, []])
    async def test_texts_that_are_none(self, camunda: httpx.AsyncClient, text: Any) -> None:
        await deploy(camunda)
        await start(camunda)
        found = await fetch(camunda)
        answered = await act(camunda, found, "failure", retries=1, errorMessage=text, errorDetails=text)
        assert answered.status_code == (400 if text in ("\x00", {}, []) else 204), answered.text
        await done(camunda, found)

    @pytest.mark.parametrize(
        ("verb", "body"),
        [
            ("failure", {"retries": 2**31}), ("failure", {"retries": 1.5}), ("failure", {"retries": "x"}),
            ("failure", {"retries": 1, "retryTimeout": 2**62}), ("failure", {"retries": 1, "retryTimeout": "x"}),
            ("extendLock", {"newDuration": 2**62}), ("extendLock", {"newDuration": "x"}),
            ("lock", {"lockDuration": 2**62}),
            ("bpmnError", {"errorCode": ""}), ("bpmnError", {"errorCode": "x" * 256}), ("bpmnError", {"errorCode": {}}),
            ("complete", {"variables": {"": {"value": 1}}}), ("complete", {"variables": {"x": 1}}),
            ("complete", {"variables": {"n" * 256: {"value": 1}}}), ("complete", {"localVariables": {"x": []}}),
            ("complete", {"variables": {"x": {"value": 1, "type": "Bytes"}}}),
        ],
    )  # fmt: skip
    async def test_what_cannot_be_is_refused_and_changes_nothing(
        self, camunda: httpx.AsyncClient, verb: str, body: dict[str, Any]
    ) -> None:
        await deploy(camunda)
        await start(camunda)
        found = await fetch(camunda)
        before = await shown(camunda, found)
        assert error(await act(camunda, found, verb, **body))[0] == 400
        assert await shown(camunda, found) == before
        await done(camunda, found)

    @pytest.mark.parametrize("worker", ["", " ", "w" * 256, {}, [], "a\nb"])
    async def test_a_worker_must_have_a_name(self, camunda: httpx.AsyncClient, worker: Any) -> None:
        await deploy(camunda)
        await start(camunda)
        found = await fetch(camunda)
        bodies: dict[str, dict[str, Any]] = {
            "complete": {}, "failure": {}, "bpmnError": {"errorCode": "X"}, "lock": {"lockDuration": 1},
            "extendLock": {"newDuration": 1},
        }  # fmt: skip
        for verb, body in bodies.items():
            assert error(await act(camunda, found, verb, worker, **body))[0] == 400, verb
        await done(camunda, found)

    async def test_the_message_of_an_error_reaches_the_model(self, camunda: httpx.AsyncClient) -> None:
        caught = (
            '<boundaryEvent id="no" attachedToRef="a"><errorEventDefinition errorRef="E"'
            ' camunda:errorCodeVariable="code" camunda:errorMessageVariable="message"/></boundaryEvent>'
        )
        body = '<startEvent id="s"/>' + task("a") + caught + task("c") + '<endEvent id="e"/>'
        await deploy(
            camunda, model(body + flow("s", "a", "e") + flow("no", "c", "e"), '<error id="E" errorCode="E1"/>')
        )
        await start(camunda)
        await done(camunda, await fetch(camunda), "bpmnError", errorCode="E1", errorMessage="m" * 10_000)
        found = (await fetch(camunda, "c"))["variables"]
        assert (found["code"]["value"], found["message"]["value"][:20]) == ("E1", "m" * 20)

    async def test_retries_and_priority_have_bounds(self, camunda: httpx.AsyncClient) -> None:
        await deploy(camunda)
        await start(camunda)
        (listed,) = await at(camunda, "/external-task")
        address = f"/external-task/{listed['id']}"
        for nothing in ({}, {"retries": None}):
            assert error(await camunda.put(f"{address}/retries", json=nothing)) == (
                400, "InvalidRequestException", "The number of retries cannot be null.",
            )  # fmt: skip
        assert error(await camunda.put(f"{address}/retries", json={"retries": -1}))[:2] == (
            400,
            "BadUserRequestException",
        )
        priorities: tuple[Any, ...] = (-5, 2**31 - 1, 0, "7")
        for priority in priorities:
            assert (await camunda.put(f"{address}/priority", json={"priority": priority})).status_code == 204
            assert (await shown(camunda, listed))["priority"] == int(priority)
        hopeless: tuple[Any, ...] = (2**31, -(2**31) - 1, 2**63, 1.5, "x", {})
        for one in hopeless:
            assert error(await camunda.put(f"{address}/priority", json={"priority": one}))[0] == 400, one


class TestCreation:
    """Section 1.9."""

    @pytest.mark.parametrize(
        ("of_process", "of_task", "priority"),
        [("", "", 0), ("3", "", 3), ("3", "9", 9), ("", "${p + 1}", 8), ("${p}", "", 7), ("${p}", "-1", -1)],
    )
    async def test_the_priority_is_the_tasks_or_that_of_its_process(
        self, camunda: httpx.AsyncClient, of_process: str, of_task: str, priority: int
    ) -> None:
        say = 'camunda:taskPriority="{}"'
        process = 'id="p" isExecutable="true" ' + (say.format(of_process) if of_process else "")
        await deploy(camunda, one_task(attributes=say.format(of_task) if of_task else "", process=process))
        await start(camunda, variables={"p": {"value": 7}})
        assert (await fetch(camunda))["priority"] == priority

    async def test_a_topic_may_be_an_expression_and_many_elements_may_have_one(
        self, camunda: httpx.AsyncClient
    ) -> None:
        said = 'camunda:type="external" camunda:topic="${prefix}-{}"'
        elements = [
            f'<{kind} id="{kind}" {said.replace("{}", kind)}/>'
            for kind in ("serviceTask", "sendTask", "businessRuleTask")
        ]
        elements += [
            f'<{kind} id="{kind}"><messageEventDefinition {said.replace("{}", kind)}/></{kind}>'
            for kind in ("intermediateThrowEvent", "endEvent")
        ]
        kinds = ["serviceTask", "sendTask", "businessRuleTask", "intermediateThrowEvent", "endEvent"]
        await deploy(camunda, model('<startEvent id="s"/>' + "".join(elements) + flow("s", *kinds)))
        instance = (await start(camunda, variables={"prefix": {"value": "x"}}))["id"]
        for kind in kinds:
            found = await fetch(camunda, f"x-{kind}")
            assert found["activityId"] == kind
            await done(camunda, found, variables={"prefix": {"value": "x"}})
        assert (await at(camunda, f"/history/process-instance/{instance}"))["state"] == "COMPLETED"

    async def test_without_a_topic_it_is_not_deployed(self, camunda: httpx.AsyncClient) -> None:
        body = '<startEvent id="s"/><serviceTask id="a" camunda:type="external"/><endEvent id="e"/>'
        answered = await create(camunda, ("m.bpmn", model(body + flow("s", "a", "e"))))
        status, type_, message = error(answered)
        assert (status, type_) == (400, "ParseException")
        assert "topic" in message


async def test_a_client_that_never_fetches(camunda: httpx.AsyncClient) -> None:
    """Trap 9: fastbpmn asks for tasks, locks one, finds its place in the tree and reads its variables there."""
    await deploy(camunda, TWO)
    instance = (await start(camunda, variables={"x": {"value": 1}}))["id"]
    body = {"withRetriesLeft": 1, "notLocked": 1, "sorting": [{"sortBy": "taskPriority", "sortOrder": "desc"}]}
    (listed,) = (await camunda.post("/external-task", json=body, params={"maxResults": 10})).json()
    await done(camunda, listed, "lock", lockDuration=60_000)
    tree = await at(camunda, f"/process-instance/{instance}/activity-instances")
    (leaf,) = tree["childActivityInstances"]
    assert (leaf["executionIds"][0], leaf["activityId"]) == (listed["executionId"], listed["activityId"])
    assert leaf["id"] == listed["activityInstanceId"]
    assert await at(camunda, f"/execution/{listed['executionId']}/localVariables") == {}
    assert (await at(camunda, f"/process-instance/{instance}/variables"))["x"]["value"] == 1
    await done(camunda, listed, variables={"y": {"value": "1", "type": "Long"}})
    assert (await fetch(camunda, "b"))["variables"]["y"] == {"value": 1, "type": "Long", "valueInfo": {}}
