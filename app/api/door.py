"""The one door of /v1: every request passes here, in this order, before anything else looks at it.

    who are you (401) -> what do you bring (415) -> how much (413, 408) -> is it JSON (400) -> does it fit (422)

So nobody unknown makes us read a body, and no handler sees one that is not checked. Parameters in the address that
nobody would look at are refused (422) before the body. Rights come next, in the handler itself: the first line of each
says which verb it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, cast

from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from app.api import strict_json
from app.api.advancing import Advancer
from app.api.announcer import Announcer
from app.api.authentication import Authenticator, Credential, read_credential
from app.api.body import check_head, has_body, read_body
from app.api.database import Database
from app.api.health import Readiness
from app.api.hub import Hub
from app.api.instruments import Instruments, Surveyor
from app.api.problems import Problem, field_name, invalid_fields
from app.api.rights import Principal
from app.settings import Settings


@dataclass(frozen=True)
class Parts:
    """What an application is made of; handlers reach everything through it."""

    settings: Settings
    database: Database
    authenticator: Authenticator
    hub: Hub
    announcer: Announcer
    advancer: Advancer
    readiness: Readiness
    surveyor: Surveyor
    instruments: Instruments


class Call(Request):
    """A request that came through the door: who asks, and the parts to serve them with."""

    def __init__(
        self, scope: Scope, receive: Receive, credential: Credential, principal: Principal, model: BaseModel | None
    ) -> None:
        super().__init__(scope, receive)
        self.parts: Parts = scope["app"].state.parts
        self.credential = credential
        self.principal = principal
        self._model = model

    async def identify_again(self) -> None:
        """Ask anew who it is, after a long wait: 401 when the credential holds no more."""
        self.principal = await self.parts.authenticator.principal(self.credential)

    async def body(self) -> bytes:
        """What FastAPI asks before `json`: only whether there is one."""
        return b"" if self._model is None else b"{}"

    async def json(self) -> Any:
        """The body, parsed and checked already."""
        return self._model

    @property
    def rights(self) -> Mapping[str, Any]:
        """The arguments by which every SQL function knows who asks."""
        return {"principal": self.principal.name, "only_types": self.principal.only_types}


class DoorRoute(APIRoute):
    """A route behind the door."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        serve = super().get_route_handler()
        field = self.body_field
        model = cast(type[BaseModel], field.field_info.annotation) if field is not None else None
        may_be_empty = field is not None and not field.field_info.is_required()
        takes_query = bool(self.dependant.query_params) or not self.path.startswith("/v1/")

        async def enter(request: Request) -> Response:
            credential = read_credential(request.headers)
            principal = await request.app.state.parts.authenticator.principal(credential)
            request.state.principal = principal
            if not takes_query:
                _refuse_query(request)
            try:
                body = None if model is None else await _read_model(request, model, may_be_empty)
                return await serve(Call(request.scope, request.receive, credential, principal, body))
            except ClientDisconnect:
                return Response(status_code=499)

        return enter


def _refuse_query(request: Request) -> None:
    """422 for a parameter that nobody would look at."""
    for name in request.query_params:
        raise Problem(422, "this address takes no parameters", field=field_name([name]))


async def _read_model(request: Request, model: type[BaseModel], may_be_empty: bool) -> BaseModel | None:
    """The checked body; None when there is none and the route does without."""
    if may_be_empty and not has_body(request.headers):
        return None
    check_head(request.headers)
    raw = await read_body(request.receive)
    try:
        tree = strict_json.loads(raw)
    except strict_json.RefusedJson as refused:
        field = field_name(refused.path)
        raise Problem(400, refused.reason, field=field or None) from None
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise invalid_fields(error.errors(include_url=False, include_context=False, include_input=False)) from None
