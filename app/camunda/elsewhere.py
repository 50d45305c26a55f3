"""Addresses below /engine-rest at which there is nothing, in this face's shape of an error."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from app.camunda.errors import CamundaError
from app.camunda.route import CamundaCall, CamundaRoute


class Everywhere(CamundaRoute):
    """Answers whatever the method is, also one that nobody has heard of, and line breaks in an address as well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.methods = set()
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)


router = APIRouter(prefix="/engine-rest", route_class=Everywhere)


@router.get("")
@router.get("/{rest:path}")
async def nothing_here(call: CamundaCall) -> Response:
    """404."""
    address = call.url.path.removeprefix("/engine-rest")[:200]
    raise CamundaError(404, "NotFoundException", f"HTTP 404 Not Found: there is nothing at {call.method} {address}")
