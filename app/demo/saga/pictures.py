"""Pictures of the process: the model with counts of all orders, and some orders by themselves."""

from pathlib import Path
from typing import TYPE_CHECKING

from app.bpmn.markup import parse
from app.bpmn.reader import read
from app.demo.saga.orders import MODEL
from app.diagram.interchange import drawn
from app.diagram.layout import laid_out
from app.diagram.svg import Marks, rendered

if TYPE_CHECKING:
    from sqlalchemy import Connection

COUNTS = {
    "tokens": "select t.node, count(*) from celeriac.instance_tokens t",
    "passed": "select t.node, count(*) from celeriac.instance_timeline t",
    "incidents": "select t.name, count(*) from celeriac.incidents t",
}
ONLY = {"passed": "t.what = 'left'", "incidents": "t.resolved_at is null"}


def draw(conn: "Connection", file: Path, order: str | None = None) -> None:
    """Write the model as SVG, with what the instances of all orders (or of one) have done on it."""
    content = MODEL.read_bytes()
    graph = read(content).models[0].graph
    svg = rendered(graph, drawn(parse(content), graph) or laid_out(graph), marks(conn, order))
    file.write_text(svg, encoding="utf-8")


def marks(conn: "Connection", order: str | None) -> Marks:
    from sqlalchemy import text

    counted = {}
    for name, question in COUNTS.items():
        asked = (
            f"{question} join celeriac.instances i on i.instance_id = t.instance_id"
            f" where {ONLY.get(name, 'true')} and i.business_key = coalesce(:order, i.business_key) group by 1"
        )
        counted[name] = {node: int(number) for node, number in conn.execute(text(asked), {"order": order})}
    return Marks(**counted)
