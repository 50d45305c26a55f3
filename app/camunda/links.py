"""Where things are: the `links` of an answer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from app.camunda.route import CamundaCall


def links(call: CamundaCall, kind: str, thing: UUID | str) -> list[dict[str, Any]]:
    """The address of a thing itself."""
    return [{"method": "GET", "href": f"{call.base_url}engine-rest/{kind}/{thing}", "rel": "self"}]
