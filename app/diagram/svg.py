"""A picture as SVG text: self-contained, with nothing in it that a browser would run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from app.diagram.layout import EVENTS, GATEWAYS
from app.diagram.picture import Box, Picture, Point
from app.process.graph import EventKind, Graph, Kind, Node

MARGIN: Final = 40.0
LONGEST_LABEL: Final = 60
INK, PAPER, TOKEN, TROUBLE, DONE = "#22303c", "#ffffff", "#1f7a4d", "#b3261e", "#8a97a3"
SIGNS: Final = {
    EventKind.TIMER: "◷", EventKind.MESSAGE: "✉", EventKind.SIGNAL: "△", EventKind.ERROR: "↯",
    EventKind.COMPENSATION: "⏪", EventKind.TERMINATE: "●",
}  # fmt: skip
MARKS: Final = {Kind.EXCLUSIVE: "✕", Kind.PARALLEL: "＋", Kind.INCLUSIVE: "○", Kind.EVENT_GATEWAY: "◇"}


@dataclass(frozen=True, slots=True)
class Marks:
    """What is drawn upon nodes: tokens that stand there, how often they were left, and open incidents."""

    tokens: Mapping[str, int] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    incidents: Mapping[str, int] = field(default_factory=dict)


def rendered(graph: Graph, picture: Picture, marks: Marks | None = None) -> str:
    """The whole SVG document."""
    frame = picture.frame
    view = f"{frame.x - MARGIN:g} {frame.y - MARGIN:g} {frame.width + 2 * MARGIN:g} {frame.height + 2 * MARGIN:g}"
    title = escape(graph.name or graph.process)
    body = "\n".join(_drawn(graph, picture, marks or Marks()))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" width="{frame.width + 2 * MARGIN:g}"'
        f' height="{frame.height + 2 * MARGIN:g}" role="img" aria-label="{title}"'
        ' font-family="sans-serif" font-size="11">\n'
        f"<title>{title}</title>\n"
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>\n{body}\n</svg>\n'
    )


def _drawn(graph: Graph, picture: Picture, marks: Marks) -> Iterator[str]:
    # Subprocesses lie under what is in them; the outer ones come first in the document.
    for node in graph.nodes.values():
        if node.kind is Kind.SUBPROCESS and node.id in picture.boxes:
            yield _activity(node, picture.boxes[node.id], "start")
    for flow in graph.flows.values():
        if flow.id in picture.lines:
            yield _line(picture.lines[flow.id])
    for node in graph.nodes.values():
        if node.handler is not None and {node.id, node.handler} <= picture.boxes.keys():
            yield _association(picture.boxes[node.id], picture.boxes[node.handler])
    for node in graph.nodes.values():
        if node.kind is not Kind.SUBPROCESS and node.id in picture.boxes:
            yield _node(node, picture.boxes[node.id])
    for name, box in picture.boxes.items():
        yield from _badges(name, box, marks)


def _node(node: Node, box: Box) -> str:
    if node.kind in GATEWAYS:
        return _gateway(node, box)
    if node.kind in EVENTS:
        return _event(node, box)
    return _activity(node, box, "middle")


def _activity(node: Node, box: Box, anchor: str) -> str:
    dash = ' stroke-dasharray="4 3"' if node.for_compensation else ""
    shape = (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="8" fill="{PAPER}"'
        f' fill-opacity="0.9" stroke="{INK}"{dash}/>'
    )
    if anchor == "start":
        return _group(node, shape + _text(_label(node), box.x + 8, box.y + 14, "start"))
    x, y = box.centre
    return _group(
        node, shape + "".join(_text(line, x, y + 4 + 13 * place, "middle") for place, line in _wrapped(node, box))
    )


def _event(node: Node, box: Box) -> str:
    x, y = box.centre
    radius = min(box.width, box.height) / 2
    width = 3 if node.kind is Kind.END else 1.2
    dash = ' stroke-dasharray="4 3"' if node.kind is Kind.BOUNDARY and not node.interrupting else ""
    shape = f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{PAPER}" stroke="{INK}" stroke-width="{width}"{dash}/>'
    if node.kind in (Kind.CATCH, Kind.THROW, Kind.BOUNDARY, Kind.LINK):
        shape += f'<circle cx="{x:g}" cy="{y:g}" r="{radius - 3:g}" fill="none" stroke="{INK}"{dash}/>'
    sign = SIGNS.get(node.event.kind, "") if node.event else ""
    shape += _text(sign, x, y + 5, "middle", size=15) if sign else ""
    return _group(
        node, shape + (_text(node.name[:LONGEST_LABEL], x, box.y + box.height + 13, "middle") if node.name else "")
    )


def _gateway(node: Node, box: Box) -> str:
    x, y = box.centre
    corners = f"{x:g},{box.y:g} {box.x + box.width:g},{y:g} {x:g},{box.y + box.height:g} {box.x:g},{y:g}"
    shape = f'<polygon points="{corners}" fill="{PAPER}" stroke="{INK}"/>' + _text(
        MARKS[node.kind], x, y + 6, "middle", size=18
    )
    return _group(node, shape + (_text(node.name[:LONGEST_LABEL], x, box.y - 5, "middle") if node.name else ""))


def _badges(name: str, box: Box, marks: Marks) -> Iterator[str]:
    if count := marks.tokens.get(name):
        yield _badge(box.x, box.y, TOKEN, count, "tokens here")
    if count := marks.incidents.get(name):
        yield _badge(box.x + box.width, box.y, TROUBLE, count, "incidents")
    if count := marks.passed.get(name):
        yield _badge(box.x + box.width, box.y + box.height, DONE, count, "times done")


def _badge(x: float, y: float, colour: str, count: int, what: str) -> str:
    label = f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle" fill="{PAPER}" font-weight="bold">{count}</text>'
    return f'<g><title>{count} {what}</title><circle cx="{x:g}" cy="{y:g}" r="10" fill="{colour}"/>{label}</g>'


def _line(points: Sequence[Point]) -> str:
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{INK}" marker-end="url(#arrow)"/>'


def _association(event: Box, handler: Box) -> str:
    """From a compensation event to the activity that it starts: dotted, since no token flows along it."""
    (x1, y1), (x2, y2) = event.centre, handler.centre
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{INK}" stroke-dasharray="2 3"/>'


def _group(node: Node, inside: str) -> str:
    return f'<g data-node="{escape(node.id, quote=True)}"><title>{escape(node.id)}</title>{inside}</g>'


def _text(text: str, x: float, y: float, anchor: str, size: int | None = None) -> str:
    larger = f' font-size="{size}"' if size else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{INK}"{larger}>{escape(text)}</text>'


def _label(node: Node) -> str:
    return (node.name or node.id)[:LONGEST_LABEL]


def _wrapped(node: Node, box: Box) -> list[tuple[float, str]]:
    """The label in at most three lines, and how many lines each is away from the middle."""
    room = max(int(box.width / 6.2), 6)
    lines = [""]
    for word in _label(node).split():
        if lines[-1] and len(lines[-1]) + len(word) >= room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    shown = lines[:3]
    return [(place - (len(shown) - 1) / 2, line) for place, line in enumerate(shown)]
