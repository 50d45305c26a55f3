"""What Camunda does in the background is done at once here: the batch that is answered has nothing left to do."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from app.camunda.route import CamundaCall


async def finished_batch(call: CamundaCall, type_: str, total: int) -> dict[str, Any]:
    """The answer about `total` things that have been dealt with."""
    return {
        "id": uuid4(),
        "type": type_,
        "totalJobs": total,
        "jobsCreated": total,
        "batchJobsPerSeed": 100,
        "invocationsPerBatchJob": 1,
        "seedJobDefinitionId": None,
        "monitorJobDefinitionId": None,
        "batchJobDefinitionId": None,
        "suspended": False,
        "tenantId": None,
        "createUserId": call.principal.name,
        "startTime": (await call.parts.database.one("now"))[0],
        "executionStartTime": None,
    }
