"""What holds for every model: made of blocks at random, with tasks completed in any order."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from app.process.advance import advance
from app.process.facts import Completed, Fact
from app.process.graph import EventKind, Flow, Graph, Kind, Node
from app.process.state import Phase, State, Status
from tests.app.process.drawing import PROCESS, Instance, boundary, end, evaluate, node, start, without_numbers

Block = tuple[str, list["Block"]]

blocks = st.recursive(
    st.just(("task", [])) | st.just(("pass", [])) | st.just(("undoable", [])),
    lambda inner: st.tuples(
        st.sampled_from(["sequence", "parallel", "inclusive", "subprocess"]), st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=9,
)


@dataclass
class Builder:
    """Draws a block between two nodes; names are numbers, so that equal blocks differ."""

    nodes: list[Node] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    numbers: itertools.count = field(default_factory=itertools.count)

    def add(self, kind: Kind, scope: str, **more: object) -> str:
        name = f"{kind}{next(self.numbers)}"
        self.nodes.append(node(name, kind, scope, **more))
        return name

    def join(self, source: str, target: str) -> None:
        self.flows.append(Flow(f"f{len(self.flows)}", source, target))

    def draw(self, block: Block, entry: str, scope: str) -> str:
        """Draw a block behind `entry`; the name of the node that it ends with."""
        kind, inner = block
        if kind == "sequence":
            for one in inner:
                entry = self.draw(one, entry, scope)
            return entry
        if kind in ("parallel", "inclusive"):
            gateway = Kind.PARALLEL if kind == "parallel" else Kind.INCLUSIVE
            fork, join = self.add(gateway, scope), self.add(gateway, scope)
            self.join(entry, fork)
            for one in inner:
                self.join(self.draw(one, fork, scope), join)
            return join
        if kind == "subprocess":
            name = self.add(Kind.SUBPROCESS, scope)
            self.join(entry, name)
            at = self.add(Kind.START, name)
            for one in inner:
                at = self.draw(one, at, name)
            return name
        name = self.add(Kind.PASS if kind == "pass" else Kind.TASK, scope)
        self.join(entry, name)
        if kind == "undoable":
            handler = self.add(Kind.TASK, scope, for_compensation=True)
            self.nodes.append(boundary(f"on_{name}", name, EventKind.COMPENSATION, scope, handler=handler))
        return name


def model(block: Block) -> Graph:
    builder = Builder([start(), end()])
    builder.join(builder.draw(block, "start", PROCESS), "end")
    return Graph(PROCESS, {one.id: one for one in builder.nodes}, {flow.id: flow for flow in builder.flows})


def check(state: State) -> None:
    """No token is lost or doubled: scopes count what is in them, hosts have scopes, waits and handlers have owners."""
    counts = Counter(token.scope for token in state.tokens.values())
    assert all(scope.alive == counts[scope.id] for scope in state.scopes.values())
    assert counts.keys() <= state.scopes.keys()
    assert all(wait.token in state.tokens for wait in state.waits.values())
    for scope in state.scopes.values():
        if scope.parent is not None and not scope.ended:
            assert scope.host in state.tokens
            assert scope.alive > 0
    for token in state.tokens.values():
        assert token.phase in (Phase.STANDING, Phase.JOINING), "nothing is left half-way"


def finish(run: Instance, choose: random.Random) -> Instance:
    while run.status is Status.ACTIVE:
        check(run.state)
        run.complete(choose.choice(run.work))
    return run


@settings(max_examples=150, deadline=None)
@given(blocks, st.integers(0, 3))
def test_every_order_of_completions_does_every_task_once_and_ends(block: Block, seed: int) -> None:
    graph = model(block)
    handlers = {one.id for one in graph.nodes.values() if one.for_compensation}
    tasks = Counter(one.id for one in graph.nodes.values() if one.kind is Kind.TASK and one.id not in handlers)
    run = finish(Instance(graph).start(), random.Random(seed))
    assert Counter(run.made) == tasks
    assert (run.status, run.state.tokens, run.incidents) == (Status.COMPLETED, {}, [])


@settings(max_examples=150, deadline=None)
@given(blocks, st.integers(0, 3), st.data())
def test_the_same_completions_in_another_order_come_to_the_same_state(
    block: Block, seed: int, data: st.DataObject
) -> None:
    graph = model(block)
    first = Instance(graph).start()
    wanted = first.work
    order, other = data.draw(st.permutations(wanted)), data.draw(st.permutations(wanted))
    second = Instance(graph).start()
    for a, b in zip(order, other, strict=True):
        first.complete(a)
        second.complete(b)
    assert without_numbers(first.state) == without_numbers(second.state)
    assert Counter(first.work) == Counter(second.work)


@settings(max_examples=100, deadline=None)
@given(blocks, st.integers(0, 3))
def test_advancing_twice_is_advancing_once(block: Block, seed: int) -> None:
    run, choose = Instance(model(block)).start(), random.Random(seed)
    while run.status is Status.ACTIVE:
        fact: Fact = Completed(run.token(choose.choice(run.work)).id)
        run.tell(fact)
        again = advance(run.graph, run.state, [fact], evaluate)
        assert (again.state, again.actions) == (run.state, ())


@settings(max_examples=150, deadline=None)
@given(blocks, st.integers(0, 3), st.integers(0, 8))
def test_what_was_done_is_undone_newest_first_whenever_the_instance_fails(block: Block, seed: int, steps: int) -> None:
    run, choose = Instance(model(block)).start(), random.Random(seed)
    done: list[str] = []
    while run.status is Status.ACTIVE and len(done) < steps:
        name = choose.choice(run.work)
        run.complete(name)
        done.append(name)
    if run.status is not Status.ACTIVE:
        return
    expected = [handler for name in reversed(done) if (handler := run.graph.compensation_of(name))]
    run.fail(choose.choice(run.work))
    undone: list[str] = []
    while run.status is Status.COMPENSATING:
        check_counts(run.state)
        (handler,) = run.work
        undone.append(handler)
        run.complete(handler)
    assert undone == expected
    assert run.status is (Status.FAILED_COMPENSATED if expected else Status.ACTIVE)


def check_counts(state: State) -> None:
    counts = Counter(token.scope for token in state.tokens.values())
    assert all(scope.alive == counts[scope.id] for scope in state.scopes.values())
