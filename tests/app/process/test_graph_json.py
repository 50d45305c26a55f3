"""Graphs survive JSON exactly, whatever stands in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.process.graph import (
    Assignment,
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
from app.process.graph_json import from_json, to_json
from tests.app.process.running import OURS, graphs

expressions = st.builds(Expression, st.text(), st.sampled_from(["juel", "cel"]))
leaves = st.none() | st.booleans() | st.integers() | st.text() | expressions
keys = st.sampled_from(["$", "#", "a"]) | st.text()


def wider(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    pairs = st.lists(st.tuples(keys, inner), max_size=3)
    tables = st.builds(lambda key, rest: Table(((key, "x"), *rest)), expressions, pairs)
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3) | tables


values: st.SearchStrategy[Value] = st.recursive(leaves, wider, max_leaves=8)


def graph(node: Node) -> Graph:
    return Graph("p", {node.id: node}, {"f": Flow("f", node.id, node.id, Expression("${x}"))}, "A name", True, True)


@given(values, values)
def test_any_value_of_a_parameter(one: Value, other: Value) -> None:
    drawn = graph(Node("a", Kind.TASK, "p", inputs=(Assignment("i", one),), outputs=(Assignment("o", other),)))
    assert from_json(json.loads(json.dumps(to_json(drawn)))) == drawn


@given(
    st.builds(
        Work,
        st.text() | expressions,
        st.none() | st.integers() | expressions,
        st.none() | st.text() | expressions,
        st.dictionaries(keys, st.text(), max_size=3),
    )
)
def test_any_work(work: Work) -> None:
    drawn = graph(Node("a", Kind.TASK, "p", "name", work=work, commit_before=True, for_compensation=True))
    assert from_json(json.loads(json.dumps(to_json(drawn)))) == drawn


@pytest.mark.parametrize("kind", EventKind)
def test_any_event(kind: EventKind) -> None:
    event = Event(kind, Expression("${n}"), "cycle", Expression("R/${x}"), "activity", "code", "message")
    for one in (event, Event(kind), Event(kind, "name", "date", "2026-12-24")):
        node = Node("b", Kind.BOUNDARY, "p", event=one, attached_to="a", interrupting=False, handler="h")
        assert from_json(json.loads(json.dumps(to_json(graph(node))))) == graph(node)


def test_scripts_and_links() -> None:
    for script in (Script(Expression("x", "cel")), Script(Expression("${x}"), "y")):
        node = Node("s", Kind.SCRIPT, "p", script=script, default="f", link="c", commit_after=True)
        assert from_json(json.loads(json.dumps(to_json(graph(node))))) == graph(node)


@pytest.mark.parametrize("path", sorted(OURS.glob("*.bpmn")), ids=lambda path: path.stem)
def test_the_graphs_of_our_models(path: object) -> None:
    for one in graphs(path).values():  # type: ignore[arg-type]
        again = from_json(json.loads(json.dumps(to_json(one))))
        assert again == one
        assert list(again.nodes) == list(one.nodes)


def test_what_has_its_default_is_left_out() -> None:
    assert to_json(Graph("p", {"a": Node("a", Kind.PASS, "p")}, {}))["nodes"] == [
        {"id": "a", "kind": "pass", "scope": "p"}
    ]
