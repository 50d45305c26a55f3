"""What a worker does with its tasks: complete, fail, refuse, each on the clients that there are."""

from __future__ import annotations

import pytest

from tests.camunda_clients.conftest import KINDS, Employ, Engine, Kind
from tests.camunda_clients.models import caught, one_task, only_task, with_properties

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_task_is_completed_with_variables(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(with_properties("complete"))
    instance = engine.start({"a": {"value": 2}, "b": {"value": 40}}, business_key="B-17")
    subscription = {"includeExtensionProperties": True, "businessKey": "B-17", "processDefinitionKey": "p"}
    worker = employ(kind, "complete", name="7", subscriptions={"complete": subscription})
    engine.wait_until_at(instance, "look")
    assert engine.values(instance) == {"a": 2, "b": 40, "sum": 42, "done_by": "7"}

    [began] = worker.wait_for("began")
    context = began["context"]
    assert context["processInstanceId"] == instance
    assert {context["executionId"], context["activityInstanceId"]}.isdisjoint({instance, None})
    assert (context["activityId"], context["topicName"], context["workerId"]) == ("complete", "complete", "7")
    assert (context["businessKey"], context["processDefinitionKey"]) == ("B-17", "p")
    assert (context["retries"], context["priority"], context["suspended"]) == (None, 0, False)
    assert context["extensionProperties"] == {"queue": "fast"}
    worker.wait_for("ended")
    assert worker.told("poll failed") == []


@every_kind
def test_a_failure_takes_the_retries_down_to_an_incident_and_goes_on_when_somebody_gives_more(
    kind: Kind, engine: Engine, employ: Employ
) -> None:
    engine.deploy(one_task("fail"))
    instance = engine.start()
    worker = employ(kind, "fail")
    failing = worker.wait_for("failing", 3)
    assert [line["retries"] for line in failing] == [None, 2, 1]
    assert failing[0]["errorMessage"] is failing[0]["errorDetails"] is None
    # A fetch tells the last error; its details too.
    assert {(line["errorMessage"], line["errorDetails"]) for line in failing[1:]} == {("no paper", "line 1\nline 2")}
    worker.wait_for("ended", 3)

    [task] = engine.tasks(instance)
    assert (task["retries"], task["errorMessage"]) == (0, "no paper")
    assert engine.http.get(f"/external-task/{task['id']}/errorDetails").text == "line 1\nline 2"
    [incident] = engine.incidents(instance)
    assert (incident["incidentType"], incident["configuration"]) == ("failedExternalTask", task["id"])
    assert (incident["activityId"], incident["incidentMessage"]) == ("fail", "no paper")
    assert len(worker.told("failing")) == 3

    engine.put(f"/process-instance/{instance}/variables/mended", {"value": True, "type": "Boolean"})
    engine.put(f"/external-task/{task['id']}/retries", {"retries": 1})
    engine.wait_until_at(instance, "look")
    assert engine.incidents(instance) == []
    assert engine.values(instance)["done_by"] == kind
    assert [line["task"] for line in worker.told("began")] == [task["id"]] * 4


@every_kind
def test_a_business_error_goes_the_way_that_the_model_has_for_it(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(caught("refuse"))
    instance = engine.start()
    employ(kind, "refuse")
    engine.wait_until_at(instance, "caught")
    assert engine.values(instance) == {"reason": "price", "code": "REFUSED", "said": "too dear"}
    assert engine.incidents(instance) == []


@every_kind
def test_a_business_error_that_no_model_catches_ends_its_path(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("refuse"))
    instance = engine.start()
    worker = employ(kind, "refuse")
    engine.wait_until_ended(instance)
    worker.wait_for("ended")
    assert worker.told("refused") == []


def test_a_lock_is_extended_as_long_as_the_work_takes(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("extend"))
    instance = engine.start()
    busy = employ("javascript", "extend", name="busy", subscriptions={"extend": {"lockDuration": 4000}})
    busy.wait_for("holding")
    idle = employ("javascript", "extend", name="idle", options={"asyncResponseTimeout": 500})
    engine.wait_until_at(instance, "look")
    assert engine.values(instance) == {"done_by": "busy"}
    assert idle.told("began") == []


def test_a_task_is_given_back_and_locked_again(engine: Engine, employ: Employ) -> None:
    engine.deploy(one_task("unlock"))
    instance = engine.start()
    worker = employ("javascript", "unlock", options={"maxParallelExecutions": 1})
    engine.wait_until_at(instance, "look")
    assert worker.told("refused") == []


@every_kind
def test_tasks_of_several_topics_are_fetched_together(kind: Kind, engine: Engine, employ: Employ) -> None:
    engine.deploy(only_task("complete"))
    engine.deploy(only_task("refuse").replace(b'id="p"', b'id="q"'))
    numbers = {"a": {"value": 1}, "b": {"value": 1}}
    instances = [engine.start(numbers, key=key) for key in ("p", "q") * 5]
    employ(kind, "complete", "refuse")
    for instance in instances:
        engine.wait_until_ended(instance)
