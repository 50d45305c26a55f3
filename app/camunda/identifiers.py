"""Ids in Camunda 7's spelling, and back: `order:3:<uuid>` of a definition, `charge:<uuid>` of an activity instance."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from app.camunda.sent import uuid_of

LONGEST: Final = 64
"""Camunda 7 shows the UUID alone when the whole would be longer."""


def definition_id(key: str, version: int, uuid: UUID | str) -> str:
    whole = f"{key}:{version}:{uuid}"
    return whole if len(whole) <= LONGEST else str(uuid)


def definition_uuid(text: str | None) -> str | None:
    """Of an id in either spelling; None for what is the id of nothing."""
    return None if text is None else uuid_of(text.rpartition(":")[2])


def activity_instance_id(node: str, token: UUID | str) -> str:
    whole = f"{node}:{token}"
    return whole if len(whole) <= LONGEST else str(token)
