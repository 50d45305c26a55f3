"""Undoing: what can be undone, in which order, once; and what happens when it cannot be done."""

import pytest

from app.process.graph import Event, EventKind, Graph, Kind, Node
from app.process.state import Status
from tests.app.process.drawing import Instance, boundary, draw, end, node, start

TASK, SUB = Kind.TASK, Kind.SUBPROCESS


def undoable(name: str, scope: str = "p") -> list[Node]:
    """A task and the handler that undoes it."""
    return [
        node(name, TASK, scope),
        node(f"undo_{name}", TASK, scope, for_compensation=True),
        boundary(f"on_{name}", name, EventKind.COMPENSATION, scope, handler=f"undo_{name}"),
    ]


def thrower(name: str = "throw", scope: str = "p", activity: str | None = None) -> Node:
    return node(name, Kind.THROW, scope, event=Event(EventKind.COMPENSATION, activity=activity))


def order(*, parallel: bool = False) -> Graph:
    """a, then b again and again while `more`, then c; then all is undone."""
    nodes = [start(), *undoable("a"), *undoable("b"), node("again", Kind.EXCLUSIVE, default="again>c"), *undoable("c")]
    nodes += [thrower(), node("after", TASK), end()]
    paths = ("start a b again c throw after end", "again b")
    return draw(nodes, *paths, conditions={"again>b": "more"}, parallel_compensation=parallel)


def done() -> Instance:
    run = Instance(order()).start(more=True).complete("a").complete("b").complete("b")
    return run.complete("b", more=False).complete("c")


def test_all_that_was_done_is_undone_the_newest_first_and_one_after_another() -> None:
    run = done()
    seen = []
    while run.work != ["after"]:
        (handler,) = run.work
        seen.append(handler)
        run.complete(handler)
    assert seen == ["undo_c", "undo_b", "undo_b", "undo_b", "undo_a"]
    assert run.complete("after").status is Status.COMPLETED


def test_a_model_may_ask_for_all_handlers_at_once() -> None:
    run = Instance(order(parallel=True)).start(more=False).complete("a").complete("b").complete("c")
    assert run.made[3:] == ["undo_c", "undo_b", "undo_a"]
    for name in ("undo_b", "undo_a"):
        assert run.complete(name).at.count("throw") == 1
    assert run.complete("undo_c").work == ["after"]


def test_what_was_not_done_is_not_undone_and_what_was_undone_is_not_undone_again() -> None:
    nodes = [start(), *undoable("a"), thrower("first"), thrower("second"), *undoable("b"), end()]
    run = Instance(draw(nodes, "start a first second b end")).start().complete("a")
    assert run.work == ["undo_a"]
    assert run.complete("undo_a").work == ["b"]
    assert run.made == ["a", "undo_a", "b"]


def test_a_throw_about_one_activity_undoes_that_one() -> None:
    nodes = [start(), *undoable("a"), *undoable("b"), thrower(activity="a"), node("after", TASK), end()]
    run = Instance(draw(nodes, "start a b throw after end")).start().complete("a").complete("b")
    assert run.work == ["undo_a"]
    assert run.complete("undo_a").work == ["after"]


def nested(*more: Node) -> Instance:
    nodes = [start(), *undoable("first"), node("sub", SUB), thrower(), node("after", TASK), end(), *more]
    nodes += [start("sub", "s"), *undoable("x", "sub"), *undoable("y", "sub")]
    run = Instance(draw(nodes, "start first sub throw after end", "s x y")).start().complete("first")
    return run.complete("x").complete("y")


def test_undoing_a_subprocess_undoes_what_is_inside_with_its_variables_as_they_were() -> None:
    run = nested()
    for handler in ("undo_y", "undo_x", "undo_first"):
        assert run.work == [handler]
        run.complete(handler)
    assert run.work == ["after"]


def test_a_handler_on_a_subprocess_stands_for_all_that_is_inside() -> None:
    handler = node("undo_sub", TASK, for_compensation=True)
    run = nested(handler, boundary("on_sub", "sub", EventKind.COMPENSATION, handler="undo_sub"))
    assert run.work == ["undo_sub"]
    assert run.complete("undo_sub").work == ["undo_first"]


def test_a_subprocess_that_was_interrupted_leaves_nothing_to_undo() -> None:
    nodes = [start(), node("sub", SUB), thrower(), node("after", TASK), end()]
    nodes += [
        boundary("t", "sub", EventKind.TIMER, when="PT1H"),
        start("sub", "s"),
        *undoable("x", "sub"),
        node("y", TASK, "sub"),
    ]
    run = Instance(draw(nodes, "start sub after end", "t throw after", "s x y")).start().complete("x").happen("t")
    assert run.work == ["after"]


def failing() -> Graph:
    nodes = [
        start(),
        node("fork", Kind.PARALLEL),
        *undoable("a"),
        *undoable("b"),
        node("join", Kind.PARALLEL),
        node("c", TASK),
        end(),
    ]
    return draw(nodes, "start fork a join c end", "fork b join")


def test_a_task_that_fails_for_good_undoes_the_instance() -> None:
    run = Instance(failing()).start().complete("a").complete("b").fail("c")
    assert (run.status, run.work) == (Status.COMPENSATING, ["undo_b"])
    assert run.complete("undo_b").work == ["undo_a"]
    run.complete("undo_a")
    assert (run.status, run.at, run.state.runs) == (Status.FAILED_COMPENSATED, [], {})


def test_a_failure_while_others_work_takes_their_tasks_back() -> None:
    run = Instance(failing()).start().complete("a").fail("b")
    assert run.work == ["undo_a"]
    assert run.complete("undo_a").status is Status.FAILED_COMPENSATED


def test_a_handler_that_fails_stops_the_chain_until_it_is_tried_again() -> None:
    run = Instance(failing()).start().complete("a").complete("b").fail("c").fail("undo_b")
    assert (run.incidents[-1], run.at, run.status) == (("undo_b", "failed"), ["undo_b"], Status.COMPENSATING)
    run.retry("undo_b")
    assert run.work == ["undo_b"]
    assert run.complete("undo_b").complete("undo_a").status is Status.FAILED_COMPENSATED
    assert run.made.count("undo_a") == 1


def test_an_error_thrown_while_undoing_is_an_incident() -> None:
    run = Instance(failing()).start().complete("a").complete("b").fail("c").throw("undo_b", "X")
    assert run.incidents[-1] == ("undo_b", "model")
    assert run.at == ["undo_b"]


@pytest.mark.parametrize("again", [True, False])
def test_canceling_can_undo_and_a_second_rollback_never_begins(again: bool) -> None:
    run = Instance(failing()).start().complete("a").complete("b").stop(compensate=True)
    assert run.work == ["undo_b"]
    if again:
        run.stop(compensate=True).stop()
    assert run.complete("undo_b").complete("undo_a").status is Status.CANCELED
    assert run.made.count("undo_b") == 1


def test_a_failure_while_a_throw_is_undoing_goes_on_with_what_is_left() -> None:
    nodes = [start(), node("fork", Kind.PARALLEL), *undoable("a"), *undoable("b"), thrower(), node("c", TASK), end()]
    run = Instance(draw(nodes, "start fork a b throw end", "fork c end")).start().complete("a").complete("b")
    run.complete("undo_b")
    assert run.work == ["c", "undo_a"]
    run.fail("c")
    assert run.work == ["undo_a"]
    assert run.complete("undo_a").status is Status.FAILED_COMPENSATED


def test_two_throws_of_one_scope_undo_each_thing_once() -> None:
    nodes = [start(), *undoable("a"), *undoable("b"), node("fork", Kind.PARALLEL), thrower("one"), thrower("two")]
    nodes += [node("x", TASK), node("y", TASK)]
    run = Instance(draw(nodes, "start a b fork one x", "fork two y")).start().complete("a").complete("b")
    assert run.work == ["undo_b", "y"]
    run.complete("undo_b").complete("undo_a")
    assert run.work == ["x", "y"]
    assert run.made.count("undo_a") == run.made.count("undo_b") == 1


def test_a_handler_that_runs_when_a_task_fails_is_not_started_again() -> None:
    nodes = [start(), node("fork", Kind.PARALLEL), *undoable("a"), *undoable("b"), thrower(), node("c", TASK)]
    run = Instance(draw(nodes, "start fork a b throw", "fork c")).start().complete("a").complete("b")
    assert run.work == ["c", "undo_b"]
    handler = run.token("undo_b")
    run.fail("c")
    assert (run.status, run.work, run.token("undo_b").id) == (Status.COMPENSATING, ["undo_b"], handler.id)
    assert run.complete("undo_b").work == ["undo_a"]
    assert run.complete("undo_a").status is Status.FAILED_COMPENSATED
    assert (run.made.count("undo_b"), run.made.count("undo_a")) == (1, 1)


def with_large_handler(*inner: Node, path: str, parallel: bool = False) -> Instance:
    """`a` is undone by a subprocess with these nodes in it; beside it stands a task `c`."""
    nodes = [start(), node("fork", Kind.PARALLEL), node("a", TASK), thrower(), node("c", TASK), node("after", TASK)]
    nodes += [node("undo", SUB, for_compensation=True), boundary("on_a", "a", EventKind.COMPENSATION, handler="undo")]
    graph = draw([*nodes, start("undo", "s"), *inner], "start fork a throw after", "fork c", path)
    return Instance(graph).start().complete("a")


def test_a_handler_may_be_a_subprocess_and_what_it_has_done_is_not_undone() -> None:
    run = with_large_handler(*undoable("x", "undo"), node("y", TASK, "undo"), path="s x y")
    assert run.work == ["c", "x"]
    run.complete("x").complete("y")
    assert (run.work, len(run.state.scopes)) == (["after", "c"], 1)
    assert run.fail("c").incidents == [("c", "failed")]
    assert "undo_x" not in run.made


def test_a_failure_inside_a_handler_is_an_incident_of_it_alone() -> None:
    run = with_large_handler(*undoable("x", "undo"), node("y", TASK, "undo"), path="s x y").complete("x")
    run.fail("y")
    assert (run.status, run.incidents, run.work) == (Status.ACTIVE, [("y", "failed")], ["c"])
    assert run.retry("y").made == ["a", "c", "x", "y", "y"]


def test_a_failure_elsewhere_lets_a_large_handler_come_to_its_end() -> None:
    run = with_large_handler(*undoable("x", "undo"), node("y", TASK, "undo"), path="s x y").complete("x")
    run.fail("c")
    assert (run.status, run.work) == (Status.COMPENSATING, ["y"])
    run.complete("y")
    assert (run.status, run.state.tokens) == (Status.FAILED_COMPENSATED, {})
    assert "undo_x" not in run.made


def test_a_throw_inside_a_handler_undoes_what_that_handler_has_done() -> None:
    inner = [*undoable("x", "undo"), thrower("inner", "undo"), node("y", TASK, "undo")]
    run = with_large_handler(*inner, path="s x inner y").complete("x")
    assert run.work == ["c", "undo_x"]
    run.fail("c")
    assert run.work == ["undo_x"]
    assert run.complete("undo_x").work == ["y"]
    assert run.complete("y").status is Status.FAILED_COMPENSATED


def test_an_error_inside_a_handler_is_an_incident_and_a_retry_throws_again() -> None:
    thrown = end("undo", "e", event=Event(EventKind.ERROR, name="X"))
    run = with_large_handler(node("x", TASK, "undo"), thrown, path="s x e").complete("x")
    assert (run.incidents, run.at) == ([("e", "model")], ["c", "e", "throw"])
    assert run.retry("e").incidents == [("e", "model")] * 2


def test_a_running_throw_is_interrupted_with_its_handlers() -> None:
    nodes = [start(), node("sub", SUB), node("late", TASK), end()]
    nodes += [boundary("t", "sub", EventKind.TIMER, when="PT1H"), start("sub", "s"), *undoable("x", "sub")]
    nodes += [thrower("undo_it", "sub")]
    run = Instance(draw(nodes, "start sub end", "s x undo_it", "t late")).start().complete("x")
    assert run.work == ["undo_x"]
    run.happen("t")
    assert (run.work, run.state.runs, run.state.subscriptions, len(run.state.scopes)) == (["late"], {}, {}, 1)


def test_a_failure_in_a_subprocess_undoes_what_was_done_in_it_and_around_it() -> None:
    nodes = [start(), *undoable("a"), node("sub", SUB), end(), start("sub", "s"), *undoable("x", "sub")]
    nodes += [node("y", TASK, "sub")]
    run = Instance(draw(nodes, "start a sub end", "s x y")).start(v=1).complete("a").complete("x").fail("y")
    assert run.work == ["undo_x"]
    assert run.complete("undo_x").work == ["undo_a"]
    assert run.complete("undo_a").status is Status.FAILED_COMPENSATED


def test_handlers_see_the_variables_of_their_subprocess_as_they_were() -> None:
    from app.process.graph import Assignment

    nodes = [start(), node("sub", SUB, inputs=(Assignment("v", "inner"),)), node("z", TASK), thrower(), end()]
    nodes += [start("sub", "s"), *undoable("x", "sub")]
    run = Instance(draw(nodes, "start sub z throw end", "s x")).start(v="outer").complete("x", v="done")
    run.complete("z", v="changed")
    assert run.actions[-1].variables["v"] == "done"  # type: ignore[union-attr]
    run.complete("undo_x", v="undone")
    assert run.status is Status.COMPLETED


def test_undoing_one_after_another_may_be_done_without_waiting() -> None:
    nodes = [start(), thrower(), node("after", TASK)]
    path = "start"
    for number in range(300):
        name = f"n{number}"
        nodes += [node(name, Kind.PASS), node(f"u{name}", Kind.PASS, for_compensation=True)]
        nodes += [boundary(f"o{name}", name, EventKind.COMPENSATION, handler=f"u{name}")]
        path += f" {name}"
    run = Instance(draw(nodes, f"{path} throw after")).start()
    assert run.work == ["after"]
    undone = [action.node for action in run.actions if getattr(action, "what", "") == "undone"]
    assert undone == [f"un{number}" for number in reversed(range(300))]


def test_stopping_without_undoing_takes_running_handlers_away_too() -> None:
    nodes = [start(), *undoable("a"), thrower(), end()]
    run = Instance(draw(nodes, "start a throw end")).start().complete("a").stop()
    assert (run.status, run.state.tokens, run.work, run.state.runs) == (Status.CANCELED, {}, [], {})


def test_what_was_undone_inside_a_subprocess_is_not_undone_again_from_outside() -> None:
    nodes = [start(), node("sub", SUB), thrower(), node("after", TASK), start("sub", "s")]
    nodes += [*undoable("x", "sub"), thrower("inner", "sub"), *undoable("y", "sub")]
    run = Instance(draw(nodes, "start sub throw after", "s x inner y")).start().complete("x").complete("undo_x")
    run.complete("y")
    assert run.work == ["undo_y"]
    assert run.complete("undo_y").work == ["after"]
    assert run.made.count("undo_x") == 1


def test_what_was_undone_inside_a_subprocess_is_forgotten_with_it() -> None:
    """Else what it has left behind would stand in the way of the undoing of all the rest."""
    nodes = [start(), *undoable("a"), node("outer", SUB), node("last", TASK), start("outer", "s")]
    nodes += [node("inner", SUB, "outer"), thrower("throw", "outer"), start("inner", "t"), *undoable("x", "inner")]
    run = Instance(draw(nodes, "start a outer last", "s inner throw", "t x")).start().complete("a").complete("x")
    run.complete("undo_x")
    assert run.work == ["last"]
    assert len(run.state.scopes) == 1
    assert run.fail("last").work == ["undo_a"]
    assert run.complete("undo_a").status is Status.FAILED_COMPENSATED
