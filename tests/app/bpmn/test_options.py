"""What a deployment may ask for: Java names as topics, what cannot be run ignored; and told."""

import pytest

from app.bpmn.options import Options
from app.bpmn.reader import read
from app.process.graph import Kind, Work
from tests.app.bpmn.writing import IGNORE, TOPICS, errors, extended, flow, graph, line, node, task, warnings, when

BOTH = Options("topics", "ignore")


@pytest.mark.parametrize(
    "attribute, value, topic",
    [
        ("class", "org.acme.Charge", "org.acme.Charge"),
        ("delegateExpression", "${chargeBean}", "chargeBean"),
        ("delegateExpression", "#{ chargeBean }", "chargeBean"),
        ("expression", "${bean.charge(order, 1)}", "bean.charge"),
        ("expression", "${a ? b.c() : d}", "a_b.c"),
        ("decisionRef", "dish table", "dish_table"),
    ],
)
def test_what_names_java_code_becomes_a_topic_when_asked(attribute: str, value: str, topic: str) -> None:
    content = line(f'<bpmn:serviceTask id="a" camunda:{attribute}="{value}"/>')
    message = f"Java code cannot be run ({attribute}); delegates=topics makes an external task of it"
    assert errors(content) == [("a", 4, message)]
    assert errors(content, IGNORE) == [("a", 4, message)]
    assert node(content, "a", TOPICS).work == Work(topic)
    assert [str(one) for one in warnings(content, TOPICS)] == [
        f"warning: line 4, a: {attribute} became an external task with the topic {topic}"
    ]


def test_a_delegate_of_a_message_event_becomes_a_topic_too() -> None:
    definition = '<bpmn:messageEventDefinition camunda:class="org.acme.Send"/>'
    thrown = f'<bpmn:intermediateThrowEvent id="a">{definition}</bpmn:intermediateThrowEvent>'
    assert [one[2] for one in errors(line(thrown))] == [
        "Java code cannot be run (class); delegates=topics makes an external task of it"
    ]
    found = node(line(thrown), "a", TOPICS)
    assert (found.kind, found.work) == (Kind.THROW, Work("org.acme.Send"))


def test_constant_fields_of_a_delegate_become_properties_and_its_result_is_for_the_worker() -> None:
    fields = extended(
        '<camunda:field name="to" stringValue="x"/>',
        '<camunda:field name="cc"><camunda:string>y</camunda:string></camunda:field>',
        '<camunda:field name="when"><camunda:expression>${now()}</camunda:expression></camunda:field>',
    )
    attributes = 'camunda:delegateExpression="${mail}" camunda:resultVariable="sent"'
    content = line(f'<bpmn:serviceTask id="a" {attributes}>{fields}</bpmn:serviceTask>')
    assert node(content, "a", TOPICS).work == Work("mail", properties={"to": "x", "cc": "y"})
    assert {one.message for one in warnings(content, TOPICS)} == {
        "delegateExpression became an external task with the topic mail;"
        " its worker is to complete it with the variable sent",
        "the field when is no constant, and is left out",
    }


def test_an_expression_that_we_can_run_is_run_also_then() -> None:
    content = line('<bpmn:serviceTask id="a" camunda:expression="${x}" camunda:resultVariable="y"/>')
    assert node(content, "a", TOPICS).kind is Kind.SCRIPT
    assert warnings(content, TOPICS) == []


def test_connectors_and_tasks_without_anything_are_errors_whatever_was_asked() -> None:
    connector = extended("<camunda:connector><camunda:connectorId>http</camunda:connectorId></camunda:connector>")
    assert errors(line(f'<bpmn:serviceTask id="a">{connector}</bpmn:serviceTask>'), BOTH) == [
        ("a", 4, "connectors cannot be run")
    ]
    assert errors(line('<bpmn:serviceTask id="a"/>'), BOTH)[0][2].startswith("serviceTask has no implementation")


def listeners(kind: str) -> str:
    return extended(f'\n<camunda:{kind} event="start" class="org.acme.L"/>')


def on_the_flow(inside: str) -> bytes:
    return line(task("a")).replace(flow("a", "end").encode(), flow("a", "end", inside).encode())


@pytest.mark.parametrize(
    "content, element, what",
    [
        (line(task("a", listeners("executionListener"))), "a", "an execution listener"),
        (line(f'<bpmn:userTask id="a">{listeners("taskListener")}</bpmn:userTask>'), "a", "a task listener"),
        (
            line(f'<bpmn:exclusiveGateway id="a">{listeners("executionListener")}</bpmn:exclusiveGateway>'),
            "a",
            "an execution listener",
        ),
        (line(f'<bpmn:task id="a"/>{listeners("executionListener")}'), "p", "an execution listener"),
        (on_the_flow(listeners("executionListener")), "a-end", "an execution listener"),
        (
            line(task("a", extended('\n<camunda:errorEventDefinition errorRef="e" expression="${x}"/>'))),
            "a",
            "an errorEventDefinition of a task",
        ),
    ],
    ids=["activity", "user task", "gateway", "process", "flow", "error of a task"],
)
def test_listeners_are_errors_or_ignored_with_a_warning(content: bytes, element: str, what: str) -> None:
    ((told, at, message),) = errors(content)
    assert (told, message) == (element, f"{what} cannot be run")
    (warning,) = read(content, IGNORE).report.findings
    assert (warning.severity, warning.element, warning.line, warning.message) == (
        "warning", element, at, f"{what} is ignored",
    )  # fmt: skip


@pytest.mark.parametrize("language", ["groovy", "javascript", ""])
def test_a_script_in_another_language_is_an_error_or_a_task_that_does_nothing(language: str) -> None:
    content = line(f'<bpmn:scriptTask id="a" scriptFormat="{language}"><bpmn:script>x</bpmn:script></bpmn:scriptTask>')
    named = language or "no language"
    assert errors(content) == [("a", 4, f"scripts in {named} cannot be run; there are cel and juel")]
    assert node(content, "a", IGNORE).kind is Kind.PASS
    assert [one.message for one in warnings(content, IGNORE)] == [f"the script in {named} is ignored"]


def test_a_parameter_with_such_a_script_is_left_out() -> None:
    script = '<camunda:script scriptFormat="groovy">x</camunda:script>'
    mapping = extended(
        f'<camunda:inputOutput><camunda:inputParameter name="x">{script}</camunda:inputParameter>'
        '<camunda:outputParameter name="y">1</camunda:outputParameter></camunda:inputOutput>'
    )
    content = line(task("a", mapping))
    assert errors(content) == [("a", 4, "scripts in groovy cannot be run; there are cel and juel")]
    found = node(content, "a", IGNORE)
    assert (found.inputs, [one.name for one in found.outputs]) == ((), ["y"])
    assert [one.message for one in warnings(content, IGNORE)] == [
        "the inputParameter x is left out: its script is in groovy"
    ]


def test_a_condition_in_another_language_is_never_ignored() -> None:
    content = line(task("a")).replace(
        flow("a", "end").encode(), flow("a", "end", when("x", 'language="groovy"')).encode()
    )
    assert len(errors(content, BOTH)) == 1


def test_what_is_wrong_with_scripts_in_our_languages_is_not_ignored() -> None:
    content = line('<bpmn:scriptTask id="a" scriptFormat="cel"><bpmn:script>1 +</bpmn:script></bpmn:scriptTask>')
    assert len(errors(content, BOTH)) == 1
    assert len(graph(line(task("a")), BOTH).nodes) == 3
