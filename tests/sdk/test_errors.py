"""One tree of errors, whoever refuses."""

import inspect
import re
from pathlib import Path

import pytest

from celeriac import errors
from celeriac._sqlstates import CODES, refusal_in
from db.errors import BY_SQLSTATE


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if not (match := re.match(r"    ((?:│   |    |├── |└── )*)([A-Z]\w+)", line)):
            continue
        depth, name = len(match[1]) // 4, match[2]
        path[depth:] = [name]
        drawn[name] = path[depth - 1] if depth else "Exception"
    defined = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    assert drawn == defined


def test_the_readme_shows_the_same_tree() -> None:
    docstring = inspect.getdoc(errors) or ""
    tree = docstring[docstring.index("    CeleriacError") : docstring.index("A refusal over HTTP")].rstrip()
    readme = (Path(__file__).parents[2] / "sdk/README.md").read_text()
    assert "\n".join(line.removeprefix("    ") for line in tree.splitlines()) in readme


@pytest.mark.parametrize("state", sorted(BY_SQLSTATE))
def test_a_refusal_of_a_sql_function_has_the_same_name_here_and_on_the_server(state: str) -> None:
    there = BY_SQLSTATE[state]
    here = errors.refusal(CODES[state], "no")
    assert (type(here).__name__, here.code, here.status) == (there.__name__, there.code, there.status)
    assert CODES.keys() == BY_SQLSTATE.keys()


def test_a_code_of_a_newer_server_is_read_by_its_status() -> None:
    problem = {"code": "moon_phase", "detail": "not today", "field": "phase"}
    refused = errors.from_problem(409, problem)
    assert type(refused) is errors.Conflict
    assert (str(refused), refused.field) == ("not today", "phase")
    assert type(errors.from_problem(418, problem)) is errors.Refused


def test_an_error_that_is_no_refusal_is_none() -> None:
    assert refusal_in(ValueError("x")) is None


def test_asyncpg_and_psycopg2_errors_are_understood() -> None:
    class FromAsyncpg(Exception):
        sqlstate = "TK906"
        message = "used before"
        detail = '{"task_id": "0190"}'
        column_name = "tasks[0].idempotency_key"

    class Adapted(Exception):
        sqlstate = "TK906"

    class Wrapped(Exception):
        orig = Adapted("x")

    Wrapped.orig.__cause__ = FromAsyncpg()
    refused = refusal_in(Wrapped())
    assert isinstance(refused, errors.IdempotencyConflict)
    assert (str(refused), refused.task_id, refused.field) == ("used before", "0190", "tasks[0].idempotency_key")


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), 1e15])
def test_a_retry_cannot_be_asked_for_at_no_time(after: float) -> None:
    with pytest.raises(ValueError, match="after"):
        errors.Retry(after=after)
