"""Process instances and executions as every answer shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api.process_rights import WITHIN
from app.camunda.identifiers import definition_id
from app.camunda.route import CamundaCall
from app.camunda.sent import uuid_of
from app.camunda.values import show


async def instance_of(call: CamundaCall, given: str, *, is_open: bool = False) -> dict[str, Any] | None:
    """The row of an instance that the caller may see; `is_open`: of one that has not ended."""
    if (uuid := uuid_of(given)) is None:
        return None
    rows = await call.parts.database.view(
        "select * from celeriac.instances where instance_id = cast(:id as uuid)"  # noqa: S608 - ours
        f" and (ended_at is null or not :open) and {WITHIN}",
        id=uuid,
        open=is_open,
        only=call.principal.only_types,
    )
    return dict(rows[0]._mapping) if rows else None


def shown_instance(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "links": [],
        "id": row["instance_id"],
        "definitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "definitionKey": row["process_key"],
        "businessKey": row["business_key"],
        "caseInstanceId": None,
        "ended": row["ended_at"] is not None,
        "suspended": row["suspended"],
        "tenantId": None,
    }


async def shown_variables(call: CamundaCall, instance_id: str) -> dict[str, Any]:
    """The variables at the root of an instance."""
    rows = await call.parts.database.view(
        "select name, type, info, value from celeriac.instance_variables"
        " where instance_id = cast(:id as uuid) and root order by name",
        id=instance_id,
    )
    return {row.name: show(row.value, row.type, row.info, deserialize=False) for row in rows}
