"""What a key that is bound to task types may do with processes: those alone whose every topic is one of its types.

A topic that an expression names could be any type, so it is only for keys without bounds (it is kept as `*`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from app.api.door import Call
from app.api.problems import Problem

WITHIN: Final = (
    "(cast(:only as text[]) is null or not exists"
    " (select from unnest(topics) topic where not topic like any(cast(:only as text[]))))"
)
"""Of a view with `topics`: the rows within the patterns `only`."""


def demand_topics(call: Call, topics: Iterable[str]) -> None:
    """403 when a process asks for work of a type that the caller may not touch: nothing is done in part."""
    if call.principal.only_types is not None and not all(call.principal.may_touch(topic) for topic in topics):
        raise Problem(403, "the process has a topic that this key may not touch")


async def instance_of(call: Call, instance_id: str) -> dict[str, Any]:
    """The row of an instance; 404 when there is none, or none that the caller may see."""
    rows = await call.parts.database.view(
        f"select * from celeriac.instances where instance_id = cast(:id as uuid) and {WITHIN}",  # noqa: S608 - ours
        id=instance_id,
        only=call.principal.only_types,
    )
    if not rows:
        raise Problem(404, "there is no such instance")
    return {name: value for name, value in rows[0]._mapping.items() if name != "topics"}


async def demand_instance(call: Call, instance_id: str) -> None:
    """404 when the caller is bound to task types and the instance is not within them."""
    if call.principal.only_types is not None:
        await instance_of(call, instance_id)
