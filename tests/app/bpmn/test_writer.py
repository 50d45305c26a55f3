"""Graphs written as files are read as the same graphs."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from app.bpmn.builder import DEFAULT, Path, Process
from app.bpmn.reader import read
from app.bpmn.writer import write
from app.process.graph import Expression
from tests.app.bpmn.test_builder import order
from tests.app.bpmn.writing import graph
from tests.app.process.running import OURS, Run, graphs
from tests.app.process.test_shared_models import files


@pytest.mark.parametrize("path", sorted(OURS.glob("*.bpmn")), ids=lambda path: path.stem)
def test_our_models(path: File) -> None:
    for one in graphs(path).values():
        assert graph(write(one)) == one


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_models_of_other_engines(path: File) -> None:
    reading = read(path.read_bytes())
    for model in reading.models if not reading.report.errors else ():
        assert graph(write(model.graph)) == model.graph


def test_flows_keep_their_order() -> None:
    for one in graphs(OURS / "choice.bpmn").values():
        assert list(graph(write(one)).flows) == list(one.flows)


def test_what_was_built() -> None:
    assert graph(order().bpmn()) == order().graph()
    process = (
        Process("a&b", "<name>", parallel_compensation=True, counting_joins=True)
        .task("x", "${topic}", priority=Expression("${p}"), retry="R3/PT1M", properties={"k": "<v>", "n": "a\nb"})
        .on_error("E", Path().end_with_error("e", "F"), code_variable="c", message_variable="m")
        .on_timer("PT${h}H", Path().end_all(), interrupting=False)
        .subprocess("sub", Path().script("s", Expression("1 < 2", "cel"), "r").user("u"), inputs={"i": "${x < 1}"})
        .on_signal("${name}", Path().end_with_compensation("undo"))
        .first_of(Path().message("m", "a"), Path().signal("g", "a"), Path().timer("t", at="2026-12-24"))
        .inclusive((Expression("x < 1", "cel"), Path().receive("r", "a")), (DEFAULT, Path().receive("w")))
        .repeat(Path().compensate("c", "sub"), again="${x && y}")
        .throw_signal("z", "a")
    )
    assert graph(process.bpmn()) == process.graph()


def test_constants_keep_their_values() -> None:
    given = {
        "n": 7,
        "f": 1.5,
        "yes": True,
        "no": False,
        "nothing": None,
        "empty": "",
        "space": " x ",
        "quote": " it's\\ ",
    }
    shapes = {"list": [1, "a", None, []], "map": {"k": {"l": -2}, "${key}": "v"}}
    run = Run(graph(Process("p").task("a", inputs={**given, **shapes}).bpmn())).start(key="e")
    seen = run.asked[0].variables
    assert {name: seen[name] for name in given} == given
    assert (seen["list"], seen["map"]) == ([1, "a", None, []], {"k": {"l": -2}, "e": "v"})
