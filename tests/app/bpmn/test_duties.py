"""What a model says about who does a user task is kept, exactly."""

from __future__ import annotations

import pytest

from app.bpmn.reader import read
from app.bpmn.writer import write
from app.process.graph import Duty, Expression, Graph
from app.process.graph_json import from_json, to_json

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:camunda="http://camunda.org/schema/1.0/bpmn"'
    ' xmlns:activiti="http://activiti.org/bpmn"><process id="p" isExecutable="true"><startEvent id="s"/>'
    '<sequenceFlow id="f" sourceRef="s" targetRef="u"/>'
)


def model(task: str) -> bytes:
    return f"{HEAD}{task}</process></definitions>".encode()


def graph_of(task: str) -> Graph:
    reading = read(model(task))
    assert not reading.report.errors
    return reading.models[0].graph


def duty(task: str) -> Duty | None:
    return graph_of(task).nodes["u"].duty


@pytest.mark.parametrize("space", ["camunda", "activiti"])
def test_attributes_and_documentation(space: str) -> None:
    task = (
        '<userTask id="u" name="Ask ${who}" X:assignee="${who}" X:candidateUsers="a,b" X:candidateGroups="g"'
        ' X:dueDate="P1D" X:followUpDate="${soon}" X:priority="7" X:formKey="f"><documentation> why </documentation>'
        "</userTask>"
    )
    assert duty(task.replace("X:", f"{space}:")) == Duty(
        assignee=Expression("${who}"), candidate_users="a,b", candidate_groups="g", due="P1D",
        follow_up=Expression("${soon}"), priority="7", name=Expression("Ask ${who}"), description="why", form_key="f",
    )  # fmt: skip


def test_a_human_performer_is_the_assignee() -> None:
    who = "<resourceAssignmentExpression><formalExpression>ann</formalExpression></resourceAssignmentExpression>"
    assert duty(f'<userTask id="u"><humanPerformer>{who}</humanPerformer></userTask>') == Duty(assignee="ann")


def test_a_task_of_which_nothing_is_said() -> None:
    assert duty('<userTask id="u" name="Look"/>') is None


def test_what_cannot_be_run_is_left_out_and_told() -> None:
    reading = read(model('<userTask id="u" camunda:assignee="${bean.find(1)}" camunda:candidateGroups="g"/>'))
    assert not reading.report.errors
    (warning,) = [str(finding) for finding in reading.report.findings]
    assert "the assignee ${bean.find(1)} is left out" in warning
    assert reading.models[0].graph.nodes["u"].duty == Duty(candidate_groups="g")


def test_it_survives_being_kept_and_being_written() -> None:
    graph = graph_of(
        '<userTask id="u" name="${n}" camunda:assignee="&lt;a&gt;" camunda:candidateUsers="${users}"'
        ' camunda:priority="${1}" camunda:dueDate="2030-01-01T00:00:00Z">'
        "<documentation>x &amp; y</documentation></userTask>"
    )
    assert from_json(to_json(graph)) == graph
    assert read(write(graph)).models[0].graph.nodes == graph.nodes


@pytest.mark.parametrize("element", ["sendTask", "businessRuleTask", "serviceTask"])
def test_the_element_of_work_is_kept(element: str) -> None:
    graph = graph_of(f'<{element} id="u" camunda:type="external" camunda:topic="t"/>')
    assert graph.nodes["u"].element == (None if element == "serviceTask" else element)
    assert read(write(from_json(to_json(graph)))).models[0].graph.nodes == graph.nodes
