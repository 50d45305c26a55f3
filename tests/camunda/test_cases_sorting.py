"""Case B72 at /engine-rest: only names from a fixed list sort and filter, and refusals show nothing of the database."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import Keys, client_of
from tests.camunda.runtime import at, deploy, start

LISTS = (
    "external-task", "deployment", "process-definition", "process-instance", "execution", "variable-instance",
    "incident", "event-subscription", "job", "task", "history/process-instance", "history/activity-instance",
    "history/variable-instance", "history/incident", "history/external-task-log",
)  # fmt: skip
HOSTILE = (
    "created_at", "created_at:desc", "createTime,asc", "id; select pg_sleep(9)--", "(select 1/0)", "id desc", "ID ",
    "(case when 1=1 then id else priority end)", "id) desc, (select version()", "key_hash", '"id"', "id%00", "id\x00",
    "pg_sleep(9)", "1", "2 desc nulls first", "priority desc,(select count(*) from pg_shadow)", "' or '1'='1", "\\", "",
    "x" * 5000, "𝒊𝒅",
)  # fmt: skip
LEAKS = re.compile(r"select |from |celeriac\.|psycopg|sqlalchemy|column|relation|syntax|traceback", re.IGNORECASE)


def says_nothing(answered: httpx.Response, sent: str) -> None:
    assert answered.status_code in (200, 400), (answered.status_code, answered.text)
    if answered.status_code == 400:
        message = str(answered.json()["message"])
        assert all(found in sent for found in LEAKS.findall(message)), message


@pytest.mark.parametrize("path", LISTS)
async def test_what_is_no_name_of_a_sort_is_refused(camunda: httpx.AsyncClient, path: str) -> None:
    await deploy(camunda)
    await start(camunda, variables={"x": {"value": 1}})
    for name in HOSTILE:
        for asked in ({"sortBy": name, "sortOrder": "asc"}, {"sortBy": name}, {"sortOrder": name}):
            answered = await camunda.get(f"/{path}", params=asked)
            says_nothing(answered, name)
            assert answered.status_code == 400 or name == "", asked
            sorting: Any = {"sorting": [asked]}
            posted = await camunda.post(f"/{path}", json=sorting)
            if posted.status_code not in (404, 405):
                says_nothing(posted, name)
                assert posted.status_code == 400, sorting


@pytest.mark.parametrize("path", LISTS)
async def test_hostile_values_of_filters_find_nothing_or_are_refused(camunda: httpx.AsyncClient, path: str) -> None:
    await deploy(camunda)
    await start(camunda, businessKey="B")
    for value in (
        "id; select pg_sleep(9)--",
        "id\x00",
        "\\",
        "' or '1'='1",
        "x_eq_'; drop table x",
        "a_like_%,b_eq",
        "{}",
    ):
        for name in (
            "processInstanceId", "processDefinitionKey", "topicName", "name", "nameLike", "businessKey", "activityId",
            "processVariables", "variables", "variableValues", "variableName", "createdBefore", "startedAfter",
            "lockExpirationBefore", "dueDates", "firstResult", "id", "incidentMessageLike", "withRetriesLeft",
        ):  # fmt: skip
            says_nothing(await camunda.get(f"/{path}", params={name: value}), value)
    assert len(await at(camunda, "/process-instance")) == 1


@pytest.mark.parametrize("path", LISTS)
async def test_pages_are_bounded(camunda: httpx.AsyncClient, path: str) -> None:
    for number in ("-1", "0", "1000000000", "9223372036854775807", "9" * 30, "all", "1.5", "1e3", " 5"):
        for name in ("firstResult", "maxResults"):
            says_nothing(await camunda.get(f"/{path}", params={name: number}), number)


async def test_sorting_or_filtering_shows_nothing_of_what_is_others(
    camunda: httpx.AsyncClient, camunda_app: FastAPI, keys: Keys
) -> None:
    await deploy(camunda)
    await start(camunda, businessKey="secret", variables={"x": {"value": "secret"}})
    async with client_of(camunda_app, keys.make("read", types=("other",))) as foreign:
        for path in LISTS:
            for asked in (
                {},
                {"processVariables": "x_like_s%"},
                {"variables": "x_like_s%"},
                {"variableValues": "x_eq_secret"},
            ):
                answered = await foreign.get(f"/engine-rest/{path}", params=asked)
                assert answered.status_code in (200, 400)
                assert "secret" not in answered.text.replace("x_eq_secret", "")
                everybodys = path in ("deployment", "process-definition")
                assert everybodys or answered.status_code == 400 or answered.json() == [], (path, asked)
            counted = await foreign.get(f"/engine-rest/{path}/count", params={"processVariables": "x_like_s%"})
            assert path in ("deployment", "process-definition") or counted.json() == {"count": 0}, path
