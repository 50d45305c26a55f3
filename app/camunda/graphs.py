"""The graphs of definitions, for answers that name elements: read once a process, since they never change."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from app import exact_json
from app.api.database import Database
from app.process.graph import Graph
from app.process.graph_json import from_json

MOST: Final = 1000
_known: dict[str, Graph] = {}


async def graph_of(database: Database, definition_id: UUID | str) -> Graph:
    """The graph of a definition that there is."""
    key = str(definition_id)
    if key not in _known:
        rows = await database.view(
            "select d.graph::text from celeriac.definition_graphs d where d.definition_id = cast(:id as uuid)", id=key
        )
        if len(_known) >= MOST:
            _known.clear()
        _known[key] = from_json(exact_json.loads(rows[0][0]))
    return _known[key]
