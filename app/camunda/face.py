"""The whole face: its routers, and the other spellings of every address, `/engine-rest/engine/{name}/…` and `…/`."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.types import ASGIApp, Receive, Scope, Send

from app.camunda import (
    about,
    activity_history,
    definition_starts,
    definition_suspension,
    deployments,
    elsewhere,
    event_subscriptions,
    executions,
    external_task_log,
    external_task_queries,
    external_task_retries,
    external_tasks,
    incident_history,
    incidents,
    instance_history,
    jobs,
    many_instances,
    message_subscriptions,
    messages,
    process_definitions,
    process_instances,
    statistics,
    task_history,
    user_tasks,
    variable_instances,
    variables,
)
from app.camunda.errors import invalid

BASE: Final = "/engine-rest"
ENGINE: Final = "default"

ROUTERS: Final[tuple[APIRouter, ...]] = (
    about.router,
    external_task_retries.router,
    external_tasks.router,
    external_task_queries.router,
    deployments.router,
    definition_suspension.router,
    statistics.router,
    process_definitions.router,
    definition_starts.router,
    variables.router,
    variable_instances.router,
    many_instances.router,
    process_instances.router,
    executions.router,
    message_subscriptions.router,
    messages.router,
    incidents.router,
    event_subscriptions.router,
    jobs.router,
    user_tasks.router,
    instance_history.router,
    activity_history.router,
    incident_history.router,
    task_history.router,
    external_task_log.router,
    # Last: it answers at every address below BASE that nothing else is at.
    elsewhere.router,
)


class EnginePaths:
    """Serves `/engine-rest/engine/default/…` as `/engine-rest/…`, since there is one engine; and `…/` as `…`, and `//…`
    as `/…`, for clients whose base address ends with a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] == "http" and path.startswith(f"{BASE}/"):
            path = _below_base(path.removeprefix(BASE))
        if scope["type"] == "http" and path.startswith(f"{BASE}/engine/"):
            engine, slash, rest = path.removeprefix(f"{BASE}/engine/").partition("/")
            if engine != ENGINE:
                answer = invalid(f"Process engine with name {engine[:64]} does not exist")
                answer.status = 404
                await answer.response()(scope, receive, send)
                return
            if slash:
                path = _below_base(rest)
        if path != scope.get("path", ""):
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


def _below_base(rest: str) -> str:
    return f"{BASE}/{rest.strip('/')}".rstrip("/")
