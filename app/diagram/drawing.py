"""The picture of what is deployed: where the file places things, or laid out here."""

from __future__ import annotations

from app import exact_json
from app.bpmn.markup import parse
from app.diagram.interchange import drawn
from app.diagram.layout import laid_out
from app.diagram.svg import Marks, rendered
from app.process.graph_json import from_json


def drawing(graph_json: str, content: bytes, marks: Marks) -> str:
    """The SVG of a definition's graph (as JSON text) from the file that it came from."""
    graph = from_json(exact_json.loads(graph_json))
    return rendered(graph, drawn(parse(content), graph) or laid_out(graph), marks)
