"""Every list in every order that Camunda's documentation names, and page by page as a whole."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from app.camunda import (
    activity_history,
    deployments,
    event_subscriptions,
    executions,
    incident_history,
    incidents,
    instance_history,
    jobs,
    process_definitions,
    process_instances,
    task_history,
    user_task_rows,
    variable_instances,
)
from app.camunda.listing import Listing
from tests.app.engine.conftest import flow, model, task
from tests.camunda.runtime import at, deploy, start
from tests.camunda.work import done, fetch

CROWD = model(
    '<startEvent id="s"/><parallelGateway id="f"/>' + task("a") + '<userTask id="u" name="Look"/>'
    '<intermediateCatchEvent id="m"><messageEventDefinition messageRef="M"/></intermediateCatchEvent>'
    '<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>P1D</timeDuration></timerEventDefinition>'
    "</intermediateCatchEvent>" + flow("s", "f", "a") + flow("f", "u") + flow("f", "m") + flow("f", "t"),
    '<message id="M" name="m"/>',
)  # fmt: skip
LISTS: Final[dict[str, tuple[Listing, str]]] = {
    "/deployment": (deployments.DEPLOYMENTS, "id name deploymentTime tenantId"),
    "/process-definition": (
        process_definitions.DEFINITIONS,
        "category key id name version deploymentId deployTime tenantId versionTag",
    ),
    "/process-instance": (process_instances.INSTANCES, "instanceId definitionKey definitionId tenantId businessKey"),
    "/execution": (executions.EXECUTIONS, "instanceId definitionKey definitionId tenantId"),
    "/incident": (
        incidents.INCIDENTS,
        "incidentId incidentMessage incidentTimestamp incidentType executionId activityId processInstanceId"
        " processDefinitionId causeIncidentId rootCauseIncidentId configuration tenantId",
    ),
    "/job": (
        jobs.JOBS,
        "jobId executionId processInstanceId processDefinitionId processDefinitionKey jobPriority jobRetries jobDueDate"
        " tenantId",
    ),
    "/event-subscription": (event_subscriptions.SUBSCRIPTIONS, "created tenantId"),
    "/variable-instance": (variable_instances.OPEN, "variableName variableType activityInstanceId tenantId"),
    "/task": (
        user_task_rows.USER_TASKS,
        "instanceId caseInstanceId dueDate executionId caseExecutionId assignee created lastUpdated followUpDate"
        " description id name nameCaseInsensitive priority tenantId",
    ),
    "/history/process-instance": (
        instance_history.INSTANCES,
        "instanceId definitionId definitionKey definitionName definitionVersion businessKey startTime endTime duration"
        " tenantId",
    ),
    "/history/activity-instance": (
        activity_history.ACTIVITIES,
        "activityInstanceId instanceId executionId activityId activityName activityType startTime endTime duration"
        " definitionId occurrence tenantId",
    ),
    "/history/incident": (
        incident_history.INCIDENTS,
        "incidentId incidentMessage createTime endTime incidentType executionId activityId processInstanceId"
        " processDefinitionId processDefinitionKey causeIncidentId rootCauseIncidentId configuration incidentState"
        " tenantId",
    ),
    "/history/task": (
        task_history.TASKS,
        # The other ones are of what people were shown, which is not kept.
        "taskId activityInstanceId processDefinitionId processInstanceId executionId duration endTime startTime"
        " taskName assignee deleteReason taskDefinitionKey tenantId",
    ),
    "/history/variable-instance": (variable_instances.EVER, "instanceId variableName tenantId"),
}  # fmt: skip


@pytest.fixture
async def crowd(camunda: httpx.AsyncClient) -> None:
    await deploy(camunda, CROWD)
    for number in range(2):
        await start(camunda, businessKey=f"B-{number}", variables={"x": {"value": number}})
        await done(camunda, await fetch(camunda), "failure", errorMessage=f"broken {number}", retries=0)
    await deploy(camunda, CROWD)


@pytest.mark.parametrize("path", LISTS)
async def test_every_order_shows_the_same_rows(camunda: httpx.AsyncClient, crowd: None, path: str) -> None:
    listing, documented = LISTS[path]
    everything = await at(camunda, path)
    assert len(everything) >= 2
    known: list[Any] = sorted(map(str, everything))
    assert documented.split() == [name for name in documented.split() if name in listing.sorts]
    for name in listing.sorts:
        for order in ("asc", "desc"):
            rows = await at(camunda, path, sortBy=name, sortOrder=order)
            assert sorted(map(str, rows)) == known, (name, order)
            pages = [
                await at(camunda, path, sortBy=name, sortOrder=order, firstResult=at_, maxResults=1)
                for at_ in range(len(known) + 1)
            ]
            assert [row for page in pages for row in page] == rows, (name, order)
