"""The picture that a modeler has left in a file: BPMN's diagram interchange."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from app.bpmn.markup import Element
from app.bpmn.names import BPMN_DI
from app.diagram.picture import Box, Picture, Point
from app.process.graph import Graph

DC: Final = "http://www.omg.org/spec/DD/20100524/DC"
DI: Final = "http://www.omg.org/spec/DD/20100524/DI"
FARTHEST: Final = 1_000_000.0


def drawn(definitions: Element, graph: Graph) -> Picture | None:
    """The picture of a process, or None when the file does not place every node of it."""
    boxes: dict[str, Box] = {}
    lines: dict[str, list[Point]] = {}
    for element in definitions.walk():
        about = (element.get("bpmnElement") or "").rpartition(":")[2]
        if element.name == (BPMN_DI, "BPMNShape") and about in graph.nodes:
            box = _box(element)
            if box is not None:
                boxes[about] = box
        elif element.name == (BPMN_DI, "BPMNEdge") and about in graph.flows:
            lines[about] = list(_points(element))
    if graph.nodes.keys() - boxes.keys():
        return None
    for flow in graph.flows.values():
        if len(lines.get(flow.id, ())) < 2:
            lines[flow.id] = [boxes[flow.source].centre, boxes[flow.target].centre]
    return Picture(boxes, lines)


def _box(shape: Element) -> Box | None:
    bounds = shape.child((DC, "Bounds"))
    numbers = [_number(bounds.get(name) if bounds else None) for name in ("x", "y", "width", "height")]
    return None if None in numbers else Box(*(number for number in numbers if number is not None))


def _points(edge: Element) -> Iterator[Point]:
    for child in edge.children:
        if child.name == (DI, "waypoint"):
            x, y = _number(child.get("x")), _number(child.get("y"))
            if x is not None and y is not None:
                yield x, y


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) < FARTHEST else None
