"""Whatever is in a file: reading it ends with a report, and what has no errors can be run, written, and read again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.bpmn.options import Options
from app.bpmn.reader import read
from app.bpmn.writer import write
from app.expressions.evaluator import evaluator
from app.expressions.juel import Surroundings
from app.process.advance import advance
from app.process.facts import Completed, Continued, Fact, Failed, Happened, Started, Stopped, Thrown
from app.process.state import State
from tests.app.process.drawing import assert_whole
from tests.app.process.running import OURS

BOTH = Options("topics", "ignore")
TOLD: list[Callable[[int, dict[str, int]], Fact]] = [
    Completed,
    Completed,
    Completed,
    lambda token, _: Failed(token, "broken"),
    lambda token, _: Thrown(token, "GONE"),
    lambda token, _: Continued(token),
]
NAMES = [
    "startEvent", "endEvent", "serviceTask", "userTask", "task", "subProcess", "boundaryEvent", "parallelGateway",
    "inclusiveGateway", "exclusiveGateway", "eventBasedGateway", "intermediateCatchEvent", "intermediateThrowEvent",
    "receiveTask", "scriptTask", "callActivity", "transaction", "sequenceFlow", "association", "nonsense",
    "timerEventDefinition", "compensateEventDefinition", "errorEventDefinition", "conditionExpression",
]  # fmt: skip


@cache
def models() -> list[str]:
    return [path.read_text() for path in sorted(OURS.glob("*.bpmn"))]


def run_a_little(content: bytes, options: Options | None = None) -> None:
    """Deploy what can be deployed, and move it about."""
    reading = read(content, options)
    if reading.report.errors:
        assert all(error.line >= 1 and "\n" not in str(error) for error in reading.report.errors)
        return
    for model in reading.models:
        again = read(write(model.graph), options)
        assert not again.report.errors
        assert [other.graph for other in again.models] == [model.graph]
        evaluate = evaluator(Surroundings())
        starts = model.graph.starts(model.graph.process)
        state = advance(model.graph, State(), [Started({"x": 1, "n": "2"}, starts[0].id)], evaluate).state
        for turn in range(5):
            facts = [said(token, {"y": 2}) for token in state.tokens for said in (TOLD[(token + turn) % len(TOLD)],)]
            facts += [Happened(wait) for wait in state.waits if (wait + turn) % 3 == 0]
            state = advance(model.graph, state, facts, evaluate).state
            assert_whole(state)
        ended = advance(model.graph, state, [Stopped(), Stopped(compensate=True)], evaluate).state
        assert_whole(ended)
        assert ended.ended or ended.runs


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
@example(b"\xfe\xff\x00<")
def test_any_bytes(content: bytes) -> None:
    run_a_little(content)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([None, BOTH]))
def test_models_with_pieces_dropped_doubled_and_swapped(seed: int, changes: int, options: Options | None) -> None:
    choose = random.Random(seed)
    text = choose.choice(models())
    for _ in range(changes):
        pieces = re.findall(r"<[^>]+>|[^<]+", text)
        one, other = choose.randrange(2, len(pieces)), choose.randrange(2, len(pieces))
        match choose.randrange(5):
            case 0:
                del pieces[one]
            case 1:
                pieces.insert(other, pieces[one])
            case 2:
                pieces[one], pieces[other] = pieces[other], pieces[one]
            case 3:
                pieces[one] = re.sub(
                    r'"[^"]*"', lambda _: f'"{choose.choice(["", "start", "x", "${x}"])}"', pieces[one], count=2
                )
            case _:
                pieces[one] = re.sub(
                    r"<(/?)\w+", lambda found: f"<{found[1]}{choose.choice(NAMES)}", pieces[one], count=1
                )
        text = "".join(pieces)
    run_a_little(text.encode(), options)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000))
def test_flows_between_any_nodes(seed: int) -> None:
    """Models that are well-formed and make no sense: most are refused, and the others end or are bounded."""
    choose = random.Random(seed)
    text = choose.choice(models())
    ids = re.findall(r'<(?!process|definitions|sequenceFlow|error|message|signal|association)\w+ id="(\w+)"', text)
    flows = "".join(
        f'<sequenceFlow sourceRef="{choose.choice(ids)}" targetRef="{choose.choice(ids)}"/>'
        for _ in range(choose.randrange(1, 4))
    )
    run_a_little(text.replace("</process>", f"{flows}</process>").encode())
