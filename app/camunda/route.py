"""The door of /engine-rest, and the helper that every handler reads its request with.

    who are you (401) -> what do you bring (415) -> how much (413, 408) -> is it JSON (400)

Unlike at /v1, what a request says beyond what is known is passed over, since clients send more than servers read.
Whatever is raised below leaves as a CamundaError.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.api import strict_json
from app.api.authentication import Credential, read_credential
from app.api.body import has_body, read_body
from app.api.door import Call
from app.api.form import Part, read_parts
from app.api.keys_auth import is_key
from app.api.problems import Problem, unauthorized
from app.api.rights import VERBS, Principal
from app.camunda.errors import ENGINE, CamundaError, from_problem, from_refused, invalid, unavailable
from app.camunda.sent import Sent
from db.errors import Refused, Unavailable

LARGEST_BODY_BYTES: Final = 16 << 20
"""More than at /v1: files come inside of JSON, as Base64."""
READING: Final = ("GET", "HEAD")
"""Methods that bring no body, or none that is read."""
ANYBODY: Final = Principal("camunda", VERBS, ("*",))
"""Who asks where the server is told to be open."""

log = logging.getLogger("celeriac.camunda")


class CamundaCall(Call):
    """A request that came through the door. `sent` is its JSON body; of one that has none, nothing."""

    def __init__(self, request: Request, credential: Credential, principal: Principal, sent: Sent) -> None:
        super().__init__(request.scope, request.receive, credential, principal, None)
        self.sent = sent

    async def identify_again(self) -> None:
        if self.principal is not ANYBODY:
            await super().identify_again()

    async def form_parts(self) -> Sequence[Part]:
        """The parts of the form in the body; 415 when there is another body."""
        if _media_type(self.headers) != "multipart/form-data":
            raise _unsupported()
        return read_parts(self.headers["content-type"], await read_body(self.receive, LARGEST_BODY_BYTES))

    @property
    def asked(self) -> Sent:
        """The parameters in the address. Of one that is given twice the last holds."""
        return Sent(dict(self.query_params))

    @property
    def asked_anyhow(self) -> Sent:
        """Filters, wherever they are: in the address of a GET, in the body of a POST. Pages are in the address."""
        return self.asked if self.method in READING else self.sent


Handler = Callable[..., Coroutine[Any, Any, Response]]


def takes_form(handler: Handler) -> Handler:
    """Marks a handler that reads multipart/form-data, with `call.form_parts()`; every other one takes JSON alone."""
    handler.takes_form = True  # type: ignore[attr-defined]
    return handler


class CamundaRoute(APIRoute):
    """A route behind this door."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "include_in_schema": False, "response_model": None})
        if self.methods and "GET" in self.methods:
            self.methods.add("HEAD")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        serve = super().get_route_handler()
        takes_form = getattr(self.endpoint, "takes_form", False)

        async def enter(request: Request) -> Response:
            try:
                return await serve(await _entered(request, takes_form))
            except ClientDisconnect:
                return Response(status_code=499)
            except CamundaError as error:
                return error.response()
            except Problem as problem:
                return from_problem(problem).response()
            except Refused as refusal:
                return from_refused(refusal).response()
            except Unavailable:
                return unavailable().response()
            except Exception:  # a client of this face reads no other shape
                log.exception("%s %s", request.method, self.path)
                message = "something went wrong on our side; the log says what"
                return CamundaError(500, "ProcessEngineException", message, code=0).response()

        return enter


async def _entered(request: Request, takes_form: bool) -> CamundaCall:
    credential = _credential(request)
    principal = ANYBODY if credential is None else await request.app.state.parts.authenticator.principal(credential)
    request.state.principal = principal
    _refuse_other_pages(request)
    _refuse_nul(request)
    body: Mapping[str, Any] = {}
    if request.method not in READING and has_body(request.headers):
        body = {} if takes_form else await _read_json(request)
    return CamundaCall(request, credential or Credential("", is_key=True), principal, Sent(body))


def _refuse_other_pages(request: Request) -> None:
    """Writes of a page that is not ours: a browser sends empty bodies and forms for any page, and what it knows us by.

    Every browser says the page's origin with a write. `file://` is no page of a browser, but Camunda Modeler.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if request.method in READING or origin is None or origin == "file://" or site == "same-origin":
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        raise CamundaError(403, "AuthorizationException", "a page of another origin may not write here", code=ENGINE)


def _refuse_nul(request: Request) -> None:
    """In an address, as in a body: the database has no such character, so nothing is called so."""
    for name, value in request.path_params.items():
        if "\0" in value:
            raise invalid(f"{name}: nothing is called by the character NUL (U+0000)", 404)
    for name, value in request.query_params.multi_items():
        if "\0" in name + value:
            raise invalid(f"{name}: the character NUL (U+0000)")


def _credential(request: Request) -> Credential | None:
    """What the caller shows. None: nothing, at a server that asks for nothing."""
    headers = request.headers
    if "authorization" not in headers and "x-api-key" not in headers and request.app.state.parts.settings.camunda_open:
        return None
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic" or len(headers.getlist("authorization")) > 1 or "x-api-key" in headers:
        return read_credential(headers)
    try:
        _, _, key = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except ValueError:  # no Base64, or no UTF-8
        raise unauthorized() from None
    if not is_key(key):
        raise unauthorized()
    return Credential(key, is_key=True)


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _unsupported() -> CamundaError:
    return CamundaError(415, "RestException", "HTTP 415 Unsupported Media Type")


async def _read_json(request: Request) -> Mapping[str, Any]:
    """The object in the body; `null` (the Java client sends that) and nothing at all are an empty one."""
    raw = await read_body(request.receive, LARGEST_BODY_BYTES)
    if not raw.strip():
        return {}
    if _media_type(request.headers) != "application/json" or "content-encoding" in request.headers:
        raise _unsupported()
    try:
        tree = strict_json.loads(raw)
    except strict_json.RefusedJson as wrong:
        raise invalid(wrong.reason) from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise invalid("the body must be a JSON object")
    return tree
