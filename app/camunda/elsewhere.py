"""Addresses below /engine-rest at which there is nothing, in this face's shape of an error."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from app.camunda.errors import CamundaError
from app.camunda.route import CamundaCall, CamundaRoute

router = APIRouter(prefix="/engine-rest", route_class=CamundaRoute)


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
async def nothing_here(call: CamundaCall, rest: str) -> Response:
    """404."""
    raise CamundaError(404, "NotFoundException", "HTTP 404 Not Found")
