"""Models of our own from the reader to their end: each covers what a kind of model must do."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from app.process.decision import DropTask
from app.process.facts import Completed, Happened, Thrown
from app.process.graph import EventKind
from app.process.state import Phase, Status
from tests.app.process.running import OURS, Run, graphs


@pytest.mark.parametrize("path", sorted(OURS.glob("*.bpmn")), ids=lambda path: path.stem)
def test_each_file_has_one_process_of_its_name_and_starts(path) -> None:  # type: ignore[no-untyped-def]
    (graph,) = graphs(path).values()
    assert graph.process == path.stem
    assert graph.starts(graph.process)


@pytest.mark.parametrize(
    "size, expected", [(1, ["small"]), (7, ["small"]), (12, ["large"]), ("12", ["large"]), (None, ["unsized"])]
)
def test_the_first_condition_in_the_file_that_holds_decides(size: object, expected: list[str]) -> None:
    assert Run.of("choice").start(items={"size": size}).people == expected


def test_a_missing_variable_is_an_incident_until_it_is_there() -> None:
    run = Run.of("choice").start(items={})
    assert run.incidents == [("size", "expression")]
    for _ in range(2):
        run.retry("size")
    assert (len(run.incidents), run.at, run.status) == (3, ["size"], Status.ACTIVE)
    assert run.stop().status is Status.CANCELED


def test_nested_forks_are_joined_from_the_inside_out() -> None:
    run = Run.of("nested_forks").start()
    assert run.people == ["left", "lower", "upper"]
    assert run.done("left", "upper").people == ["lower"]
    assert run.complete("lower").people == ["last"]
    assert run.complete("last").ended


def test_joins_that_cross_fire_once_each_without_waiting() -> None:
    run = Run.of("crossing_joins").start()
    assert run.ended


@pytest.mark.parametrize(
    "gift, worth, tasks", [(True, 500, ["insure", "wrap"]), (True, 5, ["wrap"]), (False, 500, ["insure"])]
)
def test_an_inclusive_join_waits_for_what_was_split(gift: bool, worth: int, tasks: list[str]) -> None:
    for order in itertools.permutations(tasks):
        run = Run.of("extras").start(gift=gift, worth=worth)
        assert run.people == tasks
        *first, last = order
        assert "send" not in run.done(*first).people
        assert run.complete(last).people == ["send"]
        assert run.complete("send").ended
    assert Run.of("extras").start(gift=False, worth=1).people == ["send"]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_an_inclusive_join_goes_on_when_the_awaited_token_dies(order: tuple[str, str]) -> None:
    run = Run.of("inclusive_death").start(a=True, b=True)
    for name in order:
        run.throw("b", "GONE") if name == "b" else run.complete("a")
    assert run.work == ["after"]
    assert run.made.count("after") == 1
    assert run.complete("after").ended


def test_conditions_on_the_ways_out_of_an_activity_fork() -> None:
    def decided(**variables: object) -> list[str]:
        return Run.of("conditions_on_an_activity").start().complete("decide", **variables).people

    assert decided(phone=True, address="x") == ["call", "write"]
    assert decided(phone=False, address="x") == ["write"]
    assert decided(phone=False, address="") == ["wait"]


@pytest.mark.parametrize("first", [True, False])
def test_links_lead_to_their_catch_event(first: bool) -> None:
    assert Run.of("links").start(first=first).people == ["arrived"]


def test_commit_points_stop_once_each() -> None:
    run = Run.of("commit_points").start()
    assert (run.commits, run.people) == (4, ["look"])
    assert run.complete("look").commits == 6
    assert run.ended


@pytest.mark.parametrize("event, task", [("paid", "ship"), ("alarm", "stop"), ("late", "remind")])
def test_one_event_comes_first_and_the_others_are_no_longer_waited_for(event: str, task: str) -> None:
    run = Run.of("first_wins").start()
    assert run.waits == ["alarm", "late", "paid"]
    waits = dict(run.state.waits)
    run.happen(event)
    assert (run.people, run.waits) == ([task], [])
    before = run.state
    run.tell(*(Happened(wait) for wait in waits))
    assert run.state == before


def test_events_on_the_way_have_names_and_times_from_variables() -> None:
    run = Run.of("on_the_way").start(key=17, hours=3)
    (wait,) = run.state.waits.values()
    assert (wait.kind, wait.name) == (EventKind.MESSAGE, "order 17")
    run.message("order 17").message("paid", net=4)
    assert run.variables["total"] == 8
    (wait,) = run.state.waits.values()
    assert (wait.kind, wait.when) == (EventKind.TIMER, "PT3H")
    assert run.happen("pause").signal("alarm").ended


def test_a_time_that_is_none_is_an_incident_and_waits_for_better_variables() -> None:
    run = Run.of("on_the_way").start(key=17, hours="three").message("order 17").message("paid", net=4)
    assert run.incidents == [("pause", "expression")]
    assert run.waits == []


@pytest.mark.parametrize(
    "start, task", [("by_message", "for_messages"), ("by_signal", "for_the_rest"), ("by_time", "for_the_rest")]
)
def test_each_start_event_begins_its_own_way(start: str, task: str) -> None:
    assert Run.of("starts").start_at(start, x=1).people == [task]
    assert Run.of("starts").start().people == ["for_people"]
    assert Run.of("only_by_message").start_at("by_message").ended
    with pytest.raises(ValueError, match="no none start event"):
        Run.of("only_by_message").start()


def test_boundary_events_that_do_not_interrupt_come_again_and_those_that_do_end_it() -> None:
    run = Run.of("boundaries").start().message("ping").message("ping").signal("alarm").happen("hourly").happen("hourly")
    assert run.people == ["answer", "answer", "flee", "remind", "remind", "work"]
    assert run.waits == ["alarmed", "hourly", "late", "pinged", "stopped"]
    assert [wait.fired for wait in run.state.waits.values() if wait.node == "hourly"] == [2]
    run.happen("late")
    assert ("escalate" in run.people, "work" in run.people, run.waits) == (True, False, [])


@pytest.mark.parametrize("event, task", [("stopped", "after_stop"), ("late", "escalate")])
def test_an_interrupted_task_is_completed_too_late(event: str, task: str) -> None:
    run = Run.of("boundaries").start()
    late = Completed(run.token("work").id, {"x": 1})
    assert run.happen(event).people == [task]
    before = run.state
    assert run.tell(late).state == before


def test_a_signal_reaches_whoever_waits_in_the_same_instance() -> None:
    run = Run.of("signal_to_itself").start().complete("ring")
    assert run.people == ["run"]
    assert run.complete("run").ended


def test_workers_are_asked_for_what_the_model_says() -> None:
    run = Run.of("tasks").start(what="it", urgent=False, items=[1, 2])
    one = run.asked[-1]
    assert (one.topic, one.priority, one.retry, one.properties) == ("do it", 7, "R5/PT10M", {"region": "north"})
    run.done("one", "two", "three")
    assert [(made.topic, made.priority) for made in run.asked[1:]] == [("send", 9), ("rate", 9), ("tell", 9)]
    assert run.variables["size"] == 3
    assert run.variables["key"] == "B-7"
    assert run.asked[-1].properties == {"to": "all"}
    assert (run.work, run.complete("end").ended) == (["end"], True)


def test_the_work_of_a_message_end_event_is_dropped_when_the_instance_is_canceled() -> None:
    run = Run.of("tasks").start(what="it", urgent=False, items=[]).done("one", "two", "three")
    token = run.token("end").id
    assert DropTask(token) in run.stop().actions


def test_a_priority_may_be_calculated_and_must_be_a_number() -> None:
    assert Run.of("tasks").start(what="it", urgent=True, items=[]).asked[-1].priority == 50
    assert Run.of("tasks").start(what="", urgent="x", items=[]).incidents == [("one", "expression")]


def test_a_task_sees_the_variables_of_all_scopes_and_maps_are_calculated() -> None:
    run = Run.of("scopes").start(outer=1, kind="k")
    seen = run.asked[-1].variables
    assert (seen["outer"], seen["middle"], seen["inner"]) == ("shadowed", 2, 3)
    assert seen["shapes"] == {"list": [3, "text"], "k": "by expression"}
    assert run.variables == {"outer": 1, "kind": "k"}
    run.complete("look", found=10, inner=99)
    assert (run.people, run.variables) == (["after"], {"outer": 1, "kind": "k", "found": 10, "result": 12})


def test_an_output_that_has_no_value_is_an_incident_on_the_way_out_and_nothing_is_done_twice() -> None:
    run = Run.of("scopes").start(outer=1, kind="k").complete("look")
    assert run.incidents == [("sub", "expression")]
    assert run.token("sub").phase is Phase.LEAVING
    run.retry("sub")
    assert (run.incidents, run.made) == ([("sub", "expression")] * 2, ["look"])


def test_branches_change_only_what_they_name() -> None:
    for first, second in (("a", "b"), ("b", "a")):
        run = Run.of("branches").start(x=0, y=0, o={"a": 0, "b": 0})
        run.complete(first, **{"x" if first == "a" else "y": 1}, mine="changed")
        run.complete(second, **{"x" if second == "a" else "y": 1}, mine="changed")
        assert run.variables == {"x": 1, "y": 1, "o": {"a": 0, "b": 0}}
        assert run.asked[-1].variables == run.variables
    run = Run.of("branches").start(x=0).complete("a", x=1).complete("b", x=2)
    assert run.variables == {"x": 2}
    assert Run.of("branches").start(x=0).complete("a").complete("b").variables == {"x": 0}


def test_a_caught_error_tells_its_code_and_text() -> None:
    run = Run.of("caught").start().throw("work", "GONE", left=3)
    assert run.people == ["replace"]
    assert run.variables == {"left": 3, "code": "GONE", "text": "said so"}


def test_an_error_that_is_not_caught_where_others_are_is_an_incident_that_can_be_tried_again() -> None:
    run = Run.of("caught").start().throw("work", "UNKNOWN")
    assert (run.incidents, run.at) == ([("work", "model")], ["work"])
    run.retry("work")
    assert run.made == ["work", "work"]
    assert run.throw("work", "GONE").people == ["replace"]


def test_an_error_where_none_is_caught_ends_its_path() -> None:
    assert Run.of("uncaught").start().throw("work", "ANY").ended


def test_an_error_goes_outwards_and_takes_all_that_is_inside() -> None:
    run = Run.of("outwards").start()
    calm = Completed(run.token("calm").id)
    assert run.complete("risky").people == ["outside"]
    assert len(run.state.scopes) == 1
    before = run.state
    assert run.tell(calm).state == before
    assert "normal" not in run.made


def test_two_errors_in_one_breath_are_caught_once() -> None:
    run = Run.of("inclusive_death").start(a=True, b=True)
    token = run.token("b").id
    run.tell(Thrown(token, "GONE"), Thrown(token, "GONE"))
    assert Counter(action.node for action in run.asked) == {"a": 1, "b": 1}
    assert run.at == ["a"]


def test_terminate_ends_its_scope_alone_and_at_the_top_all() -> None:
    run = Run.of("terminate").start().complete("ends_sub")
    assert (run.people, run.work) == (["ends_all"], ["other"])
    run.complete("ends_all")
    assert (run.ended, run.work) == (True, [])


@pytest.mark.parametrize("event, task", [("inner_late", "escalated"), ("outer_late", "given_up")])
def test_a_timer_takes_its_subprocess_and_no_more(event: str, task: str) -> None:
    run = Run.of("timers").start().happen(event)
    assert run.people == [task]
    assert run.waits == (["outer_late"] if event == "inner_late" else [])
    run.complete(task)
    assert run.ended or run.complete("after").ended


def test_a_loop_that_never_waits_is_bounded() -> None:
    run = Run.of("endless").start(done=False)
    assert [kind for _, kind in run.incidents] == ["loop"]
    assert run.stop().status is Status.CANCELED
    assert Run.of("endless").start(done=True).ended


def trip(nights: int = 3) -> Run:
    run = Run.of("trip").start().complete("flight")
    for left in range(nights, 0, -1):
        run.complete("hotel", nights=left)
    return run.complete("car")


def test_all_that_was_done_is_undone_newest_first() -> None:
    run = trip().complete("decide", go=False)
    assert run.waits == ["no_car"]
    assert run.message("came back").work == ["no_hotel"]
    run.done("no_hotel", "no_hotel", "no_hotel", "no_flight")
    assert run.ended
    assert run.made[4:] == ["no_hotel", "no_hotel", "no_hotel", "no_flight"]


def test_one_activity_can_be_undone_alone_and_the_rest_later_never_twice() -> None:
    run = trip(1).complete("decide", go=True)
    assert run.message("came back").people == ["travel"]
    assert run.complete("travel").ended
    assert "no_hotel" not in run.made
    stopped = trip(1).complete("decide", go=True).message("came back").stop(compensate=True)
    assert stopped.done("no_hotel", "no_flight").status is Status.CANCELED
    assert stopped.waits == []


def test_an_order_that_fails_for_good_is_undone_in_order() -> None:
    for order in (("reserve", "charge"), ("charge", "reserve")):
        run = Run.of("order").start().done(*order).fail("ship")
        assert run.status is Status.COMPENSATING
        undone = {"reserve": "release", "charge": "refund"}
        for name in reversed(order):
            assert run.work == [undone[name]]
            run.complete(undone[name])
        assert (run.status, run.state.tokens) == (Status.FAILED_COMPENSATED, {})


def test_an_error_is_the_business_of_the_model_and_undoes_nothing() -> None:
    run = Run.of("order").start().throw("charge", "REFUSED").complete("reserve")
    assert run.people == ["ask_again"]
    assert run.complete("ask_again").work == ["charge"]
    assert run.done("charge", "ship").ended


def test_a_failure_with_nothing_done_is_an_incident() -> None:
    run = Run.of("order").start().fail("reserve")
    assert run.incidents == [("reserve", "failed")]
    assert run.retry("reserve").done("reserve", "charge", "ship").ended


def test_ways_of_camunda_by_attributes() -> None:
    run = Run.of("all_at_once").start().done("a", "b")
    assert run.people == ["undo_a", "undo_b"]
    assert run.done("undo_a", "undo_b").people == ["after"]
    counted = Run.of("counting").start().done("a", "b")
    assert counted.people == ["after", "c"]
