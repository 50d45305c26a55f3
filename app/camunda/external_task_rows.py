"""External tasks as answers show them: to whoever fetches one, and to whoever lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Uuid

from app.api.database import Database
from app.camunda.errors import CamundaError, refused
from app.camunda.identifiers import activity_instance_id, definition_id
from app.settings import Settings

DESCRIBE: Final = "describe_external_tasks"
LONGEST_MESSAGE: Final = 666
"""Characters of an error message that Camunda 7 keeps."""

_PROPERTIES: Final = text("""
    select d.definition_id, n ->> 'id' as node, n -> 'work' -> 'properties' as properties
      from celeriac.definition_graphs d
     cross join lateral jsonb_array_elements(d.graph -> 'nodes') n
     where d.definition_id = any(:ids) and n ->> 'id' = any(:nodes) and n -> 'work' ? 'properties'
""").bindparams(bindparam("ids", type_=ARRAY(Uuid)))


async def rows_of(database: Database, ids: Sequence[UUID], *, with_details: bool = False) -> list[Row[Any]]:
    """Those of these tasks that there are, in this order."""
    if not ids:
        return []
    found = await database.rows(DESCRIBE, task_ids=list(ids), with_details=with_details)
    rows = {row.id: row for row in found}
    return [rows[one] for one in ids if one in rows]


def missing(task_id: str) -> CamundaError:
    """404, for what there is not and for what the caller may not see."""
    return refused(f"External task with id {task_id} does not exist", 404)


def shown(row: Row[Any], settings: Settings) -> dict[str, Any]:
    """A row of DESCRIBE as lists have it. What a task that belongs to no process cannot say is null."""
    definition = row.process_key and definition_id(row.process_key, row.process_version, row.definition_id)
    return {
        "activityId": row.node,
        "activityInstanceId": row.node and activity_instance_id(row.node, row.token_id),
        "errorMessage": row.error_message,
        "executionId": row.token_id,
        "id": row.id,
        "lockExpirationTime": row.lock_expires_at,
        "createTime": row.created_at,
        "processDefinitionId": definition,
        "processDefinitionKey": row.process_key,
        "processDefinitionVersionTag": row.version_tag,
        "processInstanceId": row.instance_id,
        "retries": row.retries if row.retries_told or settings.camunda_retries == "engine" else None,
        "suspended": row.suspended,
        "workerId": row.worker_id,
        "topicName": row.topic,
        "tenantId": None,
        "priority": row.priority,
        "businessKey": row.business_key,
    }


def shown_locked(
    row: Row[Any], settings: Settings, variables: Mapping[str, Any], properties: Mapping[str, str]
) -> dict[str, Any]:
    """A row of DESCRIBE as the worker gets it that has just taken it."""
    return shown(row, settings) | {
        "errorDetails": row.error_details,
        "suspended": False,
        "variables": variables,
        "extensionProperties": properties,
    }


def properties_of(rows: Sequence[Row[Any]]) -> tuple[Any, dict[str, Any]]:
    """The statement, and its values, that finds the extension properties of these tasks' activities."""
    return _PROPERTIES, {
        "ids": list({row.definition_id for row in rows}),
        "nodes": list({row.node for row in rows}),
    }
