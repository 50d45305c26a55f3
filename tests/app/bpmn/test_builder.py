"""Processes written in Python: the graphs of drawn ones, run by the same executor and refused for the same reasons."""

from __future__ import annotations

import pytest

from app.bpmn.builder import DEFAULT, Misdrawn, Path, Process
from app.process.graph import Assignment, Event, EventKind, Expression, Kind, Table
from app.process.state import Status
from tests.app.process.running import OURS, Run, graphs


def faults(process: Process) -> list[tuple[str | None, str]]:
    with pytest.raises(Misdrawn) as refused:
        process.graph()
    return [(one.element, one.message) for one in refused.value.findings]


def test_tasks_in_a_row() -> None:
    graph = Process("order", "An order").task("charge").task("ship", "parcel.ship", priority=7, retry="R3/PT1M").graph()
    assert (graph.process, graph.name, list(graph.nodes)) == ("order", "An order", ["start", "charge", "ship", "end"])
    assert (graph.nodes["charge"].work.topic, graph.nodes["ship"].work.topic) == ("charge", "parcel.ship")
    assert Run(graph).start().done("charge", "ship").ended


def order() -> Process:
    return (
        Process("order")
        .parallel(Path().task("reserve", compensate="release"), Path().task("charge", compensate="refund"))
        .task("ship")
    )


def test_an_order_that_fails_is_undone_as_the_drawn_one_is() -> None:
    for graph in (order().graph(), graphs(OURS / "order.bpmn")["order"]):
        run = Run(graph).start().done("reserve", "charge").fail("ship")
        topics = []
        while run.status is Status.COMPENSATING:
            (handler,) = run.work
            topics.append(run.asked[-1].topic)
            run.complete(handler)
        assert topics == ["refund", "release"]
        assert run.status is Status.FAILED_COMPENSATED


def test_conditions_and_a_default_choose_a_path() -> None:
    process = Process("p").exclusive(
        ("${total > 1000}", Path().user("approve")),
        (Expression("total > 100", "cel"), Path().user("look")),
        (DEFAULT, Path()),
    )
    graph = process.task("ship").graph()
    found = {total: Run(graph).start(total=total) for total in (2000, 200, 20)}
    assert [run.people or run.work for run in found.values()] == [["approve"], ["look"], ["ship"]]
    assert found[2000].complete("approve").work == ["ship"]


def test_inclusive_paths_are_joined() -> None:
    graph = (
        Process("p")
        .inclusive(("${a}", Path().task("x")), ("${b}", Path().task("y")), (DEFAULT, Path()))
        .task("z")
        .graph()
    )
    run = Run(graph).start(a=True, b=True)
    assert run.done("x").work == ["y"]
    assert run.done("y").work == ["z"]
    assert Run(graph).start(a=False, b=False).work == ["z"]


def test_the_first_event_wins() -> None:
    graph = (
        Process("p")
        .first_of(
            Path().message("paid", "payment ${key}").task("ship"), Path().timer("late", after="P14D").task("remind")
        )
        .task("close")
        .graph()
    )
    run = Run(graph).start(key=7).message("payment 7")
    assert run.complete("ship").work == ["close"]
    assert Run(graph).start(key=7).happen("late").work == ["remind"]


def test_a_path_is_repeated_while_its_condition_holds() -> None:
    graph = Process("p").repeat(Path().task("try"), again="${more}").task("done").graph()
    run = Run(graph).start().complete("try", more=True).complete("try", more=True)
    assert run.complete("try", more=False).work == ["done"]


def test_boundary_events_of_an_activity() -> None:
    process = (
        Process("p")
        .task("charge")
        .on_error("REFUSED", Path().user("ask").go_to("charge"), code_variable="code")
        .on_error(None, Path().end_with_error("give up", "BROKEN"))
        .on_timer("R/PT1H", Path().task("remind"), interrupting=False)
        .on_message("stop", Path().end_all())
        .on_signal("alarm", Path().task("flee"), interrupting=False)
        .task("ship")
    )
    graph = process.graph()
    run = Run(graph).start().happen("charge-timer").signal("alarm")
    assert run.work == ["charge", "flee", "remind"]
    assert run.throw("charge", "REFUSED").people == ["ask"]
    assert run.variables == {"code": "REFUSED"}
    assert run.complete("ask").made.count("charge") == 2
    assert run.message("stop").ended
    assert Run(graph).start().throw("charge", "OTHER").ended


def test_a_subprocess_has_variables_of_its_own_and_is_undone_by_a_throw() -> None:
    process = (
        Process("p")
        .subprocess(
            "trip",
            Path().task("flight", compensate="no flight").task("hotel", compensate="no hotel"),
            inputs={"days": "${nights + 1}", "shape": {"${key}": ["${nights}", 1, None]}},
            outputs={"booked": "${days}"},
        )
        .compensate("undo", "trip")
        .task("after")
    )
    graph = process.graph()
    assert graph.nodes["trip"].inputs == (
        Assignment("days", Expression("${nights + 1}")),
        Assignment("shape", Table(((Expression("${key}"), [Expression("${nights}"), 1, None]),))),
    )
    run = Run(graph).start(nights=2, key="k")
    assert run.asked[0].variables["shape"] == {"k": [2, 1, None]}
    run.done("flight", "hotel", "undo-hotel", "undo-flight")
    assert (run.work, run.variables["booked"]) == (["after"], 3)


def test_other_steps() -> None:
    graph = (
        Process("p", start=Event(EventKind.MESSAGE, name="new"), parallel_compensation=True, counting_joins=True)
        .script("count", Expression("1 + 1", "cel"), "n")
        .receive("hear", "word")
        .receive("poke")
        .signal("wait", "go")
        .timer("until", at="2026-12-24T00:00:00Z")
        .throw_signal("tell", "gone")
        .end_with_compensation()
        .graph()
    )
    assert (graph.parallel_compensation, graph.counting_joins) == (True, True)
    run = Run(graph).start_at("start").message("word").complete("poke").signal("go").happen("until")
    assert (run.ended, run.variables) == (True, {"n": 2})


def test_paths_that_all_end_are_not_joined() -> None:
    graph = Process("p").exclusive(("${a}", Path().end("x")), (DEFAULT, Path().end_all("y"))).graph()
    assert [node.id for node in graph.nodes.values() if node.kind is Kind.END] == ["x", "y"]
    assert Run(graph).start(a=True).ended


@pytest.mark.parametrize(
    "process, expected",
    [
        (Process("p").task("a").task("a"), [("a", "two steps have this name")]),
        (Process("p").task(" a"), [(" a", "a name has 1 to 255 printable characters and no space around them")]),
        (Process("p").task("a").go_to("nowhere"), [("a--nowhere", "targetRef names no node: nowhere")]),
        (
            Process("p").timer("t", after="soon"),
            [("t", "timeDuration is a duration of ISO 8601 (PT5M), of at most 100 years")],
        ),
        (Process("p").timer("t"), [("t", "a timer has a time")]),
        (
            Process("p").exclusive(("x", Path()), (DEFAULT, Path())),
            [("split--join", "a condition is an expression: ${…}")],
        ),
        (Process("p").compensate("undo", "x"), [("undo", "activityRef names no activity of this scope: x")]),
        (
            Process("p").first_of(Path().task("a")),
            [("split--a", "behind an event-based gateway are catch events of its own")],
        ),
        (
            Process("p").task("a", "${x.y()}"),
            [("a", "the expression ${x.y()} cannot be run: methods and functions cannot be run at character 4")],
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_all_reasons(process: Process, expected: list[tuple[str, str]]) -> None:
    assert faults(process)[: len(expected)] == expected


def test_a_boundary_event_follows_its_activity() -> None:
    with pytest.raises(ValueError, match="follows the activity"):
        Process("p").on_error("X", Path())
    with pytest.raises(ValueError, match="follows the activity"):
        Process("p").task("a").timer("t", after="PT1H").on_error("X", Path())


def test_the_message_names_every_fault() -> None:
    with pytest.raises(Misdrawn, match="a: two steps have this name; b: two steps have this name"):
        Process("p").task("a").task("a").task("b").task("b").graph()
