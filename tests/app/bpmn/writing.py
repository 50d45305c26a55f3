"""BPMN files in a few words."""

from __future__ import annotations

from itertools import pairwise

from app.bpmn.options import Options
from app.bpmn.problems import Finding
from app.bpmn.reader import Reading, read
from app.process.graph import Graph, Node

HEAD = (
    '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    ' xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:activiti="http://activiti.org/bpmn"'
    ' xmlns:celeriac="https://celeriac.dev/schema/bpmn" targetNamespace="urn:test">'
)
IGNORE = Options(unrunnable="ignore")
TOPICS = Options(delegates="topics")


def document(*lines: str) -> bytes:
    """A whole file: the first of the lines is line 2."""
    return "\n".join((HEAD, *lines, "</bpmn:definitions>")).encode()


def process(*lines: str, attributes: str = "", roots: str = "") -> bytes:
    """A file with one process `p`: the first of the lines is line 3."""
    return document(f'{roots}<bpmn:process id="p" isExecutable="true" {attributes}>', *lines, "</bpmn:process>")


def line(*lines: str, **more: str) -> bytes:
    """A process that goes from its start through elements (their ids are `a`, `b` …) to its end."""
    stops = ["start", *"abcdefgh"[: len(lines)], "end"]
    flows = [flow(source, target) for source, target in pairwise(stops)]
    return process('<bpmn:startEvent id="start"/>', *lines, '<bpmn:endEvent id="end"/>', *flows, **more)


def flow(source: str, target: str, inside: str = "", attributes: str = "") -> str:
    return (
        f'<bpmn:sequenceFlow id="{source}-{target}" sourceRef="{source}" targetRef="{target}" {attributes}>'
        f"{inside}</bpmn:sequenceFlow>"
    )


def when(condition: str, attributes: str = "") -> str:
    return f"<bpmn:conditionExpression {attributes}>{condition}</bpmn:conditionExpression>"


def task(name: str, inside: str = "", attributes: str = "") -> str:
    return (
        f'<bpmn:serviceTask id="{name}" camunda:type="external" camunda:topic="do-{name}" {attributes}>'
        f"{inside}</bpmn:serviceTask>"
    )


def extended(*parts: str) -> str:
    return f"<bpmn:extensionElements>{''.join(parts)}</bpmn:extensionElements>"


def findings(content: bytes, options: Options | None = None) -> list[tuple[str, str | None, int, str]]:
    """(severity, element, line, message) of all findings."""
    return [(f.severity, f.element, f.line, f.message) for f in read(content, options).report.findings]


def errors(content: bytes, options: Options | None = None) -> list[tuple[str | None, int, str]]:
    return [(f.element, f.line, f.message) for f in read(content, options).report.errors]


def warnings(content: bytes, options: Options | None = None) -> list[Finding]:
    return read(content, options).report.warnings


def graph(content: bytes, options: Options | None = None) -> Graph:
    """The graph of the one process, which has no errors."""
    reading: Reading = read(content, options)
    assert not reading.report.errors, [str(error) for error in reading.report.errors]
    (model,) = reading.models
    return model.graph


def node(content: bytes, name: str = "a", options: Options | None = None) -> Node:
    return graph(content, options).nodes[name]
