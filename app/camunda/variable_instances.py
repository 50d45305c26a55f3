"""Lists of variables across instances: /variable-instance of those that are open, /history/variable-instance of all.

Their history is what they are now, or were at the end: what a variable was before is not kept. An id is
`<instance>:<number of its scope or token>:<name>`: made from where the variable is.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from sqlalchemy import (
    ColumnElement,
    TableClause,
    Text,
    Uuid,
    bindparam,
    cast,
    column,
    false,
    func,
    or_,
    select,
    table,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from starlette.responses import Response

from app.api.rights import demand
from app.camunda.answers import answer
from app.camunda.errors import CamundaError, invalid
from app.camunda.file_answers import content_of
from app.camunda.identifiers import activity_instance_id, definition_id
from app.camunda.listing import (
    AS_DEFINITION,
    AS_ID,
    AS_TEXT,
    TENANTS,
    Filter,
    Kind,
    Listing,
    counted,
    equal,
    found,
    like,
    nothing,
    one_of,
    page_of,
)
from app.camunda.route import CamundaCall, CamundaRoute
from app.camunda.sent import Sent, uuid_of
from app.camunda.values import show
from app.camunda.variable_filters import conditions, fits
from db.listing import within

router = APIRouter(prefix="/engine-rest", route_class=CamundaRoute)

AS_ACTIVITY: Final = Kind(AS_ID.type, lambda given: AS_ID.value(given.rpartition(":")[2]))


def _values(name: str) -> Filter:
    """Variables that have one of these names and its value."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        names, values = asked.boolean("variableNamesIgnoreCase"), asked.boolean("variableValuesIgnoreCase")
        wanted = [
            (func.lower(view.c.name) == variable.lower() if names else view.c.name == variable)
            & fits(view.c.value, word, candidates, folded=values)
            for variable, word, candidates in conditions(asked, name)
        ]
        return or_(*wanted) if wanted else None

    return narrow


def _executions(name: str, kind: Kind = AS_ID) -> Filter:
    """Variables of executions, found by their instances, which have an index."""

    def narrow(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
        given = asked.names(name)
        if not given:
            return None
        ids = bindparam(None, [value for one in given if (value := kind.value(one)) is not None], type_=ARRAY(Uuid))
        theirs = select(_TOKENS.c.instance_id).where(_TOKENS.c.token_id == func.any(ids))
        instances = func.array(union_all(theirs, select(func.unnest(ids))).scalar_subquery())
        return (view.c.instance_id == func.any(instances)) & (view.c.execution_id == func.any(ids))

    return narrow


def _value(asked: Sent, view: TableClause) -> ColumnElement[bool] | None:
    """variableValue: the value of those that variableName names."""
    if "variableValue" not in asked:
        return None
    value = asked.values["variableValue"]
    return false() if isinstance(value, dict | list) else fits(view.c.value, "eq", [value], folded=False)


LARGEST_PAGE: Final = 64 << 20
"""Bytes of values."""
FEW: Final = 50
"""Variables that are shown however large they are."""
_TOKENS: Final = table("instance_tokens", column("token_id"), column("instance_id"), schema="celeriac")
_COLUMNS: Final = (
    "variable_id", "instance_id", "execution_id", "node", "name", "type", "info", "value", "definition_id",
    "process_key", "process_version", "started_at", "ended_at",
)  # fmt: skip
_FILTERS: Final = (
    equal("variableName", "name"), like("variableNameLike", "name"), one_of("variableNameIn", "name"),
    _values("variableValues"), equal("processInstanceId", "instance_id", AS_ID),
    one_of("processInstanceIdIn", "instance_id", AS_ID), _executions("executionIdIn"),
    _executions("activityInstanceIdIn", AS_ACTIVITY), _executions("variableScopeIdIn", AS_ACTIVITY),
    _executions("taskIdIn"),
    nothing("caseInstanceIdIn", "caseExecutionIdIn", "batchIdIn", "caseInstanceId", "caseActivityIdIn"),
    TENANTS,
)  # fmt: skip
_SORTS: Final = {
    "variableName": "name", "variableType": "type_name", "activityInstanceId": "execution_id",
    "instanceId": "instance_id", "tenantId": "variable_id",
}  # fmt: skip
OPEN: Final = Listing(
    "variable_instances",
    "variable_id",
    columns=_COLUMNS,
    hidden=("type_name", "topics"),
    filters=_FILTERS,
    sorts=_SORTS,
    order=("instance_id",),
)
EVER: Final = Listing(
    "variable_instances",
    "variable_id",
    columns=_COLUMNS,
    hidden=("type_name", "topics"),
    filters=(
        *_FILTERS,
        _value,
        one_of("variableTypeIn", "type_name", Kind(AS_TEXT.type, lambda given: given[:1].upper() + given[1:])),
        equal("processDefinitionId", "definition_id", AS_DEFINITION),
        equal("processDefinitionKey", "process_key"),
    ),
    sorts=_SORTS,
    order=("instance_id",),
)
_IS_OPEN: Final = column("ended_at").is_(None)


@router.api_route("/variable-instance", methods=["GET", "POST"])
async def list_open(call: CamundaCall) -> Response:
    """Variables of open instances."""
    demand(call.principal, "read")
    await _demand_bounded(call, OPEN, _IS_OPEN)
    return answer([_shown(call, row) for row in await found(call, OPEN, _IS_OPEN)])


@router.api_route("/variable-instance/count", methods=["GET", "POST"])
async def count_open(call: CamundaCall) -> Response:
    demand(call.principal, "read")
    return answer({"count": await counted(call, OPEN, _IS_OPEN)})


@router.get("/variable-instance/{variable_id:path}/data")
async def data_of_open(call: CamundaCall, variable_id: str) -> Response:
    demand(call.principal, "read")
    row = await _row(call, variable_id, _IS_OPEN)
    return await content_of(call, row["name"], row["value"], row["type"])


@router.get("/variable-instance/{variable_id:path}")
async def get_open(call: CamundaCall, variable_id: str) -> Response:
    demand(call.principal, "read")
    return answer(_shown(call, await _row(call, variable_id, _IS_OPEN), "deserializeValue"))


@router.api_route("/history/variable-instance", methods=["GET", "POST"])
async def list_ever(call: CamundaCall) -> Response:
    """Variables of open instances, and of ended ones as they were at the end."""
    demand(call.principal, "read")
    await _demand_bounded(call, EVER)
    return answer([_shown_past(call, row) for row in await found(call, EVER)])


@router.api_route("/history/variable-instance/count", methods=["GET", "POST"])
async def count_ever(call: CamundaCall) -> Response:
    demand(call.principal, "read")
    return answer({"count": await counted(call, EVER)})


@router.get("/history/variable-instance/{variable_id:path}/data")
async def data_of_any(call: CamundaCall, variable_id: str) -> Response:
    demand(call.principal, "read")
    row = await _row(call, variable_id)
    return await content_of(call, row["name"], row["value"], row["type"])


@router.get("/history/variable-instance/{variable_id:path}")
async def get_any(call: CamundaCall, variable_id: str) -> Response:
    demand(call.principal, "read")
    return answer(_shown_past(call, await _row(call, variable_id), "deserializeValue"))


async def _demand_bounded(call: CamundaCall, listing: Listing, *more: ColumnElement[bool]) -> None:
    """400 for a page of more values than an answer should have: to leave some out would spoil the count of pages."""
    first, most = page_of(call, listing.most)
    if most <= FEW:
        return
    asked = call.asked_anyhow
    page = (
        listing.ordered(listing.select(asked, call.principal.only_types).where(*more), asked).limit(most).offset(first)
    )
    values = page.subquery()
    sized = select(func.coalesce(func.sum(func.octet_length(cast(values.c.value, Text))), 0))
    if (await call.parts.database.view(sized))[0][0] > LARGEST_PAGE:
        raise invalid(f"these variables have more than {LARGEST_PAGE >> 20} MiB; ask for fewer by maxResults")


async def _row(call: CamundaCall, variable_id: str, *more: ColumnElement[bool]) -> dict[str, Any]:
    """The variable with this id; 404. What the id begins with is what has an index."""
    whose, view = AS_ID.value(variable_id[:36]), OPEN.table
    if uuid_of(variable_id[:36]):
        wanted = select(*(view.c[name] for name in _COLUMNS)).where(
            view.c.instance_id == whose, view.c.variable_id == variable_id, *more
        )
        if call.principal.only_types is not None:
            wanted = wanted.where(within(view, call.principal.only_types))
        rows = await call.parts.database.view(wanted)
        if rows:
            return dict(rows[0]._mapping)
    raise CamundaError(
        404, "InvalidRequestException", f"Variable instance with Id '{variable_id[:64]}' does not exist."
    )


def _shown(call: CamundaCall, row: dict[str, Any], deserialize: str = "deserializeValues") -> dict[str, Any]:
    wanted = call.asked.boolean(deserialize) if deserialize in call.asked else True
    execution = row["execution_id"]
    return {
        **show(row["value"], row["type"], row["info"], wanted),
        "id": row["variable_id"],
        "name": row["name"],
        "processDefinitionId": definition_id(row["process_key"], row["process_version"], row["definition_id"]),
        "processInstanceId": row["instance_id"],
        "executionId": execution,
        "caseInstanceId": None,
        "caseExecutionId": None,
        "taskId": None,
        "batchId": None,
        "activityInstanceId": execution if row["node"] is None else activity_instance_id(row["node"], execution),
        "errorMessage": None,
        "tenantId": None,
    }


def _shown_past(call: CamundaCall, row: dict[str, Any], deserialize: str = "deserializeValues") -> dict[str, Any]:
    """createTime is when the instance began: when a variable did is not kept."""
    shown = _shown(call, row, deserialize)
    del shown["batchId"]
    return shown | {
        "processDefinitionKey": row["process_key"],
        "caseDefinitionKey": None,
        "caseDefinitionId": None,
        "state": "CREATED",
        "createTime": row["started_at"],
        "removalTime": None,
        "rootProcessInstanceId": row["instance_id"],
    }
