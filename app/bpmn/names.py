"""The vocabularies of a model: BPMN itself, and Camunda's extensions, which Activiti's are an older name of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.bpmn.markup import Element, Name
from app.process.graph import Kind

BPMN: Final = "http://www.omg.org/spec/BPMN/20100524/MODEL"
BPMN_DI: Final = "http://www.omg.org/spec/BPMN/20100524/DI"
CAMUNDA: Final = "http://camunda.org/schema/1.0/bpmn"
ACTIVITI: Final = "http://activiti.org/bpmn"
CELERIAC: Final = "https://celeriac.dev/schema/bpmn"
"""Attributes of ours: parallelCompensation and countingJoins of a process."""
ELEMENTS: Final[Mapping[Kind, str]] = {
    Kind.START: "startEvent", Kind.END: "endEvent", Kind.TASK: "serviceTask", Kind.USER: "userTask",
    Kind.RECEIVE: "receiveTask", Kind.SCRIPT: "scriptTask", Kind.PASS: "task", Kind.EXCLUSIVE: "exclusiveGateway",
    Kind.PARALLEL: "parallelGateway", Kind.INCLUSIVE: "inclusiveGateway", Kind.EVENT_GATEWAY: "eventBasedGateway",
    Kind.SUBPROCESS: "subProcess", Kind.CATCH: "intermediateCatchEvent", Kind.THROW: "intermediateThrowEvent",
    Kind.BOUNDARY: "boundaryEvent", Kind.LINK: "intermediateThrowEvent",
}  # fmt: skip
"""The element that most nodes of a kind are."""


def bpmn(local: str) -> Name:
    return BPMN, local


def is_bpmn(element: Element, *locals_: str) -> bool:
    return element.name[0] == BPMN and element.name[1] in locals_


def extension(element: Element, local: str) -> str | None:
    """A Camunda attribute, in either namespace."""
    return element.attributes.get((CAMUNDA, local), element.attributes.get((ACTIVITI, local)))


def extensions(element: Element, local: str) -> list[Element]:
    """The Camunda elements of one name in an element's extensionElements."""
    holder = element.child(bpmn("extensionElements"))
    if holder is None:
        return []
    return [child for child in holder.children if child.name in ((CAMUNDA, local), (ACTIVITI, local))]


def camunda_children(element: Element, local: str) -> list[Element]:
    return [child for child in element.children if child.name in ((CAMUNDA, local), (ACTIVITI, local))]


def is_name(text: str) -> bool:
    """Whether the database takes a text for a name: 1 to 255 printable characters with no space around them."""
    return 0 < len(text) <= 255 and text == text.strip() and text.isprintable()


def is_true(value: str | None) -> bool:
    return (value or "").strip().lower() == "true"
