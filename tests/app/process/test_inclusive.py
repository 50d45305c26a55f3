"""Inclusive joins: which tokens they wait for, however those come."""

from __future__ import annotations

import itertools

import pytest

from app.process.graph import EventKind, Graph, Kind
from app.process.state import Status
from tests.app.process.drawing import Instance, boundary, draw, end, node, start, without_numbers

TASK, XOR, AND, OR = Kind.TASK, Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE


def tasks(*names: str) -> list:
    return [node(name, TASK) for name in names]


def two_by_one_flow() -> Graph:
    """a and b come by one flow, c by another."""
    nodes = [start(), node("split", AND), *tasks("a", "b", "c"), node("merge", XOR), node("join", OR), *tasks("after")]
    return draw(nodes, "start split a merge join after", "split b merge", "split c join")


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_two_tokens_by_one_flow_fire_twice_whoever_comes_first(order: tuple[str, ...]) -> None:
    run = Instance(two_by_one_flow()).start()
    for name in order:
        run.complete(name)
    assert run.work == ["after", "after"]
    assert without_numbers(run.state) == without_numbers(done_in_order().state)


def done_in_order() -> Instance:
    return Instance(two_by_one_flow()).start().complete("a").complete("b").complete("c")


def test_a_token_that_can_only_come_by_a_flow_that_has_one_is_not_waited_for() -> None:
    nodes = [start(), node("split", OR), *tasks("a", "b", "c"), node("merge", XOR), node("join", OR), *tasks("after")]
    paths = ("start split a merge join after", "split b merge", "split c join")
    run = Instance(draw(nodes, *paths, conditions={"split>c": "c"})).start(c=False)
    assert run.work == ["a", "b"]
    assert run.complete("a").work == ["after", "b"]
    assert run.complete("b").work == ["after", "after"]
    waits = Instance(draw(nodes, *paths, conditions={"split>c": "c"})).start(c=True).complete("a")
    assert waits.work == ["b", "c"]
    assert waits.complete("c").work == ["after", "b"]


def test_a_token_further_on_in_a_loop_is_waited_for() -> None:
    nodes = [start(), node("split", AND), *tasks("a", "b"), node("again", XOR, default="again>b"), node("join", OR)]
    nodes += [*tasks("after")]
    run = Instance(
        draw(nodes, "start split a again b join after", "split join", "again a", conditions={"again>a": "more"})
    ).start()
    assert run.complete("a", more=True).work == ["a"]
    assert run.complete("a", more=False).work == ["b"]
    assert run.complete("b").work == ["after"]


def test_a_token_that_would_have_to_pass_the_join_first_is_not_waited_for() -> None:
    nodes = [start(), node("split", AND), node("entry", XOR), *tasks("a", "b"), node("join", OR), *tasks("after")]
    nodes += [node("decide", XOR, default="decide>end"), end()]
    graph = draw(
        nodes,
        *("start split entry a join after decide end", "split b join", "decide entry"),
        conditions={"decide>entry": "more"},
    )
    run = Instance(graph).start().complete("a").complete("b")
    assert run.work == ["after"]
    assert run.complete("after", more=True).work == ["a"]
    assert run.complete("a").work == ["after"]
    assert run.complete("after", more=False).status is Status.COMPLETED


def test_what_can_come_over_a_boundary_event_or_a_link_is_waited_for() -> None:
    nodes = [
        start(),
        node("split", AND),
        *tasks("a", "b"),
        node("jump", Kind.LINK, link="land"),
        node("land", Kind.CATCH),
    ]
    nodes += [node("join", OR), *tasks("after"), boundary("late", "b", EventKind.TIMER, when="PT1H")]
    graph = draw(nodes, "start split a join after", "split b", "late jump", "land join")
    run = Instance(graph).start().complete("a")
    assert run.work == ["b"]
    assert run.happen("late").work == ["after"]
    assert Instance(graph).start().complete("a").complete("b").work == ["after"]


def test_a_token_at_a_commit_point_before_the_join_is_waited_for() -> None:
    from app.process.advance import advance
    from app.process.facts import Completed, Continued
    from tests.app.process.drawing import evaluate

    nodes = [start(), node("split", AND), *tasks("a", "b"), node("join", OR, commit_before=True), *tasks("after")]
    graph = draw(nodes, "start split a join after", "split b join")
    run = Instance(graph).start()
    facts = [Completed(run.token("a").id), Completed(run.token("b").id)]
    decision = advance(graph, run.state, facts, evaluate)
    assert len(decision.again) == 2
    first = advance(graph, decision.state, [Continued(decision.again[0])], evaluate)
    assert [token.node for token in first.state.tokens.values()] == ["join", "join"]
    run.state = first.state
    run.tell(Continued(decision.again[1]))
    assert run.at == ["after"]


def crossing(back: str = "False") -> Graph:
    """Two joins, each of which may send its token to the other; the second one if `back` holds."""
    nodes = [start(), node("split", AND), *tasks("a", "b"), node("one", OR), node("two", OR)]
    nodes += [node("g1", XOR, default="g1>x"), node("g2", XOR, default="g2>y"), *tasks("x", "y")]
    paths = ("start split a one g1 x", "split b two g2 y", "g1 two", "g2 one")
    return draw(nodes, *paths, conditions={"g1>two": "over", "g2>one": back})


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_joins_that_wait_for_each_other_go_on_by_the_order_of_the_document(order: str) -> None:
    run = Instance(crossing()).start(over=False)
    assert run.complete(order[0]).work == [order[1]]
    assert run.complete(order[1]).work == ["x", "y"]
    over = Instance(crossing()).start(over=True).complete(order[0]).complete(order[1])
    assert over.work == ["y"], "one sends its token to two, which has then all that can come"


def test_joins_that_send_each_other_their_token_for_ever_are_bounded() -> None:
    run = Instance(crossing(back="over")).start(over=True).complete("a").complete("b")
    assert [kind for _, kind in run.incidents] == ["loop"]


def test_joins_do_not_break_the_circle_while_somebody_else_may_come() -> None:
    nodes = [*crossing().nodes.values(), *tasks("c")]
    flows = draw(nodes, "split c one").flows
    graph = Graph("p", {one.id: one for one in nodes}, {**crossing().flows, **flows})
    run = Instance(graph).start(over=False).complete("a").complete("b")
    assert run.work == ["c"]
    assert run.complete("c").work == ["x", "y"]


def test_a_join_with_an_incident_stays_until_it_is_retried_and_others_go_on() -> None:
    nodes = [start(), node("split", AND), *tasks("a", "b", "c", "d"), node("bad", OR), node("good", OR)]
    nodes += [*tasks("x", "y")]
    graph = draw(
        nodes,
        *("start split a bad x", "split b bad", "split c good y", "split d good"),
        conditions={"bad>x": "missing"},
    )
    run = Instance(graph).start().complete("a").complete("b")
    assert run.incidents == [("bad", "expression")]
    assert run.complete("c").complete("d").work == ["y"]
    assert run.incidents == [("bad", "expression")]
    assert run.retry("bad").incidents == [("bad", "expression")] * 2
    run.complete("y", missing=True)
    assert run.retry("bad").work == ["x"]


def test_joins_of_two_runs_of_a_subprocess_are_apart() -> None:
    nodes = [start(), node("twice", AND), node("sub", Kind.SUBPROCESS), end()]
    nodes += [start("sub", "s"), node("f", AND, "sub"), node("j", OR, "sub")]
    nodes += [node(name, TASK, "sub") for name in ("a", "b", "last")]
    graph = draw(nodes, "start twice sub end", "s f a j last", "f b j")
    graph = Graph(
        "p", graph.nodes, {**graph.flows, "again": graph.flows["twice>sub"].__class__("again", "twice", "sub")}
    )
    run = Instance(graph).start()
    assert run.work == ["a", "a", "b", "b"]
    assert run.complete("a").complete("a").work == ["b", "b"]
    assert run.complete("b").work == ["b", "last"]
    assert run.complete("b").work == ["last", "last"]


def test_a_join_that_waits_for_another_one_lets_that_go_first() -> None:
    nodes = [start(), node("split", AND), *tasks("a", "b", "c"), node("late", OR), node("early", OR), *tasks("after")]
    run = Instance(draw(nodes, "start split a late after", "split b early late", "split c early")).start()
    assert run.complete("a").complete("b").complete("c").made[-1] == "after"
    assert run.work == ["after"]
    assert [action.node for action in run.actions if getattr(action, "what", "") == "left"][-2:] == ["early", "late"]
