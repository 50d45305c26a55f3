"""What a caller may see: reads within the patterns of task types that their key has."""

from __future__ import annotations

from typing import Any, Final

from app.api.door import Call
from app.api.problems import Problem

MINE: Final = "(cast(:only as text[]) is null or task_type like any(cast(:only as text[])))"
"""The rows of a view that the caller may see; `only` is their `only_types`."""


async def seen(call: Call, view: str, thing: str, **key: Any) -> dict[str, Any]:
    """The row of one of our views that has this key; 404 when there is none, or none that the caller may see."""
    [(name, value)] = key.items()
    rows = await call.parts.database.view(
        f"select * from celeriac.{view} where {name} = :value and {MINE}",  # noqa: S608 (names of ours)
        value=value,
        only=call.principal.only_types,
    )
    if not rows:
        raise Problem(404, f"there is no such {thing}")
    return dict(rows[0]._mapping)
