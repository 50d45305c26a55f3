"""What all lists of /engine-rest have: a page of it, how many there are, and one of it by its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import answer
from app.camunda.errors import invalid
from app.camunda.listing import Listing, counted, found, one
from app.camunda.route import CamundaCall

Shown = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A row as answers have it."""
BOTH = ("GET", "POST")


def serve_list(router: APIRouter, listing: Listing, shown: Shown, methods: Sequence[str] = BOTH) -> None:
    """The page that is asked for, at the router's own address, and the number of all at /count."""

    async def list_all(call: CamundaCall) -> Response:
        demand(call.principal, "read")
        return answer([shown(row) for row in await found(call, listing)])

    async def count(call: CamundaCall) -> Response:
        demand(call.principal, "read")
        return answer({"count": await counted(call, listing)})

    router.add_api_route("", list_all, methods=list(methods))
    router.add_api_route("/count", count, methods=list(methods))


def serve_one(router: APIRouter, listing: Listing, shown: Shown, id_name: str, missing: str) -> None:
    """The row with the id that is behind the router's address; or 404, in the words `missing`, with {} for the id."""

    async def get(call: CamundaCall) -> Response:
        demand(call.principal, "read")
        given = call.path_params[id_name]
        row = await one(call, listing, given)
        if row is None:
            raise invalid(missing.format(given[:64]), 404)
        return answer(shown(row))

    router.add_api_route(f"/{{{id_name}}}", get, methods=["GET"])
