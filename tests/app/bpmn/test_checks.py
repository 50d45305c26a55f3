"""Models whose elements are right one by one, and which could still not be run."""

import pytest

from tests.app.bpmn.writing import errors, flow, graph, line, process, task, warnings, when

START, END = '<bpmn:startEvent id="start"/>', '<bpmn:endEvent id="end"/>'
MESSAGES = '<bpmn:message id="m" name="paid"/><bpmn:message id="n" name="paid"/><bpmn:error id="e" errorCode="E"/>'
PAID, PAID_TOO = (f'<bpmn:messageEventDefinition messageRef="{ref}"/>' for ref in "mn")
COMPENSATE = "<bpmn:compensateEventDefinition/>"
TIMER = "<bpmn:timerEventDefinition><bpmn:timeDuration>PT1H</bpmn:timeDuration></bpmn:timerEventDefinition>"


def gateway(kind: str, name: str = "g", attributes: str = "") -> str:
    return f'<bpmn:{kind}Gateway id="{name}" {attributes}/>'


def boundary(name: str, host: str, definition: str, attributes: str = "") -> str:
    return f'<bpmn:boundaryEvent id="{name}" attachedToRef="{host}" {attributes}>{definition}</bpmn:boundaryEvent>'


def catch(name: str, definition: str) -> str:
    return f'<bpmn:intermediateCatchEvent id="{name}">{definition}</bpmn:intermediateCatchEvent>'


def handler(name: str, source: str) -> str:
    return task(name, attributes='isForCompensation="true"') + joined(source, name)


def joined(source: str, target: str) -> str:
    return f'<bpmn:association id="{source}-{target}-as" sourceRef="{source}" targetRef="{target}"/>'


def told(*lines: str) -> list[tuple[str | None, str]]:
    return [(element, message) for element, _, message in errors(process(*lines, roots=MESSAGES))]


def test_flows_join_nodes_of_one_scope() -> None:
    assert told(START, END, flow("start", "nowhere"), flow("gone", "end")) == [
        ("start-nowhere", "targetRef names no node: nowhere"),
        ("gone-end", "sourceRef names no node: gone"),
    ]
    inner = (
        '<bpmn:subProcess id="sub"><bpmn:startEvent id="s"/><bpmn:task id="x"/>' + flow("s", "x") + "</bpmn:subProcess>"
    )
    assert told(START, inner, END, flow("start", "sub"), flow("x", "end")) == [
        ("x-end", "a sequence flow must not leave its subprocess")
    ]


def test_nothing_flows_out_of_an_end_or_into_a_start_boundary_event_or_handler() -> None:
    assert told(START, END, task("a"), flow("start", "end"), flow("end", "a")) == [
        ("end-a", "nothing flows out of an end event")
    ]
    assert told(START, task("a"), flow("start", "a"), flow("a", "start")) == [
        ("a-start", "nothing flows into a start or boundary event")
    ]
    parts = [START, task("a"), boundary("c", "a", COMPENSATE), handler("undo", "c"), flow("start", "a")]
    assert told(*parts, flow("a", "undo")) == [("a-undo", "a compensation handler has no sequence flows")]
    assert told(*parts, END, flow("undo", "end"), flow("a", "end")) == [
        ("undo-end", "a compensation handler has no sequence flows")
    ]
    assert told(*parts, END, flow("c", "end")) == [("c", "nothing flows out of a compensation boundary event")]


def test_a_scope_has_one_none_start_or_events_to_start_it() -> None:
    assert told(END) == [("p", "there is no start event")]
    assert told(START, '<bpmn:startEvent id="again"/>') == [("again", "there are several none start events")]
    assert told(START, f'<bpmn:startEvent id="s">{PAID}</bpmn:startEvent>') == []
    assert told('<bpmn:startEvent id="s"><bpmn:errorEventDefinition/></bpmn:startEvent>') == [
        ("s", "nothing begins with an event of the kind error")
    ]
    sub = f'<bpmn:subProcess id="sub"><bpmn:startEvent id="s">{PAID}</bpmn:startEvent></bpmn:subProcess>'
    assert told(START, sub, flow("start", "sub")) == [("sub", "an embedded subprocess begins with a none start event")]


def test_ways_out_of_an_exclusive_gateway_have_conditions_or_are_the_default() -> None:
    parts = [START, task("a"), task("b"), flow("start", "g")]
    yes = when("${yes}")
    assert told(*parts[:2], parts[3], gateway("exclusive"), flow("g", "a", yes)) == [
        ("g-a", "the only way out of an exclusive gateway must not have a condition")
    ]
    assert told(*parts, gateway("exclusive"), flow("g", "a", yes), flow("g", "b")) == [
        ("g-b", "a way out of an exclusive gateway has a condition, or is the default")
    ]
    with_default = gateway("exclusive", attributes='default="g-b"')
    assert told(*parts, with_default, flow("g", "a", yes), flow("g", "b")) == []
    assert told(*parts, with_default, flow("g", "a", yes), flow("g", "b", yes)) == [
        ("g-b", "a default flow has no condition")
    ]
    assert told(*parts, gateway("inclusive", attributes='default="x"'), flow("g", "a"), flow("g", "b")) == [
        ("g", "default names no flow that leaves it: x")
    ]


def test_conditions_that_nobody_asks_are_remarked() -> None:
    content = process(
        START, gateway("parallel"), task("a"), flow("start", "g"), flow("g", "a", when("${no}")), roots=MESSAGES
    )
    assert [(one.element, one.message) for one in warnings(content)] == [
        ("g-a", "the condition has no effect behind a parallel gateway")
    ]


def test_behind_an_event_based_gateway_are_catch_events_of_its_own() -> None:
    parts = [START, gateway("eventBased"), flow("start", "g")]
    wrong = "behind an event-based gateway are catch events of its own"
    assert told(*parts) == [("g", "an event-based gateway has events behind it")]
    assert told(*parts, catch("c", PAID), catch("d", TIMER), flow("g", "c"), flow("g", "d")) == []
    assert told(*parts, task("a"), flow("g", "a")) == [("g-a", wrong)]
    assert told(*parts, catch("c", PAID), task("a"), flow("g", "c"), flow("c", "a"), flow("a", "c")) == [("g-c", wrong)]
    link = catch("c", '<bpmn:linkEventDefinition name="L"/>')
    assert told(*parts, link, flow("g", "c")) == [("g-c", wrong)]
    assert told(*parts, catch("c", PAID), catch("d", PAID_TOO), flow("g", "c"), flow("g", "d")) == [
        ("d", "another event waits for the message paid at the same place")
    ]


def test_boundary_events_are_attached_to_activities_of_their_scope() -> None:
    parts = [START, task("a"), flow("start", "a")]
    assert told(*parts, boundary("t", "x", TIMER)) == [
        ("t", "attachedToRef names no activity: x"), ("t", "no token can ever come here"),
    ]  # fmt: skip
    assert told(*parts, boundary("t", "start", TIMER)) == [
        ("t", "a boundary event is attached to an activity of its own scope")
    ]
    sub = f'<bpmn:subProcess id="sub"><bpmn:startEvent id="s"/>{boundary("t", "a", TIMER)}</bpmn:subProcess>'
    assert told(*parts, sub, flow("a", "sub")) == [
        ("t", "a boundary event is attached to an activity of its own scope")
    ]
    assert told(*parts, boundary("t", "a", "<bpmn:errorEventDefinition/>", 'cancelActivity="false"')) == [
        ("t", "an error boundary event interrupts")
    ]
    assert told(*parts, boundary("t", "a", "<bpmn:terminateEventDefinition/>")) == [
        ("t", "a boundary event cannot wait for terminate")
    ]
    assert told(*parts, boundary("t", "a", "")) == [("t", "a boundary event has a definition")]


@pytest.mark.parametrize(
    "definition, twice, name",
    [
        (PAID, PAID_TOO, "the message paid"),
        ('<bpmn:errorEventDefinition errorRef="e"/>', '<bpmn:errorEventDefinition errorRef="e"/>', "the error E"),
        ("<bpmn:errorEventDefinition/>", "<bpmn:errorEventDefinition/>", "any error"),
    ],
)
def test_no_two_events_at_one_place_wait_for_the_same(definition: str, twice: str, name: str) -> None:
    parts = [START, task("a"), flow("start", "a"), boundary("x", "a", definition), boundary("y", "a", twice)]
    assert told(*parts) == [("y", f"another event waits for {name} at the same place")]
    other = [task("b"), flow("a", "b"), boundary("y", "b", twice)]
    assert told(*parts[:4], *other) == []


def test_two_starts_of_one_message_are_told_and_a_receive_task_counts_its_boundary() -> None:
    starts = [f'<bpmn:startEvent id="{name}">{PAID}</bpmn:startEvent>' for name in ("s", "t")]
    assert told(*starts) == [("t", "another event waits for the message paid at the same place")]
    receive = '<bpmn:receiveTask id="r" messageRef="m"/>'
    assert told(START, receive, boundary("b", "r", PAID_TOO), flow("start", "r")) == [
        ("b", "another event waits for the message paid at the same place")
    ]


def test_a_compensation_handler_is_joined_says_so_and_lies_in_the_same_scope() -> None:
    parts = [START, task("a"), flow("start", "a"), boundary("c", "a", COMPENSATE)]
    assert told(*parts) == [("c", "a compensation boundary event is joined to its handler by an association")]
    assert told(*parts, task("undo"), joined("c", "undo"), flow("a", "undo")) == [
        ("undo", "a compensation handler says so (isForCompensation)")
    ]
    inner = f'<bpmn:subProcess id="sub"><bpmn:startEvent id="s"/>{handler("undo", "c")}</bpmn:subProcess>'
    assert told(*parts, inner, flow("a", "sub")) == [
        ("undo", "a compensation handler is an activity of the scope of what it undoes")
    ]
    assert told(START, handler("undo", "x")) == [("undo", "no compensation boundary event names this handler")]
    assert told(*parts, handler("undo", "c"), boundary("d", "a", COMPENSATE), joined("d", "undo")) == [
        ("c", "an activity has one compensation boundary event"),
        ("d", "an activity has one compensation boundary event"),
    ]
    assert told(*parts, handler("undo", "c"), boundary("t", "undo", TIMER)) == [
        ("t", "a compensation handler has no boundary events")
    ]


def test_a_throw_names_an_activity_of_its_scope_that_can_be_undone() -> None:
    def thrower(activity: str) -> list[str]:
        definition = f'<bpmn:compensateEventDefinition activityRef="{activity}"/>'
        return [
            START, task("a"), task("b"), boundary("c", "a", COMPENSATE), handler("undo", "c"),
            '<bpmn:subProcess id="sub"><bpmn:startEvent id="s"/></bpmn:subProcess>',
            f'<bpmn:intermediateThrowEvent id="t">{definition}</bpmn:intermediateThrowEvent>',
            flow("start", "a"), flow("a", "b"), flow("b", "sub"), flow("sub", "t"),
        ]  # fmt: skip

    assert told(*thrower("a")) == told(*thrower("sub")) == []
    assert told(*thrower("x")) == [("t", "activityRef names no activity of this scope: x")]
    assert told(*thrower("s")) == [("t", "activityRef names no activity of this scope: s")]
    assert told(*thrower("b")) == [("t", "activityRef names an activity that cannot be undone: b")]


@pytest.mark.parametrize(
    "definition", [TIMER, "<bpmn:terminateEventDefinition/>", '<bpmn:errorEventDefinition errorRef="E"/>']
)
def test_not_everything_can_be_thrown_on_the_way(definition: str) -> None:
    thrown = f'<bpmn:intermediateThrowEvent id="t">{definition}</bpmn:intermediateThrowEvent>'
    ((element, message),) = told(START, thrown, flow("start", "t"))
    assert (element, message.endswith("cannot be thrown here")) == ("t", True)


def test_what_no_token_can_reach_is_told() -> None:
    assert told(START, task("a"), task("b"), flow("a", "b")) == [
        ("a", "no token can ever come here"), ("b", "no token can ever come here"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "parts, expected",
    [
        (['<bpmn:task id="a"/>', '<bpmn:task id="b"/>', flow("a", "b"), flow("b", "a")], ["a"]),
        (['<bpmn:task id="a"/>', flow("a", "a")], ["a"]),
        (['<bpmn:task id="a"/>', gateway("exclusive"), flow("a", "g"), flow("g", "a")], ["a"]),
        ([
            '<bpmn:task id="a"/>', gateway("parallel"), task("w"), flow("a", "g"), flow("g", "a"), flow("g", "w"),
        ], ["a"]),
        ([
            '<bpmn:intermediateThrowEvent id="a"><bpmn:linkEventDefinition name="L"/></bpmn:intermediateThrowEvent>',
            catch("c", '<bpmn:linkEventDefinition name="L"/>'), flow("c", "a"),
        ], ["a"]),
        ([task("a"), '<bpmn:task id="b"/>', flow("a", "b"), flow("b", "a")], []),
        (['<bpmn:task id="a" camunda:asyncBefore="true"/>', flow("a", "a")], []),
        (['<bpmn:task id="a"/>', flow("a", "a", when("${more}"))], []),
        ([
            '<bpmn:task id="a"/>', gateway("exclusive", attributes='default="g-a"'), END,
            flow("a", "g"), flow("g", "a"), flow("g", "end", when("${done}")),
        ], []),
        ([
            '<bpmn:task id="a"/>', gateway("parallel", "f"), '<bpmn:task id="x"/>', '<bpmn:task id="y"/>',
            flow("a", "f"), flow("f", "x"), flow("f", "y"), flow("x", "x"), flow("y", "y"),
        ], ["x", "y"]),
    ],
)  # fmt: skip
def test_circles_that_never_wait_are_told_once_each(parts: list[str], expected: list[str]) -> None:
    found = told(START, *parts, flow("start", "a"))
    assert sorted(found) == [(name, "the model goes round here for ever without waiting") for name in expected]


def test_a_flow_that_leads_nowhere_is_the_only_thing_told_about_what_lies_behind_it() -> None:
    assert told(START, task("a"), flow("start", "typo")) == [("start-typo", "targetRef names no node: typo")]


def test_a_good_model_has_no_findings() -> None:
    assert errors(line(task("a"), task("b"))) == []
    assert list(graph(line(task("a"))).nodes) == ["start", "a", "end"]
