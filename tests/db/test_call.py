"""Calls: the one way from Python to the functions."""

from typing import Any

import pytest
import sqlalchemy.exc
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from db import call
from db.errors import Invalid, NotFound, Unavailable
from tests.db.clerk import Clerk


def test_arguments_go_by_name_and_rows_come_with_names(conn: Connection) -> None:
    (row,) = call.rows(conn, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail"}]), principal="anna")
    assert row._fields == ("ordinal", "task_id", "task_type", "state", "created")


def test_the_same_names_make_the_same_statement_whatever_the_values() -> None:
    first, _ = call.statement("f", {"a": 1, "b": {"x": 1}})
    second, _ = call.statement("f", {"a": 2, "b": call.Json("{}")})
    assert first is second
    assert str(first) == "select * from celeriac.f(a => :a, b => cast(:b as jsonb))"


@pytest.mark.parametrize("text", ["{}", '{"n": 9007199254740993, "d": 0.10}', '{"colon": ":x", "percent": "%s %(a)s"}'])
def test_json_text_goes_through_as_it_is(clerk: Clerk, text: str) -> None:
    """Case B17."""
    clerk.enqueue_items('[{"task_type": "mail", "variables": ' + text + "}]")
    (task,) = clerk.fetch()
    assert sorted(task.variables) == sorted(text)


def test_a_dict_is_a_json_argument_and_a_list_is_an_array(clerk: Clerk) -> None:
    clerk.one("register_worker", worker_id="w1", task_types=["a", "b"], details={"host": "x"})
    (seen,) = clerk.query("select task_types, details from celeriac.worker")
    assert seen == {"task_types": ["a", "b"], "details": '{"host": "x"}'}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_json_is_not_sent(clerk: Clerk, value: float) -> None:
    """Case B17."""
    task = clerk.held()
    with pytest.raises(ValueError, match="JSON compliant"):
        clerk.complete(task, variables={"v": value})
    with pytest.raises(ValueError, match="JSON compliant"):
        call.json_list([value])


@pytest.mark.parametrize("value", ["'; drop table celeriac.task; --", "%s", ":x", "\\", '"', "{1,2}", "NULL"])
def test_no_value_is_read_as_sql(clerk: Clerk, value: str) -> None:
    clerk.enqueue(business_key=value)
    (task,) = clerk.fetch(value, "mail")
    assert task.business_key == value


def test_one_wants_exactly_one_row(conn: Connection, clerk: Clerk) -> None:
    with pytest.raises(sqlalchemy.exc.NoResultFound):
        call.one(conn, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=1)
    clerk.enqueue_items([{"task_type": "mail"}] * 2)
    with pytest.raises(sqlalchemy.exc.MultipleResultsFound):
        call.one(conn, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=2)


def test_a_function_that_is_not_there_is_a_fault_of_ours(conn: Connection) -> None:
    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        call.rows(conn, "no_such_function")


@pytest.mark.parametrize("value", ["\0", "\ud800"], ids=["NUL", "lone surrogate"])
@pytest.mark.parametrize("field", ["worker_id", "principal"])
def test_text_that_cannot_be_stored_is_invalid(clerk: Clerk, field: str, value: str) -> None:
    """Case B13."""
    with clerk.refuses(Invalid):
        clerk.fetch(**{field: value})


async def test_async_calls_answer_and_refuse_alike(aconn: AsyncConnection) -> None:
    row = await call.aone(aconn, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail"}]))
    rows = await call.arows(aconn, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=5)
    assert [task.task_id for task in rows] == [row.task_id]
    with pytest.raises(NotFound):
        await call.aone(aconn, "cancel_task", task_id="00000000-0000-0000-0000-000000000007")
    with pytest.raises(Invalid):
        await call.arows(aconn, "fetch_tasks", worker_id="w1", task_types=["mail"], max_tasks=2**40)


async def test_a_lost_connection_is_unavailable_for_async_calls_too(aconn: AsyncConnection, clerk: Clerk) -> None:
    row: Any = await call.aone(aconn, "enqueue_tasks", tasks=call.json_list([{"task_type": "mail"}]))
    clerk.run(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where pid <> pg_backend_pid() and datname = current_database()"
    )
    with pytest.raises(Unavailable):
        await call.aone(aconn, "cancel_task", task_id=row.task_id)
    assert clerk.state(row.task_id) == "READY"
