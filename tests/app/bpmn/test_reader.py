"""What each element of a file becomes in the graph, and what is told about what it cannot become."""

import pytest

from app.bpmn.reader import read
from app.process.graph import Assignment, Event, EventKind, Expression, Kind, Script, Work
from tests.app.bpmn.writing import (
    IGNORE,
    document,
    errors,
    extended,
    flow,
    graph,
    line,
    node,
    process,
    task,
    warnings,
    when,
)

MESSAGE = '<bpmn:message id="m" name="paid"/>'
SIGNAL = '<bpmn:signal id="s" name="alarm"/>'
ERROR = '<bpmn:error id="e" errorCode="E1"/>'


def event(local: str, inside: str = "", name: str = "a", attributes: str = "") -> str:
    return f'<bpmn:{local} id="{name}" {attributes}>{inside}</bpmn:{local}>'


def test_a_process_has_its_names_nodes_and_flows_in_the_order_of_the_document() -> None:
    content = line(task("a"), task("b"), attributes='name="An order" camunda:versionTag="1.2"')
    (model,) = read(content).models
    assert (model.graph.process, model.graph.name, model.version_tag) == ("p", "An order", "1.2")
    assert list(model.graph.nodes) == ["start", "a", "b", "end"]
    assert [(one.source, one.target) for one in model.graph.flows.values()] == [
        ("start", "a"),
        ("a", "b"),
        ("b", "end"),
    ]
    assert (model.lines["start"], model.lines["a"]) == (3, 4)


def test_every_executable_process_of_a_file_is_read_and_no_other() -> None:
    part = '<bpmn:process id="{0}" {1}><bpmn:startEvent id="{0}_s"/></bpmn:process>'
    content = document(
        part.format("one", 'isExecutable="true"'), part.format("two", ""), part.format("no", 'isExecutable="false"')
    )
    assert [model.graph.process for model in read(content).models] == ["one", "two"]
    assert errors(document(part.format("no", 'isExecutable="false"'))) == [
        (None, 1, "the file has no executable process")
    ]


def test_what_is_for_people_only_is_left_out() -> None:
    content = line(
        task("a")
        + '<bpmn:laneSet id="l"><bpmn:lane id="l1"><bpmn:flowNodeRef>a</bpmn:flowNodeRef></bpmn:lane></bpmn:laneSet>'
        + '<bpmn:dataObject id="d"/><bpmn:dataObjectReference id="dr" dataObjectRef="d"/>'
        + '<bpmn:textAnnotation id="t"><bpmn:text>why</bpmn:text></bpmn:textAnnotation>'
        + '<bpmn:association id="as" sourceRef="a" targetRef="t"/><bpmn:documentation>words</bpmn:documentation>'
    )
    assert list(graph(content).nodes) == ["start", "a", "end"]


@pytest.mark.parametrize("space", ["camunda", "activiti"])
def test_an_external_task_has_topic_priority_retries_and_properties_in_either_namespace(space: str) -> None:
    properties = f'<{space}:properties><{space}:property name="k" value="v"/></{space}:properties>'
    retry = f"<{space}:failedJobRetryTimeCycle>R5/PT10M</{space}:failedJobRetryTimeCycle>"
    content = line(
        f'<bpmn:serviceTask id="a" {space}:type="external" {space}:topic="charge" {space}:taskPriority="7"'
        f' {space}:asyncBefore="true" {space}:asyncAfter="true">{extended(properties, retry)}</bpmn:serviceTask>'
    )
    found = node(content)
    assert found.kind is Kind.TASK
    assert found.work == Work("charge", 7, "R5/PT10M", {"k": "v"})
    assert (found.commit_before, found.commit_after) == (True, True)


def test_a_task_without_a_priority_has_that_of_its_process_and_retries_may_be_a_property() -> None:
    retries = '<camunda:properties><camunda:property name="retries" value="4"/></camunda:properties>'
    content = line(
        task("a", extended(retries)), task("b", attributes='camunda:taskPriority="${p}"'),
        attributes='camunda:taskPriority="9"',
    )  # fmt: skip
    assert node(content, "a").work == Work("do-a", 9, "4", {"retries": "4"})
    assert node(content, "b").work == Work("do-b", Expression("${p}"))


@pytest.mark.parametrize("local", ["serviceTask", "sendTask", "businessRuleTask"])
def test_service_send_and_business_rule_tasks_are_work_for_somebody_outside(local: str) -> None:
    content = line(f'<bpmn:{local} id="a" camunda:type="external" camunda:topic="${{to}}"/>')
    assert node(content).work == Work(Expression("${to}"))
    assert errors(line(f'<bpmn:{local} id="a"/>')) == [
        ("a", 4, f"{local} has no implementation (camunda:type and topic)")
    ]


@pytest.mark.parametrize(
    "attributes, message",
    [
        ('camunda:type="external"', "an external task has a topic (camunda:topic)"),
        (
            'camunda:type="external" camunda:topic=" x"',
            "a topic has 1 to 255 printable characters and no space around them",
        ),
        ('camunda:type="mail"', "tasks of type mail cannot be run"),
        (
            'camunda:type="external" camunda:topic="t" camunda:taskPriority="high"',
            "taskPriority is a whole number or an expression",
        ),
    ],
)
def test_work_that_nobody_could_do_is_told(attributes: str, message: str) -> None:
    assert errors(line(f'<bpmn:serviceTask id="a" {attributes}/>')) == [("a", 4, message)]


def test_a_service_task_with_an_expression_that_runs_is_a_script() -> None:
    content = line('<bpmn:serviceTask id="a" camunda:expression="${x + 1}" camunda:resultVariable="y"/>')
    assert node(content).script == Script(Expression("${x + 1}"), "y")


@pytest.mark.parametrize("language", ["cel", "juel", "CEL "])
def test_scripts_in_our_languages_are_read(language: str) -> None:
    text = "x + 1" if "el" in language.lower()[:3] and language.lower().startswith("c") else "${x + 1}"
    content = line(
        f'<bpmn:scriptTask id="a" scriptFormat="{language}" camunda:resultVariable="y"><bpmn:script>'
        f"{text}</bpmn:script></bpmn:scriptTask>"
    )
    assert node(content).script == Script(Expression(text, language.strip().lower()), "y")


def test_scripts_that_are_empty_or_wrong_are_told_with_their_line() -> None:
    one = '<bpmn:scriptTask id="a" scriptFormat="{}">\n<bpmn:script>{}</bpmn:script></bpmn:scriptTask>'
    assert errors(line(one.format("cel", " "))) == [("a", 5, "the script is empty")]
    assert errors(line('<bpmn:scriptTask id="a" scriptFormat="cel"/>')) == [("a", 4, "the script is empty")]
    ((element, at, message),) = errors(line(one.format("cel", "1 +")))
    assert (element, at) == ("a", 5)
    assert message.startswith("the script 1 + cannot be run")


@pytest.mark.parametrize(
    "local, kind",
    [("userTask", Kind.USER), ("manualTask", Kind.PASS), ("task", Kind.PASS), ("receiveTask", Kind.RECEIVE)],
)
def test_tasks_that_no_worker_does(local: str, kind: Kind) -> None:
    assert node(line(event(local))).kind is kind


def test_a_receive_task_waits_for_its_message() -> None:
    content = line('<bpmn:receiveTask id="a" messageRef="m"/>', roots=MESSAGE)
    assert node(content).event == Event(EventKind.MESSAGE, name="paid")
    assert errors(line('<bpmn:receiveTask id="a" messageRef="x"/>')) == [
        ("a", 4, "messageRef names no message with a name: x")
    ]


def test_input_and_output_parameters_hold_texts_expressions_lists_maps_and_scripts() -> None:
    mapping = extended(
        "<camunda:inputOutput>",
        '<camunda:inputParameter name="text">plain</camunda:inputParameter>',
        '<camunda:inputParameter name="nothing"/>',
        '<camunda:inputParameter name="list"><camunda:list><camunda:value>1</camunda:value>'
        '<camunda:script scriptFormat="cel">x</camunda:script></camunda:list></camunda:inputParameter>',
        '<camunda:inputParameter name="map"><camunda:map><camunda:entry key="k">${v}</camunda:entry>'
        '<camunda:entry key="l"><camunda:list/></camunda:entry></camunda:map></camunda:inputParameter>',
        '<camunda:outputParameter name="out">PT${h}H</camunda:outputParameter>',
        "</camunda:inputOutput>",
    )
    found = node(line(task("a", mapping)))
    assert found.inputs == (
        Assignment("text", "plain"),
        Assignment("nothing", None),
        Assignment("list", ["1", Expression("x", "cel")]),
        Assignment("map", {"k": Expression("${v}"), "l": []}),
    )
    assert found.outputs == (Assignment("out", Expression("PT${h}H")),)


def test_parameters_that_cannot_be_are_told() -> None:
    mapping = extended(
        "\n<camunda:inputOutput>",
        "\n<camunda:inputParameter/>",
        '\n<camunda:inputParameter name="x"><camunda:connector/></camunda:inputParameter>',
        '\n<camunda:inputParameter name="y">${}</camunda:inputParameter></camunda:inputOutput>',
    )
    found = errors(line(task("a", mapping)))
    assert [(element, at) for element, at, _ in found] == [("a", 6), ("a", 7), ("a", 8)]
    assert [message.split(":")[0] for _, _, message in found] == [
        "an inputParameter has no name",
        "a parameter cannot hold connector",
        "the expression ${} cannot be run",
    ]


def test_events_have_parameters_too_but_gateways_have_none() -> None:
    mapping = extended(
        '<camunda:inputOutput><camunda:outputParameter name="o">1</camunda:outputParameter></camunda:inputOutput>'
    )
    timer = "<bpmn:timerEventDefinition><bpmn:timeDuration>PT1H</bpmn:timeDuration></bpmn:timerEventDefinition>"
    assert node(line(event("intermediateCatchEvent", mapping + timer))).outputs == (Assignment("o", "1"),)
    assert errors(line(event("exclusiveGateway", mapping))) == [("a", 4, "a gateway has no input or output parameters")]
    content = line(task("a")).replace(b'<bpmn:endEvent id="end"/>', event("endEvent", mapping, "end").encode())
    assert errors(content) == [("end", 5, "an end event has no output parameters")]


@pytest.mark.parametrize(
    "local, kind",
    [
        ("exclusiveGateway", Kind.EXCLUSIVE),
        ("parallelGateway", Kind.PARALLEL),
        ("inclusiveGateway", Kind.INCLUSIVE),
    ],
)
def test_gateways(local: str, kind: Kind) -> None:
    assert node(line(event(local))).kind is kind


def test_conditions_are_expressions_of_either_language() -> None:
    flows = [
        flow("start", "g"),
        flow("g", "a", when("\n ${x > 1}\n")),
        flow("g", "end", when("x > 1", 'language="cel"')),
    ]
    content = process(
        '<bpmn:startEvent id="start"/>', event("exclusiveGateway", name="g"), task("a"), '<bpmn:endEvent id="end"/>',
        *flows, flow("a", "end"),
    )  # fmt: skip
    found = graph(content).flows
    assert found["g-a"].condition == Expression("${x > 1}")
    assert found["g-end"].condition == Expression("x > 1", "cel")


@pytest.mark.parametrize(
    "condition, message",
    [
        (when(" "), "the condition is empty"),
        (when("x"), "a condition is one expression: ${…}"),
        (when("${a} and ${b}"), "a condition is one expression: ${…}"),
        (when("x", 'language="groovy"'), "the condition x cannot be run: the language groovy is not known"),
        (when("${a.b()}"), "the condition ${a.b()} cannot be run"),
    ],
)
def test_conditions_that_cannot_be_run_are_told(condition: str, message: str) -> None:
    content = line(task("a")).replace(flow("a", "end").encode(), flow("a", "end", condition).encode())
    ((element, at, told),) = errors(content)
    assert (element, at) == ("a-end", 7)
    assert told.startswith(message)


@pytest.mark.parametrize(
    "timer, text, expected",
    [
        ("timeDate", "2026-12-24T18:00:00Z", Event(EventKind.TIMER, timer="date", when="2026-12-24T18:00:00Z")),
        ("timeDuration", "P2W", Event(EventKind.TIMER, timer="duration", when="P2W")),
        (
            "timeDuration",
            "PT${h}H",
            Event(EventKind.TIMER, timer="duration", when=Expression("PT${h}H")),
        ),
        ("timeCycle", "R3/PT10M", Event(EventKind.TIMER, timer="cycle", when="R3/PT10M")),
        (
            "timeCycle",
            "R/2026-01-01T00:00:00Z/PT1H",
            Event(EventKind.TIMER, timer="cycle", when="R/2026-01-01T00:00:00Z/PT1H"),
        ),
        ("timeCycle", "0 0 12 * * ?", Event(EventKind.TIMER, timer="cycle", when="0 0 12 * * ?")),
        ("timeCycle", "@daily", Event(EventKind.TIMER, timer="cycle", when="@daily")),
    ],
)
def test_timers(timer: str, text: str, expected: Event) -> None:
    definition = f"<bpmn:timerEventDefinition><bpmn:{timer}>\n{text} </bpmn:{timer}></bpmn:timerEventDefinition>"
    content = line(task("a") + event("boundaryEvent", definition, "t", 'attachedToRef="a" cancelActivity="false"'))
    found = node(content, "t")
    assert (found.event, found.interrupting, found.attached_to) == (expected, False, "a")


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<bpmn:timeDuration/>",
        "<bpmn:timeDuration>PT1H</bpmn:timeDuration><bpmn:timeDate>2026-12-24</bpmn:timeDate>",
    ],
)
def test_a_timer_has_one_time(inside: str) -> None:
    content = line(
        event("intermediateCatchEvent", f"\n<bpmn:timerEventDefinition>{inside}</bpmn:timerEventDefinition>")
    )
    assert errors(content) == [("a", 5, "a timer has one of timeDate, timeDuration, timeCycle")]


@pytest.mark.parametrize(
    "timer, text",
    [
        ("timeDate", "tomorrow"), ("timeDate", "PT1H"), ("timeDuration", "5 minutes"), ("timeDuration", "P"),
        ("timeDuration", "PT"), ("timeCycle", "R0/PT1H"), ("timeCycle", "R3"), ("timeCycle", "R3/often"),
        ("timeCycle", "* *"), ("timeCycle", "R-1/PT1H"), ("timeCycle", "R3/2026-01-01/2026-01-02"),
    ],
)  # fmt: skip
def test_times_that_are_none_are_told_at_their_line(timer: str, text: str) -> None:
    definition = f"<bpmn:timerEventDefinition>\n<bpmn:{timer}>{text}</bpmn:{timer}></bpmn:timerEventDefinition>"
    ((element, at, message),) = errors(line(event("intermediateCatchEvent", definition)))
    assert (element, at, message.split()[0]) == ("a", 5, timer)


@pytest.mark.parametrize(
    "definition, expected",
    [
        ('<bpmn:messageEventDefinition messageRef="m"/>', Event(EventKind.MESSAGE, name="paid")),
        ('<bpmn:messageEventDefinition messageRef="tns:m"/>', Event(EventKind.MESSAGE, name="paid")),
        ('<bpmn:signalEventDefinition signalRef="s"/>', Event(EventKind.SIGNAL, name="alarm")),
    ],
)
def test_messages_and_signals_have_the_names_that_the_file_gives_them(definition: str, expected: Event) -> None:
    content = line(event("intermediateCatchEvent", definition), roots=MESSAGE + SIGNAL)
    assert node(content).event == expected


@pytest.mark.parametrize(
    "definition, message",
    [
        ("<bpmn:messageEventDefinition/>", "the message event names no message (messageRef)"),
        ('<bpmn:signalEventDefinition signalRef="x"/>', "signalRef names no signal with a name: x"),
        ('<bpmn:signalEventDefinition signalRef="n"/>', "signalRef names no signal with a name: n"),
        ('<bpmn:signalEventDefinition signalRef="w"/>', "the name of a signal has 1 to 255 printable characters"),
        ("<bpmn:terminateEventDefinition/>", "a catch event waits for a timer, a message, a signal or a link"),
        ("", "a catch event waits for a timer, a message, a signal or a link"),
        ("<bpmn:conditionalEventDefinition/>", "conditional events are not there yet"),
        ("<bpmn:strangeEventDefinition/>", "strangeEventDefinition are not there yet"),
        (
            '<bpmn:signalEventDefinition signalRef="s"/><bpmn:messageEventDefinition messageRef="m"/>',
            "an event with several definitions is not known",
        ),
    ],
)
def test_catch_events_that_could_not_be_caught_are_told_once(definition: str, message: str) -> None:
    roots = MESSAGE + SIGNAL + '<bpmn:signal id="n"/><bpmn:signal id="w" name=" "/>'
    content = line(event("intermediateCatchEvent", definition), roots=roots)
    assert errors(content) == [("a", 4, message)]


def test_errors_have_codes_and_the_variables_that_get_them() -> None:
    names = 'camunda:errorCodeVariable="code" camunda:errorMessageVariable="text"'
    extra = event(
        "boundaryEvent", f'<bpmn:errorEventDefinition errorRef="e" {names}/>', "caught", 'attachedToRef="a"'
    ) + event("boundaryEvent", "<bpmn:errorEventDefinition/>", "any", 'attachedToRef="a"')
    found = graph(line(task("a") + extra, roots=ERROR)).nodes
    assert found["caught"].event == Event(EventKind.ERROR, name="E1", code_variable="code", message_variable="text")
    assert found["any"].event == Event(EventKind.ERROR)


def test_the_reference_of_an_error_that_the_file_does_not_define_is_its_code() -> None:
    content = line(
        task("a") + event("boundaryEvent", '<bpmn:errorEventDefinition errorRef="E9"/>', "c", 'attachedToRef="a"')
    )
    assert node(content, "c").event == Event(EventKind.ERROR, name="E9")


@pytest.mark.parametrize(
    "definition, message",
    [
        ("<bpmn:errorEventDefinition/>", "an error end event names its error (errorRef)"),
        ('<bpmn:errorEventDefinition errorRef="e"/>', "the error e has no errorCode"),
    ],
)
def test_an_error_end_event_has_a_code(definition: str, message: str) -> None:
    content = line(task("a"), roots='<bpmn:error id="e"/>')
    content = content.replace(b'<bpmn:endEvent id="end"/>', event("endEvent", definition, "end").encode())
    assert errors(content) == [("end", 5, message)]


@pytest.mark.parametrize("local", ["intermediateThrowEvent", "endEvent"])
def test_a_message_is_sent_by_whoever_works_on_its_topic(local: str) -> None:
    def one(attributes: str) -> bytes:
        thrown = event(local, f"<bpmn:messageEventDefinition {attributes}/>", "x")
        return process('<bpmn:startEvent id="start"/>', thrown, flow("start", "x"), roots=MESSAGE)

    found = node(one('messageRef="m" camunda:type="external" camunda:topic="send"'), "x")
    assert (found.work, found.event) == (Work("send"), Event(EventKind.MESSAGE, name="paid"))
    assert [str(one) for one in warnings(one(""))] == [
        "warning: line 4, x: a message event without an implementation sends nothing"
    ]
    assert [one.message for one in warnings(one('camunda:expression="${x}"'))] == [
        "an expression sends nothing, and is not run"
    ]


def test_links_are_joined_by_name_in_their_scope() -> None:
    thrown = event("intermediateThrowEvent", '<bpmn:linkEventDefinition name="L"/>', "t")
    caught = event("intermediateCatchEvent", '<bpmn:linkEventDefinition name="L"/>', "c")
    start, end = '<bpmn:startEvent id="start"/>', '<bpmn:endEvent id="end"/>'
    content = process(start, thrown, caught, end, flow("start", "t"), flow("c", "end"))
    assert (node(content, "t").kind, node(content, "t").link) == (Kind.LINK, "c")
    assert node(content, "c").event == Event(EventKind.NONE)
    assert errors(process(start, thrown, flow("start", "t"))) == [("t", 4, "no catch event has the link L")]
    twice = process(start, thrown, caught, caught.replace('"c"', '"d"'), flow("start", "t"))
    assert ("d", 6, "there are two catch events for the link L") in errors(twice)
    nameless = process(start, thrown.replace('name="L"', ""), flow("start", "t"))
    assert ("t", 4, "a link event has a name") in errors(nameless)


def test_a_compensation_boundary_event_is_joined_to_its_handler_by_an_association() -> None:
    handler = task("undo", attributes='isForCompensation="true"')
    caught = event("boundaryEvent", "<bpmn:compensateEventDefinition/>", "c", 'attachedToRef="a"')
    joined = '<bpmn:association id="as" sourceRef="c" targetRef="undo"/>'
    thrown = event(
        "intermediateThrowEvent", '<bpmn:compensateEventDefinition activityRef="a" waitForCompletion="false"/>', "b"
    )
    content = line(task("a") + handler + caught + joined, thrown)
    found = graph(content)
    assert (found.nodes["c"].handler, found.nodes["undo"].for_compensation) == ("undo", True)
    assert found.compensation_of("a") == "undo"
    assert found.nodes["b"].event == Event(EventKind.COMPENSATION, activity="a")
    assert [one.message for one in warnings(content)] == ["waitForCompletion=false is not known: the event waits"]


def test_a_subprocess_has_nodes_of_its_own_scope() -> None:
    inner = '<bpmn:startEvent id="s"/>' + task("x") + flow("s", "x")
    found = graph(line(f'<bpmn:subProcess id="a">{inner}</bpmn:subProcess>'))
    assert (found.nodes["a"].kind, found.nodes["x"].scope, found.nodes["a"].scope) == (Kind.SUBPROCESS, "a", "p")


def test_attributes_of_ours_ask_for_the_ways_of_camunda() -> None:
    plain, asked = graph(line(task("a"))), 'celeriac:parallelCompensation="true" celeriac:countingJoins="TRUE"'
    assert (plain.parallel_compensation, plain.counting_joins) == (False, False)
    other = graph(line(task("a"), attributes=asked))
    assert (other.parallel_compensation, other.counting_joins) == (True, True)


@pytest.mark.parametrize(
    "element, message",
    [
        ('<bpmn:callActivity id="a" calledElement="q"/>', "call activities are not there yet"),
        ('<bpmn:adHocSubProcess id="a"/>', "ad-hoc subprocesses are not there yet"),
        ('<bpmn:complexGateway id="a"/>', "complex gateways are not there yet"),
        ('<bpmn:userTask id="a" startQuantity="2"/>', "activities that count tokens (startQuantity) are not there yet"),
        ('<bpmn:teaTask id="a"/>', "teaTask is not known"),
        (
            '<bpmn:transaction id="a"><bpmn:startEvent id="s"/></bpmn:transaction>',
            "transactions are not there yet",
        ),
        (
            '<bpmn:userTask id="a"><bpmn:multiInstanceLoopCharacteristics/></bpmn:userTask>',
            "multi-instance and loop activities are not there yet",
        ),
        (
            '<bpmn:subProcess id="a"><bpmn:standardLoopCharacteristics/><bpmn:startEvent id="s"/></bpmn:subProcess>',
            "multi-instance and loop activities are not there yet",
        ),
    ],
)
def test_what_is_not_there_yet_is_one_error_and_nothing_around_it_is(element: str, message: str) -> None:
    extra = event("boundaryEvent", "<bpmn:errorEventDefinition/>", "c", 'attachedToRef="a"')
    beside = "" if "Gateway" in element else extra
    assert errors(line(element + beside)) == [("a", 4, message)]


@pytest.mark.parametrize(
    "attribute, message",
    [
        ('eventGatewayType="Parallel"', "event-based gateways that wait for all of their events are not there yet"),
        ('instantiate="true"', "gateways that begin an instance are not there yet"),
        ('eventGatewayType="Exclusive" instantiate="false"', None),
    ],
)
def test_an_event_based_gateway_waits_for_the_first_of_its_events(attribute: str, message: str | None) -> None:
    timer = "<bpmn:timerEventDefinition><bpmn:timeDuration>PT1H</bpmn:timeDuration></bpmn:timerEventDefinition>"
    caught = event("intermediateCatchEvent", timer, "c")
    flows = flow("s", "a") + flow("a", "c")
    model = process(f'<bpmn:startEvent id="s"/><bpmn:eventBasedGateway id="a" {attribute}/>{caught}{flows}')
    assert [told for _, _, told in errors(model)] == ([] if message is None else [message])


def test_what_is_inside_an_event_subprocess_is_looked_at_as_well() -> None:
    inner = (
        '\n<bpmn:startEvent id="s"><bpmn:escalationEventDefinition/></bpmn:startEvent>\n<bpmn:serviceTask id="x"/>'
        + flow("s", "x")
    )
    content = line(task("a") + f'<bpmn:subProcess id="on" triggeredByEvent="true">{inner}</bpmn:subProcess>')
    assert errors(content) == [
        ("on", 4, "event subprocesses are not there yet"),
        ("s", 5, "escalation events are not there yet"),
        ("x", 6, "serviceTask has no implementation (camunda:type and topic)"),
    ]


def test_all_problems_of_all_processes_are_told_in_the_order_of_lines() -> None:
    content = document(
        '<bpmn:process id="one">',
        '<bpmn:serviceTask id="a"/>',
        "</bpmn:process>",
        '<bpmn:process id="two">',
        '<bpmn:startEvent id="s"/>',
        '<bpmn:task id="far"/>',
        "</bpmn:process>",
    )
    assert errors(content) == [
        ("one", 2, "there is no start event"),
        ("a", 3, "serviceTask has no implementation (camunda:type and topic)"),
        ("far", 7, "no token can ever come here"),
    ]


def test_ids_are_there_unique_and_not_too_long() -> None:
    assert errors(process('<bpmn:startEvent id="s"/>', '<bpmn:task id="s"/>')) == [
        ("s", 4, "the id is taken: line 3 has it, too")
    ]
    long = "x" * 256
    found = errors(process('<bpmn:startEvent id="s"/><bpmn:task/>', f'<bpmn:task id="{long}"/>'))
    assert found == [
        (None, 3, "task has no id"),
        ("x" * 255, 4, "task has an id of more than 255 characters, or with spaces"),
    ]
    assert errors(document("<bpmn:process><bpmn:startEvent id='s'/></bpmn:process>")) == [
        (None, 2, "a process has an id of 1 to 255 characters")
    ]


def test_a_start_event_depends_on_no_variable() -> None:
    content = process(
        event("startEvent", '<bpmn:messageEventDefinition messageRef="m"/>', "start"),
        roots='<bpmn:message id="m" name="order-${key}"/>',
    )
    assert errors(content) == [("start", 3, "a start event has no variables that its event could depend on")]
    content = process('<bpmn:startEvent id="start" camunda:initiator="who"/>')
    assert [one.message for one in warnings(content)] == ["the variable who (initiator) is not set"]


def test_flows_need_no_ids_and_names_of_incoming_and_outgoing_flows_are_not_asked() -> None:
    content = process(
        '<bpmn:startEvent id="s"><bpmn:outgoing>f</bpmn:outgoing></bpmn:startEvent>', task("a"),
        '<bpmn:sequenceFlow sourceRef="s" targetRef="a"/>', '<bpmn:sequenceFlow sourceRef="s" targetRef="a"/>',
    )  # fmt: skip
    assert len(graph(content).flows) == 2


def test_retry_cycles_that_are_none_are_remarked() -> None:
    cycle = "<camunda:failedJobRetryTimeCycle>{}</camunda:failedJobRetryTimeCycle>"
    for text in ("5", "R5/PT10M", "PT1M, PT5M", "${cycle}"):
        assert warnings(line(task("a", extended(cycle.format(text))))) == []
    for text in ("often", "R5", "R5/x", "-1", "PT1M;PT2M"):
        (told,) = warnings(line(task("a", extended(cycle.format(text)))))
        assert told.message == f"the retry cycle {text} is not known, and has no effect"


def test_no_file_of_another_kind_is_read() -> None:
    assert errors(b"<definitions/>") == [(None, 1, "this is no BPMN 2.0 file: its root is not definitions")]
    assert errors(b'<definitions xmlns="http://www.omg.org/spec/DMN/20151101/dmn.xsd"/>')[0][2].startswith(
        "this is no BPMN"
    )
    assert read(b"").report.errors[0].message.startswith("this is no XML")


def test_ignoring_is_an_option_that_a_good_model_does_not_need() -> None:
    assert read(line(task("a")), IGNORE).report.findings == []
