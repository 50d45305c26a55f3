"""GET /metrics, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from app.api.door import DoorRoute
from app.api.problems import documented
from app.api.rights import demand


def router_for(public: bool) -> APIRouter:
    """The route, behind the door unless the settings say that everybody may read it."""
    router = APIRouter(tags=["running it"], route_class=APIRoute if public else DoorRoute)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            **({} if public else documented(401, 403, 503)),
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        },
    )
    async def metrics(request: Request) -> Response:
        """Figures of this process and of the database, in Prometheus' text format; needs the verb `read`."""
        if not public:
            demand(request.state.principal, "read")
        parts = request.app.state.parts
        parts.instruments.surveyed.survey = await parts.surveyor.latest()
        return Response(generate_latest(parts.instruments.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
