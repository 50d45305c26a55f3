"""A picture for a model without one: columns by distance from the start, rows in the order of the document.

Subprocesses are laid out first and are as large as what is in them; boundary events sit on the lower edge of their
activities.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from app.diagram.picture import Box, Picture, Point
from app.process.graph import Graph, Kind, Node

ACTIVITY: Final = (110.0, 70.0)
EVENT: Final = (36.0, 36.0)
GATEWAY: Final = (50.0, 50.0)
GAP: Final = (60.0, 40.0)
PADDING: Final = 30.0
EVENTS: Final = frozenset({Kind.START, Kind.END, Kind.CATCH, Kind.THROW, Kind.LINK, Kind.BOUNDARY})
GATEWAYS: Final = frozenset({Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE, Kind.EVENT_GATEWAY})


def laid_out(graph: Graph) -> Picture:
    """A picture of the whole process."""
    boxes = _scope(graph, graph.process)
    lines = {
        flow.id: _line(boxes[flow.source], boxes[flow.target])
        for flow in graph.flows.values()
        if flow.source in boxes and flow.target in boxes
    }
    return Picture(boxes, lines)


def _scope(graph: Graph, scope: str) -> dict[str, Box]:
    """The boxes of everything in a scope, from (0, 0)."""
    inside = [node for node in graph.inside(scope) if node.kind is not Kind.BOUNDARY]
    nested = {node.id: _scope(graph, node.id) for node in inside if node.kind is Kind.SUBPROCESS}
    sizes = {node.id: _size(node, nested.get(node.id)) for node in inside}
    columns = _columns(graph, inside)
    placed: dict[str, Box] = {}
    x = 0.0
    for column in columns:
        width = max(sizes[name][0] for name in column)
        y = 0.0
        for name in column:
            box = Box(x + (width - sizes[name][0]) / 2, y, *sizes[name])
            placed[name] = box
            placed |= _shifted(nested.get(name, {}), box.x + PADDING, box.y + PADDING)
            y += sizes[name][1] + GAP[1]
        x += width + GAP[0]
    placed |= _boundaries(graph, scope, placed)
    return placed


def _columns(graph: Graph, inside: list[Node]) -> list[list[str]]:
    """The nodes by their distance from a start, along flows, boundary events and compensation."""
    names = {node.id for node in inside}
    distance: dict[str, int] = {}
    ahead = [node.id for node in inside if node.kind is Kind.START] or [node.id for node in inside[:1]]
    depth = 0
    while ahead:
        following: list[str] = []
        for name in ahead:
            if name in names and name not in distance:
                distance[name] = depth
                following += [flow.target for flow in graph.outgoing(name)]
                for event in graph.boundaries(name):
                    following += [flow.target for flow in graph.outgoing(event.id)] + [event.handler or ""]
        ahead, depth = following, depth + 1
    columns: dict[int, list[str]] = defaultdict(list)
    for node in inside:
        columns[distance.get(node.id, 0)].append(node.id)
    return [columns[number] for number in sorted(columns)]


def _boundaries(graph: Graph, scope: str, placed: dict[str, Box]) -> dict[str, Box]:
    """Boundary events in a row on the lower edge of their activities."""
    seen: dict[str, int] = defaultdict(int)
    boxes: dict[str, Box] = {}
    for node in graph.inside(scope):
        host = placed.get(node.attached_to or "")
        if host is not None:
            x = host.x + 12 + seen[node.attached_to or ""] * (EVENT[0] + 8)
            boxes[node.id] = Box(x, host.y + host.height - EVENT[1] / 2, *EVENT)
            seen[node.attached_to or ""] += 1
    return boxes


def _size(node: Node, inner: dict[str, Box] | None) -> tuple[float, float]:
    if inner:
        frame = Picture(inner, {}).frame
        return frame.width + 2 * PADDING, frame.height + 2 * PADDING
    return EVENT if node.kind in EVENTS else GATEWAY if node.kind in GATEWAYS else ACTIVITY


def _shifted(boxes: dict[str, Box], x: float, y: float) -> dict[str, Box]:
    return {name: Box(box.x + x, box.y + y, box.width, box.height) for name, box in boxes.items()}


def _line(source: Box, target: Box) -> list[Point]:
    """From side to side, with corners half-way; back by a line below both."""
    (_, from_y), (_, to_y) = source.centre, target.centre
    if target.x >= source.x + source.width:
        middle = (source.x + source.width + target.x) / 2
        return [(source.x + source.width, from_y), (middle, from_y), (middle, to_y), (target.x, to_y)]
    below = max(source.y + source.height, target.y + target.height) + GAP[1] / 2
    return [
        (source.centre[0], source.y + source.height),
        (source.centre[0], below),
        (target.centre[0], below),
        (target.centre[0], target.y + target.height),
    ]
