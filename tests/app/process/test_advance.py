"""What each element does with tokens, in models of a few nodes."""

import pytest

from app.process.facts import Changed
from app.process.graph import Assignment, Event, EventKind, Expression, Kind, Script
from app.process.state import Status
from tests.app.process.drawing import Instance, boundary, draw, end, node, start

TASK, USER, RECEIVE = Kind.TASK, Kind.USER, Kind.RECEIVE
XOR, AND, OR, SUB = Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE, Kind.SUBPROCESS


def tasks(*names: str, scope: str = "p") -> list:
    return [node(name, TASK, scope) for name in names]


def test_an_instance_goes_from_task_to_task_and_ends() -> None:
    run = Instance(draw([start(), *tasks("a", "b"), end()], "start a b end")).start(x=1)
    assert run.work == ["a"]
    assert run.complete("a", y=2).work == ["b"]
    assert run.complete("b").status is Status.COMPLETED
    assert (run.state.tokens, run.state.waits) == ({}, {})


def test_a_completion_merges_only_the_names_it_sends() -> None:
    run = Instance(draw([start(), *tasks("a", "b"), end()], "start a b end")).start(x=1, y=1)
    assert run.complete("a", y=2).variables == {"x": 1, "y": 2}


def test_variables_are_changed_where_they_are_and_nothing_moves() -> None:
    graph = draw([start(), node("a", TASK, inputs=(Assignment("mine", 1),)), end()], "start a end")
    run = Instance(graph).start(x=1)
    token = run.token("a")
    run.tell(Changed(token.id, {"x": 2, "mine": 3, "new": 4}, {"local": 5}), Changed(token.id + 100, {"x": 6}))
    assert (run.work, run.variables) == (["a"], {"x": 2, "new": 4})
    assert run.token("a").variables == {"mine": 3, "local": 5}


def test_the_first_condition_that_holds_decides_else_the_default_flow() -> None:
    graph = draw(
        [start(), node("g", XOR, default="g>c"), *tasks("a", "b", "c"), end()],
        *("start g a end", "g b end", "g c end"),
        conditions={"g>a": "x > 1", "g>b": "x > 0"},
    )
    assert [Instance(graph).start(x=x).work for x in (2, 1, 0)] == [["a"], ["b"], ["c"]]


def test_no_way_out_is_an_incident_and_goes_on_when_it_is_retried_with_other_variables() -> None:
    graph = draw([start(), *tasks("a"), node("g", XOR), end()], "start a g end", conditions={"g>end": "x > 1"})
    run = Instance(graph).start(x=0).complete("a")
    assert (run.incidents, run.at) == ([("g", "model")], ["g"])
    assert run.retry("g").status is Status.ACTIVE
    holder = run.state.scopes[1]
    run.state.scopes[1] = type(holder)(**{**{f: getattr(holder, f) for f in holder.__slots__}, "variables": {"x": 2}})
    assert run.retry("g").status is Status.COMPLETED


def test_a_missing_variable_is_an_incident_of_the_element() -> None:
    graph = draw(
        [start(), node("g", XOR, default="g>end"), *tasks("a"), end()],
        "start g a end",
        "g end",
        conditions={"g>a": "missing > 1"},
    )
    assert Instance(graph).start().incidents == [("g", "expression")]


def test_a_join_waits_for_one_token_of_each_flow() -> None:
    graph = draw(
        [start(), node("fork", AND), *tasks("a", "b", "c"), node("join", AND), end()],
        *("start fork a join c end", "fork b join"),
    )
    run = Instance(graph).start()
    assert run.work == ["a", "b"]
    assert run.complete("a").work == ["b"]
    assert run.complete("b").work == ["c"]
    assert run.complete("c").status is Status.COMPLETED


def two_by_one_flow(**more: bool) -> Instance:
    nodes = [
        start(),
        node("fork", AND),
        *tasks("a", "b", "c"),
        node("merge", XOR),
        node("join", AND),
        *tasks("d"),
        end(),
    ]
    return Instance(draw(nodes, *("start fork a merge join d end", "fork b merge", "fork c join"), **more)).start()


def test_two_tokens_by_one_flow_do_not_fire_a_join_unless_the_model_counts_them() -> None:
    run = two_by_one_flow().complete("a").complete("b")
    assert run.work == ["c"]
    run.complete("c")
    assert run.work == ["d"]
    assert run.complete("d").at == ["join"]  # the second token of the one flow waits on
    assert two_by_one_flow(counting_joins=True).complete("a").complete("b").work == ["c", "d"]


def inclusive() -> Instance:
    nodes = [
        start(),
        node("split", OR, default="split>c"),
        *tasks("a", "b", "c"),
        node("join", OR),
        *tasks("after"),
        end(),
    ]
    paths = ("start split a join after end", "split b join", "split c join")
    return Instance(draw(nodes, *paths, conditions={"split>a": "a", "split>b": "b"}))


def test_an_inclusive_join_waits_for_all_that_can_still_come() -> None:
    run = inclusive().start(a=True, b=True)
    assert run.work == ["a", "b"]
    assert run.complete("a").work == ["b"]
    assert run.complete("b").work == ["after"]
    assert run.complete("after").status is Status.COMPLETED
    only_default = inclusive().start(a=False, b=False)
    assert only_default.work == ["c"]
    assert only_default.complete("c").work == ["after"]


def test_an_inclusive_join_goes_on_when_the_last_that_could_come_takes_another_way() -> None:
    nodes = [start(), node("split", OR), *tasks("a", "b"), node("join", OR), *tasks("after", "mend"), end()]
    nodes.append(boundary("caught", "b", EventKind.ERROR, name="B"))
    graph = draw(nodes, *("start split a join after end", "split b join", "caught mend end"))
    run = Instance(graph).start().complete("a")
    assert run.work == ["b"]
    assert run.throw("b", "B").work == ["after", "mend"]
    other_order = Instance(graph).start().throw("b", "B")
    assert other_order.work == ["a", "mend"]
    assert other_order.complete("a").work == ["after", "mend"]


def test_several_ways_out_of_an_activity_are_all_taken() -> None:
    run = Instance(draw([start(), *tasks("a", "b", "c"), end()], "start a b end", "a c end")).start().complete("a")
    assert run.work == ["b", "c"]
    assert run.complete("b").status is Status.ACTIVE
    assert run.complete("c").status is Status.COMPLETED


def test_a_subprocess_ends_with_its_last_path_and_its_variables_go() -> None:
    inputs = (Assignment("inner", Expression("outer + 1")),)
    nodes = [start(), node("sub", SUB, inputs=inputs), *tasks("after"), end()]
    nodes += [start("sub", "s"), node("f", AND, "sub"), *tasks("a", "b", scope="sub")]
    run = Instance(draw(nodes, "start sub after end", "s f a", "f b")).start(outer=1)
    assert run.work == ["a", "b"]
    assert run.complete("a", inner=5, new=1).work == ["b"]
    assert run.complete("b").work == ["after"]
    assert run.variables == {"outer": 1, "new": 1}


def test_an_interrupting_boundary_event_takes_the_token_of_the_whole_activity() -> None:
    nodes = [start(), node("sub", SUB), end(), *tasks("late"), boundary("timer", "sub", EventKind.TIMER, when="PT2H")]
    nodes += [start("sub", "s"), node("f", AND, "sub"), *tasks("a", "b", scope="sub")]
    run = Instance(draw(nodes, "start sub end", "s f a", "f b", "timer late end")).start()
    assert [(w.node, w.when) for w in run.state.waits.values()] == [("timer", "PT2H")]
    assert run.happen("timer").work == ["late"]
    assert (run.state.waits, len(run.state.scopes)) == ({}, 1)
    assert run.complete("late").status is Status.COMPLETED


def test_a_boundary_event_that_does_not_interrupt_may_happen_again_until_its_activity_is_done() -> None:
    nodes = [
        start(),
        *tasks("a", "more"),
        end(),
        boundary("m", "a", EventKind.MESSAGE, name="ping", interrupting=False),
    ]
    run = Instance(draw(nodes, "start a end", "m more end")).start().happen("m", said=1).happen("m", said=2)
    assert (run.work, run.variables) == (["a", "more", "more"], {"said": 2})
    assert run.complete("a").state.waits == {}
    assert run.complete("more").complete("more").status is Status.COMPLETED


def test_an_error_is_caught_by_its_code_before_the_one_that_catches_any_and_by_inner_scopes_first() -> None:
    nodes = [start(), node("sub", SUB), end(), *tasks("exact", "any", "outer")]
    nodes += [start("sub", "s"), *tasks("a", scope="sub"), *tasks("caught_exact", "caught_any", scope="sub")]
    nodes += [boundary("on_any", "a", EventKind.ERROR, "sub"), boundary("on_x", "a", EventKind.ERROR, "sub", name="X")]
    nodes += [boundary("on_outer", "sub", EventKind.ERROR, name="Y")]
    graph = draw(nodes, "start sub end", "s a", "on_any caught_any", "on_x caught_exact", "on_outer outer end")
    assert Instance(graph).start().throw("a", "X").work == ["caught_exact"]
    assert Instance(graph).start().throw("a", "Y").work == ["caught_any"]
    without = draw([n for n in nodes if n.id not in ("on_any", "on_x")], "start sub end", "s a", "on_outer outer end")
    run = Instance(without).start().throw("a", "Y", told=1)
    assert (run.work, run.variables) == (["outer"], {"told": 1})


def test_an_error_that_nobody_catches_ends_its_path_quietly() -> None:
    graph = draw([start(), node("f", AND), *tasks("a", "b"), end()], "start f a end", "f b end")
    run = Instance(graph).start().throw("a", "X")
    assert (run.work, run.incidents) == (["b"], [])
    assert run.complete("b").status is Status.COMPLETED


def test_an_error_end_event_interrupts_the_subprocess_that_catches_it() -> None:
    wrong = end("sub", "wrong", event=Event(EventKind.ERROR, name="X"))
    nodes = [start(), node("sub", SUB), end(), *tasks("mend"), boundary("caught", "sub", EventKind.ERROR, name="X")]
    nodes += [start("sub", "s"), node("f", AND, "sub"), *tasks("a", "b", scope="sub"), wrong]
    run = Instance(draw(nodes, "start sub end", "s f a wrong", "f b", "caught mend end")).start().complete("a")
    assert run.work == ["mend"]


def test_a_terminate_end_event_ends_its_own_scope_only() -> None:
    stop = end("sub", "stop", event=Event(EventKind.TERMINATE))
    nodes = [start(), node("sub", SUB), *tasks("after"), end()]
    nodes += [start("sub", "s"), node("f", AND, "sub"), *tasks("a", "b", scope="sub"), stop]
    run = Instance(draw(nodes, "start sub after end", "s f a stop", "f b")).start().complete("a")
    assert run.work == ["after"]


def test_the_first_event_behind_a_gateway_decides() -> None:
    def catch(name: str, kind: EventKind) -> object:
        return node(name, Kind.CATCH, event=Event(kind, name=name, when="PT1H" if kind is EventKind.TIMER else None))

    events = [catch("s", EventKind.SIGNAL), catch("m", EventKind.MESSAGE), catch("t", EventKind.TIMER)]
    nodes = [start(), node("g", Kind.EVENT_GATEWAY), *events, *tasks("a", "b", "c"), end()]
    run = Instance(draw(nodes, "start g s a end", "g m b end", "g t c end")).start()  # type: ignore[arg-type]
    assert sorted(wait.node for wait in run.state.waits.values()) == ["m", "s", "t"]
    assert (run.happen("m").work, run.state.waits) == (["b"], {})


def test_links_scripts_and_passing_tasks_do_not_wait() -> None:
    nodes = [
        start(),
        node("manual", Kind.PASS),
        node("script", Kind.SCRIPT, script=Script(Expression("x * 2"), "y")),
        node("throw", Kind.LINK, link="catch"),
        node("catch", Kind.CATCH, event=Event(EventKind.NONE)),
        *tasks("a"),
        end(),
    ]
    run = Instance(draw(nodes, "start manual script throw", "catch a end")).start(x=4)
    assert (run.work, run.variables) == (["a"], {"x": 4, "y": 8})


def test_input_parameters_are_local_and_outputs_go_to_the_scope_around() -> None:
    work = node(
        "a",
        TASK,
        inputs=(Assignment("size", Expression("len * 2")),),
        outputs=(Assignment("got", Expression("answer + size")),),
    )
    run = Instance(draw([start(), work, *tasks("b"), end()], "start a b end")).start(len=2)
    assert run.actions[-1].variables == {"len": 2, "size": 4}  # type: ignore[union-attr]
    run.complete("a", answer=3)
    assert run.variables == {"len": 2, "answer": 3, "got": 7}


def test_a_commit_point_is_a_stop_of_its_own() -> None:
    from app.process.advance import advance
    from app.process.facts import Started
    from tests.app.process.drawing import evaluate

    graph = draw([start(), node("a", TASK, commit_before=True, commit_after=True), end()], "start a end")
    run = Instance(graph)
    decision = advance(graph, run.state, [Started()], evaluate)
    assert (len(decision.again), decision.actions[-1].what) == (1, "left")  # type: ignore[union-attr]
    run.start()
    assert run.work == ["a"]
    assert run.complete("a").status is Status.COMPLETED


def test_a_loop_that_never_waits_is_an_incident_after_a_bounded_number_of_steps() -> None:
    run = Instance(draw([start(), node("g", XOR), node("m", Kind.PASS)], "start g m g")).start()
    assert [kind for _, kind in run.incidents] == ["loop"]
    assert len(run.actions) < 30_000


def test_a_task_that_fails_for_good_is_an_incident_when_nothing_can_be_undone() -> None:
    run = Instance(draw([start(), *tasks("a"), end()], "start a end")).start().fail("a")
    assert (run.incidents, run.at) == ([("a", "failed")], ["a"])
    assert run.retry("a").made == ["a", "a"]
    assert run.complete("a").status is Status.COMPLETED


def test_canceling_takes_everything_away() -> None:
    nodes = [start(), node("sub", SUB), end(), boundary("t", "sub", EventKind.TIMER, when="PT1H")]
    nodes += [start("sub", "s"), *tasks("a", scope="sub")]
    run = Instance(draw(nodes, "start sub end", "s a")).start().stop()
    assert (run.status, run.state.tokens, run.state.waits, run.work) == (Status.CANCELED, {}, {}, [])


@pytest.mark.parametrize("times", [1, 2])
def test_facts_about_what_is_gone_change_nothing(times: int) -> None:
    from app.process.facts import Completed, Happened, Thrown

    run = Instance(draw([start(), *tasks("a", "b"), end()], "start a b end")).start()
    token = run.token("a").id
    run.complete("a")
    before = run.state
    for _ in range(times):
        run.tell(Happened(99), Thrown(token, "X"), Completed(token))
    assert run.state == before
    assert run.work == ["b"]


def test_flows_are_taken_in_the_order_of_the_document() -> None:
    run = Instance(draw([start(), node("f", AND), *tasks("a", "b", "c")], "start f a", "f b", "f c")).start()
    assert run.made == ["a", "b", "c"]


def test_what_was_done_is_not_done_again_when_only_the_way_out_fails() -> None:
    signal = node("tell", Kind.THROW, event=Event(EventKind.SIGNAL, name="s"))
    script = node("count", Kind.SCRIPT, script=Script(Expression("n + 1"), "n"))
    nodes = [start(), script, signal, *tasks("a")]
    graph = draw(nodes, "start count tell a", conditions={"tell>a": "ready", "count>tell": "sure"})
    run = Instance(graph).start(n=1)
    assert run.incidents == [("count", "expression")]
    assert run.retry("count").variables["n"] == 2


def test_a_signal_is_thrown_once_when_the_way_out_fails() -> None:
    from app.process.decision import ThrowSignal

    signal = node("tell", Kind.THROW, event=Event(EventKind.SIGNAL, name="s"))
    run = Instance(draw([start(), signal, *tasks("a")], "start tell a", conditions={"tell>a": "ready"})).start()
    run.retry("tell").retry("tell")
    assert sum(isinstance(action, ThrowSignal) for action in run.actions) == 1


def test_the_work_of_an_event_is_dropped_with_its_scope() -> None:
    from app.process.decision import DropTask
    from app.process.graph import Work

    sender = end("sub", "send", event=Event(EventKind.MESSAGE), work=Work("send"))
    nodes = [start(), node("sub", SUB), boundary("t", "sub", EventKind.TIMER, when="PT1H"), start("sub", "s"), sender]
    run = Instance(draw(nodes, "start sub", "s send")).start()
    token = run.token("send").id
    assert DropTask(token) in run.happen("t").actions
    assert run.status is Status.COMPLETED


def test_an_error_end_event_that_nobody_catches_among_others_throws_again_when_retried() -> None:
    nodes = [start(), node("sub", SUB), *tasks("x"), boundary("c", "sub", EventKind.ERROR, name="OTHER")]
    nodes += [start("sub", "s"), end("sub", "e", event=Event(EventKind.ERROR, name="E"))]
    run = Instance(draw(nodes, "start sub", "s e", "c x")).start()
    assert (run.incidents, run.at) == ([("e", "model")], ["e"])
    assert run.retry("e").incidents == [("e", "model")] * 2


def test_events_have_parameters() -> None:
    caught = node(
        "c",
        Kind.CATCH,
        event=Event(EventKind.MESSAGE, name=Expression("key")),
        inputs=(Assignment("key", Expression("'k' + n")),),
        outputs=(Assignment("got", Expression("key + said")),),
    )
    run = Instance(draw([start(), caught, end()], "start c end")).start(n="1")
    assert [wait.name for wait in run.state.waits.values()] == ["k1"]
    run.happen("c", said="!")
    assert run.variables == {"n": "1", "said": "!", "got": "k1!"}


def test_a_part_of_a_state_asks_for_the_rest_before_it_looks_around() -> None:
    from dataclasses import replace

    from app.process.state import NeedsMore

    nodes = [start(), node("f", AND), *tasks("a", "b"), end(event=Event(EventKind.TERMINATE))]
    run = Instance(draw(nodes, "start f a end", "f b")).start()
    token = run.token("a")
    part = replace(run.state, whole=False, tokens={token.id: token})
    run.state = part
    with pytest.raises(NeedsMore):
        run.complete("a")
    with pytest.raises(NeedsMore):
        run.stop()


def test_parallel_joins_of_two_runs_of_a_subprocess_are_apart() -> None:
    nodes = [start(), node("twice", XOR), node("f0", AND), node("sub", SUB), end(), start("sub", "s")]
    nodes += [node("f", AND, "sub"), node("j", AND, "sub"), *tasks("a", "b", "last", scope="sub"), node("m", Kind.PASS)]
    run = Instance(draw(nodes, "start f0 twice sub end", "f0 m twice", "s f a j last", "f b j")).start()
    assert run.work == ["a", "a", "b", "b"]
    run.complete("a").complete("a")
    assert run.work == ["b", "b"]
    assert run.complete("b").work == ["b", "last"]


def test_two_joins_do_not_take_each_others_tokens() -> None:
    nodes = [start(), node("f", AND), *tasks("a", "b", "c", "d"), node("one", AND), node("two", AND), *tasks("x", "y")]
    for counting in (False, True):
        graph = draw(nodes, "start f a one x", "f b one", "f c two y", "f d two", counting_joins=counting)
        run = Instance(graph).start().complete("a").complete("c")
        assert run.work == ["b", "d"]
        assert run.complete("d").work == ["b", "y"]
        assert run.complete("b").work == ["x", "y"]


@pytest.mark.parametrize("counting", [True, False])
def test_a_token_at_a_commit_point_has_not_come_to_the_join_yet(counting: bool) -> None:
    from app.process.advance import advance
    from app.process.facts import Completed, Continued
    from tests.app.process.drawing import evaluate

    nodes = [start(), node("f", AND), *tasks("a", "b"), node("j", AND, commit_before=True), *tasks("x")]
    graph = draw(nodes, "start f a j x", "f b j", counting_joins=counting)
    run = Instance(graph).start()
    both = [Completed(run.token("a").id), Completed(run.token("b").id)]
    stopped = advance(graph, run.state, both, evaluate)
    one = advance(graph, stopped.state, [Continued(stopped.again[0])], evaluate)
    assert [token.node for token in one.state.tokens.values()] == ["j", "j"]
    done = advance(graph, one.state, [Continued(stopped.again[1])], evaluate)
    assert [token.node for token in done.state.tokens.values()] == ["x"]


@pytest.mark.parametrize("topic", [5, "", None, True])
def test_a_topic_is_text_and_not_empty(topic: object) -> None:
    from app.process.graph import Work

    work = node("a", TASK, work=Work(Expression("topic")))
    run = Instance(draw([start(), work, end()], "start a end")).start(topic=topic)
    assert (run.incidents, run.work) == ([("a", "expression")], [])


def test_a_message_that_nobody_sends_is_no_signal() -> None:
    from app.process.decision import ThrowSignal

    thrown = node("t", Kind.THROW, event=Event(EventKind.MESSAGE, name="m"))
    run = Instance(draw([start(), thrown, end()], "start t end")).start()
    assert (run.status, [a for a in run.actions if isinstance(a, ThrowSignal)]) == (Status.COMPLETED, [])


def test_a_subprocess_is_left_with_the_variables_of_its_own_run() -> None:
    outputs = (Assignment("out", Expression("v")),)
    nodes = [start(), *tasks("a"), node("sub", SUB, inputs=(Assignment("v", Expression("n")),), outputs=outputs), end()]
    nodes += [node("again", XOR, default="again>end"), start("sub", "s"), *tasks("x", scope="sub")]
    nodes += [
        node("undo", TASK, "sub", for_compensation=True),
        boundary("c", "x", EventKind.COMPENSATION, "sub", handler="undo"),
    ]
    graph = draw(nodes, "start sub again end", "again sub", "s x", conditions={"again>sub": "n < 2"})
    run = Instance(graph).start(n=1)
    run.complete("x", n=2)
    assert run.variables == {"n": 2, "out": 1}
    run = Instance(graph).start(n=1).complete("x").complete("x", v=7, n=3)
    assert run.variables == {"n": 3, "out": 7}


def test_a_script_sets_a_variable_where_it_is_seen() -> None:
    def counted(**inputs: object) -> Instance:
        given = tuple(Assignment(name, value) for name, value in inputs.items())  # type: ignore[arg-type]
        outputs = (Assignment("seen", Expression("n")),)
        script = node("s", Kind.SCRIPT, script=Script(Expression("n + 1"), "n"), inputs=given, outputs=outputs)
        return Instance(draw([start(), script, end()], "start s end")).start(n=1)

    assert counted().variables == {"n": 2, "seen": 2}
    assert counted(n=5).variables == {"n": 1, "seen": 6}


def test_terminate_takes_a_running_throw_with_its_handlers() -> None:
    nodes = [start(), node("f", AND), *tasks("a", "x"), node("throw", Kind.THROW, event=Event(EventKind.COMPENSATION))]
    nodes += [node("undo", TASK, for_compensation=True), boundary("c", "a", EventKind.COMPENSATION, handler="undo")]
    nodes += [end(event=Event(EventKind.TERMINATE))]
    run = Instance(draw(nodes, "start f a throw", "f x end")).start().complete("a")
    assert run.at == ["throw", "undo", "x"]
    run.complete("x")
    assert (run.status, run.state.tokens, run.state.runs, run.work) == (Status.COMPLETED, {}, {}, [])


@pytest.mark.parametrize(
    "priority, expected", [(5, 5), (None, None), (True, "incident"), ("5", "incident"), (1.5, "incident")]
)
def test_a_priority_is_a_whole_number(priority: object, expected: object) -> None:
    from app.process.decision import MakeTask
    from app.process.graph import Work

    work = node("a", TASK, work=Work("t", Expression("p")))
    run = Instance(draw([start(), work], "start a")).start(p=priority)
    made = [action.priority for action in run.actions if isinstance(action, MakeTask)]
    assert (made, run.incidents) == (([], [("a", "expression")]) if expected == "incident" else ([expected], []))


def test_a_throw_asks_for_the_whole_state() -> None:
    from dataclasses import replace

    from app.process.state import NeedsMore

    thrown = node("throw", Kind.THROW, event=Event(EventKind.COMPENSATION))
    run = Instance(draw([start(), *tasks("a"), thrown], "start a throw")).start()
    run.state = replace(run.state, whole=False)
    with pytest.raises(NeedsMore):
        run.complete("a")


def test_a_token_that_is_taken_away_before_its_turn_does_nothing() -> None:
    nodes = [start(), node("f", AND), end(event=Event(EventKind.TERMINATE)), *tasks("a", "b")]
    run = Instance(draw(nodes, "start f end", "f a", "f b")).start()
    assert (run.status, run.made) == (Status.COMPLETED, [])


def test_an_instance_starts_once() -> None:
    from app.process.facts import Started

    run = Instance(draw([start(), *tasks("a")], "start a")).start(x=1)
    before = run.state
    assert run.tell(Started({"x": 2})).state == before
    assert run.made == ["a"]


def test_work_that_threw_what_nobody_catches_is_over_and_its_waits_are_closed() -> None:
    from app.process.decision import DropTask

    nodes = [start(), *tasks("a", "late"), boundary("t", "a", EventKind.TIMER, when="PT1H")]
    run = Instance(draw(nodes, "start a", "t late")).start().throw("a", "X")
    assert (run.status, run.state.waits) == (Status.COMPLETED, {})
    assert not [action for action in run.actions if isinstance(action, DropTask)]


@pytest.mark.parametrize("kind", ["completed", "failed", "thrown"])
@pytest.mark.parametrize("place", ["join", "sub", "pause", "throw", "stuck", "gateway"])
def test_facts_about_work_say_nothing_about_tokens_that_stand_on_none(kind: str, place: str) -> None:
    from app.process.facts import Completed, Failed, Thrown

    timer = Event(EventKind.TIMER, timer="duration", when="PT1H")
    nodes = [start(), node("f", AND), node("join", AND), node("sub", SUB), start("sub", "s"), *tasks("x", scope="sub")]
    nodes += [node("pause", Kind.CATCH, event=timer), *tasks("w", "a"), node("stuck", Kind.PASS), node("gateway", OR)]
    nodes += [node("throw", Kind.THROW, event=Event(EventKind.COMPENSATION)), *tasks("undo", "z")]
    nodes += [boundary("c", "a", EventKind.COMPENSATION, handler="undo")]
    paths = (
        "start f join z",
        "f sub join",
        "s x",
        "f pause",
        "f w throw",
        "f a",
        "f stuck z",
        "f gateway z",
        "w gateway",
    )
    conditions = {"stuck>z": "missing", "f>w": "True"}
    graph = draw(
        [one for one in nodes if one.id != "undo"] + [node("undo", TASK, for_compensation=True)],
        *paths,
        conditions=conditions,
    )
    run = Instance(graph).start().complete("a")
    if place == "throw":
        run.complete("w")
    before, token = run.state, run.token(place).id
    fact = {
        "completed": Completed(token, {"v": 1}),
        "failed": Failed(token, "m"),
        "thrown": Thrown(token, "X", None, {"v": 1}),
    }
    actions = len(run.actions)
    assert run.tell(fact[kind]).state == before
    assert len(run.actions) == actions


@pytest.mark.parametrize("kind", ["completed", "failed", "thrown"])
def test_work_that_is_done_and_stands_on_the_way_out_is_not_done_again(kind: str) -> None:
    from app.process.facts import Completed, Failed, Thrown

    work = node("a", TASK, outputs=(Assignment("o", Expression("missing")),))
    run = Instance(draw([start(), work, end()], "start a end")).start().complete("a", v=1)
    token, before = run.token("a").id, run.state
    assert run.incidents == [("a", "expression")]
    run.tell(
        {"completed": Completed(token, {"v": 2}), "failed": Failed(token, "m"), "thrown": Thrown(token, "X")}[kind]
    )
    assert run.state == before
