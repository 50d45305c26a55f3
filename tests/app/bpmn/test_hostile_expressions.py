"""Expressions that want to run code, in every place of a model where text is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

import pytest

from app.bpmn.reader import read
from app.expressions.evaluator import evaluator
from app.expressions.juel import Surroundings
from app.process.advance import advance
from app.process.decision import MakeTask, RaiseIncident
from app.process.facts import Completed, Started
from app.process.state import State
from tests.app.bpmn.writing import extended, flow, line, task, when

CANARY = Path("/tmp/celeriac-expression-canary")

HOSTILE = [
    "''.getClass().forName('java.lang.Runtime')",
    "().__class__.__mro__[1].__subclasses__()",
    "x.__init__.__globals__",
    "x['__class__']",
    "__import__('os').system('id')",
    f"open('{CANARY}','w')",
    "[c for c in x]",
    "'a'*10**9",
    "9**9**9",
    "(lambda f: f(f))(lambda f: f(f))",
    "'%s' % x",
    "'{0.__class__}'.format(x)",
    "x.format(x)",
    "execution.getEngineServices()",
    "execution.getVariable('x').getClass()",
    "T(java.lang.Runtime)",
    "new java.lang.String()",
    "x = 1",
    "x; y",
    "x -> y",
    "`id`",
    "((" * 3000 + "1",
]
LIMITED = [
    "1" + " + 1" * 1000,
    "'" + "a" * 3000 + "' == x",
    "9" * 4000 + " * " + "9" * 90,
]


def mapped(kind: str, value: str) -> str:
    return task(
        "a", extended(f'<camunda:inputOutput><camunda:{kind} name="v">{value}</camunda:{kind}></camunda:inputOutput>')
    )


def timer(value: str) -> str:
    inner = f"<bpmn:timerEventDefinition><bpmn:timeDuration>{value}</bpmn:timeDuration></bpmn:timerEventDefinition>"
    return f'<bpmn:intermediateCatchEvent id="a">{inner}</bpmn:intermediateCatchEvent>'


PLACES: dict[str, Callable[[str], bytes]] = {
    "condition": lambda text: line('<bpmn:exclusiveGateway id="a"/><bpmn:task id="z"/>').replace(
        flow("a", "end").encode(), (flow("a", "z", when(text)) + flow("a", "end", when("${false}"))).encode()
    ),
    "implicit fork": lambda text: line("<bpmn:task id='a'/>").replace(
        flow("a", "end").encode(), flow("a", "end", when(text)).encode()
    ),
    "input": lambda text: line(mapped("inputParameter", text)),
    "output": lambda text: line(mapped("outputParameter", text)),
    "list": lambda text: line(
        mapped("inputParameter", f"<camunda:list><camunda:value>{text}</camunda:value></camunda:list>")
    ),
    "map": lambda text: line(
        mapped("inputParameter", f"<camunda:map><camunda:entry key='k'>{text}</camunda:entry></camunda:map>")
    ),
    "topic": lambda text: line(task("a").replace("do-a", text)),
    "priority": lambda text: line(task("a", attributes=f'camunda:taskPriority="{text}"')),
    "retries": lambda text: line(
        task("a", extended(f"<camunda:failedJobRetryTimeCycle>{text}</camunda:failedJobRetryTimeCycle>"))
    ),
    "timer": lambda text: line(timer(text)),
    "template": lambda text: line(timer(f"PT{text}H")),
    "message": lambda text: line(
        '<bpmn:receiveTask id="a" messageRef="m"/>', roots=f'<bpmn:message id="m" name="{text}"/>'
    ),
    "script": lambda text: line(
        f'<bpmn:scriptTask id="a" scriptFormat="juel"><bpmn:script>{text}</bpmn:script></bpmn:scriptTask>'
    ),
    "expression": lambda text: line(f'<bpmn:serviceTask id="a" camunda:expression="{text}"/>'),
}


@pytest.fixture(autouse=True)
def nothing_was_run() -> None:
    CANARY.unlink(missing_ok=True)
    yield
    assert not CANARY.exists()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sign", ["$", "#"])
def test_hostile_expressions_are_refused_at_deploy_or_are_incidents(place: str, sign: str) -> None:
    for text in HOSTILE:
        assert_harmless(place, text, sign)


def assert_harmless(place: str, text: str, sign: str) -> None:
    reading = read(PLACES[place](escape(f"{sign}{{{text}}}")))
    if reading.report.errors:
        assert all(len(str(error)) < 400 for error in reading.report.errors)
        return
    graph = reading.models[0].graph
    variables = {"x": "text", "h": 1}
    decision = advance(graph, State(), [Started(variables)], evaluator(Surroundings()))
    if place == "output":
        done = [Completed(token) for token in decision.state.tokens]
        decision = advance(graph, decision.state, done, evaluator(Surroundings()))
    assert any(isinstance(action, RaiseIncident) for action in decision.actions), (place, text)


@pytest.mark.parametrize("place", PLACES)
def test_a_long_expression_ends(place: str) -> None:
    for text in LIMITED:
        reading = read(PLACES[place](escape(f"${{{text}}}")))
        if not reading.report.errors:
            advance(reading.models[0].graph, State(), [Started({"x": 1})], evaluator(Surroundings()))


@pytest.mark.parametrize("place", ["condition", "implicit fork"])
def test_the_control_works(place: str) -> None:
    reading = read(PLACES[place](escape("${amount > 10}")))
    assert reading.report.errors == []
    decision = advance(reading.models[0].graph, State(), [Started({"amount": 11})], evaluator(Surroundings()))
    assert not [action for action in decision.actions if isinstance(action, RaiseIncident)]


@pytest.mark.parametrize("value", ["${1 + 1}", "#{x}", "${y}", "__import__('os')"])
def test_values_of_variables_are_never_evaluated(value: str) -> None:
    content = line(mapped("inputParameter", "${given}"))
    decision = advance(read(content).models[0].graph, State(), [Started({"given": value})], evaluator(Surroundings()))
    (made,) = (action for action in decision.actions if isinstance(action, MakeTask))
    assert made.variables["v"] == value


def test_names_of_tasks_and_texts_for_people_are_not_evaluated() -> None:
    content = line(task("a", attributes='name="${missing.call()}"'))
    assert read(content).report.errors == []
