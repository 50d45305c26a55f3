"""Whatever /engine-rest is asked, it answers or refuses in its own shape; what it refuses changes nothing.

Every route is taken from the routers, so a new one is asked as well. FUZZ=1 asks all that there is instead of a part.
"""

from __future__ import annotations

import copy
import logging
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from sys import modules
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import Connection

from app.camunda import face
from app.camunda.listing import Listing
from app.camunda.route import READING
from app.camunda.sent import Sent
from app.settings import Settings
from tests.api.conftest import serving
from tests.camunda.world import VARIABLES, World, leaves, populate

WHOLE = bool(os.environ.get("FUZZ"))
NOBODY = "00000000-0000-4000-8000-000000000000"
PRESCRIBED = (
    "workerId is null", "topicName is null", "errorCode is null", "lockTime is not greater than 0",
    "maxResults is not greater than or equal to 0", "retries is not greater than or equal to 0",
    "retryDuration is not greater than or equal to 0",
    "Object values cannot be used to query for process variables",
)  # fmt: skip
"""What Camunda 7 itself answers with 500: its engine's own words about what was asked."""
ABOUT_WHAT_IS_THERE = (
    "Cannot correlate message", "is no timer of", "has not subscribed", "waits, and has no retries", "It is locked by",
    "Cannot instantiate", "Cannot signal execution", "the body must be a JSON object", "is suspended",
    "already claimed by", "Cannot set query sortBy", "Ids is empty", "should be set to update the suspension state",
    "Cannot resolve an incident", "is still running",
)  # fmt: skip
"""Refusals of what is well asked."""
STUCK = "there is no variable missing"
"""A job that was executed and is stuck again: 500, with what it is stuck at."""

ROUTES = [
    (method, route)
    for router in face.ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ("GET", "HEAD", "OPTIONS", "TRACE", "POST", "PROPFIND"))
]
ORDER = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE")
"""What ends things comes last."""
HOMES = {
    id(route): next(
        (
            name
            for name, module in modules.items()
            if name.startswith("app.camunda.") and vars(module).get("router") is router
        ),
        route.endpoint.__module__,
    )
    for router in face.ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
}
"""The module that a route is of."""
GROUPS = sorted(set(HOMES.values()))

RECORDS = ("history", "history_default")
"""Where refusals leave a line."""
PLACES = (
    NOBODY, "x", "0", "-1", "null", "a\x00b", "\x00", "ü🙂", "%", "a/b", "../..", "..;", "x" * 5000, "p:1:" + NOBODY,
    "p:1:", "::", "p:99999999999999999999:" + NOBODY, NOBODY.upper(), "{" + NOBODY + "}", NOBODY.replace("-", ""),
    "urn:uuid:" + NOBODY, " " + NOBODY, "a:" + NOBODY, NOBODY + ":1:x", NOBODY + "\x00", "count",
    "'; drop table x; --", "\\", "\ud800",
)  # fmt: skip
TEXTS = (
    "", " ", "x", "\\", "a\\\\\\", "%", ",", "," * 100, "a,,b", "a\x00b", "\x00", "true", "-1", "0", "9" * 18,
    "9" * 19, "9" * 30, "9" * 5000, "-" + "9" * 19, "1.5", "1e400", "NaN", "null", "[]", "{}", "ü🙂", "n_eq_1",
    "n_like_\\", "string_notLike_\\", "n_eq_1e400", "n_eq_NaN", "n_eq_\x00", "\x00_eq_1", "n_xx_1", "_eq_",
    "long_gt_" + "9" * 400, "n_eq_" + "[" * 5000, "gt_x", "gt_2024-01-01T00:00:00.000+0000", "lt_0001-01-01",
    "2024-13-01", "0000-01-01", "0001-01-01T00:00:00.000+1400", "9999-12-31T23:59:59.999-1400", "294276-01-01",
    "2024-01-01T00:00:00+99:99", "2024-02-30", "2024-01-01T24:00:00", "infinity", "now", NOBODY, "p:1:" + NOBODY,
    "x" * 10_000, "asc", "id", "1_000", "٣",
)  # fmt: skip
THINGS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**300, 1.5, 1e308, -0.0, "",
    " ", "x", "\\", "\u2028", "ü🙂", "x" * 10_000, "9" * 400, "0001-01-01", "9999-12-31T23:59:59.999-1400", [], {},
    [[]], [None], [1, "x"], [{}], {"": 1}, {"a": {"b": []}}, {"value": {}}, {"x": {"value": "\\", "type": "Long"}},
    {"x" * 300: {"value": 1}}, {"x": {"value": "%", "type": "File", "valueInfo": {"filename": "x"}}},
    {"x": {"value": 1, "valueInfo": 5}}, {"x": {"value": "x", "type": {}}}, [{"name": "n"}],
    [{"name": "string", "operator": "like", "value": "\\"}], [{"name": "n", "operator": "gt", "value": {"a": [1]}}],
    [{"operator": "gt", "value": "x"}], [{"sortBy": "x", "sortOrder": "asc"}], ["x"] * 3000, [NOBODY] * 3000,
)  # fmt: skip
RAW = (
    b"", b" ", b"null", b"[]", b"5", b'"x"', b"true", b"{", b'{"a":', b'{"a":1}x', b"{}{}", b'{"a":NaN}',
    b'{"a":-Infinity}', b'{"a":1e400}', b'{"a":' + b"9" * 5000 + b"}", b'{"a":"\\ud800"}', b'{"a":"\\u0000"}',
    b'{"a":"\x00"}', b'{"\\u0000":1}', b'{"a":1,"a":2}', b'{"a":"\xff"}', b"\xef\xbb\xbf{}", b'{"a":"\xc3',
    '{"ü":1}'.encode("utf-16"), b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"a":' + b"[" * 99 + b"]" * 99 + b"}", b"{'a':1}", b"<a/>",
)  # fmt: skip
HEADS: tuple[Mapping[str, str], ...] = (
    {"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Type": "application/json; charset=utf-16"},
    {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "multipart/form-data"},
    {"Content-Type": "multipart/form-data; boundary=x"}, {"Content-Type": "\xff/\xff"},
    {"Content-Type": "application/json", "Accept": "text/html"},
)  # fmt: skip


def specimens(ids: Mapping[str, list[str]]) -> dict[str, Any]:
    """Bodies that do something, by the end of the address and the name of the handler."""
    typed = {name: VARIABLES[name] for name in ("string", "file", "object")}
    worker = {"workerId": "w"}
    return {
        "fetch_and_lock": {
            **worker, "maxTasks": 1, "usePriority": True, "asyncResponseTimeout": 0,
            "sorting": [{"sortBy": "createTime", "sortOrder": "asc"}],
            "topics": [{
                "topicName": "a", "lockDuration": 1000, "variables": ["string"], "localVariables": False,
                "deserializeValues": True, "includeExtensionProperties": True, "businessKey": "b0",
                "processDefinitionId": ids["definition"][0], "processDefinitionIdIn": ids["definition"],
                "processDefinitionKey": "p", "processDefinitionKeyIn": ["p"], "processDefinitionVersionTag": "%",
                "processVariables": {"long": 2**63 - 1}, "tenantIdIn": [], "withoutTenantId": True,
            }],
        },
        "app.camunda.external_tasks.complete": {**worker, "variables": typed, "localVariables": typed},
        "fail": {
            **worker, "errorMessage": "m", "errorDetails": "d", "retries": 1, "retryTimeout": 1, "variables": typed,
            "localVariables": typed,
        },
        "bpmn_error": {**worker, "errorCode": "e", "errorMessage": "m", "variables": typed},
        "lock": {**worker, "lockDuration": 1000},
        "extend_lock": {**worker, "newDuration": 1000},
        "set_retries": {
            "retries": 1, "externalTaskIds": ids["external_task"][:1], "processInstanceIds": ids["instance"][:1],
            "externalTaskQuery": {"topicName": "a"}, "processInstanceQuery": {"businessKey": "b1"},
            "historicProcessInstanceQuery": {"finished": False},
        },
        "app.camunda.jobs.set_retries": {"retries": 1, "dueDate": "2024-01-01T00:00:00.000+0000"},
        "set_due_date": {"duedate": "2030-01-01T00:00:00.000+0000", "cascade": False},
        "set_priority": {"priority": 1},
        "start": {"variables": typed, "businessKey": "k", "withVariablesInReturn": True, "startInstructions": []},
        "suspend": {"suspended": False},
        "app.camunda.many_instances.suspend": {
            "suspended": False, "processInstanceIds": ids["instance"][:1],
            "processInstanceQuery": {"businessKey": "b1"}, "historicProcessInstanceQuery": {"unfinished": True},
        },
        "app.camunda.many_instances.delete": {"processInstanceIds": ids["instance"][-1:], "deleteReason": "r"},
        "app.camunda.many_instances.forget": {"historicProcessInstanceQuery": {"finished": True}},
        "app.camunda.definition_suspension.suspend": {
            "suspended": False, "processDefinitionKey": "p", "includeProcessInstances": True,
            "executionDate": "2024-01-01T00:00:00.000+0000",
        },
        "trigger": {"variables": typed},
        "correlate": {
            "messageName": "message", "businessKey": "b0", "processVariables": typed, "processVariablesLocal": typed,
            "correlationKeys": {"long": {"value": 2**63 - 1}}, "localCorrelationKeys": {}, "all": False,
            "processInstanceId": ids["instance"][0], "resultEnabled": True, "variablesInResultEnabled": True,
        },
        "app.camunda.messages.signal": {"name": "signal", "executionId": None, "variables": typed},
        "signal": {"variables": typed},
        "modify_all": {"modifications": typed, "deletions": ["long"]},
        "put": dict(VARIABLES["long"]),
        "claim": {"userId": "me"},
        "assign": {"userId": "me"},
        "update": {
            "name": "n", "description": "d", "priority": 1, "assignee": "me", "owner": "you",
            "due": "2030-01-01T00:00:00.000+0000", "followUp": "2030-01-01T00:00:00.000+0000",
        },
        "complete": {"variables": typed, "withVariablesInReturn": True},
    }  # fmt: skip


def specimen_of(route: APIRoute, ids: Mapping[str, list[str]]) -> Any:
    known, name = specimens(ids), route.endpoint.__name__
    same = {
        "set_retries_async": "set_retries",
        "start_by_key": "start",
        "submit_form": "complete",
        "suspend_async": "suspend",
        "submit": "start",
        "submit_by_key": "start",
    }
    return known.get(f"{HOMES[id(route)]}.{name}", known.get(same.get(name, name), {}))


POOLS: Mapping[str, tuple[str, ...]] = {
    "deployment_id": ("deployment",), "resource_id": ("resource",), "given": ("definition",),
    "instance_id": ("instance",), "execution_id": ("execution", "instance"), "incident_id": ("incident",),
    "job_id": ("job",), "activity_instance_id": ("activity",), "variable_id": ("variable",),
    "place_id": ("instance", "user_task", "execution"),
}  # fmt: skip
NAMES = {"key": ("p", "q"), "tenant": ("t",), "rest": ("nothing",), "name": tuple(VARIABLES)}


class Names(dict[str, Any]):
    """An empty request that notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.asked[key] = None
        return default


def listings(module: str) -> list[Listing]:
    return [thing for thing in vars(modules[module]).values() if isinstance(thing, Listing)]


def filters_of(module: str) -> list[str]:
    names = Names()
    for listing in listings(module):
        for narrow in listing.filters:
            narrow(Sent(names), listing.table)
    return [*names.asked]


@dataclass
class Asker:
    """Asks and judges each answer."""

    world: World
    logged: list[logging.LogRecord]
    dice: random.Random

    def __post_init__(self) -> None:
        self.ids = self.world.ids()
        self.before = self.world.state(but=RECORDS)
        self.wrong: dict[str, str] = {}

    def place(self, route: APIRoute, **given: str) -> str:
        """The address, with what is given and real ids, mostly of the right kind."""
        path = route.path
        for name in route.param_convertors:
            if name in given:
                value = given[name]
            elif name in NAMES:
                value = self.dice.choice(NAMES[name])
            elif name == "task_id":
                value = self.dice.choice(self.ids["user_task" if "/task/" in path else "external_task"] or [NOBODY])
            else:
                value = self.dice.choice(
                    [one for kind in POOLS.get(name, tuple(self.ids)) for one in self.ids[kind]] or [NOBODY]
                )
            path = path.replace(f"{{{name}}}", quote(value, safe="", errors="surrogatepass"))
            path = path.replace(f"{{{name}:path}}", quote(value, safe="", errors="surrogatepass"))
        return path

    def ask(self, method: str, path: str, named: tuple[str, ...] = (), **request: Any) -> httpx.Response:
        """`named`: what a refusal as wrong must name. What is wrong with an answer is noted, not raised."""
        answered = self.world.client.request(method, path.removeprefix("/engine-rest"), **request)
        for fault in self._faults(method, answered, named):
            self.wrong.setdefault(
                f"{method} {fault[:60]}", f"{path[:200]} {str(request)[:1000]}: {answered.text[:500]} {fault}"
            )
        return answered

    def _faults(self, method: str, answered: httpx.Response, named: tuple[str, ...]) -> Iterator[str]:
        if answered.status_code >= 400:
            yield from _faults_of_refusal(answered, named)
        if method not in READING:
            after = self.world.state(but=RECORDS)
            if answered.status_code >= 400 and not _is_prescribed(answered):
                changed = [name for name in after if after[name] != self.before.get(name)]
                if changed:
                    yield f"it was refused and has changed {changed}"
            if after != self.before:
                self.ids = self.world.ids()
            self.before = after
        for record in self.logged:
            if record.levelno >= logging.ERROR:
                yield f"it was logged: {record.getMessage()} {record.exc_info}"
        self.logged.clear()


def _faults_of_refusal(answered: httpx.Response, named: tuple[str, ...]) -> Iterator[str]:
    if answered.status_code not in (400, 401, 403, 404, 405, 408, 413, 414, 415) and not _is_prescribed(answered):
        yield f"the status is {answered.status_code}"
    if answered.headers["content-type"] != "application/json":
        yield f"the type is {answered.headers['content-type']}"
        return
    if answered.request.method == "HEAD":
        return
    body = answered.json()
    message = body.get("message")
    if not {"type", "message", "code"} <= body.keys() or not isinstance(message, str) or not message.strip():
        yield f"the error is {body}"
    elif "celeriac." in message or "cannot be stored" in message:
        yield f"the message is the database's: {message}"
    elif "variable" in body:
        if named and "variable" not in named:
            yield f"it names a variable, not {named[0]}: {body}"
    elif named and answered.status_code == 400 and not any(word in message for word in (*named, *ABOUT_WHAT_IS_THERE)):
        yield f"it does not name {named[0]}: {message}"


def _is_prescribed(answered: httpx.Response) -> bool:
    return answered.status_code == 500 and any(one in answered.text for one in (*PRESCRIBED, STUCK))


@pytest.fixture
def asker(settings: Settings, conn: Connection, caplog: pytest.LogCaptureFixture) -> Iterator[Asker]:
    with (
        serving(replace(settings, camunda_open=True, database_pool=4)) as server,
        httpx.Client(base_url=f"{server.url}/engine-rest", timeout=60) as client,
    ):
        yield Asker(populate(client, conn), caplog.handler.records, random.Random(7))


def some(things: Any, most: int, dice: random.Random) -> list[Any]:
    """A part of them, always the same; all of them when everything is wanted."""
    every = list(things)
    return every if WHOLE or len(every) <= most else dice.sample(every, most)


@pytest.mark.timeout(3600 if WHOLE else 180)
@pytest.mark.parametrize("group", GROUPS)
def test_no_request_is_a_fault_and_no_refusal_changes_anything(asker: Asker, group: str) -> None:
    names = filters_of(group)
    routes = sorted(
        ((method, route) for method, route in ROUTES if HOMES[id(route)] == group),
        key=lambda one: ORDER.index(one[0]) if one[0] in ORDER else -1,
    )
    for method, route in routes:
        _ask_at_places(asker, method, route)
        if method in READING:
            _ask_with_filters(asker, method, route, names)
        else:
            _ask_with_bodies(asker, method, route, names)
    assert not asker.wrong, "\n".join(asker.wrong.values())


def _ask_at_places(asker: Asker, method: str, route: APIRoute) -> None:
    foreign = [ids[0] for ids in asker.ids.values() if ids]
    for name in route.param_convertors:
        for value in some([*PLACES, *foreign], 6, asker.dice):
            asker.ask(method, asker.place(route, **{name: value}))


def _ask_with_filters(asker: Asker, method: str, route: APIRoute, names: list[str]) -> None:
    path = asker.place(route)
    asker.ask(method, path)
    for name in ("firstResult", "maxResults", "sortBy", "sortOrder", "deserializeValues", "deserializeValue", "type"):
        for value in some(TEXTS, 2, asker.dice):
            asker.ask(method, path, params={name: value})
    is_list = route.endpoint.__name__.startswith("list") and method == "GET"
    if not (is_list or route.endpoint.__name__.startswith("count")):
        return
    for name in names:
        for value in some(TEXTS, 2 if is_list else 1, asker.dice):
            asker.ask(method, path, params={name: value}, named=_aliases(name))
    for listing in listings(HOMES[id(route)]) if is_list else ():
        for by in listing.sorts:
            for order in ("asc", "desc"):
                asked = asker.ask(method, path, params={"sortBy": by, "sortOrder": order, "maxResults": 1})
                assert asked.status_code in (200, 400)  # of two lists in one file each has its own


def _ask_with_bodies(asker: Asker, method: str, route: APIRoute, names: list[str]) -> None:
    for raw in some(RAW, 5, asker.dice):
        asker.ask(method, asker.place(route), content=raw, headers={"Content-Type": "application/json"})
    for head in some(HEADS, 4, asker.dice):
        asker.ask(method, asker.place(route), content=b'{"a":1}', headers=_latin(head))
    specimen = specimen_of(route, asker.ids)
    asker.ask(method, asker.place(route), json=specimen)
    places = list(leaves(specimen))
    for place in [
        *(one for one in places if len(one) < 2),
        *some((one for one in places if len(one) > 1), 8, asker.dice),
    ]:
        for thing in some(THINGS, 2, asker.dice):
            named = place[0] if place and len(place) == 1 else ""
            asker.ask(method, asker.place(route), json=changed(specimen, place, thing), named=_aliases(named))
    is_list = route.endpoint.__name__.startswith("list")
    if is_list or route.endpoint.__name__.startswith("count"):
        for name in names:
            for thing in some(THINGS, 2 if is_list else 1, asker.dice):
                asker.ask(method, asker.place(route), json={name: thing}, named=_aliases(name))


def _aliases(name: str) -> tuple[str, ...]:
    """What names a field: Camunda's own words call some otherwise."""
    others = {
        "retryTimeout": "retryDuration", "newDuration": "lockTime", "asyncResponseTimeout": "response timeout",
        "sorting": "sort", "modifications": "variable", "variables": "variable", "localVariables": "variable",
        "correlationKeys": "variable", "localCorrelationKeys": "variable", "processVariables": "variable",
        "processVariablesLocal": "variable",
    }  # fmt: skip
    return (name, others.get(name, name)) if name else ()


def _latin(head: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in head.items()]


def changed(value: Any, place: tuple[Any, ...], thing: Any) -> Any:
    """The value with `thing` at a place in it."""
    if not place:
        return thing
    value = copy.deepcopy(value)
    inside = value
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = thing
    return value
