"""/variable-instance and /history/variable-instance: lists, filters, one by its id."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from db import call
from tests.app.engine.conftest import Desk
from tests.camunda.runtime import error
from tests.camunda.test_variables import desk, get, token_of, typed

__all__ = ["desk"]

KEYS = {
    "id", "name", "processDefinitionId", "processInstanceId", "executionId", "caseInstanceId", "caseExecutionId",
    "taskId", "activityInstanceId", "errorMessage", "tenantId", "value", "type", "valueInfo",
}  # fmt: skip


async def names(camunda: httpx.AsyncClient, path: str, **query: Any) -> list[str]:
    asked = {"sortBy": "variableName", "sortOrder": "asc", **query}
    listed = [one["name"] for one in await get(camunda, path, **asked)]
    assert await get(camunda, f"{path}/count", **asked) == {"count": len(listed)}
    return listed


async def test_open_ones_are_listed_with_where_they_are(camunda: httpx.AsyncClient, desk: Desk) -> None:
    instance = desk.start(x=1)
    inner, box = token_of(desk.conn, instance, "a"), token_of(desk.conn, instance, "box")
    (x,) = await get(camunda, "/variable-instance", variableName="x")
    assert x.keys() == KEYS | {"batchId"}
    assert {name: x[name] for name in typed(1, "Integer")} == typed(1, "Integer")
    assert (x["processInstanceId"], x["executionId"], x["activityInstanceId"]) == (instance,) * 3
    (boxed,) = await get(camunda, "/variable-instance", variableNameLike="bo%")
    assert (boxed["executionId"], boxed["activityInstanceId"]) == (box, f"box:{box}")
    (local,) = await get(camunda, "/variable-instance", executionIdIn=inner)
    assert (local["name"], local["activityInstanceId"]) == ("local", f"a:{inner}")
    for one in (x, boxed, local):
        assert await get(camunda, f"/variable-instance/{one['id']}") == one
    nothing = await camunda.get("/variable-instance/nothing")
    assert error(nothing)[:2] == (404, "InvalidRequestException")
    assert (await camunda.get(f"/variable-instance/{x['id']}/data")).status_code == 400


async def test_filters(camunda: httpx.AsyncClient, desk: Desk) -> None:
    first, second = desk.start(x=1, text="a"), desk.start(x=2.5, y=2**40)
    inner = token_of(desk.conn, second, "a")
    for query, found in (
        ({"processInstanceIdIn": first}, ["boxed", "local", "text", "x"]),
        ({"processInstanceIdIn": f"{first},{second}", "variableName": "x"}, ["x", "x"]),
        ({"processInstanceIdIn": "nothing"}, []), ({"variableValues": "x_gt_2"}, ["x"]),
        ({"variableValues": "text_eq_a"}, ["text"]), ({"activityInstanceIdIn": f"a:{inner}"}, ["local"]),
        ({"executionIdIn": f"{first},{inner}"}, ["local", "text", "x"]), ({"tenantIdIn": "t"}, []),
        ({"taskIdIn": "t"}, []), ({"taskIdIn": inner}, ["local"]), ({"variableValues": "TEXT_eq_A"}, []),
        ({"variableValues": "TEXT_eq_a", "variableNamesIgnoreCase": "true"}, ["text"]),
        ({"variableValues": "text_eq_A", "variableValuesIgnoreCase": "true"}, ["text"]),
        ({"processInstanceIdIn": second, "maxResults": 2, "sortOrder": "desc"}, None),
    ):  # fmt: skip
        if found is not None:
            assert await names(camunda, "/variable-instance", **query) == found, query
            assert await names(camunda, "/history/variable-instance", **query) == found, query
        else:
            listed = await get(camunda, "/variable-instance", sortBy="variableName", **query)
            assert [one["name"] for one in listed] == ["y", "x"]
    body: Any = {"variableName": "x", "sorting": [{"sortBy": "variableType", "sortOrder": "asc"}]}
    listed = (await camunda.post("/variable-instance", json=body)).json()
    assert [(one["type"], one["value"]) for one in listed] == [("Double", 2.5), ("Integer", 1)]
    assert await names(camunda, "/history/variable-instance", variableTypeIn="long,Double", variableNameIn="x,y") == [
        "x", "y",
    ]  # fmt: skip
    assert await names(camunda, "/history/variable-instance", processDefinitionKey="q") == []
    body = {"variableName": "x", "variableValue": 1}
    assert (await camunda.post("/history/variable-instance/count", json=body)).json() == {"count": 1}
    assert (await camunda.get("/variable-instance", params={"sortBy": "x", "sortOrder": "asc"})).status_code == 400


async def test_history_shows_what_an_instance_ended_with(camunda: httpx.AsyncClient, desk: Desk) -> None:
    instance = desk.start(x=1)
    file: Any = {"data": ("a.txt", b"hello", "text/plain"), "valueType": (None, "File")}
    await camunda.post(f"/process-instance/{instance}/variables/file/data", files=file)
    call.one(desk.conn, "stop_instance", instance_id=instance)
    desk.advance(instance)
    assert await names(camunda, "/variable-instance") == []
    assert await names(camunda, "/history/variable-instance", processInstanceId=instance) == ["file", "x"]
    file_, x = sorted(await get(camunda, "/history/variable-instance"), key=lambda one: str(one["name"]))
    assert x.keys() == KEYS | {
        "processDefinitionKey", "caseDefinitionKey", "caseDefinitionId", "state", "createTime", "removalTime",
        "rootProcessInstanceId",
    }  # fmt: skip
    assert (x["state"], x["value"], x["processDefinitionKey"]) == ("CREATED", 1, "p")
    assert (await camunda.get(f"/history/variable-instance/{file_['id']}/data")).content == b"hello"
    assert (await camunda.get(f"/variable-instance/{x['id']}")).status_code == 404


@pytest.mark.parametrize("query", ["variableValues=x", "executionIdIn=%00", "variableNameLike=%5C", "variableName=%00"])
async def test_hostile_filters_are_refused_or_find_nothing(camunda: httpx.AsyncClient, desk: Desk, query: str) -> None:
    desk.start(x=1)
    for path in ("/variable-instance", "/history/variable-instance", "/history/variable-instance/count"):
        answered = await camunda.get(f"{path}?{query}")
        assert answered.status_code in (200, 400), answered.text
        assert answered.status_code == 400 or answered.json() in ([], {"count": 0})
