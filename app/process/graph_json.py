"""Graphs as JSON and back, exactly: what a definition keeps. What has its default is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final

from app.process.graph import (
    Assignment,
    Duty,
    Event,
    EventKind,
    Expression,
    Flow,
    Graph,
    Kind,
    Node,
    Script,
    Table,
    Value,
    Work,
)

EXPRESSION: Final = "$"
"""The one key that marks an expression among maps: [text, language]."""

PAIRS: Final = "#"
"""The one key that marks a map by its pairs: with expressions among its keys, or a key that is a mark itself."""


def to_json(graph: Graph) -> dict[str, Any]:
    """A graph as JSON."""
    return {
        "process": graph.process,
        "name": graph.name,
        "parallel_compensation": graph.parallel_compensation,
        "counting_joins": graph.counting_joins,
        "nodes": [_shown(node) for node in graph.nodes.values()],
        "flows": [_shown(flow) for flow in graph.flows.values()],
    }


def from_json(document: Mapping[str, Any]) -> Graph:
    """The graph that `to_json` made."""
    nodes = [_node(node) for node in document["nodes"]]
    flows = [Flow(**{**flow, "condition": _expression(flow.get("condition"))}) for flow in document["flows"]]
    return Graph(
        document["process"],
        {node.id: node for node in nodes},
        {flow.id: flow for flow in flows},
        document["name"],
        document["parallel_compensation"],
        document["counting_joins"],
    )


def _shown(thing: Any) -> Any:
    """A dataclass, an expression, or what is made of them."""
    if isinstance(thing, Expression):
        return {EXPRESSION: [thing.text, thing.language]}
    if isinstance(thing, str | int | float | bool | None):
        return str(thing) if isinstance(thing, Kind | EventKind) else thing
    if isinstance(thing, Table):
        return {PAIRS: [[_shown(key), _shown(value)] for key, value in thing.entries]}
    if isinstance(thing, Mapping):
        if len(thing) == 1 and not thing.keys().isdisjoint({EXPRESSION, PAIRS}):
            return {PAIRS: [[key, _shown(value)] for key, value in thing.items()]}
        return {name: _shown(value) for name, value in thing.items()}
    if isinstance(thing, Sequence):
        return [_shown(value) for value in thing]
    kept = ((field, getattr(thing, field.name)) for field in fields(thing))
    return {field.name: _shown(value) for field, value in kept if value != _default(field)}


def _default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING


def _node(document: Mapping[str, Any]) -> Node:
    parts: dict[str, Any] = dict(document)
    parts["kind"] = Kind(parts["kind"])
    if "event" in parts:
        event = parts["event"]
        texts = {name: _expression(event[name]) for name in ("name", "when") if name in event}
        parts["event"] = Event(**{**event, **texts, "kind": EventKind(event["kind"])})
    if "work" in parts:
        work = parts["work"]
        texts = {name: _expression(work[name]) for name in ("topic", "priority", "retry") if name in work}
        parts["work"] = Work(**{**work, **texts, "properties": _value(work.get("properties", {}))})
    if "script" in parts:
        script = parts["script"]
        parts["script"] = Script(_as_expression(script["expression"]), script.get("result_variable"))
    if "duty" in parts:
        parts["duty"] = Duty(**{name: _expression(value) for name, value in parts["duty"].items()})
    for name in ("inputs", "outputs"):
        if name in parts:
            parts[name] = tuple(Assignment(one["name"], _value(one["value"])) for one in parts[name])
    return Node(**parts)


def _expression(value: Any) -> Any:
    """An expression, or the constant that stands in its place."""
    return _as_expression(value) if isinstance(value, Mapping) else value


def _as_expression(value: Mapping[str, Any]) -> Expression:
    return Expression(*value[EXPRESSION])


def _value(value: Any) -> Value:
    if isinstance(value, Mapping):
        if value.keys() == {EXPRESSION}:
            return _as_expression(value)
        if value.keys() == {PAIRS}:
            pairs = [(_expression(key), _value(inner)) for key, inner in value[PAIRS]]
            return Table(tuple(pairs)) if any(isinstance(key, Expression) for key, _ in pairs) else dict(pairs)
        return {name: _value(inner) for name, inner in value.items()}
    return [_value(inner) for inner in value] if isinstance(value, list) else value
