"""A graph as a BPMN file: what the builder draws can be deployed like any model, and opened in a modeler.

Reading the file again gives the same graph, with the options that it was read with: a script that was left out
(`unrunnable=ignore`) is written as a script task without one. Constants that are no plain text (numbers, booleans,
empty text) become expressions of the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from app.bpmn.names import BPMN, CAMUNDA, CELERIAC, ELEMENTS
from app.process.graph import Assignment, Duty, Event, EventKind, Expression, Flow, Graph, Kind, Node, Table, Value

TIMERS: Final = {"date": "timeDate", "duration": "timeDuration", "cycle": "timeCycle"}
ROOTS: Final = {EventKind.MESSAGE: "message", EventKind.SIGNAL: "signal", EventKind.ERROR: "error"}


def write(graph: Graph) -> bytes:
    """The graph of one process as a file."""
    roots = _Roots()
    inside = "".join(_scope(graph, graph.process, roots))
    attributes = {
        "id": graph.process,
        "name": graph.name,
        "isExecutable": "true",
        "celeriac:parallelCompensation": "true" if graph.parallel_compensation else None,
        "celeriac:countingJoins": "true" if graph.counting_joins else None,
    }
    spaces = {"xmlns": BPMN, "xmlns:camunda": CAMUNDA, "xmlns:celeriac": CELERIAC, "targetNamespace": CELERIAC}
    process = _element("process", attributes, inside)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_element("definitions", spaces, roots.text() + process)}'.encode()


@dataclass
class _Roots:
    """The messages, signals and errors that events refer to, by kind and name."""

    ids: dict[tuple[EventKind, str], str] = field(default_factory=dict)

    def of(self, kind: EventKind, name: Expression | str) -> str:
        text = _text(name)
        return self.ids.setdefault((kind, text), f"{ROOTS[kind]}_{len(self.ids) + 1}")

    def text(self) -> str:
        return "".join(
            _element(ROOTS[kind], {"id": name, "errorCode" if kind is EventKind.ERROR else "name": text})
            for (kind, text), name in self.ids.items()
        )


def _scope(graph: Graph, scope: str, roots: _Roots) -> Iterator[str]:
    """Everything directly in a process or subprocess."""
    catches = {node.link for node in graph.inside(scope) if node.link is not None}
    for node in graph.inside(scope):
        yield _node(graph, node, node.id in catches, roots)
        if node.handler is not None:
            ends = {"sourceRef": node.id, "targetRef": node.handler}
            yield _element("association", {"id": f"{node.id}_{node.handler}", "associationDirection": "One", **ends})
    for flow in graph.flows.values():
        if graph.nodes[flow.source].scope == scope:
            yield _flow(flow)


def _flow(flow: Flow) -> str:
    condition = ""
    if flow.condition is not None:
        language = None if flow.condition.language == "juel" else flow.condition.language
        condition = _element("conditionExpression", {"language": language}, escape(flow.condition.text))
    return _element("sequenceFlow", {"id": flow.id, "sourceRef": flow.source, "targetRef": flow.target}, condition)


def _node(graph: Graph, node: Node, is_link: bool, roots: _Roots) -> str:
    attributes: dict[str, str | None] = {
        "id": node.id,
        "name": node.name,
        "default": node.default,
        "attachedToRef": node.attached_to,
        "cancelActivity": "false" if node.kind is Kind.BOUNDARY and not node.interrupting else None,
        "isForCompensation": "true" if node.for_compensation else None,
        "camunda:asyncBefore": "true" if node.commit_before else None,
        "camunda:asyncAfter": "true" if node.commit_after else None,
    }
    inside = "".join(_extensions(node))
    if node.duty is not None:
        attributes |= _duty(node.duty)
        inside = _documentation(node.duty) + inside
    if node.kind is Kind.SUBPROCESS:
        inside += "".join(_scope(graph, node.id, roots))
    elif node.kind is Kind.TASK:
        attributes |= _work(node)
    elif node.kind is Kind.RECEIVE and node.event is not None and node.event.name is not None:
        attributes["messageRef"] = roots.of(EventKind.MESSAGE, node.event.name)
    elif node.script is not None and node.element is not None:
        result = node.script.result_variable
        attributes |= {"camunda:expression": node.script.expression.text, "camunda:resultVariable": result}
    elif node.script is not None:
        expression = node.script.expression
        attributes |= {"scriptFormat": expression.language, "camunda:resultVariable": node.script.result_variable}
        inside += _element("script", {}, escape(expression.text))
    elif node.kind is Kind.LINK or is_link:
        inside += _element("linkEventDefinition", {"name": node.link or node.id})
    elif node.event is not None:
        inside += _definition(node, node.event, roots)
    return _element(node.element or ELEMENTS[node.kind], attributes, inside)


def _definition(node: Node, event: Event, roots: _Roots) -> str:
    if event.kind is EventKind.NONE:
        return ""
    inside, attributes = "", dict[str, str | None]()
    local = "compensate" if event.kind is EventKind.COMPENSATION else str(event.kind)
    if event.kind in ROOTS and event.name is not None:
        attributes[f"{ROOTS[event.kind]}Ref"] = roots.of(event.kind, event.name)
    if event.kind is EventKind.TIMER and event.timer is not None and event.when is not None:
        inside = _element(TIMERS[event.timer], {}, escape(_text(event.when)))
    if event.kind is EventKind.COMPENSATION:
        attributes["activityRef"] = event.activity
    attributes |= {
        "camunda:errorCodeVariable": event.code_variable,
        "camunda:errorMessageVariable": event.message_variable,
        **_work(node),
    }
    return _element(f"{local}EventDefinition", attributes, inside)


def _work(node: Node) -> dict[str, str | None]:
    if node.work is None:
        return {}
    priority = node.work.priority
    return {
        "camunda:type": "external",
        "camunda:topic": _text(node.work.topic),
        "camunda:taskPriority": None if priority is None else _text(priority),
    }


def _duty(duty: Duty) -> dict[str, str | None]:
    named = {
        "name": duty.name, "camunda:assignee": duty.assignee, "camunda:candidateUsers": duty.candidate_users,
        "camunda:candidateGroups": duty.candidate_groups, "camunda:dueDate": duty.due,
        "camunda:followUpDate": duty.follow_up, "camunda:priority": duty.priority, "camunda:formKey": duty.form_key,
    }  # fmt: skip
    return {attribute: _text(value) for attribute, value in named.items() if value is not None}


def _documentation(duty: Duty) -> str:
    return "" if duty.description is None else _element("documentation", {}, escape(_text(duty.description)))


def _extensions(node: Node) -> Iterator[str]:
    parts = ""
    if node.work is not None and node.work.properties:
        properties = (
            _element("camunda:property", {"name": name, "value": value}) for name, value in node.work.properties.items()
        )
        parts += _element("camunda:properties", {}, "".join(properties))
    if node.work is not None and node.work.retry is not None:
        parts += _element("camunda:failedJobRetryTimeCycle", {}, escape(_text(node.work.retry)))
    if node.inputs or node.outputs:
        given = "".join((*_parameters("inputParameter", node.inputs), *_parameters("outputParameter", node.outputs)))
        parts += _element("camunda:inputOutput", {}, given)
    if parts:
        yield _element("extensionElements", {}, parts)


def _parameters(local: str, given: Iterable[Assignment]) -> Iterator[str]:
    for one in given:
        yield _element(f"camunda:{local}", {"name": one.name}, _value(one.value))


def _value(value: Value) -> str:
    if isinstance(value, Expression):
        script = _element("camunda:script", {"scriptFormat": value.language}, escape(value.text))
        return escape(value.text) if value.language == "juel" else script
    if isinstance(value, Table):
        entries = ((_text(key), inner) for key, inner in value.entries)
        return _element("camunda:map", {}, "".join(_entry(key, inner) for key, inner in entries))
    if isinstance(value, Mapping):
        return _element("camunda:map", {}, "".join(_entry(key, inner) for key, inner in value.items()))
    if value is None:
        return ""
    if isinstance(value, str):
        plain = value and value == value.strip()
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        return escape(value if plain else f"${{'{quoted}'}}")
    if isinstance(value, bool):
        return f"${{{str(value).lower()}}}"
    if isinstance(value, int | float):
        return f"${{{value}}}"
    items = (_element("camunda:value", {}, _value(inner)) for inner in value)
    return _element("camunda:list", {}, "".join(items))


def _entry(key: str, value: Value) -> str:
    return _element("camunda:entry", {"key": key}, _value(value))


def _text(value: Expression | str | int) -> str:
    return value.text if isinstance(value, Expression) else str(value)


def _element(name: str, attributes: Mapping[str, str | None], inside: str = "") -> str:
    given = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items() if value is not None)
    return f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>"
