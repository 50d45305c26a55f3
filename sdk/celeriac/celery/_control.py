"""`celery inspect durable`: what a worker holds, as Postgres sees it."""

from __future__ import annotations

from typing import Any, Final

from celery.worker.control import inspect_command

from celeriac.errors import CeleriacError

FLEET: Final = "celeriac_fleet"
"""Where an app keeps its Fleet."""


@inspect_command(default_timeout=5.0)  # type: ignore[untyped-decorator]
def durable(state: Any, **_: Any) -> Any:
    """Durable tasks that this worker holds under a lease."""
    fleet = getattr(state.app, FLEET, None)
    if fleet is None:
        return {"error": "no durable tasks are installed in this app"}
    try:
        return fleet.authority.held(fleet.worker_id(state.hostname), list(fleet.roster.newest))
    except CeleriacError as error:
        return {"error": str(error)}
