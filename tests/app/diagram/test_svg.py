"""Pictures: well-formed, complete, with marks where they belong, and harmless whatever the model says."""

from xml.etree import ElementTree

from app.bpmn.markup import parse
from app.bpmn.reader import read
from app.diagram.interchange import drawn
from app.diagram.layout import laid_out
from app.diagram.svg import Marks, rendered
from app.process.graph import Graph

SVG = "{http://www.w3.org/2000/svg}"
HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:camunda="http://camunda.org/schema/1.0/bpmn"'
    ' xmlns:di="http://www.omg.org/spec/DD/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC"'
    ' xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI">'
)
PROCESS = """
<process id="p" isExecutable="true"><startEvent id="s"/>
  <subProcess id="sub" name="&lt;script>alert(1)&lt;/script>"><startEvent id="i"/><task id="t"/>
    <sequenceFlow id="f0" sourceRef="i" targetRef="t"/></subProcess>
  <boundaryEvent id="b" attachedToRef="sub">
    <timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>
  <exclusiveGateway id="g"/><endEvent id="e"/><endEvent id="e2"/>
  <sequenceFlow id="f1" sourceRef="s" targetRef="sub"/><sequenceFlow id="f2" sourceRef="sub" targetRef="g"/>
  <sequenceFlow id="f3" sourceRef="g" targetRef="e"/><sequenceFlow id="f4" sourceRef="b" targetRef="e2"/>
</process>"""


def graph_of(text: str) -> Graph:
    reading = read(text.encode())
    assert not reading.report.errors, [str(one) for one in reading.report.errors]
    return reading.models[0].graph


def test_a_model_without_a_picture_is_laid_out_whole() -> None:
    graph = graph_of(f"{HEAD}{PROCESS}</definitions>")
    picture = laid_out(graph)
    assert picture.boxes.keys() == graph.nodes.keys()
    assert picture.lines.keys() == graph.flows.keys()
    sub, task = picture.boxes["sub"], picture.boxes["t"]
    assert sub.x < task.x
    assert sub.x + sub.width > task.x + task.width
    assert picture.boxes["s"].x < sub.x < picture.boxes["g"].x < picture.boxes["e"].x


def test_the_picture_of_a_modeler_is_kept() -> None:
    shapes = "".join(
        f'<bpmndi:BPMNShape bpmnElement="{name}"><dc:Bounds x="{10 * place}" y="5" width="30" height="20"/>'
        "</bpmndi:BPMNShape>"
        for place, name in enumerate(("s", "sub", "i", "t", "b", "g", "e", "e2"))
    )
    edge = '<bpmndi:BPMNEdge bpmnElement="f1"><di:waypoint x="1" y="2"/><di:waypoint x="3" y="4"/></bpmndi:BPMNEdge>'
    plane = f"<bpmndi:BPMNDiagram><bpmndi:BPMNPlane>{shapes}{edge}</bpmndi:BPMNPlane></bpmndi:BPMNDiagram>"
    text = f"{HEAD}{PROCESS}{plane}</definitions>"
    picture = drawn(parse(text.encode()), graph_of(text))
    assert picture is not None
    assert (picture.boxes["t"].x, picture.lines["f1"]) == (30, [(1, 2), (3, 4)])
    assert drawn(parse(text.replace('bpmnElement="t"', 'bpmnElement="x"').encode()), graph_of(text)) is None
    assert drawn(parse(text.replace('x="30"', 'x="1e999"').encode()), graph_of(text)) is None


def test_the_svg_is_well_formed_shows_the_marks_and_runs_nothing() -> None:
    graph = graph_of(f"{HEAD}{PROCESS}</definitions>")
    text = rendered(graph, laid_out(graph), Marks(tokens={"t": 3}, passed={"s": 7}, incidents={"t": 1}))
    root = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "defs", "marker", "path", "g", "rect", "circle", "polygon", "polyline", "line", "text"),
    }
    assert {g.get("data-node") for g in root.iter(f"{SVG}g")} >= graph.nodes.keys()
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert {"3 tokens here", "7 times done", "1 incidents"} <= set(titles)
    assert "<script" not in text


def test_a_handler_hangs_on_its_event() -> None:
    body = (
        '<process id="p" isExecutable="true"><startEvent id="s"/><task id="a"/><endEvent id="e"/>'
        '<task id="undo" isForCompensation="true"/>'
        '<boundaryEvent id="b" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
        '<association id="x" sourceRef="b" targetRef="undo"/>'
        '<sequenceFlow id="f" sourceRef="s" targetRef="a"/><sequenceFlow id="g" sourceRef="a" targetRef="e"/></process>'
    )
    graph = graph_of(f"{HEAD}{body}</definitions>")
    picture = laid_out(graph)
    (line,) = ElementTree.fromstring(rendered(graph, picture)).iter(f"{SVG}line")
    x, y = picture.boxes["undo"].centre
    assert (float(line.get("x2", "")), float(line.get("y2", ""))) == (x, y)
