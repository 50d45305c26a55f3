"""One instance of every kind of element that is run, walked over /engine-rest from its start into its history."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, error, start
from tests.camunda.work import done, fetch

TIMER = "<timerEventDefinition><timeDuration>P1D</timeDuration></timerEventDefinition>"
MESSAGE = '<messageEventDefinition messageRef="M"/>'
SIGNAL = '<signalEventDefinition signalRef="S"/>'
ROOTS = '<message id="M" name="m"/><signal id="S" name="sig"/><error id="E" errorCode="NO"/>'
END = '<endEvent id="e"/>'
BEGIN = '<startEvent id="s"/>'


def shape(node: dict[str, Any]) -> Any:
    """A tree as names: an activity with what is inside of it, `~` before a transition."""
    inside = sorted(
        [*map(shape, node["childActivityInstances"])]
        + [f"~{one['activityId']}" for one in node["childTransitionInstances"]],
        key=str,
    )
    return (node["activityId"], *inside) if inside else node["activityId"]


async def tree(camunda: httpx.AsyncClient, instance: dict[str, Any]) -> Any:
    """What stands below the process itself."""
    shown = shape(await at(camunda, f"/process-instance/{instance['id']}/activity-instances"))
    return list(shown[1:]) if isinstance(shown, tuple) else []


async def types(camunda: httpx.AsyncClient, instance: dict[str, Any]) -> dict[str, str]:
    """The activity types of its history, by element."""
    visits = await at(camunda, "/history/activity-instance", processInstanceId=instance["id"])
    return {visit["activityId"]: visit["activityType"] for visit in visits}


async def ended(camunda: httpx.AsyncClient, instance: dict[str, Any]) -> bool:
    return bool((await at(camunda, f"/history/process-instance/{instance['id']}"))["state"] == "COMPLETED")


async def test_what_passes_through_is_in_the_history_alone(camunda: httpx.AsyncClient) -> None:
    """But link events, which are not even there."""
    await deploy(
        camunda,
        model(
            BEGIN + '<task id="t"/><manualTask id="m"/><serviceTask id="x" camunda:expression="${1}"/>'
            '<scriptTask id="c" scriptFormat="cel" camunda:resultVariable="y"><script>1 + 1</script></scriptTask>'
            '<exclusiveGateway id="g"/><inclusiveGateway id="i"/><parallelGateway id="p1"/>'
            '<intermediateThrowEvent id="n"/>'
            f'<intermediateThrowEvent id="st">{SIGNAL}</intermediateThrowEvent>'
            '<intermediateThrowEvent id="l1"><linkEventDefinition name="L"/></intermediateThrowEvent>'
            '<intermediateCatchEvent id="l2"><linkEventDefinition name="L"/></intermediateCatchEvent>'
            + END + flow("s", "t", "m", "x", "c", "g", "i", "p1", "n", "st", "l1") + flow("l2", "e"),
            ROOTS,
        ),
    )  # fmt: skip
    started = await start(camunda)
    assert started["ended"] is True
    assert await types(camunda, started) == {
        "s": "startEvent", "t": "task", "m": "manualTask", "x": "serviceTask", "c": "scriptTask",
        "g": "exclusiveGateway", "i": "inclusiveGateway", "p1": "parallelGateway", "n": "intermediateNoneThrowEvent",
        "st": "intermediateSignalThrow", "e": "noneEndEvent",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("element", "type_"),
    [
        ('<serviceTask id="a" camunda:type="external" camunda:topic="a"/>', "serviceTask"),
        ('<sendTask id="a" camunda:type="external" camunda:topic="a"/>', "sendTask"),
        ('<businessRuleTask id="a" camunda:type="external" camunda:topic="a"/>', "businessRuleTask"),
        ('<intermediateThrowEvent id="a"><messageEventDefinition messageRef="M" camunda:type="external"'
         ' camunda:topic="a"/></intermediateThrowEvent>', "intermediateMessageThrowEvent"),
    ],
)  # fmt: skip
async def test_work_for_somebody_outside(camunda: httpx.AsyncClient, element: str, type_: str) -> None:
    await deploy(camunda, model(BEGIN + element + END + flow("s", "a", "e"), ROOTS))
    started = await start(camunda)
    assert await tree(camunda, started) == ["a"]
    assert (await types(camunda, started))["a"] == type_
    taken = await fetch(camunda)
    (leaf,) = (await at(camunda, f"/process-instance/{started['id']}/activity-instances"))["childActivityInstances"]
    assert (leaf["id"], leaf["executionIds"], leaf["activityType"]) == (
        taken["activityInstanceId"], [taken["executionId"]], type_,
    )  # fmt: skip
    assert taken["executionId"] != taken["processInstanceId"]
    await done(camunda, taken)
    assert await ended(camunda, started)


async def test_a_message_end_event_is_work_as_well(camunda: httpx.AsyncClient) -> None:
    end = (
        '<endEvent id="a"><messageEventDefinition messageRef="M" camunda:type="external" camunda:topic="a"/></endEvent>'
    )
    await deploy(camunda, model(BEGIN + end + flow("s", "a"), ROOTS))
    started = await start(camunda)
    await done(camunda, await fetch(camunda))
    assert await ended(camunda, started)
    assert (await types(camunda, started))["a"] == "messageEndEvent"


@pytest.mark.parametrize(
    ("event", "type_"),
    [(MESSAGE, "intermediateMessageCatch"), (SIGNAL, "intermediateSignalCatch"), (TIMER, "intermediateTimer")],
)
async def test_what_waits_for_an_event(camunda: httpx.AsyncClient, event: str, type_: str) -> None:
    catch = f'<intermediateCatchEvent id="c">{event}</intermediateCatchEvent>'
    await deploy(camunda, model(BEGIN + catch + END + flow("s", "c", "e"), ROOTS))
    started = await start(camunda)
    assert await tree(camunda, started) == ["c"]
    if event is TIMER:
        (job,) = await at(camunda, "/job")
        assert (await camunda.post(f"/job/{job['id']}/execute")).status_code == 204
    elif event is MESSAGE:
        assert (await camunda.post("/message", json={"messageName": "m"})).status_code == 204
    else:
        assert (await camunda.post("/signal", json={"name": "sig"})).status_code == 204
    assert await ended(camunda, started)
    assert (await types(camunda, started))["c"] == type_


async def test_a_gateway_that_waits_for_the_first_event(camunda: httpx.AsyncClient) -> None:
    """It stands at the gateway, and what it waits for bears the names of the events behind it."""
    await deploy(
        camunda,
        model(
            BEGIN + f'<eventBasedGateway id="g"/><intermediateCatchEvent id="c1">{MESSAGE}</intermediateCatchEvent>'
            f'<intermediateCatchEvent id="c2">{TIMER}</intermediateCatchEvent>'
            f'<intermediateCatchEvent id="c3">{SIGNAL}</intermediateCatchEvent>' + END
            + flow("s", "g", "c1", "e") + flow("g", "c2", "e") + flow("g", "c3", "e"),
            ROOTS,
        ),
    )  # fmt: skip
    started = await start(camunda)
    (gate,) = (await at(camunda, f"/process-instance/{started['id']}/activity-instances"))["childActivityInstances"]
    assert (gate["activityId"], gate["activityType"]) == ("g", "eventBasedGateway")
    subscriptions = await at(camunda, "/event-subscription", executionId=gate["executionIds"][0])
    assert sorted((one["eventType"], one["activityId"]) for one in subscriptions) == [
        ("message", "c1"),
        ("signal", "c3"),
    ]
    (timer,) = await at(camunda, "/job")
    assert timer["executionId"] == gate["executionIds"][0]
    assert (await camunda.post("/signal", json={"name": "sig"})).status_code == 204
    assert await at(camunda, "/job") == []
    assert await at(camunda, "/event-subscription") == []
    assert await ended(camunda, started)
    assert (await camunda.post(f"/job/{timer['id']}/execute")).status_code == 404


@pytest.mark.parametrize(
    ("event", "type_"),
    [(MESSAGE, "messageStartEvent"), (SIGNAL, "signalStartEvent"), (TIMER, "startTimerEvent")],
)
async def test_what_begins_by_an_event(camunda: httpx.AsyncClient, event: str, type_: str) -> None:
    begin = f'<startEvent id="s">{event}</startEvent>'
    definition = await deploy(camunda, model(begin + '<userTask id="u"/>' + flow("s", "u"), ROOTS))
    if event is TIMER:
        (job,) = await at(camunda, "/job")
        assert (job["processInstanceId"], job["executionId"]) == (None, None)
        assert job["processDefinitionId"] == definition["id"]
        assert (await camunda.post(f"/job/{job['id']}/execute")).status_code == 204
    else:
        (waits,) = await at(camunda, "/event-subscription")
        assert (waits["activityId"], waits["processInstanceId"], waits["executionId"]) == ("s", None, None)
        path, body = ("/message", {"messageName": "m"}) if event is MESSAGE else ("/signal", {"name": "sig"})
        assert (await camunda.post(path, json=body)).status_code == 204
    (begun,) = await at(camunda, "/process-instance")
    assert await tree(camunda, begun) == ["u"]
    assert await types(camunda, begun) == {"s": type_, "u": "userTask"}
    assert (await at(camunda, f"/history/process-instance/{begun['id']}"))["startActivityId"] == "s"


@pytest.mark.parametrize(
    ("event", "type_", "state"),
    [
        ("<terminateEventDefinition/>", "terminateEndEvent", "COMPLETED"),
        (SIGNAL, "signalEndEvent", "COMPLETED"),
        ('<errorEventDefinition errorRef="E"/>', "errorEndEvent", "COMPLETED"),
    ],
)
async def test_ways_to_end(camunda: httpx.AsyncClient, event: str, type_: str, state: str) -> None:
    await deploy(camunda, model(BEGIN + f'<endEvent id="e">{event}</endEvent>' + flow("s", "e"), ROOTS))
    started = await start(camunda)
    assert (await at(camunda, f"/history/process-instance/{started['id']}"))["state"] == state
    assert (await types(camunda, started))["e"] == type_


@pytest.mark.parametrize(
    ("event", "type_"), [(MESSAGE, "boundaryMessage"), (SIGNAL, "boundarySignal"), (TIMER, "boundaryTimer")]
)
@pytest.mark.parametrize("interrupts", [True, False])
async def test_events_on_an_activity(camunda: httpx.AsyncClient, event: str, type_: str, interrupts: bool) -> None:
    boundary = (
        f'<boundaryEvent id="b" attachedToRef="a" cancelActivity="{str(interrupts).lower()}">{event}</boundaryEvent>'
    )
    parts = task("a") + '<userTask id="u"/>' + boundary + END
    await deploy(camunda, model(BEGIN + parts + flow("s", "a", "e") + flow("b", "u"), ROOTS))
    started = await start(camunda)
    assert await tree(camunda, started) == ["a"]
    (a,) = await at(camunda, "/external-task")
    waits = (await at(camunda, "/job")) if event is TIMER else (await at(camunda, "/event-subscription"))
    assert [one["executionId"] for one in waits] == [a["executionId"]]
    if event is TIMER:
        assert (await camunda.post(f"/job/{waits[0]['id']}/execute")).status_code == 204
    elif event is MESSAGE:
        assert (await camunda.post("/message", json={"messageName": "m"})).status_code == 204
    else:
        assert (await camunda.post("/signal", json={"name": "sig"})).status_code == 204
    assert await tree(camunda, started) == (["u"] if interrupts else ["a", "u"])
    assert (await camunda.get(f"/external-task/{a['id']}")).status_code == (404 if interrupts else 200)
    assert (await types(camunda, started))["b"] == type_


async def test_a_business_error_on_an_activity_and_out_of_a_subprocess(camunda: httpx.AsyncClient) -> None:
    caught = '<boundaryEvent id="b" attachedToRef="sub"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    inside = '<subProcess id="sub"><startEvent id="is"/>' + task("a") + flow("is", "a") + "</subProcess>"
    await deploy(
        camunda, model(BEGIN + inside + caught + '<userTask id="u"/>' + flow("s", "sub") + flow("b", "u"), ROOTS)
    )
    started = await start(camunda)
    assert await tree(camunda, started) == [("sub", "a")]
    await done(camunda, await fetch(camunda), "bpmnError", errorCode="NO", variables={"x": {"value": 1}})
    assert await tree(camunda, started) == ["u"]
    assert (await types(camunda, started))["b"] == "boundaryError"
    visits = await at(camunda, "/history/activity-instance", canceled="true")
    assert {visit["activityId"] for visit in visits} == {"sub", "a"}


async def test_undoing(camunda: httpx.AsyncClient) -> None:
    """The throw event stands while a handler runs; handlers are activities of their own."""
    content = model(
        BEGIN + task("a") + '<boundaryEvent id="no" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
        + task("undo", more='isForCompensation="true"') + '<association sourceRef="no" targetRef="undo"/>'
        '<intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent>' + END
        + flow("s", "a", "back", "e")
    )  # fmt: skip
    await deploy(camunda, content)
    started = await start(camunda)
    await done(camunda, await fetch(camunda))
    assert await tree(camunda, started) == ["back", "undo"]
    await done(camunda, await fetch(camunda, "undo"))
    assert await ended(camunda, started)
    told = await types(camunda, started)
    assert (told["back"], told["undo"]) == ("intermediateCompensationThrowEvent", "serviceTask")


async def test_a_receive_task_and_a_user_task_and_parallel_branches(camunda: httpx.AsyncClient) -> None:
    parts = (
        '<parallelGateway id="f"/><receiveTask id="r" messageRef="M"/><userTask id="u"/><parallelGateway id="j"/>'
        '<subProcess id="sub"><startEvent id="is"/><userTask id="iu"/>' + flow("is", "iu") + "</subProcess>"
    )
    flows = flow("s", "f", "r", "j", "e") + flow("f", "u", "j") + flow("f", "sub", "j")
    await deploy(camunda, model(BEGIN + parts + END + flows, ROOTS))
    started = await start(camunda)
    assert await tree(camunda, started) == [("sub", "iu"), "r", "u"]
    assert (await camunda.post("/message", json={"messageName": "m"})).status_code == 204
    # The token that waits at the join stands there.
    assert await tree(camunda, started) == [("sub", "iu"), "j", "u"]
    for one in await at(camunda, "/task"):
        assert (await camunda.post(f"/task/{one['id']}/complete")).status_code == 204
    assert await ended(camunda, started)


async def test_a_commit_point_that_cannot_go_on_is_a_transition_with_its_incident(camunda: httpx.AsyncClient) -> None:
    stuck = '<serviceTask id="x" camunda:asyncBefore="true" camunda:expression="${missing}"/>'
    await deploy(camunda, model(BEGIN + stuck + END + flow("s", "x", "e")))
    started = await start(camunda)
    assert await tree(camunda, started) == ["~x"]
    root = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    (incident,) = await at(camunda, "/incident")
    (job,) = await at(camunda, "/job")
    (transition,) = root["childTransitionInstances"]
    assert transition["incidents"] == [{"id": incident["id"], "activityId": "x"}]
    assert (transition["executionId"], incident["configuration"]) == (job["executionId"], job["id"])
    assert (
        await camunda.put(f"/process-instance/{started['id']}/variables/missing", json={"value": 1})
    ).status_code == 204
    assert (await camunda.post(f"/job/{job['id']}/execute")).status_code == 204
    assert await ended(camunda, started)
    (closed,) = await at(camunda, "/history/incident")
    assert (closed["resolved"], closed["open"], closed["deleted"]) == (True, False, False)


async def test_a_failed_external_task_is_in_the_tree_and_in_every_list_until_it_is_brought_back(
    camunda: httpx.AsyncClient,
) -> None:
    await deploy(camunda, model(BEGIN + task("a") + END + flow("s", "a", "e")))
    started = await start(camunda)
    taken = await fetch(camunda)
    await done(camunda, taken, "failure", errorMessage="broken", errorDetails="why", retries=0)
    (leaf,) = (await at(camunda, f"/process-instance/{started['id']}/activity-instances"))["childActivityInstances"]
    (incident,) = await at(camunda, "/incident")
    assert (leaf["incidentIds"], leaf["incidents"]) == ([incident["id"]], [{"id": incident["id"], "activityId": "a"}])
    assert (incident["incidentType"], incident["configuration"]) == ("failedExternalTask", taken["id"])
    assert (incident["executionId"], incident["incidentMessage"]) == (taken["executionId"], "broken")
    assert (incident["causeIncidentId"], incident["rootCauseIncidentId"]) == (incident["id"], incident["id"])
    assert await at(camunda, "/job") == []
    assert (await camunda.put(f"/external-task/{taken['id']}/retries", json={"retries": 1})).status_code == 204
    assert await at(camunda, "/incident") == []
    (leaf,) = (await at(camunda, f"/process-instance/{started['id']}/activity-instances"))["childActivityInstances"]
    assert leaf["incidents"] == []
    await done(camunda, await fetch(camunda))
    assert await ended(camunda, started)


async def test_of_two_correlations_at_once_one_is_heard(camunda: httpx.AsyncClient) -> None:
    catch = f'<intermediateCatchEvent id="c">{MESSAGE}</intermediateCatchEvent>'
    await deploy(camunda, model(BEGIN + catch + '<userTask id="u"/>' + flow("s", "c", "u"), ROOTS))
    for _ in range(5):
        started = await start(camunda, businessKey="B")
        bodies = [
            {"messageName": "m", "businessKey": "B", "processVariables": {f"by{n}": {"value": n}}} for n in range(4)
        ]
        answers = await asyncio.gather(*(camunda.post("/message", json=one) for one in bodies))
        assert sorted(answered.status_code for answered in answers) == [204, 400, 400, 400]
        assert {error(one)[1] for one in answers if one.status_code == 400} == {"RestException"}
        assert len(await at(camunda, f"/process-instance/{started['id']}/variables")) == 1
        assert (await camunda.delete(f"/process-instance/{started['id']}")).status_code == 204


async def test_of_two_that_do_the_same_at_once_one_is_heard(camunda: httpx.AsyncClient) -> None:
    """A timer is executed, a task claimed, an instance deleted: by one of several."""
    catch = f'<intermediateCatchEvent id="c">{TIMER}</intermediateCatchEvent>'
    await deploy(camunda, model(BEGIN + catch + '<userTask id="u"/>' + flow("s", "c", "u"), ROOTS))
    started = await start(camunda)
    (job,) = await at(camunda, "/job")
    answers = await asyncio.gather(*(camunda.post(f"/job/{job['id']}/execute") for _ in range(3)))
    assert sorted(answered.status_code for answered in answers) == [204, 404, 404]
    (person,) = await at(camunda, "/task")
    claims = (camunda.post(f"/task/{person['id']}/claim", json={"userId": name}) for name in ("ann", "bob", "eve"))
    answers = await asyncio.gather(*claims)
    assert sorted(answered.status_code for answered in answers) == [204, 400, 400]
    answers = await asyncio.gather(*(camunda.delete(f"/process-instance/{started['id']}") for _ in range(3)))
    assert {answered.status_code for answered in answers} <= {204, 404}
    assert 204 in {answered.status_code for answered in answers}


async def test_of_a_message_a_timer_and_a_person_at_once_one_is_heard(camunda: httpx.AsyncClient) -> None:
    events = (
        f'<boundaryEvent id="bm" attachedToRef="u">{MESSAGE}</boundaryEvent>'
        f'<boundaryEvent id="bt" attachedToRef="u">{TIMER}</boundaryEvent>'
    )
    ways = flow("s", "u", "e") + flow("bm", "m") + flow("bt", "t")
    people = '<userTask id="u"/><userTask id="m"/><userTask id="t"/>'
    await deploy(camunda, model(BEGIN + people + events + END + ways, ROOTS))
    for _ in range(4):
        started = await start(camunda)
        (person,) = await at(camunda, "/task", taskDefinitionKey="u")
        (job,) = await at(camunda, "/job")
        answers = await asyncio.gather(
            camunda.post("/message", json={"messageName": "m"}), camunda.post(f"/job/{job['id']}/execute"),
            camunda.post(f"/task/{person['id']}/complete"),
        )  # fmt: skip
        heard = [answered.status_code == 204 for answered in answers]
        assert sum(heard) == 1, [answered.text for answered in answers]
        assert [answered.status_code for answered in answers if answered.status_code != 204] == (
            [404, 404] if heard[0] else [400, 404]
        )
        here = [] if heard[2] else ["m"] if heard[0] else ["t"]
        assert (await tree(camunda, started) if here else []) == here
        await camunda.delete(f"/process-instance/{started['id']}")


async def test_a_cycle_fires_before_its_time_and_goes_on(camunda: httpx.AsyncClient) -> None:
    cycle = "<timerEventDefinition><timeCycle>R3/PT1H</timeCycle></timerEventDefinition>"
    late = f'<boundaryEvent id="b" attachedToRef="a" cancelActivity="false">{cycle}</boundaryEvent><userTask id="u"/>'
    await deploy(camunda, model(BEGIN + task("a") + late + END + flow("s", "a", "e") + flow("b", "u")))
    started = await start(camunda)
    for rounds in (1, 2, 3):
        (job,) = await at(camunda, "/job", processInstanceId=started["id"])
        assert (await camunda.post(f"/job/{job['id']}/execute")).status_code == 204
        assert await at(camunda, "/task/count", processInstanceId=started["id"]) == {"count": rounds}
    assert await at(camunda, "/job", processInstanceId=started["id"]) == []
    assert await tree(camunda, started) == ["a", "u", "u", "u"]


async def test_nothing_is_left_of_instances_whose_deployment_went_with_them(camunda: httpx.AsyncClient) -> None:
    body = BEGIN + task("a") + '<userTask id="u"/>' + END + flow("s", "a", "u", "e")
    definition = await deploy(camunda, model(body))
    begun = await start(camunda, variables={"x": {"value": 1}})
    await done(camunda, await fetch(camunda), "failure", errorMessage="x", retries=0)
    other = await start(camunda)
    await done(camunda, await fetch(camunda))
    for one in (begun, other):
        assert len(await at(camunda, "/history/activity-instance", processInstanceId=one["id"])) > 0
    gone = await camunda.delete(f"/deployment/{definition['deploymentId']}", params={"cascade": "true"})
    assert gone.status_code == 204
    for path in (
        "/history/process-instance", "/history/activity-instance", "/history/variable-instance", "/history/incident",
        "/history/task", "/process-instance", "/variable-instance", "/incident", "/task", "/external-task", "/job",
        "/process-definition", "/deployment", "/execution", "/event-subscription",
    ):  # fmt: skip
        assert await at(camunda, path) == [], path


async def test_long_names_have_ids_that_are_uuids_alone(camunda: httpx.AsyncClient) -> None:
    key, node = "k" * 40, "n" * 40
    body = BEGIN + f'<serviceTask id="{node}" camunda:type="external" camunda:topic="a"/>' + flow("s", node)
    definition = await deploy(camunda, model(body, process=f'id="{key}" isExecutable="true"'))
    assert len(definition["id"]) == 36
    begun = await camunda.post(f"/process-definition/{definition['id']}/start", json={"skipCustomListeners": True})
    assert begun.json()["definitionId"] == definition["id"]
    taken = await fetch(camunda, processDefinitionId=definition["id"])
    assert (taken["processDefinitionId"], taken["activityInstanceId"]) == (definition["id"], taken["executionId"])
    found = await at(camunda, "/history/activity-instance", activityInstanceId=taken["activityInstanceId"])
    assert [visit["activityId"] for visit in found] == [node]
    assert await tree(camunda, begun.json()) == [node]


async def test_variables_of_a_message_go_to_what_it_reaches(camunda: httpx.AsyncClient) -> None:
    inside = (
        '<subProcess id="sub"><extensionElements><camunda:inputOutput><camunda:inputParameter name="own">1'
        "</camunda:inputParameter></camunda:inputOutput></extensionElements>"
        f'<startEvent id="is"/><intermediateCatchEvent id="c">{MESSAGE}</intermediateCatchEvent><userTask id="u"/>'
        + flow("is", "c", "u")
        + "</subProcess>"
    )
    await deploy(camunda, model(BEGIN + inside + flow("s", "sub"), ROOTS))
    begun = await start(camunda, variables={"x": {"value": 1}})
    body = {
        "messageName": "m", "processVariables": {"x": {"value": 2}, "own": {"value": 3}},
        "processVariablesToTriggeredScope": {"near": {"value": 4}},
    }  # fmt: skip
    assert (await camunda.post("/message", json=body)).status_code == 204
    (sub,) = await at(camunda, "/execution", activityId="sub")
    # Each is set where it is already, looking outwards; what is for the scope that was reached goes with it.
    for execution, expected in ((begun["id"], {"x": 2}), (sub["id"], {"own": 3})):
        local = await at(camunda, f"/execution/{execution}/localVariables")
        assert {name: one["value"] for name, one in local.items()} == expected


async def test_a_task_that_is_done_and_cannot_be_left_is_a_job_that_is_stuck(camunda: httpx.AsyncClient) -> None:
    mapped = (
        "<extensionElements><camunda:inputOutput><camunda:outputParameter name='out'>${given + missing}"
        "</camunda:outputParameter></camunda:inputOutput></extensionElements>"
    )
    await deploy(camunda, model(BEGIN + task("a", inside=mapped) + END + flow("s", "a", "e")))
    started = await start(camunda)
    await done(camunda, await fetch(camunda), localVariables={"given": {"value": 1}})
    assert await tree(camunda, started) == ["~a"]
    assert await at(camunda, "/external-task") == []
    (incident,) = await at(camunda, "/incident")
    (job,) = await at(camunda, "/job")
    assert (incident["incidentType"], incident["configuration"], job["retries"]) == ("failedJob", job["id"], 0)
    failed = await camunda.post(f"/job/{job['id']}/execute")
    assert (failed.status_code, "missing" in failed.json()["message"]) == (500, True)
    variable = f"/process-instance/{started['id']}/variables/missing"
    assert (await camunda.put(variable, json={"value": 2})).status_code == 204
    assert (await camunda.put(f"/job/{job['id']}/retries", json={"retries": 1})).status_code == 204
    assert await ended(camunda, started)
    (out,) = await at(camunda, "/history/variable-instance", variableName="out")
    assert out["value"] == 3


async def test_an_error_that_is_not_caught_where_others_are_is_an_incident(camunda: httpx.AsyncClient) -> None:
    caught = '<boundaryEvent id="b" attachedToRef="a"><errorEventDefinition errorRef="E"/></boundaryEvent>'
    people = '<userTask id="u"/>' + END
    await deploy(camunda, model(BEGIN + task("a") + caught + people + flow("s", "a", "e") + flow("b", "u"), ROOTS))
    started = await start(camunda)
    await done(camunda, await fetch(camunda), "bpmnError", errorCode="MISSPELT", errorMessage="oh")
    (incident,) = await at(camunda, "/incident")
    assert "MISSPELT" in incident["incidentMessage"]
    root = await at(camunda, f"/process-instance/{started['id']}/activity-instances")
    (leaf,) = root["childActivityInstances"] + root["childTransitionInstances"]
    assert leaf["incidents"] == [{"id": incident["id"], "activityId": "a"}]
    (job,) = await at(camunda, "/job")
    assert incident["configuration"] == job["id"]
    assert (await camunda.put(f"/job/{job['id']}/retries", json={"retries": 1})).status_code == 204
    # The work is to be done again.
    await done(camunda, await fetch(camunda), "bpmnError", errorCode="NO")
    assert await tree(camunda, started) == ["u"]
