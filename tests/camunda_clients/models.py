"""The models that the workers work on."""

from __future__ import annotations

from itertools import pairwise

from tests.app.bpmn.writing import extended, flow, process


def external(name: str, inside: str = "", attributes: str = "") -> str:
    """An external task whose topic is its name."""
    return (
        f'<bpmn:serviceTask id="{name}" camunda:type="external" camunda:topic="{name}" {attributes}>'
        f"{inside}</bpmn:serviceTask>"
    )


def chain(*elements: tuple[str, str]) -> bytes:
    """A process `p` through elements of these ids, each given as (id, element)."""
    stops = ["start", *(name for name, _ in elements), "end"]
    flows = [flow(source, target) for source, target in pairwise(stops)]
    parts = (element for _, element in elements)
    return process('<bpmn:startEvent id="start"/>', *parts, '<bpmn:endEvent id="end"/>', *flows)


def one_task(topic: str, inside: str = "", attributes: str = "") -> bytes:
    """One external task, then a user task at which the instance can be looked at."""
    return chain((topic, external(topic, inside, attributes)), ("look", '<bpmn:userTask id="look"/>'))


def only_task(topic: str) -> bytes:
    return chain((topic, external(topic)))


def caught(topic: str) -> bytes:
    """One external task whose error REFUSED leads to the user task `caught`."""
    roots = '<bpmn:error id="refused" errorCode="REFUSED"/>'
    event = (
        f'<bpmn:boundaryEvent id="boundary" attachedToRef="{topic}"><bpmn:errorEventDefinition errorRef="refused"'
        ' camunda:errorCodeVariable="code" camunda:errorMessageVariable="said"/></bpmn:boundaryEvent>'
    )
    flows = (flow("start", topic), flow(topic, "look"), flow("boundary", "caught"))
    tasks = ('<bpmn:userTask id="look"/>', '<bpmn:userTask id="caught"/>')
    return process('<bpmn:startEvent id="start"/>', external(topic), event, *tasks, *flows, roots=roots)


def with_properties(topic: str) -> bytes:
    properties = '<camunda:properties><camunda:property name="queue" value="fast"/></camunda:properties>'
    return one_task(topic, extended(properties))
