"""GET /version and /engine: what this engine says that it is."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from app.camunda.answers import answer
from app.camunda.route import CamundaCall, CamundaRoute

router = APIRouter(prefix="/engine-rest", route_class=CamundaRoute)

VERSION: Final = "7.24.0"
"""The Camunda 7 whose contract this face keeps: clients compare it."""


@router.get("/version")
async def version(call: CamundaCall) -> Response:
    """The version of Camunda 7 that this face speaks."""
    return answer({"version": VERSION})


@router.get("/engine")
async def engines(call: CamundaCall) -> Response:
    """The names of the engines: there is one."""
    return answer([{"name": "default"}])
