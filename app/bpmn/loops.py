"""Circles that a token could never leave and never wait on: found at deploy, for they can only fill the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from app.process.graph import EventKind, Graph, Kind, Node

WAITING: Final = frozenset(
    {Kind.TASK, Kind.USER, Kind.RECEIVE, Kind.CATCH, Kind.EVENT_GATEWAY, Kind.SUBPROCESS, Kind.END}
)


def endless_loops(graph: Graph) -> Iterator[str]:
    """The first node, in the order of the document, of every circle with no condition and no wait on it."""
    order = {name: place for place, name in enumerate(graph.nodes)}
    for circle in _circles(graph):
        yield min(circle, key=order.__getitem__)


def _circles(graph: Graph) -> Iterator[list[str]]:
    """The strongly connected parts of the ways that a token must go (Tarjan), with more than one node or a way back."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    part: list[str] = []
    within: set[str] = set()
    for root in graph.nodes:
        pending: list[tuple[str, Iterator[str]]] = [] if root in numbers else [(root, iter(_certain_ways(graph, root)))]
        while pending:
            at, ways = pending[-1]
            if at not in numbers:
                numbers[at] = lowest[at] = len(numbers)
                part.append(at)
                within.add(at)
            following = next(ways, None)
            if following is None:
                pending.pop()
                if pending:
                    lowest[pending[-1][0]] = min(lowest[pending[-1][0]], lowest[at])
                if lowest[at] == numbers[at]:
                    circle = [part.pop()]
                    while circle[-1] != at:
                        circle.append(part.pop())
                    within.difference_update(circle)
                    if len(circle) > 1 or at in _certain_ways(graph, at):
                        yield circle
            elif following not in numbers:
                pending.append((following, iter(_certain_ways(graph, following))))
            elif following in within:
                lowest[at] = min(lowest[at], numbers[following])


def _certain_ways(graph: Graph, name: str) -> list[str]:
    """Where a token that does not wait at a node must go on to, whatever the variables."""
    node = graph.nodes[name]
    if _waits(node):
        return []
    if node.link is not None:
        return [node.link]
    flows = graph.outgoing(name)
    if node.kind is Kind.EXCLUSIVE and len(flows) != 1:
        return []
    if node.kind in (Kind.PARALLEL, Kind.INCLUSIVE) and len(graph.incoming(name)) > 1:
        return []
    certain = [flow for flow in flows if flow.condition is None or node.kind is Kind.PARALLEL]
    return [flow.target for flow in certain if flow.id != node.default or len(flows) == 1]


def _waits(node: Node) -> bool:
    if node.kind is Kind.CATCH and node.event is not None and node.event.kind is EventKind.NONE:
        return False  # the catch side of a link
    return node.kind in WAITING or node.work is not None or node.commit_before or node.commit_after
